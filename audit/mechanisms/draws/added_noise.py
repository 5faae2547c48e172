"""Draws that act as noise: they change a release as other noisy values would, so they may be further noise on these values."""

import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ....models.recorder.draws.draw import Draw
from ....models.recorder.mechanisms.mechanism import REPORT
from ...recorded.playing import Cell
from ...recorded.study import History, Shifts
from ..inside import moving
from ..reading import moved_by, redrawn, repeated

Floats = NDArray[np.float64]

FACTORS = (1.0, 3.0)  # how far other noisy values lie from those of the run, in scales of the noise
ROWS, WIDE = 2, 16  # largest number of rows that are tried, and of noisy numbers in one
STEPS, FEWEST, SECONDS = 12, 4, 20.0  # of each search for noisy numbers; seconds are of wall-clock time
FAR = 16.0  # added to the numbers that are searched, so that a relative step is about 1 / 100 of the noise
NEAR = 1e-3  # relative: a released row that differs by less is the same


def as_noise(first: History, moves: Shifts, places: Collection[int], other: History) -> bool:
    """Whether draws act as noise on a release that shows noisy values of the moved sums. other: the run with other numbers for
    these draws.
    """
    return added_to_shown(first, moves, places, other) or by_same_amounts(first, moves, places, other)


def added_to_shown(first: History, moves: Shifts, places: Collection[int], other: History) -> bool:
    """Whether draws act as noise on released numbers that show noisy values of the moved sums. They change such a number by the
    same amount in the run with these draws, `other`, and in runs with other noisy values too. Weights change it by other amounts.
    """
    still = {cell: np.ones(array.shape, dtype=bool) for cell, array in first.play.cells.items()}
    for factor in FACTORS:
        instead = {i: moved_by(first.mechanisms[i], factor, i) for i in moving(first, moves) if first.mechanisms[i].law != REPORT}
        elsewhere, both = repeated(first, instead), repeated(first, instead, redrawn(first, places))
        if elsewhere is None or both is None:
            return False
        for cell, before in first.play.cells.items():
            runs = [run.play.cells.get(cell) for run in (other, elsewhere, both)]
            if any(run is None or run.shape != before.shape for run in runs):
                return False
            drawn, shown, together = (np.asarray(run) - before for run in runs)
            slack = first.play.largest_places(cell)
            moved = (np.abs(drawn) > slack) & (np.abs(shown) > slack)
            still[cell] &= moved & (np.abs(together - shown - drawn) <= slack)
    return any(mask.any() for mask in still.values())


def by_same_amounts(first: History, moves: Shifts, places: Collection[int], other: History) -> bool:
    """Whether amounts added to the noisy numbers of a row change a released row as these draws do, and the same amounts still do
    so with other noisy values. This holds if the draws are added to the noisy numbers, whatever the release does with their sum.
    Amounts that stand for other weights depend on the noisy values.

    Tries the released rows that the draws change most. A row of a noisy value is that of a released row at the same place. If
    STEPS steps of the search would take more than SECONDS, it has fewer; if fewer than FEWEST are left, there is none.
    """
    noisy = [i for i in moving(first, moves) if first.mechanisms[i].law != REPORT]
    for cell, array in first.play.cells.items():
        there = other.play.cells.get(cell)
        some = tuple(i for i in noisy if array.ndim and first.mechanisms[i].noisy.shape[:1] == array.shape[:1])
        if not some or there is None or there.shape != array.shape:
            continue
        change = np.abs(there - array).reshape(len(array), -1).max(axis=1)
        for row in np.argsort(-change)[:ROWS]:
            at = Row(first, cell, int(row), some)
            if change[row] > NEAR * np.abs(array[row]).max() and at.width <= WIDE and _same_amounts(at, redrawn(first, places)):
                return True
    return False


@dataclass(frozen=True, eq=False)
class Row:
    """A released row, and the rows at the same place of the noisy values of the mechanisms `some`."""

    first: History
    cell: Cell
    row: int
    some: tuple[int, ...]

    @property
    def width(self) -> int:
        return sum(self.first.mechanisms[i].noisy[self.row].size for i in self.some)

    def released(self, amounts: Floats, factor: float = 0.0, draws: list[Draw] | None = None) -> Floats:
        """The released row with other noisy values; NaN if the run fails with them. amounts: (width,), what is added to the noisy
        rows, in units of the noise. factor: how far all noisy values are from those of the run before that. draws: by default
        those of the run.
        """
        instead, begin = {}, 0
        for i in self.some:
            mechanism = moved_by(self.first.mechanisms[i], factor, i) if factor else self.first.mechanisms[i]
            noisy, scale = mechanism.noisy.copy(), np.broadcast_to(mechanism.scale, mechanism.noisy.shape)[self.row]
            end = begin + noisy[self.row].size
            noisy[self.row] += amounts[begin:end].reshape(scale.shape) * scale
            instead[i], begin = mechanism.with_noisy(noisy), end
        run = repeated(self.first, instead, draws)
        own = self.first.play.cells[self.cell][self.row].ravel()
        there = own if run is None else run.play.cells[self.cell][self.row].ravel()
        return np.full(own.size, np.nan) if run is None or there.size != own.size else there


def _same_amounts(row: Row, other: list[Draw]) -> bool:
    """Whether the same amounts on the noisy numbers of a row change the released row as the `other` draws do, for the noisy
    values of the run and for others.
    """
    none, begin = np.zeros(row.width), time.monotonic()
    own, target = row.released(none), row.released(none, draws=other)
    steps = min(STEPS, int(2 * SECONDS / max(time.monotonic() - begin, 1e-3) / (2 * row.width + 1)))
    size = np.abs(target - own).max()
    if steps < FEWEST or not size > 0:
        return False

    def left(far: Floats) -> Floats:
        return (row.released(far - FAR) - target) / size

    try:
        found = least_squares(left, none + FAR, jac="3-point", diff_step=1e-2 / FAR, max_nfev=steps)
    except ValueError:  # a run fails, or its release is not finite
        return False
    if np.abs(found.fun).max() > NEAR:
        return False
    for factor in FACTORS:
        before, moved = row.released(none, factor), row.released(found.x - FAR, factor)
        drawn = row.released(none, factor, other)
        if not np.abs(moved - drawn).max() <= NEAR * np.abs(drawn - before).max():
            return False
    return True
