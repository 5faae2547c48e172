"""Whether released arrays are noisy values of the run, number by number. Then nothing of these values is lost on the way."""

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from ....models.recorder.mechanisms.found import REPORT
from ...recorded.playing import Cell, Diverged, Play
from ...recorded.study import History
from ..absence import history
from ..reading import moved_by, redrawn, repeated

SIZES = (8.0, 64.0)  # changes of the noisy values, in units of the noise: a release that clips them differs from them


def released_whole(first: History, some: Collection[int], free: Collection[int]) -> bool:
    """Whether for each of the mechanisms `some` one released array equals its noisy value: in the run, in one with another seed,
    with other numbers for the draws `free`, and with noisy values that are near and far.
    """
    cells = {i: [c for c in first.play.cells if equal(first.mechanisms[i].noisy, first.play, c)] for i in some}
    known = bool(cells) and all(cells.values()) and not any(first.mechanisms[i].law == REPORT for i in some)
    for run in _others(first, some, free) if known else ():
        if run is None or len(run.mechanisms) != len(first.mechanisms):
            return False
        cells = {i: [c for c in left if equal(run.mechanisms[i].noisy, run.play, c)] for i, left in cells.items()}
        if not all(cells.values()):
            return False
    return known


def _others(first: History, some: Collection[int], free: Collection[int]) -> Iterator[History | None]:
    for size in SIZES:
        yield repeated(first, {i: moved_by(first.mechanisms[i], size, i) for i in some})
    if free:
        yield repeated(first, {}, redrawn(first, free))
    try:
        yield history(first.study, 1)
    except Diverged:
        yield None


def equal(noisy: NDArray[np.float64], play: Play, cell: Cell) -> bool:
    """Whether a cell has these values, in the type in which it is released."""
    released = play.cells.get(cell)
    if released is None or released.size != noisy.size:
        return False
    return np.array_equal(released.ravel(), noisy.astype(play.kinds.get(cell, noisy.dtype)).astype(np.float64).ravel())
