"""Tests whether numbers serve as noise more than once in the release."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...models.recorder.draws.draw import Draw
from ...reports.rounding import several
from .playing import Cell, Diverged, play, rounding
from .sources import in_line, laid_out, moved_by, nudge
from .study import CONTINUOUS, SHUFFLES, Study

NEAR = 50  # number of neighbours, in sorted order, over which the density of numbers is estimated
RARE = 1e-6  # equal numbers are not attributed to rounding if the chance of so many is below this
SHARED = 3  # number of equal values that `reused` tolerates
ROUNDED = 1000.0  # in units of rounding: by how much entries may move if two noise numbers on one entry cancel


def used_twice(made: Study) -> str:
    """A sentence if the same numbers serve as noise at two places, with two seeds, or twice in one source; "" if not."""
    seen: dict[tuple[Cell, int], NDArray[np.float64]] = {}
    for number, draws in enumerate((made.base.draws, made.others[0])):
        for source in made.sources:
            first = draws[source.block.parts[0][0]]
            if not first.spread:
                continue
            numbers = np.abs(np.concatenate([draws[a].units.ravel()[p] for a, p in source.block.parts]))
            order = np.argsort(numbers, kind="stable")
            again = np.flatnonzero(np.diff(numbers[order]) == 0)
            chance = by_chance(numbers, first.values.dtype)
            for (other, seed), known in seen.items():
                _, here, there = np.intersect1d(numbers, known, return_indices=True)
                if reused(here - there, numbers.size * known.size * chance):
                    seeds = "" if seed == number else ", in two runs with different seeds"
                    where = f"on {other} and on {source.cell}" if other != source.cell else f"twice on {other}"
                    return f"{several(here.size, 'number')} {'is' if here.size == 1 else 'are'} noise {where}{seeds}"
            if reused(order[again + 1] - order[again], numbers.size**2 / 2 * chance):
                return (
                    f"{several(again.size, 'number')} of the noise on {source.cell} {'repeats' if again.size == 1 else 'repeat'}"
                )
            seen[source.cell, number] = numbers
    return ""


def on_others_too(made: Study) -> str:
    """A sentence if numbers that are noise on one cell beside other numbers also move another cell; "" if not.

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
    return ""


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


def same_bits(draws: Sequence[Draw]) -> str:
    """A sentence if two draws of a run are made of the same random bits of a generator, and are not the same numbers; "" if not.

    Two generators with one seed give the same bits, and so does one that is seeded again or copied. `np.random.seed(s)` and
    `torch.manual_seed(s)` give the same bits too: both start a Mersenne Twister in the same way. Draws of two laws are then
    functions of the same bits: whoever knows the numbers of one knows much about those of the other. The same numbers drawn again
    are the concern of other tests, which compare numbers. Two draws that are no noise may share bits: a program seeds all
    libraries alike, splits its nodes with one, and makes initial weights with another. After them, and after a draw of the same
    law and another size, the bits of the further draws of both generators may overlap.
    """
    begun: dict[int, tuple[int, int]] = {}  # state -> the first draw that began with it, and its stretch
    now: dict[int, int] = {}  # generator -> the stretch of draws that it is in
    stretches: list[list[int]] = []
    beside: list[list[tuple[int, int]]] = []  # for each stretch, others with the same bits, each from a draw on
    for at, draw in enumerate(draws):
        if not draw.began or bitless(draw):
            continue
        earlier = begun.get(draw.began)
        if draw.generator not in now or earlier is not None:
            now[draw.generator] = len(stretches)
            stretches.append([])
            beside.append([])
        own = now[draw.generator]
        begun.setdefault(draw.began, (at, own))
        if earlier is not None:
            other, there = earlier
            same = same_numbers(draws[other], draw)
            if not same and not (no_noise(draws[other]) and no_noise(draw)):
                return dependent(draws[other], draw)
            if not same or draws[other].values.size != draw.values.size:
                beside[own].append((there, other))
                beside[there].append((own, at))
        for stretch, first in beside[own]:
            for other in stretches[stretch]:
                laws = {draws[other].law, draw.law}
                if other >= first and len(laws) == 2 and laws <= set(CONTINUOUS) and not (draw.weights or draws[other].weights):
                    return dependent(draws[other], draw)
        stretches[own].append(at)
    return ""


def no_noise(draw: Draw) -> bool:
    """Whether a draw is initial weights of a layer, or an order."""
    return draw.weights or draw.law in SHUFFLES


def bitless(draw: Draw) -> bool:
    """Whether a draw may have read no random bits: it has no numbers, or equal whole numbers, as `integers(0, 1)` draws."""
    return not draw.values.size or (draw.law not in CONTINUOUS and bool(np.all(draw.values == draw.values.flat[0])))


def same_numbers(one: Draw, other: Draw) -> bool:
    """Whether two draws have the same law and, as far as both go, the same numbers at location 0 and scale 1."""
    if one.law != other.law:
        return False
    first, second = (np.broadcast_to(d.units, d.values.shape).ravel() for d in (one, other))
    few = min(first.size, second.size)
    return bool(np.allclose(first[:few], second[:few], rtol=1e-4, atol=1e-6, equal_nan=True))


def dependent(one: Draw, other: Draw) -> str:
    """The sentence that two draws are made of the same random bits."""
    both = f"the numbers drawn at {one.where} and at {other.where} are made of the same random bits"
    way = "give each generator a seed of its own, such as default_rng([seed, 1]), or draw all numbers from one generator"
    return f"{both}, because a generator was in the same state before each of them, so they depend on one another; {way}"
