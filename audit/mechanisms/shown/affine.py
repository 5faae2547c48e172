"""What a secret costs if the release is an affine function of all noisy values of a run: sums, means, fixed projections of them.

Such a release is a Gaussian mechanism, and the epsilon of each secret follows from its move without an estimate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...recorded.playing import left_in
from ...recorded.study import History, Shifts
from .parts import EXACT
from .view import View

Floats = NDArray[np.float64]

ENTRIES = 64  # times the entries of an `Effort`: largest number of noisy numbers; each of them takes a training
SMALL = 0.03  # of the largest singular value: a smaller one of a matrix of small changes is an error of these
LEFT = 5e-3  # of the noise of a number, for each unit of a change that it does not show: what may be an error of the matrix
NUMBERS = 1 << 23  # largest number of entries of the matrix
STEP = 64.0  # in units of the noise: change of one noisy number; in an affine function the error of a column falls with it
FAR = (1.0, 8.0, 64.0)  # in units of the noise: changes of all noisy numbers with which the matrix is tested
TRIED = ((0, 1.0), (4, 1.0), (5, 8.0), (4, 64.0), (5, 64.0))  # noisy values and sizes of the changes that are to show nothing
ROUNDED = 16  # times the rounding of a released number: a larger difference of two changes of it is no rounding
RELATIVE = 1e-5  # of a change of a released number: a smaller difference may be rounding


@dataclass(frozen=True, eq=False)
class Affine:
    """released = effect @ units + constant, for all noisy numbers of the mechanisms `view.at` in units of their noise.

    effect: (numbers, entries). error: of an entry of `effect`, by rounding, (numbers,). small: if the release is another function
    of effect @ units, the share of the largest singular value of `effect` below which others count as zero.
    """

    view: View
    effect: Floats
    error: Floats
    small: float = 0.0

    @cached_property
    def rows(self) -> Floats:
        """An orthonormal basis of the rows of `effect`."""
        return self._basis(np.arange(len(self.effect)))

    @property
    def by_node(self) -> bool:
        """Whether some released array has a row for each node."""
        return len(self._left_in(np.zeros(1, dtype=np.int64))) < len(self.effect)

    def shown(self, moves: Shifts, hidden: NDArray[np.int64] | None = None) -> Shifts:
        """The part of the moves that an adversary sees who knows the release: their projection on the rows of `effect`. Its
        Euclidean norm is the mu of the release. hidden: nodes whose own rows do not count.
        """
        by = self.view.row([np.nan_to_num(moves[i]) for i in self.view.at])
        rows = self.rows if hidden is None else self._basis(self._left_in(hidden))
        parts = dict(zip(self.view.at, self.view.split(rows.T @ (rows @ by)), strict=True))
        return tuple(parts.get(i, np.zeros_like(by)) for i, by in enumerate(moves))

    def _left_in(self, hidden: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the released numbers that are no own rows of the nodes `hidden`."""
        worlds, play, places = self.view.first.worlds, self.view.first.play, np.arange(len(self.effect))
        each = np.split(places, np.cumsum([play.cells[cell].size for cell in self.view.cells])[:-1])
        arrays = (one.reshape(play.cells[cell].shape) for one, cell in zip(each, self.view.cells, strict=True))
        return np.concatenate([left_in(array, worlds.graph.nodes, hidden).ravel() for array in arrays])

    def _basis(self, kept: NDArray[np.int64]) -> Floats:
        _, sizes, directions = np.linalg.svd(self.effect[kept], full_matrices=False)
        error = max(EXACT, self.small) * sizes.max(initial=0)
        return np.asarray(directions[sizes > max(error, float(np.linalg.norm(self.error[kept])))], dtype=np.float64)


def affine(first: History, read: Sequence[int], of_sums: bool = False) -> Affine | None:
    """The release as an affine function of the noisy values of the mechanisms `read`, all that the run reads. None if it is no
    such function, if their noise is not normal, or if there are too many of them. of_sums: as any function of fixed sums of the
    noisy values, with the matrix of small changes.
    """
    effort, some = first.study.effort, [first.mechanisms[i] for i in read]
    most = ENTRIES * effort.entries if effort.thorough else 0
    known = all(m.law == "normal" and m.plain for m in some) and 0 < sum(m.clean.size for m in some) <= most
    return _found(first, tuple(read), of_sums) if known else None


def _moved(view: View, before: Floats | None, change: Floats) -> Floats | None:
    """How far the released numbers are from `before` after a change of the noisy values; None if the run fails with it, or if
    there are more or fewer numbers.
    """
    after = view.released(change)
    return None if before is None or after is None or after.shape != before.shape else after - before


def _matrix(count: int, size: int, column: Callable[[Floats], Floats | None]) -> Floats | None:
    """The matrix, (count, size), of which `column` gives the column of each unit vector; None if it gives none of this length."""
    found = np.empty((count, size))
    for entry in range(size):
        by = column((np.arange(size) == entry).astype(np.float64))
        if by is None or by.size != count:
            return None
        found[:, entry] = by
    return found


@lru_cache(maxsize=4)
def _found(first: History, at: tuple[int, ...], of_sums: bool) -> Affine | None:
    view = View(first, at, tuple(first.play.cells))
    before, size = view.numbers(first), sum(m.clean.size for m in view.mechanisms)
    if not 0 < before.size * size <= NUMBERS:
        return None
    return (_of_sums if of_sums else _of_all)(view, before, size, np.random.default_rng(9))


def _of_all(view: View, before: Floats, size: int, random: np.random.Generator) -> Affine | None:
    one, other = random.standard_normal((2, size))
    once, again, both = (_moved(view, before, change) for change in (one, other, one + other))
    if once is None or again is None or both is None or not _equal(view, once + again, both, np.abs(once) + np.abs(again)):
        return None
    effect = _matrix(before.size, size, lambda unit: _moved(view, before, STEP * unit))
    if effect is None:
        return None
    effect /= STEP
    noise = np.linalg.norm(effect, axis=1)
    for far in FAR:
        change = far * random.standard_normal(size)
        by, steps = _moved(view, before, change), float(np.linalg.norm(change)) / STEP
        if by is None or not _equal(view, by, effect @ change, far * noise, steps):
            return None
    return Affine(view, effect, view.rounding() / STEP)


def _of_sums(view: View, before: Floats, size: int, random: np.random.Generator) -> Affine | None:
    effect = _matrix(before.size, size, lambda unit: _moved(view, view.released(-0.5 * unit), 0.5 * unit))
    if effect is None:
        return None
    noise = np.linalg.norm(effect, axis=1)
    moving = noise > ROUNDED * view.rounding()
    if not moving.any():
        return None
    # each number counts alike, so that those of a small scale are not lost among rounding errors
    alike = np.divide(effect, noise[:, None], out=np.zeros_like(effect), where=moving[:, None])
    found = Affine(view, alike, np.zeros(before.size), SMALL)
    for seed, far in TRIED:
        change, start = far * random.standard_normal(size), view.elsewhere(seed)
        unseen = change - found.rows.T @ (found.rows @ change)
        by = _moved(view, view.released(start), start + unseen)
        if by is None or (np.abs(by) > np.maximum(ROUNDED * view.rounding(), LEFT * far * noise)).any():
            return None
    return found


def _equal(view: View, one: Floats, other: Floats, size: Floats, steps: float = 1.0) -> bool:
    """Whether two changes of the released numbers, which are about as large as `size`, are equal up to rounding. steps: how many
    rounding errors of a column add up.
    """
    return bool((np.abs(one - other) <= np.maximum(ROUNDED * max(1.0, steps) * view.rounding(), RELATIVE * size)).all())
