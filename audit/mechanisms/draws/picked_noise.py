"""Noise that a program picks from several drawn numbers, such as the smallest of two. It has the law of the draw only if the
numbers do not decide which of them is picked.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ....models.recorder import Draw
from ....models.recorder.mechanisms.found import Mechanisms
from ....models.recorder.mechanisms.mechanism import Mechanism
from ...recorded.playing import Diverged, play
from ...recorded.study import History

Floats = NDArray[np.float64]

ALIKE = 16.0  # in units of the rounding error of a noisy value: a noise number this close to a drawn one is that one
APART = 4.0  # a drawn number this many times farther away is not that one


def picked(first: History, scripts: Iterable[Sequence[Draw]]) -> str:
    """Why noise may have another law than its draw: with other numbers at the draws, another number of a draw is the noise; "" if
    the same places are. scripts: draws for runs that are free otherwise.

    Only mechanisms with fewer numbers than were drawn for them are tested, and those whose numbers were added one by one.
    """
    places = {i: found for i, m in enumerate(first.mechanisms) if _some(m) and np.any((found := _places(m, _drawn(m))) >= 0)}
    for script in scripts if places else ():
        made, again = first.study, Mechanisms(closely=first.study.closely, maxima=first.study.maxima)
        try:
            play(made.model, first.worlds, script=list(script), follow=again)
        except Diverged:
            continue
        run = again.found
        for i, at in places.items():
            m = first.mechanisms[i]
            if i < len(run) and (run[i].line, run[i].noisy.shape) == (m.line, m.noisy.shape) and _others(run[i], at):
                return (
                    f"the noise that is added at {m.line} is picked from numbers drawn at {m.draw.line}, and these numbers "
                    "decide which one is picked, so the noise has another distribution than they have"
                )
    return ""


def _some(m: Mechanism) -> bool:
    """Whether the noise may be a part of the numbers that were drawn for it."""
    return not (m.values or m.computed or m.shared or m.mirrored) and (
        bool(m.terms) or sum(draw.values.size for draw in (m.draw, *m.beside)) > m.noisy.size
    )


def _drawn(m: Mechanism) -> Floats:
    """All numbers of the draws of a mechanism, in units of the noise."""
    return np.concatenate([np.ravel(draw.units) for draw in (m.draw, *m.beside)])


def _errors(m: Mechanism) -> Floats:
    """The rounding error of each noise number of a mechanism, in units of the noise."""
    scale = np.broadcast_to(np.asarray(m.scale, dtype=np.float64), m.noisy.shape)
    spacing = np.spacing(np.maximum(np.abs(m.noisy), np.abs(m.clean).astype(m.noisy.dtype)))
    return np.ravel(ALIKE * np.divide(spacing, scale, out=np.zeros(m.noisy.shape), where=scale > 0))


def _places(m: Mechanism, drawn: Floats) -> NDArray[np.int64]:
    """For each noise number, the place of the one drawn number that it is, up to its sign; -1 if it is none or one of several."""
    order, numbers = np.argsort(np.abs(drawn)), np.abs(np.ravel(m.units))
    sizes = np.pad(np.abs(drawn)[order], 2, constant_values=np.inf)
    near = np.searchsorted(sizes[2:-2], numbers)[:, None] + np.arange(4)  # the two next smaller and the two next larger ones
    gaps = np.abs(sizes[near] - numbers[:, None])
    best = gaps.argmin(1)[:, None]
    second = np.partition(gaps, 1, axis=1)[:, 1]
    known = (np.take_along_axis(gaps, best, 1)[:, 0] <= _errors(m)) & (second > APART * _errors(m))
    return np.where(known, np.pad(order, 2)[np.take_along_axis(near, best, 1)[:, 0]], -1)


def _others(m: Mechanism, at: NDArray[np.int64]) -> bool:
    """Whether a noise number is another one of the drawn numbers than the one at its place."""
    places = _places(m, _drawn(m))
    return bool(np.any((at >= 0) & (places >= 0) & (places != at)))
