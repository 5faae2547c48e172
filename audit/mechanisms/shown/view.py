"""What a release shows of some mechanisms of a run, as a function of their noisy values, and the entries that tests change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.recorder.mechanisms.mechanism import Mechanism
from ...recorded.playing import ULPS, Cell, left_in
from ...recorded.study import History
from ..reading import Entry, moved_entries, only, repeated, same_means

Floats = NDArray[np.float64]

SINGLE = 4  # largest number of entries that are tried one by one, and of rows beside that of the farthest entry
LINE = 24  # a row of at most this many entries is changed entry by entry
STEP = 0.02  # in units of the noise: a change whose effect is nearly linear and larger than rounding


@dataclass(frozen=True, eq=False)
class View:
    """What a release shows of some mechanisms. cells: the released arrays that count. hidden: nodes whose own rows do not count.

    The noisy values of all mechanisms stand in one row of numbers, and so do changes of them, in units of the noise. nearby:
    whether the release has to show the move near some noisy value. If the ledger does not charge for the noise, a proof may rely
    on a release that selects a few of many noisy values: it shows one here and another one elsewhere, and never all. Nor may it
    show fewer numbers of several noisy values near any of them, as their product does.
    """

    first: History
    at: tuple[int, ...]
    cells: tuple[Cell, ...]
    hidden: NDArray[np.int64] | None = None
    nearby: bool = False

    @property
    def mechanisms(self) -> list[Mechanism]:
        return [self.first.mechanisms[i] for i in self.at]

    @property
    def of_probabilities(self) -> bool:
        """Whether some released rows are log-probabilities, which a softmax makes of any function of a row of noisy numbers."""
        arrays = (self.first.play.cells[cell] for cell in self.cells)
        return any(a.ndim > 1 and a.shape[-1] > 1 and np.allclose(np.logaddexp.reduce(a, axis=-1), 0, atol=1e-4) for a in arrays)

    def row(self, each: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """One array for each mechanism, in one row."""
        return np.concatenate([one.ravel() for one in each])

    def split(self, row: Floats) -> list[Floats]:
        """One array for each mechanism, from one row."""
        parts = np.split(row, np.cumsum([m.clean.size for m in self.mechanisms])[:-1])
        return [part.reshape(m.clean.shape) for part, m in zip(parts, self.mechanisms, strict=True)]

    def released(self, units: Floats, centred: bool = False) -> Floats | None:
        """The released numbers, in one row, if the noisy values change by `units` times the noise. None if the run fails with
        them; for several mechanisms also if the data of one depend on the noisy value of another, as in training.

        centred: subtract its mean from each row of an array, which undoes the normalisation of log-probabilities.
        """
        pairs = zip(self.at, self.mechanisms, self.split(units), strict=True)
        noisy = {i: m.with_noisy(m.noisy + m.scale * by) for i, m, by in pairs}
        other = repeated(self.first, noisy)
        if other is None or (len(self.at) > 1 and not same_means(self.first, other)):
            return None
        return self.numbers(other, centred)

    def numbers(self, run: History, centred: bool = False) -> Floats:
        """The released numbers of a run, in one row."""
        rows = []
        for cell in self.cells:
            array = left_in(run.play.cells[cell], self.first.worlds.graph.nodes, self.hidden)
            rows.append((array - array.mean(-1, keepdims=True) if centred and array.ndim > 1 else array).ravel())
        return np.nan_to_num(np.concatenate(rows)) if rows else np.zeros(0)

    def rounding(self) -> Floats:
        """How far rounding alone may move the released numbers: one unit in the last place of the largest number of each row."""
        nodes, play = self.first.worlds.graph.nodes, self.first.play
        return np.concatenate([left_in(play.largest_places(cell), nodes, self.hidden).ravel() / ULPS for cell in self.cells])

    def elsewhere(self, seed: int) -> Floats:
        """A change to other noisy values: none for seed 0; else more noise, of up to twice the size."""
        size = sum(m.clean.size for m in self.mechanisms)
        return np.asarray((1 + seed % 2) * np.random.default_rng(seed).standard_normal(size) * (seed > 0), dtype=np.float64)


def effects_of(view: View, entries: list[Entry], start: Floats, centred: bool = False, step: float = STEP) -> Floats | None:
    """How the release changes with each entry, in units of the noise, (numbers, entries); None if a run fails."""
    before, steps = view.released(start, centred), np.full(start.shape, step)
    columns = [view.released(start + only(steps, [entry]), centred) for entry in entries]
    if before is None or any(column is None for column in columns):
        return None
    effect = (np.stack([np.asarray(column) for column in columns], axis=1) - before[:, None]) / step
    return effect.astype(np.float64)  # whole numbers of 64 bits may make it wider, which no decomposition takes


def candidates(view: View, by: Floats, most: int) -> list[Entry]:
    """The first entries of `_in_order`, each once."""
    return list(dict.fromkeys(islice(_in_order(view, by, most), 3 * most)))[:most]


def _in_order(view: View, by: Floats, most: int) -> Iterator[Entry]:
    """Entries with noise: a third that move; then, for one mechanism, entries on a line with the farthest one and a few other
    rows, and for several the rows that move farthest; then any.
    """
    random, own = np.random.default_rng(view.at[0]), view.row([m.own for m in view.mechanisms])
    moved = sorted(moved_entries(by) or [(int(np.abs(by).argmax()),)], key=lambda e: -abs(by[e]))
    yield from moved[: max(2, most // 3)]
    near = _on_lines(view.mechanisms[0].clean.shape, moved[0][0], most, random) if len(view.at) == 1 else _in_rows(view, by)
    yield from ((at,) for at in near if own[at])
    width = (view.mechanisms[0].clean.shape or (1,))[-1]
    if len(view.at) == 1 and width <= LINE:
        yield from ((at,) for (top,) in moved[1:SINGLE] for at in range(top - top % width, top - top % width + width) if own[at])
    some = np.flatnonzero(own)
    yield from ((int(at),) for at in some[random.permutation(len(some))[: 2 * most]])


def _on_lines(shape: Entry, farthest: int, most: int, random: np.random.Generator) -> Iterator[int]:
    """The places of the entries on a line with the farthest one, along each axis."""
    top = [int(at) for at in np.unravel_index(farthest, shape)]
    for axis in reversed(range(len(shape))):
        near = [at for step in (1, -1, 2, -2) if 0 <= (at := top[axis] + step) < shape[axis]]
        line = range(shape[axis]) if shape[axis] <= LINE else [*near, *random.permutation(shape[axis])[: most // 3]]
        yield from (int(np.ravel_multi_index((*top[:axis], at, *top[axis + 1 :]), shape)) for at in line)


def _in_rows(view: View, by: Floats) -> Iterator[int]:
    """The places of the entries in all mechanisms, row by row: first the row in which all of them together move farthest. A row
    belongs to a node; without an axis for the nodes, it is an index of the first axis.
    """
    nodes, rows = view.first.worlds.graph.nodes, []
    for shape in (m.clean.shape for m in view.mechanisms):
        axis = shape.index(nodes) if nodes in shape else 0
        rows.append(np.indices(shape)[axis] if shape else np.zeros(1, dtype=int))
    row = view.row(rows)
    for top in np.argsort(-np.bincount(row, np.square(by)), kind="stable"):
        yield from np.random.default_rng(0).permutation(np.flatnonzero(row == top)).tolist()


def row_sums(view: View, entries: list[Entry]) -> Floats:
    """For each row of an array whose entries are all changed: how each entry moves the row's sum, scaled to length 1."""
    places, sums, first = {entry: at for at, (entry,) in enumerate(entries)}, [], 0
    for m in view.mechanisms:
        shape = m.clean.shape or (1,)
        scale, width = np.broadcast_to(np.asarray(m.scale, dtype=np.float64), shape).ravel(), shape[-1]
        for start in sorted({e - (e - first) % width for e in places if first <= e < first + m.clean.size}):
            if len(shape) > 1 < width and all(e in places for e in range(start, start + width)):
                row = np.zeros(len(entries))
                row[[places[e] for e in range(start, start + width)]] = scale[start - first : start - first + width]
                sums.append(row / np.linalg.norm(row))
        first += m.clean.size
    return np.array(sums).reshape(len(sums), len(entries))
