"""Which released arrays show a noisy value for all tried values of the other draws.

A draw after the noise may hide a noisy value: a shuffle or a sample of noisy rows, or more noise that the recorder lost. An
adversary who knows the initial weights loses nothing by them, if the release shows the noisy value with other weights too.
"""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ....models.recorder import Draw
from ...recorded.laws import NOTHING
from ...recorded.playing import Cell, rounding, with_numbers
from ...recorded.study import History, Shifts
from ..reading import FAR, Entry, moved_entries, repeated, with_entries

Masks = dict[Cell, NDArray[np.bool_]]

TESTED = 2  # largest number of entries that are tested, of those that move farthest
FEW = 8  # a draw of at most this many numbers is also replaced by the ends of its range
ENDS = 4  # largest number of values of a draw from a list that replace it


def other_scripts(first: History, some: Sequence[int]) -> Iterator[list[Draw]]:
    """Yields the draws of the first run with other numbers at the positions `some`: those of other seeds, those of the run in
    reverse order, and for draws of few numbers the ends of their ranges. With little `Effort` those of other seeds only.
    """
    draws = first.play.draws
    for others in first.study.others:
        yield [others[at] if at in some else draw for at, draw in enumerate(draws)]
    if not first.study.effort.thorough:
        return
    if any(draws[at].values.size > 1 for at in some):
        yield with_numbers(draws, {at: draws[at].values.ravel()[::-1].reshape(draws[at].values.shape) for at in some})
    for at in (at for at in some if draws[at].values.size <= FEW):
        for end in _ends(draws[at]):
            yield with_numbers(draws, {at: np.full_like(draws[at].values, end)})


def _ends(draw: Draw) -> list[float]:
    """Values at which a draw may differ most from its numbers."""
    if draw.among:
        return list(draw.among[:ENDS])
    if not draw.bounded or draw.values.dtype.kind not in "iuf":
        return []
    return [draw.lowest, draw.top]


def steady_cells(first: History, free: Sequence[int], moves: Shifts, tested: Sequence[int]) -> tuple[Cell, ...]:
    """The released arrays that show the mechanisms `tested` for every value of the draws `free` that is tried.

    Some entries of each mechanism are changed one by one, with the numbers of the run and with others. An array is left out if an
    entry changes none of the numbers that it changed before, as after a shuffle or a sample, or if the other draws only reorder
    the array.
    """
    cells = set(first.play.cells)
    places = [(i, entry) for i in tested for entry in entries_of(first, moves, i)]
    before: dict[tuple[int, Entry], Masks | None] = {}
    for script in other_scripts(first, free) if free else ():
        run = repeated(first, {}, script)
        if run is None:
            return ()
        if all(np.array_equal(run.play.cells[cell], array) for cell, array in first.play.cells.items()):
            continue
        cells -= {cell for cell, array in first.play.cells.items() if _reordered(array, run.play.cells[cell])}
        for i, entry in places:
            if (i, entry) not in before:
                before[i, entry] = changed_by(first, i, entry)
            one, other = before[i, entry], changed_by(first, i, entry, script, run)
            if one is None or other is None:
                return ()
            cells -= {cell for cell in one if (one[cell].any() or other[cell].any()) and not (one[cell] & other[cell]).any()}
    return tuple(cell for cell in first.play.cells if cell in cells)


def shown_with_other_weights(
    first: History, weights: Sequence[int], moves: Shifts, tested: Sequence[int], cells: Collection[Cell]
) -> bool:
    """Whether these arrays show one of the mechanisms `tested` with all tried numbers of the initial weights, drawn at `weights`.

    Other weights may be those with which a unit of a network answers nothing, so the arrays need not show the same entries.
    """
    for script in other_scripts(first, weights) if weights else ():
        run = repeated(first, {}, script)
        if run is None or not any(shown_in(first, moves, i, cells, script, run) for i in tested):
            return False
    return True


def entries_of(first: History, moves: Shifts, i: int) -> Iterator[Entry]:
    """Entries of a mechanism: those that move farthest, and some others with noise."""
    by = np.abs(moves[i])
    moved = sorted(moved_entries(by), key=lambda entry: -by[entry])
    yield from moved[: first.study.effort.moved]
    others = np.argwhere((by <= NOTHING) & first.mechanisms[i].own)
    yield from (tuple(map(int, e)) for e in np.random.default_rng(i).permutation(others)[: first.study.effort.still])


def _reordered(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two arrays differ, and have the same numbers in another order."""
    return not np.array_equal(one, other) and np.array_equal(np.sort(one, axis=None), np.sort(other, axis=None))


def changed_by(
    first: History, i: int, entry: Entry, script: list[Draw] | None = None, run: History | None = None
) -> Masks | None:
    """Array -> which of its numbers another value of one entry of a mechanism changes; None if a run fails. run: the run with the
    draws of `script`, by default the first run.
    """
    start = first if run is None else run
    found: Masks = {cell: np.zeros(array.shape, dtype=bool) for cell, array in start.play.cells.items()}
    for size in FAR:
        other = repeated(first, {i: with_entries(first.mechanisms[i], [entry], size)}, script)
        if other is None:
            return None
        for cell, array in start.play.cells.items():
            found[cell] |= np.abs(other.play.cells[cell] - array) > 10 * rounding(array)
        if any(mask.any() for mask in found.values()):
            break
    return found


def shown_in(
    first: History, moves: Shifts, i: int, cells: Collection[Cell], script: list[Draw] | None = None, run: History | None = None
) -> bool:
    """Whether one of the entries of a mechanism that move farthest changes one of these arrays. run: as for `changed_by`."""
    for entry in list(entries_of(first, moves, i))[:TESTED]:
        masks = changed_by(first, i, entry, script, run)
        if np.any(np.abs(moves[i][entry]) > NOTHING) and masks is not None and any(masks[cell].any() for cell in cells):
            return True
    return False
