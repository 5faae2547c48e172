"""Certificates for paths past the noise of the mechanisms within a run.

An array may depend on a secret although every noisy value is the same. If the release also has the noisy values that the array
reads, and no draw changes the array, the array is a function of the release's other arrays and of the graph alone. Two worlds in
which this function differs cannot give the same release.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder import Draw
from ...models.recorder.mechanisms.found import OtherMechanisms
from ..case import Case, offered
from ..mechanisms.absence import Incomparable, history, kept
from ..mechanisms.draws.steady import other_scripts
from ..mechanisms.inside import Inside
from ..mechanisms.reading import drawn_again, far_across, rerun, with_other_values
from ..recorded.other_numbers import FAR, far_numbers, has_far_numbers
from ..recorded.playing import Cell, Diverged, Play
from ..recorded.study import History
from ..recorded.worlds import UNUSUAL, Absence
from .released_noise import PATHS, REPEATED, exact

Mask = NDArray[np.bool_]

TRIED = 4  # largest number of secrets
READ = 8  # largest number of mechanisms of which it is tested one by one whether an array reads them
REDRAWN = 48  # random replacements of all draws: half by usual numbers, half by far ones
CLEAR = 1e-4  # of the largest entry of an array: a smaller difference between two worlds may be rounding
REPLACED = f"all draws were replaced {REDRAWN} times, in both worlds, by usual numbers and by numbers far outside their range"
ALIKE = "another seed gives the same entries"
SHOWN = "the arrays equal the noisy values in two runs with different seeds"
SAME_VALUES = proved("all noisy values are the same", "every mechanism within the run returned the value of the first run")


@dataclass(frozen=True, eq=False)
class Path:
    """Entries of an array that one secret changes for certain. beside: the released arrays that they are computed from."""

    absent: Absence
    cell: Cell
    entries: Mask
    beside: tuple[str, ...]

    def __str__(self) -> str:
        count = int(self.entries.sum())
        where = f"{'1 entry' if count == 1 else f'{count} entries'} of {self.cell}"
        text = f"{self.absent.secret} changes {where} although every noisy value is the same"
        if self.beside:
            arrays = " and ".join(f"'{array}'" for array in self.beside)
            return f"{text}; all else that these entries depend on is released too, in {arrays}"
        return f"{text}, and no draw changes them, so no noise covers them"


def from_path(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if a single secret changes a released array for certain, in the graph or in a small graph of unusual
    nodes; None if this is shown of none.
    """
    for part, where in ((within, ""), (within.small, f", on a {UNUSUAL}")):
        found = None if part is None else first_path(case, part)
        if found is not None:
            drawn = Condition("no draw changes these entries", "checked", REPLACED if found.beside else f"{REPLACED}; {ALIKE}")
            beside = (proved("the noisy values that these entries depend on are released", SHOWN),) if found.beside else ()
            return exact(np.inf, f"{found}{where}", PATHS, (REPEATED, drawn, SAME_VALUES, *beside))
    return None


def first_path(case: Case, within: Inside) -> Path | None:
    """The first entries that a secret changes for certain; None if none are known."""
    first, past = within.run, set(within.past) & set(offered(case.model))
    cells = [cell for cell in first.play.cells if cell.array in past]
    if not cells or not within.across:
        return None
    try:
        second = history(first.study, 1)
    except Diverged:
        return None
    for absent in islice(alone(within, cells), TRIED):
        with suppress(Incomparable, Diverged, OtherMechanisms):
            if (found := certain(first, second, absent, cells)) is not None:
                return found
    return None


def certain(first: History, second: History, absent: Absence, cells: Sequence[Cell]) -> Path | None:
    """The first entries of these cells that one secret changes for certain; None if there are none. second: a run with another
    seed. Raises Incomparable, Diverged or OtherMechanisms if a run cannot be repeated.
    """
    runs, others = both(first, absent), both(second, absent)
    for cell in cells:
        entries = differing(*runs, cell, absent)
        if not entries.any() or not differing(*others, cell, absent).any():
            continue
        beside = shown_by(first, second, read_by(first, cell, entries))
        if beside is None or not (beside or all(alike(cell, entries, *pair) for pair in zip(runs, others, strict=True))):
            continue
        worlds = tuple(zip((absent.base, absent), runs, strict=True))
        if all(steady(first, script, cell, worlds) for script in scripts(first)):
            return Path(absent, cell, entries, beside)
    return None


def alike(cell: Cell, entries: Mask, one: History, other: History) -> bool:
    """Whether two runs give the same values to some entries of a cell."""
    before, after = one.play.cells[cell], other.play.cells[cell]
    return before.shape == after.shape and np.array_equal(before[entries], after[entries])


def alone(within: Inside, cells: Sequence[Cell]) -> Iterator[Absence]:
    """Yields worlds without one secret: first those in which one of these cells changes although every noisy value is the same.
    If many secrets together change a cell, one of them is found by halving.
    """

    def changes(absent: Absence) -> bool:
        with suppress(Incomparable):
            runs = both(within.run, absent)
            return any(differing(*runs, cell, absent).any() for cell in cells)
        return False

    for absent in dict.fromkeys(filter(None, (*within.across, within.worst, *within.others))):
        one = absent if absent.among.size == 1 else absent.single(changes)
        if one is not None and one.among.size == 1 and not one.half:
            yield one


