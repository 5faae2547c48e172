"""Finds which drawn numbers are noise in a release: to which entry each number is added, and with what factor.

The search repeats the run twice, each time with other changes of the same drawn numbers. An entry that equals mean + factor ×
number moves by factor × change in both runs; other entries do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.base import Model
from ...models.graph.graph import Worlds
from ...models.recorder import Draw
from ...models.recorder.draws.draw import SHIFTED
from .playing import Cell, Diverged, Play, play, rounding

Floats = NDArray[np.float64]

MOST = 24  # largest number of blocks for which the release is searched for noise
AGREE = 0.9  # a block is noise if at least this share of the moved entries move in proportion to its numbers
WHOLE = ("choice", "geometric", "poisson", "binomial", "integers")  # laws of integers
ADDED = (*SHIFTED, *WHOLE)  # laws whose numbers may be added to a value
Part = tuple[int, slice]  # the position of a draw, and a slice of its numbers


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive numbers of one or several draws, as many as a cell of the release has entries (see `Cell`). line: the line of
    code that draws the numbers.
    """

    parts: tuple[Part, ...]
    size: int
    law: str
    line: str


@dataclass(frozen=True, eq=False)
class Source:
    """A block whose numbers are noise on a cell.

    factor: for each entry of the cell, the factor by which its number at scale 1 is multiplied; 0 for entries without this noise.
    across: whether the numbers fill the cell column by column.
    """

    block: Block
    cell: Cell
    factor: Floats
    across: bool

    @property
    def noised(self) -> NDArray[np.bool_]:
        return self.factor != 0

    def numbers(self, draws: Sequence[Draw]) -> Floats:
        """The source's numbers in a run with these draws, standardised to location 0 and scale 1, in the shape of the cell."""
        line = np.concatenate([draws[at].units.ravel()[part] for at, part in self.block.parts])
        return laid_out(line, self.factor.shape, self.across)

    def moves_by(self, change: Floats, before: Floats, after: Floats) -> bool:
        """Whether the entries with noise move by their factors times the change of the block's numbers, up to rounding."""
        gap = np.abs(after - before - self.factor * laid_out(change, before.shape, self.across))
        return not np.any((gap > 10 * rounding(np.maximum(np.abs(before), np.abs(after))))[self.noised])


def laid_out(numbers: Floats, shape: tuple[int, ...], across: bool) -> Floats:
    """The numbers of a block in the shape of a cell. across: whether they fill the cell column by column."""
    return numbers.reshape(shape[::-1]).T if across else numbers.reshape(shape)


def in_line(entries: Floats, across: bool) -> Floats:
    """The inverse of `laid_out`."""
    return (entries.T if across else entries).ravel()


def blocks(draws: Sequence[Draw], sizes: Iterable[int], known: Iterable[int] = ()) -> list[Block]:
    """The blocks that may be noise on a cell: a draw as large as the cell, equal parts of a larger draw, or consecutive smaller
    draws of one line of code.

    sizes: the numbers of entries of the cells. known: positions of draws that are left out.
    """
    allowed, found = set(sizes), []
    pending: list[Part] = []
    skipped = set(known)
    for at, draw in enumerate(draws):
        count = draw.values.size
        if (
            at in skipped
            or draw.law not in ADDED
            or (draw.own_chances and not draw.picked)
            or not count
            or draw.values.dtype.kind not in "iuf"
        ):
            continue
        if count in allowed:
            found.append(Block(((at, slice(0, count)),), count, draw.law, draw.line))
            continue
        whole = next((s for s in sorted(allowed, reverse=True) if s > 1 and count % s == 0), None)
        if whole is not None:
            pieces = (slice(first, first + whole) for first in range(0, count, whole))
            found += [Block(((at, piece),), whole, draw.law, draw.line) for piece in pieces]
            continue
        if pending and (draws[pending[0][0]].law, draws[pending[0][0]].line) != (draw.law, draw.line):
            pending = []
        pending.append((at, slice(0, count)))
        total = sum(part.stop for _, part in pending)
        if total in allowed:
            found.append(Block(tuple(pending), total, draw.law, draw.line))
        if total in allowed or total > max(allowed):
            pending = []
    return found


