"""Finds out whether released numbers depend on the noisy values of a run only through weighted sums of them that are released.

Trained weights are often such sums: of noisy gradients, each times a learning rate. Numbers that the run computes from trained
weights and from the graph are then a function of the release's other arrays and of the graph.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from ...models.recorder.mechanisms.mechanism import Mechanism
from ..mechanisms.absence import both
from ..mechanisms.reading import repeated
from ..recorded.playing import Cell
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History

Floats = NDArray[np.float64]
Sum = Mapping[int, float]  # position of a mechanism -> its weight

MOST, FEW = 128, 16  # largest number of mechanisms: with much `Effort`, and with little
RUNS = 6  # pairs of runs whose noisy values change while the sums stay the same
SIZES = (1.0, 8.0)  # of these changes, in units of the scale
LINEAR = 1e-4  # relative error up to which two responses count as proportional
RANK = 1e-3  # relative: smaller singular values of the weights of sums count as 0
SAME = 1e-2  # in units of the largest change by the secret: how far other changes may move a number that counts as the same


def only_through(sums: Sequence[Sum], first: History, absent: Absence, cell: Cell, entries: NDArray[np.bool_]) -> bool:
    """Whether some entries of a cell, which the secret `absent` changes, depend on noisy values only through these sums, with and
    without the secret; False if there are no sums. Raises Incomparable as `kept`.
    """
    pair = both(first, absent)
    largest = np.abs(pair[0].play.cells[cell] - pair[1].play.cells[cell])[entries].max()
    for number in range(RUNS if sums and not determined(first, sums) else 0):
        run = repeated(first, with_same_sums(first, sums, SIZES[number % len(SIZES)], np.random.default_rng(number)))
        if run is None:
            return False
        for one, other in zip(pair, both(run, absent), strict=True):
            before, after = one.play.cells[cell], other.play.cells[cell]
            if before.shape != after.shape or np.any(np.abs(after - before)[entries] > SAME * largest):
                return False
    return bool(sums)


def released_sums(first: History, cells: Sequence[Cell]) -> list[Sum]:
    """The weighted sums of noisy values that single cells show, each entry for itself. A cell that shows something else of noisy
    values, or not all entries of a sum, counts as not released. Empty if the run has mechanisms that do not add noise to each
    entry, or too many.
    """
    most = MOST if first.study.effort.thorough else FEW
    if not cells or len(first.mechanisms) > most or not all(m.plain for m in first.mechanisms):
        return []
    shown: dict[Cell, list[Shown]] = {cell: [] for cell in cells}
    for i, mechanism in enumerate(first.mechanisms):
        run = repeated(first, {i: moved(mechanism, pattern(mechanism))})
        if run is None:
            return []
        shown = {cell: sums for cell, sums in shown.items() if _fits(sums, i, first, _response(first, run, cell, mechanism))}
    return [one.weights for sums in shown.values() if _apart(sums) for one in sums]


@dataclass(frozen=True, eq=False)
class Shown:
    """A weighted sum of noisy values of one shape. first: the position of the mechanism with weight 1. response: how far the
    numbers of the cell move if the noisy value of this mechanism moves by `pattern`.
    """

    first: int
    weights: dict[int, float]
    response: Floats


def _response(first: History, run: History, cell: Cell, mechanism: Mechanism) -> Floats | None:
    """How far the numbers of a cell move in a run, per unit of the move of a noisy value by `pattern`; None if their count
    changes.
    """
    before, after = first.play.cells[cell], run.play.cells.get(cell)
    if after is None or after.shape != before.shape:
        return None
    return np.asarray(after - before, dtype=np.float64).ravel() / scale(mechanism)


def _fits(sums: list[Shown], i: int, first: History, by: Floats | None) -> bool:
    """Whether a response of a cell to mechanism `i` is none, or that of a term of one of the sums, or of a new sum; in the last
    two cases it is added to the sums.
    """
    if by is None or not np.any(by):
        return by is not None
    for one in sums:
        share = float(by @ one.response) / float(one.response @ one.response)
        same = first.mechanisms[one.first].noisy.shape == first.mechanisms[i].noisy.shape
        if same and np.linalg.norm(by - share * one.response) <= LINEAR * np.linalg.norm(by):
            one.weights[i] = share
            return True
    if shows_each(by, first.mechanisms[i]):
        sums.append(Shown(i, {i: 1.0}, by))
        return True
    return False


def _apart(sums: Sequence[Shown]) -> bool:
    """Whether no number of a cell shows two sums."""
    responses = (np.abs(one.response) for one in sums)
    counts = [by > LINEAR * by.max() for by in responses]
    return bool(np.all(np.sum(counts, axis=0) <= 1))


def shows_each(by: Floats, mechanism: Mechanism) -> bool:
    """Whether a response of the release shows each entry of a change by `pattern`, all times the same number."""
    seen = np.sort(np.abs(by[np.abs(by) > LINEAR * np.abs(by).max(initial=0)]))
    given = np.sort(np.abs(pattern(mechanism)).ravel())
    return 0 < seen.size == given.size and np.allclose(seen / seen[-1], given / given[-1], rtol=0, atol=LINEAR)


def with_same_sums(first: History, sums: Sequence[Sum], size: float, random: np.random.Generator) -> dict[int, Mechanism]:
    """Other noisy values, which leave each sum as it is, for the mechanisms that the sums do not determine."""
    found: dict[int, Mechanism] = {}
    for places, free in unseen(first, sums):
        shape = first.mechanisms[places[0]].noisy.shape
        moves = size * np.tensordot(free, random.standard_normal((free.shape[1], *shape)), axes=1)
        found |= {i: moved(first.mechanisms[i], by) for i, by in zip(places, moves, strict=True)}
    return found


def determined(first: History, sums: Sequence[Sum]) -> bool:
    """Whether there are so many different sums that they determine every noisy value."""
    return not any(True for _ in unseen(first, sums))


def unseen(first: History, sums: Sequence[Sum]) -> Iterator[tuple[list[int], Floats]]:
    """Yields the positions of mechanisms of one shape, and an orthonormal basis of the moves of their noisy values that leave
    each sum as it is, in units of the scales: (mechanisms, moves) float64. Mechanisms that the sums determine are left out.
    """
    shapes: dict[tuple[int, ...], list[int]] = {}
    for i, mechanism in enumerate(first.mechanisms):
        shapes.setdefault(mechanism.noisy.shape, []).append(i)
    for places in shapes.values():
        scales = np.array([scale(first.mechanisms[i]) for i in places])
        rows = [scales * [weights.get(i, 0.0) for i in places] for weights in sums if weights.keys() & set(places)]
        free = null_space([row / np.linalg.norm(row) for row in rows], rcond=RANK) if rows else np.eye(len(places))
        if free.size:
            yield places, free


def pattern(mechanism: Mechanism) -> Floats:
    """A change of all entries of a noisy value by 1 to 2 times the scale; the same for all mechanisms of a shape."""
    return np.random.default_rng(mechanism.noisy.size).uniform(1, 2, mechanism.noisy.shape)


def moved(mechanism: Mechanism, by: Floats) -> Mechanism:
    """The mechanism with a noisy value that is moved by so many times its scale."""
    return mechanism.with_noisy(mechanism.noisy + scale(mechanism) * by)


def scale(mechanism: Mechanism) -> float:
    return float(np.max(mechanism.scale))
