"""Tests whether numbers serve as noise more than once in the release."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .playing import Diverged, play, rounding
from .sources import in_line, laid_out, moved_by, nudge
from .study import Study

NEAR = 50  # number of neighbours, in sorted order, over which the density of numbers is estimated
RARE = 1e-6  # equal numbers are not attributed to rounding if the chance of so many is below this
SHARED = 3  # number of equal values that `reused` tolerates
ROUNDED = 1000.0  # in units of rounding: by how much entries may move if two noise numbers on one entry cancel


def used_twice(made: Study) -> str | None:
    """A sentence if the same numbers serve as noise at two places, with two seeds, or twice in one source; else None."""
    seen: dict[str, NDArray[np.float64]] = {}
    for number, draws in enumerate((made.base.draws, made.others[0])):
        for source in made.sources:
            first = draws[source.block.parts[0][0]]
            if not first.spread:
                continue
            numbers = np.abs(np.concatenate([draws[a].units.ravel()[p] for a, p in source.block.parts]))
            name = f"{source.cell} with seed {number + 1}"
            order = np.argsort(numbers, kind="stable")
            again = np.flatnonzero(np.diff(numbers[order]) == 0)
            chance = by_chance(numbers, first.values.dtype)
            for other, known in seen.items():
                _, here, there = np.intersect1d(numbers, known, return_indices=True)
                if reused(here - there, numbers.size * known.size * chance):
                    return f"{here.size} numbers are noise on {name} and on {other}"
            if reused(order[again + 1] - order[again], numbers.size**2 / 2 * chance):
                return f"{again.size} numbers of the noise on {name} repeat"
            seen[name] = numbers
    return None


def on_others_too(made: Study) -> str | None:
    """A sentence if numbers that are noise on one cell beside other numbers also move another cell; else None.

    Of two sources on one cell, one changes, and the other so that their sum stays the same. If another cell then changes, the
    number of a single entry is noise on several: one noise number fewer than it seems hides the move of all of them.
    """
    for i, source in enumerate(made.sources):
        first = next(other for other in made.sources if other.cell == source.cell)
        both = first.noised & source.noised
        if first is source or not both.any():
            continue
        change = np.where(both, laid_out(nudge(source.block, i), source.factor.shape, source.across), 0.0)
        against = -np.divide(change * source.factor, first.factor, out=np.zeros_like(change), where=both)
        blocks = [(source.block, in_line(change, source.across)), (first.block, in_line(against, first.across))]
        try:
            after = play(made.model, made.whole, moved_by(made.base.draws, blocks, made.copies), made.base.draws)
        except Diverged as line:
            return f"the noise on {source.cell} decides what is drawn ({line})"
        for cell, before in made.base.cells.items():
            size = np.maximum(np.abs(before), np.abs(after.cells[cell]))
            if cell != source.cell and np.any(np.abs(after.cells[cell] - before) > ROUNDED * rounding(size)):
                return f"numbers drawn at {source.block.line} are noise on {source.cell}, beside others, and also move {cell}"
    return None


def by_chance(numbers: NDArray[np.float64], kind: np.dtype[Any]) -> float:
    """About twice the chance that rounding to the floating-point type `kind` makes two of these numbers equal, as a safe
    estimate. 0 for other types and for fewer than two distinct numbers.
    """
    known = np.unique(numbers)
    near = min(NEAR, known.size - 1)
    if near < 1 or kind.kind != "f":
        return 0.0
    density = near / known.size / (known[near:] - known[:-near])
    return float(np.mean(density * 2 * np.spacing(known.astype(kind)).astype(np.float64)[:-near]))


def reused(offsets: NDArray[np.int64], expected: float) -> bool:
    """Whether numbers were used again. offsets: for each pair of equal numbers, the distance between their places. expected: the
    number of pairs that rounding makes equal. More than SHARED pairs at one distance come from a block that was used again.
    """
    _, counts = np.unique(offsets, return_counts=True)
    return offsets.size > SHARED + stats.poisson.isf(RARE, expected) or counts.max(initial=0) > SHARED