def steady(first: History, script: list[Draw], cell: Cell, worlds: Sequence[tuple[Absence | None, History]]) -> bool:
    """Whether a cell stays the same in some worlds if the draws are those of a script and every noisy value is the same. worlds:
    each with its run, None for the whole graph.
    """
    runs = ((run, rerun(first, {}, script) if world is None else kept(first, world, draws=script)) for world, run in worlds)
    return all(unchanged(run.play, again.play, cell) for run, again in runs)


def both(first: History, absent: Absence) -> tuple[History, History]:
    """The runs with and without a secret, with the noisy values of `first`."""
    return first if absent.base is None else kept(first, absent.base), kept(first, absent)


def differing(one: History, other: History, cell: Cell, absent: Absence) -> Mask:
    """The entries of a cell that differ by more than rounding; none if the cells have different shapes. Own rows of absent nodes
    do not count.
    """
    before, after = one.play.cells[cell], other.play.cells.get(cell)
    if after is None or after.shape != before.shape:
        return np.zeros(before.shape, dtype=bool)
    differ: Mask = np.abs(after - before) > CLEAR * max(np.abs(before).max(initial=0), np.abs(after).max(initial=0))
    if absent.hidden is not None and differ.ndim and len(differ) == absent.worlds.graph.nodes:
        differ[absent.hidden] = False
    return differ


def unchanged(one: Play, other: Play, cell: Cell, entries: Mask | None = None) -> bool:
    """Whether some entries of a cell stay the same. By default these are all: if one changes, noise that was not followed may
    change the others too, but seldom.
    """
    before, after = one.cells[cell], other.cells[cell]
    if after.shape != before.shape:
        return False
    same = np.abs(after - before) <= one.last_places(cell)
    return bool(same.all() if entries is None else same[entries].all())


def read_by(first: History, cell: Cell, entries: Mask) -> list[int] | None:
    """The mechanisms whose noisy values some entries of a cell depend on; None if there are too many mechanisms to test each."""

    def reads(some: Sequence[int]) -> bool:
        runs = chain(with_other_values(first, some), far_across(first, some))
        return any(run is None or not unchanged(first.play, run.play, cell, entries) for run in runs)

    places = range(len(first.mechanisms))
    if not reads(places):
        return []
    return [i for i in places if reads([i])] if len(places) <= READ else None


def shown_by(first: History, second: History, read: Sequence[int] | None) -> tuple[str, ...] | None:
    """The released arrays that equal the noisy values of the mechanisms `read` in both runs; None if one of these is not
    released.
    """
    if read is None or len(first.mechanisms) != len(second.mechanisms):
        return None
    found: list[str] = []
    for i in read:
        pairs = [(run.mechanisms[i].noisy, run.play) for run in (first, second)]
        array = next((c.array for c in first.play.cells if all(equal(noisy, play, c) for noisy, play in pairs)), None)
        if array is None:
            return None
        found.append(array)
    return tuple(dict.fromkeys(found))


def equal(noisy: NDArray[np.float64], play: Play, cell: Cell) -> bool:
    """Whether a cell has these values, in the type in which it is released."""
    released = play.cells.get(cell)
    if released is None or released.size != noisy.size:
        return False
    return np.array_equal(released.ravel(), noisy.astype(play.kinds.get(cell, noisy.dtype)).astype(np.float64).ravel())


def scripts(first: History) -> Iterator[list[Draw]]:
    """Yields the draws of the run with other numbers for all of them: those of other seeds, the ends of their ranges or numbers
    far below and above the usual ones, and random ones.
    """
    draws = first.play.draws
    yield from other_scripts(first, range(len(draws)))
    for side in (-1, 1):
        yield [at_an_end(draw, side) for draw in draws]
    for number in range(REDRAWN):
        random = np.random.default_rng(number)
        yield [far(draw, random) if number % 2 else drawn_again(draw, random) for draw in draws]


def at_an_end(draw: Draw, side: int) -> Draw:
    """The draw with all numbers at the lowest or highest end of its range, or far below or above the usual ones."""
    if draw.spread:
        return replace(draw, values=(draw.values + side * FAR * np.asarray(draw.scale)).astype(draw.values.dtype))
    if not np.isfinite([draw.lowest, draw.highest]).all() or draw.values.dtype.kind not in "iufb":
        return draw
    return replace(draw, values=np.full_like(draw.values, draw.lowest if side < 0 else draw.top))


def far(draw: Draw, random: np.random.Generator) -> Draw:
    """The draw with numbers far from its middle, or in another order if its law has no such numbers."""
    if not has_far_numbers(draw):
        return drawn_again(draw, random)
    return replace(draw, values=far_numbers(draw, random.random(draw.values.shape) < 0.5, random))
