"""One training of a user's model: its release, its draws, and the replacement of draws by other numbers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Model, Release
from ...models.capabilities import RunsElsewhere
from ...models.fitted import apart
from ...models.graph.graph import Worlds
from ...models.recorder import Draw, recording
from ...models.recorder.draws.draw import Departed, Diverged, Follow
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.script import Script
from ..own.programs.recording import Request

Numbers = Mapping[int, "NDArray[Any]"]  # position in the order of draws -> the numbers that replace them
ROUNDING = 4e-7  # relative tolerance, because arrays are float32 and their sums may be added in another order
TOGETHER = 1e-2  # relative: moves that are not counted matter if all of them add more to the counted ones
ULPS = 16  # rounding errors between two runs with the same noisy values, in units in the last place
WHOLE = 2**53  # largest whole number up to which float64 holds all whole numbers


@dataclass(frozen=True)
class Cell:
    """A part of a release: a whole array, or one hop of an array with hops. public: whether it is a number of `Release.public`,
    which is released as the arrays are.
    """

    array: str
    hop: int | None = None
    public: bool = False

    def __str__(self) -> str:
        return f"'{self.array}'" if self.hop is None else f"'{self.array}'[{self.hop}]"


@dataclass(frozen=True, eq=False)
class Play:
    """One training. cells: the released values, see `cells`. draws: all recorded draws, in order. notes: sentences about draws
    that were not recorded or not followed. kinds: the types in which the values were released. stale, older: files that the
    training read, see `Reads`.
    """

    cells: Mapping[Cell, NDArray[np.float64]]
    draws: list[Draw]
    notes: tuple[str, ...] = ()
    kinds: Mapping[Cell, np.dtype[Any]] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    older: tuple[str, ...] = ()

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The released numbers, those of all cells in a row."""
        return np.concatenate([values.ravel() for values in self.cells.values()])

    def last_places(self, cell: Cell) -> NDArray[np.float64]:
        """How far rounding alone moves the values of a cell if the noisy values stay the same: ULPS units in the last place of
        the released type. Whole numbers do not move.
        """
        numbers = np.asarray(self.cells[cell], dtype=np.float64)
        kind = self.kinds.get(cell, numbers.dtype)
        if kind.kind != "f" or np.all(numbers == np.rint(numbers)):
            return np.zeros(numbers.shape)
        return ULPS * np.spacing(np.abs(numbers).astype(kind)).astype(np.float64)

    def same(self, other: Self, cell: Cell) -> NDArray[np.bool_]:
        """Which values of a cell are the same in another training, up to `last_places`; none if the cells have other shapes or
        were released in other types.
        """
        before = self.cells[cell]
        if not self.comparable(other, cell):
            return np.zeros(before.shape, dtype=bool)
        same: NDArray[np.bool_] = np.abs(other.cells[cell] - before) <= self.last_places(cell)
        return same

    def comparable(self, other: Self, cell: Cell) -> bool:
        """Whether another training releases the cell too, with the same shape and in the same type."""
        after = other.cells.get(cell)
        return after is not None and after.shape == self.cells[cell].shape and self.kinds.get(cell) == other.kinds.get(cell)

    def largest_places(self, cell: Cell) -> NDArray[np.float64]:
        """For each entry, ULPS units in the last place of the largest entry in its row, or in its array if it has one axis. The
        units are those of float32 if all numbers of the cell fit into float32. Whole numbers do not move.
        """
        numbers = np.abs(np.asarray(self.cells[cell], dtype=np.float64))
        if not numbers.size or np.all(numbers == np.rint(numbers)):
            return np.zeros(numbers.shape)
        with np.errstate(over="ignore"):
            rounded = numbers.astype(np.float32)
        kind = np.float32 if np.array_equal(numbers, rounded, equal_nan=True) else np.float64
        largest = numbers.max(axis=-1, keepdims=True)
        return ULPS * np.broadcast_to(np.spacing(largest.astype(kind)).astype(np.float64), numbers.shape)


class Played:
    """How many recorded trainings this process has begun."""

    runs = 0


def play(
    model: Model,
    worlds: Worlds,
    instead: Numbers | None = None,
    script: list[Draw] | None = None,
    follow: Follow | None = None,
    constant: Collection[int] = (),
) -> Play:
    """Trains the model once, on one world. script: the draws of another run, whose numbers this run gets. instead: position of a
    draw -> the numbers that replace those of the script.

    follow: replaces drawn arrays by arrays that know their origin, as in `Recorder`. Raises Diverged if the run makes other draws
    than the script, or if the model fails with the numbers of `instead`. constant: see `Script`.
    """
    Played.runs += 1
    if isinstance(model, RunsElsewhere):
        assert not instead, "a recorded program can only repeat the numbers of an earlier run"
        return _of_program(model, worlds, script, follow, constant)
    change = None if script is None else Script(script, instead or {}, isinstance(follow, Mechanisms), constant)
    weights, trained = () if change is None else change.weights, np.flatnonzero(worlds.graph.train)
    with recording(change, follow, weights, trained, worlds.graph.nodes) as recorded:
        try:
            release, changed = apart(model.fit, worlds)
        except Departed:
            raise
        except Exception as fault:  # a user's model may refuse other numbers with any exception
            if not instead:
                raise
            raise Diverged(f"other numbers end the training: {type(fault).__name__}") from None
    if changed:
        raise ValueError(f"{model.name}: {changed}")
    if change is not None:
        change.ended(len(recorded.draws))
        if recorded.notes:
            raise Diverged(recorded.notes[0])
    notes, reads = tuple(dict.fromkeys(recorded.notes)), recorded.reads
    return Play(cells(release), recorded.draws, notes, kinds(release), tuple(reads.stale), tuple(reads.older))


