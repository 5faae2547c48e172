"""Tells noise from numbers with which a training starts, such as the first weights of a model.

Both may be normal numbers, and both stand in sums with data: `weights - rate * gradient` looks like data plus noise. But the
gradient depends on the weights. And if the gradient is noisy itself, no secret moves this sum while every noisy value is the
same. Numbers that no seed changes, such as random first centres of clusters, hide nothing either.
"""

import dataclasses
from collections.abc import Collection

import numpy as np

from ...models.recorder.mechanisms.found import Mechanisms
from ..recorded.laws import NOTHING
from ..recorded.playing import marked, play
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History, Shifts, Study
from .absence import Incomparable, kept, moved
from .reading import redrawn, repeated
from .relations import REPEATED


def of_mechanisms(first: History, steady: Collection[int]) -> frozenset[int]:
    """The positions of the draws that are noise of the mechanisms `steady` alone."""
    own, others = set[int](), set[int]()
    for i, m in enumerate(first.mechanisms):
        (own if i in steady else others).update(id(draw) for draw in (m.draw, *m.beside))
    return frozenset(at for at, draw in enumerate(first.play.draws) if id(draw) in own - others)


def same_for_all_seeds(first: History) -> frozenset[int]:
    """The positions of the draws that are noise of a mechanism, although each seed draws the same numbers."""
    made, draws = first.study, first.play.draws
    noise = first.noise & made.of_one_value
    return frozenset(at for at in noise if all(np.array_equal(draws[at].values, other[at].values) for other in made.others))


def with_weights(made: Study, places: Collection[int]) -> Study:
    """The study of the same runs, with the draws at `places` as initial weights, which the recorder does not follow."""
    base = dataclasses.replace(made.base, draws=marked(made.base.draws, places))
    others = tuple(marked(draws, places) for draws in made.others)
    histories = []
    for worlds, played, _ in made.histories:
        recorded = Mechanisms()
        again = play(made.model, worlds, script=marked(played.draws, places), follow=recorded)
        histories.append((worlds, again, tuple(recorded.found)))
    return dataclasses.replace(made, base=base, others=others, histories=tuple(histories), weights=frozenset(places))


def added(first: History, places: Collection[int], absent: Absence, shifts: Shifts) -> str:
    """A sentence if the draws at `places` act as noise on a clean value that a secret moves: with other numbers the value
    changes, and the secret moves it by the same amounts as before. "" if not: other weights change what a gradient is, and so how
    far a secret moves it. shifts: the moves of the secret, `absent`.
    """
    other = repeated(first, {}, redrawn(first, places))
    if other is None:
        return "with other initial weights the run has other mechanisms, or fails"
    try:
        again = moved(other, absent, kept(other, absent))
    except Incomparable as departed:
        return str(departed)
    for m, o, by, now in zip(first.mechanisms, other.mechanisms, shifts, again, strict=True):
        changed = (np.abs(m.over(o.clean - m.clean)) > NOTHING) & (np.abs(by) > NOTHING)
        if changed.any() and (np.abs(by - now)[changed] <= REPEATED).all():
            lines = first.drawn_at(places)
            return f"the draws at {lines} change the value at {m.line} as noise does, before its own noise is added"
    return ""