def moved_by(
    draws: Sequence[Draw], changes: Iterable[tuple[Block, Floats]], copies: Mapping[int, int]
) -> dict[int, NDArray[Any]]:
    """Position of a draw -> its new numbers, for all draws that contain a changed block.

    changes: blocks, each with the amounts by which its numbers change, in units of their scale. copies: position of a draw ->
    position of the earlier draw that it repeats; a copy gets the same new numbers as the earlier draw.
    """
    new: dict[int, NDArray[Any]] = {}
    for block, change in changes:
        first = 0
        for at, part in block.parts:
            draw = draws[at]
            numbers = new.setdefault(at, np.array(draw.values)).reshape(-1)
            scale = np.broadcast_to(np.asarray(draw.scale, dtype=np.float64), draw.values.shape).reshape(-1)[part]
            moved = draw.values.reshape(-1)[part] + scale * change[first : first + part.stop - part.start]
            numbers[part] = moved if numbers.dtype.kind == "f" else np.rint(moved)
            new[at] = numbers.reshape(draw.values.shape)
            first += part.stop - part.start
    for copy, original in copies.items():
        if original in new:
            new[copy] = new[original]
    return new


def nudge(block: Block, seed: int, size: float = 1.0) -> Floats:
    """A random change for each number of a block, of absolute value `size` to 2 * `size`, rounded for laws of integers."""
    rng = np.random.default_rng([seed, block.size, block.parts[0][0], block.parts[0][1].start])
    change = (1 + rng.random(block.size)) * rng.choice([-1.0, 1.0], size=block.size) * size
    return np.rint(change) if block.law in WHOLE else change


def located(model: Model, worlds: Worlds, base: Play, tried: Sequence[Block], copies: Mapping[int, int]) -> list[Source]:
    """The blocks among `tried` that are noise on a cell, each with the first cell to which it is added."""
    return [source for block in tried if (source := _located(model, worlds, base, block, copies)) is not None]


def _located(model: Model, worlds: Worlds, base: Play, block: Block, copies: Mapping[int, int]) -> Source | None:
    changes = [nudge(block, seed) for seed in (1, 2)]
    try:
        plays = [play(model, worlds, moved_by(base.draws, [(block, c)], copies), base.draws) for c in changes]
    except Diverged:
        return None
    for cell, before in base.cells.items():
        if before.size != block.size:
            continue
        for across in (False, True) if before.ndim == 2 else (False,):
            factor = _factor(before, [p.cells[cell] for p in plays], [laid_out(c, before.shape, across) for c in changes])
            if factor is not None:
                return Source(block, cell, factor, across)
    return None


def _factor(before: Floats, after: Sequence[Floats], changes: Sequence[Floats]) -> Floats | None:
    """The factor of the noise on each entry, 0 where there is none. None unless a share AGREE of the moved entries move in
    proportion to their own number.
    """
    one, other = (a - before for a in after)
    slack = rounding(np.maximum(np.abs(before), np.maximum(np.abs(after[0]), np.abs(after[1]))))
    moves = (np.abs(one) > slack) | (np.abs(other) > slack)
    factors = [d / c for d, c in zip((one, other), changes, strict=True)]
    agree = moves & (np.abs(factors[0] - factors[1]) <= 4 * slack) & (factors[0] != 0)
    if not moves.any() or agree.sum() < AGREE * moves.sum():
        return None
    found = np.where(agree, (factors[0] + factors[1]) / 2, 0.0)
    common = float(np.median(found[agree]))
    return np.where(agree & (np.abs(found - common) <= 8 * slack), common, found)