def _of_program(
    model: RunsElsewhere, worlds: Worlds, script: list[Draw] | None, follow: Follow | None, constant: Collection[int]
) -> Play:
    """`play` for a program, whose mechanisms are always recorded."""
    asked = follow if isinstance(follow, Mechanisms) else Mechanisms()
    release, recorded = model.recorded(
        worlds, Request(script, asked.script, asked.closely, asked.unread, constant=tuple(constant))
    )
    if recorded.diverged:
        raise Diverged(recorded.diverged)
    if script is not None:
        Script(script, {}).ended(len(recorded.draws))
    asked.found[:] = recorded.mechanisms
    notes, read = tuple(recorded.notes), (tuple(recorded.stale), tuple(recorded.older))
    return Play(cells(release), recorded.draws, notes, kinds(release), *read)


def marked(draws: Sequence[Draw], places: Collection[int]) -> list[Draw]:
    """The draws, of which those at `places` also count as initial weights. A run with this script does not follow them."""
    return [replace(draw, weights=draw.weights or at in places) for at, draw in enumerate(draws)]


def with_numbers(draws: Sequence[Draw], new: Numbers) -> list[Draw]:
    """The draws, of which some get other numbers. new: position of a draw -> its numbers."""
    return [replace(draw, values=new[at]) if at in new else draw for at, draw in enumerate(draws)]


def same_numbers(one: Draw, other: Draw) -> bool:
    """Whether two draws gave the same numbers at location 0 and scale 1, up to rounding. Data at their locations may round them
    differently, and so may another scale, such as a clipping norm that a run adapts.
    """
    if one.law != other.law or one.values.shape != other.values.shape:
        return False
    size = np.abs(np.asarray(one.loc)) + np.abs(np.asarray(other.loc))
    if np.any(np.asarray(one.loc) != np.asarray(other.loc)):  # each sum of location and noise is rounded to its own size
        size = size + np.abs(one.values.astype(np.float64)) + np.abs(other.values.astype(np.float64))
    units, again = one.units, other.units
    scaled = np.abs(units) if np.any(one.scale != other.scale) else 0.0
    return bool((np.abs(units - again) <= ROUNDING * (size / np.asarray(one.scale) + scaled)).all())


def cells(release: Release) -> dict[Cell, NDArray[np.float64]]:
    """The released values of the first run, by cell, and the numbers of `public`. An array with three axes in each run has one
    cell for each hop. The values are float64, or longdouble if they are whole numbers that float64 would round.
    """
    return {cell: _exact(part) for cell, part in _parts(release)}


def kinds(release: Release) -> dict[Cell, np.dtype[Any]]:
    """The types in which the values of the cells were released."""
    return {cell: part.dtype for cell, part in _parts(release)}


def _parts(release: Release) -> Iterator[tuple[Cell, NDArray[Any]]]:
    for name, array in release.arrays.items():
        for array_name, only in _real(name, np.asarray(array[0])):
            if only.ndim == 3:
                yield from ((Cell(array_name, hop), part) for hop, part in enumerate(only))
            else:
                yield Cell(array_name), only
    for name, value in release.public.items():
        number = np.asarray(value)
        numbers = number if number.dtype.kind in "biufc" else np.frombuffer(repr(value).encode(), dtype=np.uint8)
        yield from ((Cell(f"public number {part}", public=True), only) for part, only in _real(name, numbers))


def _real(name: str, only: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """An array of real numbers under its name, or the two parts of an array of complex numbers."""
    yield name, only.real
    if only.dtype.kind == "c":
        yield f"imaginary part of {name}", only.imag


def _exact(numbers: NDArray[Any]) -> NDArray[np.float64]:
    wide = numbers.dtype.kind in "iu" and numbers.size and max(-int(numbers.min()), int(numbers.max())) > WHOLE
    return np.asarray(numbers, dtype=np.longdouble if wide else np.float64)


def same_rows(one: Play, other: Play, nodes: int, hidden: NDArray[np.int64] | None) -> bool:
    """Whether two runs release the same numbers. hidden: nodes whose own rows are not compared, in cells with a row for each of
    all `nodes` nodes.
    """
    return all(np.array_equal(left_in(a, nodes, hidden), left_in(other.cells[c], nodes, hidden)) for c, a in one.cells.items())


def left_in(cell: NDArray[Any], nodes: int, hidden: NDArray[np.int64] | None) -> NDArray[Any]:
    """The released values without the own rows of the nodes `hidden`, if there is a row for each of all `nodes` nodes."""
    return cell if hidden is None or not cell.ndim or len(cell) != nodes else np.delete(cell, hidden, axis=0)


def rounding(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest difference that rounding causes between two computations of the same numbers, if their noise was recomputed."""
    return ROUNDING * (1 + np.abs(numbers))


def small_moves(counted: float, total: float, entries: int, most: float) -> str:
    """A sentence if the small moves of some entries matter. counted, total: the size of the counted moves, and of all. most: the
    small moves are up to `most` times the noise each.
    """
    if not entries or total <= (1 + TOGETHER) * counted:
        return ""
    text = f"{entries} entries move by at most {most:g} times the noise each, too little to be told from rounding"
    return f"{text}; together they raise the move from {counted:.4g} to {total:.4g}"
