"""Looks for a secret that a model does not protect on graphs on which it decides what many nodes add to a noisy value: graphs
where it alone differs from all others, and graphs where it makes an exact value cross a threshold.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ...accounting.claim import Claim
from ...models.base import Model
from ...models.graph.graph import Graph, Worlds
from ..key import Key
from ..recorded.laws import cost
from ..recorded.playing import Play
from ..recorded.secrets.among_equals import among_equals
from ..recorded.secrets.one_by_one import Chain, chains, lacking
from ..recorded.secrets.worlds import Absence, public_bound
from ..recorded.study import History, Shifts, study
from .absence import Incomparable, OtherNoise, history, kept, without
from .inside import Inside, not_known, read_only, reports, without_secrets
from .past_noise import changed

SECONDS = 4.0  # of processor time for the runs of a chain


def suspicious(model: Model, graph: Graph, claim: Claim, key: Key) -> Iterator[Inside]:
    """Yields what a run on each graph of `among_equals` and `crossings` shows, if there the secret costs more than the claim,
    changes a released array although every noisy value is the same, or changes the size of the noise. No bound and no smallest
    detectable violation rests on the other graphs, so a model may fail on them.
    """
    for made, without_secret in (*among_equals(graph, claim.unit, model), *crossings(model, graph, claim, key)):
        try:
            found = _on(model, made, without_secret, claim, key)
        except Exception:  # a user's model may refuse other graphs, with any exception
            continue
        if found is not None and (found.worst is not None or found.past or found.resized):
            yield found


def _on(model: Model, graph: Graph, without_secret: Callable[[Worlds], Absence], claim: Claim, key: Key) -> Inside | None:
    """What a run on the graph shows of its only secret, which is the worst one if it costs more than the claim; None if the
    mechanisms are not known.
    """
    made = study(model, graph, key, probed=False)
    first = history(made, 0)
    if made.doubts or not_known(first) is not None or not all(np.all(np.isfinite(m.clean)) for m in first.mechanisms):
        return None
    found, absent = without_secrets(first), without_secret(made.whole)
    try:
        after, moves = without(first, absent)
    except OtherNoise:
        return dataclasses.replace(found, resized=(absent,))
    shifts, doubts = read_only(first, found.idle, moves, reports(first))
    counted = found.counted(shifts)
    if (past := changed(first, absent, after, {})) or doubts or cost(first.mechanisms, counted, claim.delta) <= claim.epsilon:
        return dataclasses.replace(found, past=past, across=(absent,))
    each = tuple(m.size(by) for m, by in zip(first.mechanisms, counted, strict=True))
    return dataclasses.replace(found, moves=((absent.secret, each),), worst=absent, shifts=shifts)


def crossings(model: Model, graph: Graph, claim: Claim, key: Key) -> Iterator[tuple[Graph, Callable[[Worlds], Absence]]]:
    """Yields graphs, each with the function that gives the world without one secret. Secrets go one after the other, see
    `chains`. Of each chain, yields the graph whose next secret moves the clean values of the run farthest, if the moves cost more
    than the claim, and the smallest one whose next secret changes a released array although every noisy value is the same.

    The runs begin with the fewest secrets, because thresholds are small, and end after SECONDS. If the model refuses the graphs,
    their degrees are those of `graph` at most.
    """
    for most in dict.fromkeys((public_bound(model, graph), int(graph.degree.max(initial=0)))):
        try:
            for chain in chains(graph, claim.unit, most, key.fold("order").generator()):
                yield from _of_chain(model, chain, claim, key)
        except Exception:  # a user's model may refuse other graphs, with any exception
            continue
        return


def _of_chain(model: Model, chain: Chain, claim: Claim, key: Key) -> Iterator[tuple[Graph, Callable[[Worlds], Absence]]]:
    """As `crossings`, for one chain; yields none if the mechanisms of the run are not known."""
    made = study(model, chain.graph, key, probed=False)
    first = history(made, 0)
    if made.doubts or not_known(first) is not None:
        return
    until = time.process_time() + SECONDS
    farthest, size, differing = -1, 0.0, -1
    moves: Shifts = ()
    known: tuple[int, History | None] = (-1, None)
    for gone in chain.steps[::-1].tolist():
        number, other = known if known[0] == gone + 1 else (gone + 1, _without(first, chain.lacking(made.whole, gone + 1)))
        known = gone, _without(first, chain.lacking(made.whole, gone))
        if known[1] is not None and other is not None:
            absent = chain.lacking(made.whole, number)
            by = _moved(known[1], other, absent)
            length = math.hypot(*(m.size(each) for m, each in zip(first.mechanisms, by, strict=True)))
            if length > size:
                farthest, size, moves = gone, length, by
            if differing < 0 and not _alike(known[1].play, other.play, absent):
                differing = gone
        if time.process_time() > until:
            break
    costs = farthest >= 0 and cost(first.mechanisms, moves, claim.delta) > claim.epsilon
    for gone in dict.fromkeys(([farthest] if costs else []) + ([differing] if differing >= 0 else [])):
        graph, secret = chain.left(made.whole, gone)
        yield graph, partial(lacking, unit=chain.unit, secrets=secret)


def _without(first: History, absent: Absence) -> History | None:
    """The repetition without these secrets, with every noisy value the same; None if the run cannot be repeated in this way."""
    try:
        return kept(first, absent)
    except Incomparable:
        return None


def _moved(one: History, other: History, absent: Absence) -> Shifts:
    """How far each clean value moves between two runs, in units of its noise. Own rows of absent nodes do not count."""
    gaps = [(m, o.clean - m.clean) for m, o in zip(one.mechanisms, other.mechanisms, strict=True)]
    return tuple(m.over(by * absent.shown(by.shape)) for m, by in gaps)


def _alike(one: Play, other: Play, absent: Absence) -> bool:
    """Whether two runs release the same up to rounding. Own rows of absent nodes do not count."""
    for cell, a in one.cells.items():
        b = other.cells.get(cell)
        if b is None or a.shape != b.shape:
            return False
        if np.any((np.abs(a - b) > one.last_places(cell)) & absent.shown(a.shape)):
            return False
    return True
