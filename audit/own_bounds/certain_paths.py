"""Certificates for paths past the noise of the mechanisms within a run.

An array may depend on a secret although every noisy value is the same. If the release also has the noisy values that the array
reads, or the sums of them through which it reads them, and no draw changes the array, the array is a function of the release's
other arrays and of the graph alone. Two worlds in which this function differs cannot give the same release.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder import Draw
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.found import OtherMechanisms
from ...reports.rounding import several
from ..case import Case, offered
from ..mechanisms.absence import Incomparable, both, history, kept, run_on_its_base
from ..mechanisms.draws.steady import other_scripts
from ..mechanisms.inside import Inside
from ..mechanisms.past_noise import begun
from ..mechanisms.reading import drawn_again, near_and_far, rerun
from ..recorded.other_numbers import FAR, far_numbers, has_far_numbers
from ..recorded.playing import Cell, Play
from ..recorded.secrets.worlds import Absence, alone
from ..recorded.seeds import RARE, often
from ..recorded.study import History, Study
from .attempt import ASSUMED
from .other_runs import SEEDS
from .released_noise import PATHS, REPEATED, exact
from .released_sums import RUNS, Sum, determined, only_through, released_sums

Mask = NDArray[np.bool_]
SumsOf = Callable[[History], Sequence[Sum]]

TRIED = 4  # largest number of secrets
ORDERS = 2  # how often many secrets are halved in another order
READ = 8  # largest number of mechanisms of which it is tested one by one whether an array reads them
ODD = 2  # scripts, such as those in which all numbers are at one end of their range
REDRAWN = 48  # random replacements of all draws: half by usual numbers, half by far ones
CLEAR = 1e-4  # of the largest entry of an array, see `differing`: a smaller difference between two worlds may be rounding
SINGLE = 1.2e-7  # rounding error of float32, relative to the number
REPLACED = f"all draws were replaced {REDRAWN} times, in both worlds, by usual numbers and by numbers far outside their range"
ALIKE = "another seed gives the same entries"
RELEASED = proved(
    "the noisy values that these entries depend on are released",
    "the arrays equal the noisy values in two runs with different seeds, in both worlds",
)
IN_SUMS = Condition(
    "these entries depend on noisy values only through released sums of them",
    "checked",
    f"noisy values were changed {RUNS} times so that the sums stayed the same, in two runs; so did these entries, in both worlds",
)
DETERMINED = Condition(IN_SUMS.what, "checked", "so many different sums are released that they determine every noisy value")
STARTED = Condition("for an adversary who sees the random numbers that are drawn as initial weights", "granted", ASSUMED)
SAME_VALUES = proved("all noisy values are the same", "every mechanism within the run returned the value of the first run")
MORE = range(1, 25)  # numbers of the runs with other seeds in which a secret may change an array, if delta is at most SMALL
SMALL = 1e-3
UNRELATED = (2, 3)  # numbers of runs whose seeds have nothing in common with that of the first run


@dataclass(frozen=True, eq=False)
class Path:
    """Entries of an array that one secret changes for certain. beside: the released arrays that they are computed from. sums: the
    condition that these hold sums of noisy values; None if they hold the noisy values themselves, or need none. started: whether
    the entries may depend on random initial weights. begun: the end of a sentence, with the line where the path begins; "" if it
    is not known. fixed: the lines of draws that are the same in each run; the entries may depend on them. noisy: whether the run
    has mechanisms. replaced: whether it has draws that were replaced.
    """

    absent: Absence
    cell: Cell
    entries: Mask
    beside: tuple[str, ...]
    sums: Condition | None = None
    started: bool = False
    begun: str = ""
    fixed: tuple[str, ...] = ()
    noisy: bool = True
    replaced: bool = True

    def __str__(self) -> str:
        count = int(self.entries.sum())
        where = f"{several(count, 'entry', 'entries')} of {self.cell}"
        text = f"{self.absent.secret} changes {where}" + " although every noisy value is the same" * self.noisy
        known = f"; {hides_nothing(self.fixed)}" if self.fixed else ""
        if self.beside:
            arrays = " and ".join(f"'{array}'" for array in self.beside)
            return f"{text}{known}; all else that these entries depend on is released too, in {arrays}"
        if self.fixed:
            return f"{text}, which no seed changes{' if the initial weights stay the same' * self.started}{known}"
        return f"{text}, and no draw changes them, so no noise covers them"

    @property
    def conditions(self) -> tuple[Condition, ...]:
        shown = (self.sums,) if self.sums else (RELEASED,) if self.beside else ()
        known = (same_numbers(self.fixed),) if self.fixed else ()
        return (REPEATED, self.drawn, *known, *((SAME_VALUES,) * self.noisy), *shown, *((STARTED,) * self.started))

    @property
    def drawn(self) -> Condition:
        """The condition that draws do not change the entries."""
        what = f"no {'other ' * (self.started or bool(self.fixed))}draw changes these entries"
        if not self.replaced:
            return proved(what, "the run makes no other draw")
        return Condition(what, "checked", REPLACED if self.beside or self.started else f"{REPLACED}; {ALIKE}")


def hides_nothing(lines: Sequence[str]) -> str:
    """What a reader needs to know of draws at these lines, which are the same in each run."""
    return f"the numbers drawn at {' and '.join(lines)} are the same in each run, so whoever has the code knows them"


def same_numbers(lines: Sequence[str]) -> Condition:
    """The condition that the draws at these lines are the same in each run."""
    what = f"the numbers drawn at {' and '.join(lines)} are the same in each run"
    return Condition(
        what, "checked", f"{1 + len(UNRELATED)} runs with other seeds drew them again, which chance practically never does"
    )


@lru_cache(maxsize=4)
def fixed_draws(made: Study) -> frozenset[int]:
    """The positions of draws that are the same in each run: those of `Study.constant` that runs with unrelated seeds draw again.
    None counts if such a run fails.
    """
    fixed = made.of_one_value
    for number in UNRELATED if fixed else ():
        try:
            draws = history(made, number).play.draws
        except Departed:
            return frozenset()
        same = (at for at in fixed if at < len(draws) and draws[at].law == made.base.draws[at].law)
        fixed = frozenset(at for at in same if np.array_equal(draws[at].values, made.base.draws[at].values))
    return fixed


def lines_of(made: Study, places: Collection[int]) -> tuple[str, ...]:
    """The lines of these draws, each once. Initial weights are left out."""
    return tuple(dict.fromkeys(made.base.draws[at].line for at in sorted(places) if not made.base.draws[at].weights))


def from_path(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if a single secret changes a released array for certain, in the graph or in a small graph of unusual
    nodes; None if this is shown of none.
    """
    for part, where in within.parts:
        if (found := first_path(case, part)) is not None:
            return exact(np.inf, f"{found}{where}{found.begun}", PATHS, found.conditions)
    return None


def first_path(case: Case, within: Inside) -> Path | None:
    """The first entries that a secret changes for certain; None if none are known."""
    first, past = within.run, set(within.past) & set(offered(case.model))
    cells = [cell for cell in first.play.cells if cell.array in past]
    if not cells or not within.across:
        return None
    sums_of = cache(partial(released_sums, cells=tuple(c for c in first.play.cells if c.array not in past)))
    each = (first_certain(first, tried(within, cells, half), cells, sums_of, case.claim.delta) for half in (False, True))
    return next(filter(None, each), None)


def from_fixed_draws(first: History, secrets: Iterable[Absence], delta: float) -> Bound | None:
    """An infinite bound, if the run has no mechanism, and one of a few secrets changes a released array that no draw changes but
    those that are the same in each run; None if this is shown of none. delta: that of the claim.
    """
    found = first_certain(first, secrets, tuple(first.play.cells), lambda _: (), delta)
    return None if found is None else exact(np.inf, str(found), PATHS, found.conditions)


def first_certain(
    first: History, secrets: Iterable[Absence], cells: Sequence[Cell], sums_of: SumsOf, delta: float
) -> Path | None:
    """As `certain`, for the first of these secrets that changes entries; at most TRIED are tried."""
    for absent in islice(secrets, TRIED):
        with suppress(Departed):
            if (found := certain(first, absent, cells, sums_of, delta)) is not None:
                return found
    return None


def certain(first: History, absent: Absence, cells: Sequence[Cell], sums_of: SumsOf, delta: float) -> Path | None:
    """The first entries of these cells that one secret changes for certain; None if there are none. sums_of: the weighted sums
    that other arrays of a run show. delta: that of the claim. Raises Departed if a run cannot be repeated.

    A secret that changes the cell with a probability of at most delta does not contradict the claim. At delta = 0 none does so,
    and the first run is enough. Else the secret must change the cell in one more run, of at most MORE with other seeds, and if
    delta is above RARE, in further ones, see `often`. Both runs are of the graph with the secret: the noisy values of a run of
    another graph may be improbable there.
    """
    numbers = numbers_of_runs(first.study, delta)
    if delta and first.mechanisms and absent.base is not None:
        first, absent, numbers = changed_on_its_base(first, absent, cells, numbers)
    runs, noisy, fixed = both(first, absent), bool(first.mechanisms), fixed_draws(first.study) - first.noise
    for cell in cells:
        entries = differing(*runs, cell, absent)
        more = another(first, absent, cell, delta, numbers) if entries.any() else None
        if more is None:
            continue
        if delta > RARE and not often(delta, partial(changes, first.study, absent, cell)):
            continue
        second, others = more
        beside = shown_by((first, *runs, second, *others), read_by(first, cell, entries))
        sums, started = None, False
        if beside is None:
            sums = IN_SUMS if any(not determined(run, sums_of(run)) for run in (first, second)) else DETERMINED
            each = ((first, entries), (second, differing(*others, cell, absent)))
            if not all(only_through(sums_of(run), run, absent, cell, those) for run, those in each if those.any()):
                continue
            beside = tuple(dict.fromkeys(c.array for c in first.play.cells if c not in cells))
            started = any(draw.weights for draw in first.play.draws)
        elif not beside and not all(alike(cell, entries, *pair) for pair in zip(runs, others, strict=True)):
            started = not noisy and any(draw.weights for draw in first.play.draws)
            if not started:
                continue
        worlds = tuple(zip((absent.base, absent), runs, strict=True))
        if always_steady(first, scripts(first, started, fixed), cell, worlds):
            begins, known = begun(first, absent) if noisy else "", lines_of(first.study, fixed)
            replaced = any(True for _ in scripts(first, started, fixed))
            return Path(absent, cell, entries, beside, sums, started, begins, known, noisy, replaced)
    return None


def changed_on_its_base(
    first: History, absent: Absence, cells: Sequence[Cell], numbers: Sequence[int]
) -> tuple[History, Absence, Sequence[int]]:
    """As `run_on_its_base`, but the first run in which the secret changes a cell, of the run there and those with these numbers.
    The last result has the numbers after it; none if the secret changes a cell in no run.
    """
    start, absent = run_on_its_base(first, absent)
    for at, number in enumerate((0, *numbers)):
        if any(changes(start.study, absent, cell, number) for cell in cells):
            return history(start.study, number), absent, numbers[at:]
    return start, absent, ()


def another(
    first: History, absent: Absence, cell: Cell, delta: float, numbers: Sequence[int]
) -> tuple[History, tuple[History, History]] | None:
    """A run with one of these numbers, and another seed than `first`, in which a secret changes a cell, at delta = 0 any such
    run, and its runs with and without this secret; None if there is none.
    """
    for number in numbers:
        with suppress(Departed):
            run = history(first.study, number)
            if np.array_equal(run.worlds.seeds, first.worlds.seeds):
                continue
            pair = both(run, absent)
            if delta == 0 or differing(*pair, cell, absent).any():
                return run, pair
    return None


def changes(made: Study, absent: Absence, cell: Cell, number: int) -> bool:
    """Whether a secret changes a cell in the run with this number."""
    try:
        return bool(differing(*both(history(made, number), absent), cell, absent).any())
    except Departed:
        return False


def numbers_of_runs(made: Study, delta: float) -> Sequence[int]:
    """The numbers of the runs with other seeds in which a rare event is looked for."""
    return MORE if delta <= SMALL and made.effort.thorough else SEEDS


def alike(cell: Cell, entries: Mask, one: History, other: History) -> bool:
    """Whether two runs give the same values to some entries of a cell."""
    before, after = one.play.cells[cell], other.play.cells[cell]
    return before.shape == after.shape and np.array_equal(before[entries], after[entries])


def tried(within: Inside, cells: Sequence[Cell], half: bool = False) -> Iterator[Absence]:
    """Yields worlds without one secret: first those in which a cell changes although every noisy value is the same. Of many
    secrets, several are found, by halving them in ORDERS more orders. half: as in `alone`; the own rows of these secrets are not
    compared.
    """

    def changes(absent: Absence) -> bool:
        with suppress(Incomparable):
            runs = both(within.run, absent)
            return any(differing(*runs, cell, absent).any() for cell in cells)
        return False

    orders, many = np.random.default_rng(0), [absent for absent in within.across if absent.among.size > 1]
    again = (replace(absent, among=orders.permutation(absent.among)) for _ in range(ORDERS) for absent in many)
    worlds = dict.fromkeys((*within.across, *again, *within.secrets))
    yield from alone((absent.without_own_rows() if half else absent for absent in worlds), changes, half)


def always_steady(
    first: History, some: Iterable[list[Draw]], cell: Cell, worlds: Sequence[tuple[Absence | None, History]]
) -> bool:
    """Whether a cell is `steady` with each of these scripts. At most ODD of them may run other mechanisms: where all coins of a
    report fall alike, for example, nothing is reported at random. Raises OtherMechanisms or Incomparable if more do.
    """
    odd = 0
    for script in some:
        try:
            if not steady(first, script, cell, worlds):
                return False
        except (OtherMechanisms, Incomparable):
            odd += 1
            if odd > ODD:
                raise
    return True


def steady(first: History, script: list[Draw], cell: Cell, worlds: Sequence[tuple[Absence | None, History]]) -> bool:
    """Whether a cell stays the same in some worlds if the draws are those of a script and every noisy value is the same. worlds:
    each with its run, None for the whole graph.
    """
    runs = ((run, rerun(first, {}, script) if world is None else kept(first, world, draws=script)) for world, run in worlds)
    return all(unchanged(run.play, again.play, cell) for run, again in runs)


def differing(one: History, other: History, cell: Cell, absent: Absence) -> Mask:
    """The entries of a cell that differ by more than rounding; none if the cells have different shapes. Own rows of absent nodes
    do not count.

    An array of one axis, other than one number for each node, may list numbers of different sizes, such as a count of edges and a
    share of them. Each of its entries is compared with its own size, but at least with a rounding error of the largest.
    """
    before, after = one.play.cells[cell], other.play.cells.get(cell)
    if after is None or after.shape != before.shape:
        return np.zeros(before.shape, dtype=bool)
    sizes = np.maximum(np.abs(before), np.abs(after))
    largest = sizes.max(initial=0)
    listed = before.ndim == 1 and len(before) != absent.worlds.graph.nodes
    differ: Mask = np.abs(after - before) > (np.maximum(CLEAR * sizes, SINGLE * largest) if listed else CLEAR * largest)
    return differ & absent.shown(differ.shape)


def unchanged(one: Play, other: Play, cell: Cell, entries: Mask | None = None) -> bool:
    """Whether some entries of a cell stay the same. By default these are all: if one changes, noise that was not followed may
    change the others too, but seldom.
    """
    same = one.same(other, cell)
    return bool(same.all() if entries is None else same[entries].all())


def read_by(first: History, cell: Cell, entries: Mask) -> list[int] | None:
    """The mechanisms whose noisy values some entries of a cell depend on; None if there are too many mechanisms to test each."""

    def reads(some: Sequence[int]) -> bool:
        runs = near_and_far(first, some)
        return any(run is None or not unchanged(first.play, run.play, cell, entries) for run in runs)

    places = range(len(first.mechanisms))
    if not reads(places):
        return []
    return [i for i in places if reads([i])] if len(places) <= READ else None


def shown_by(runs: Sequence[History], read: Sequence[int] | None) -> tuple[str, ...] | None:
    """The released arrays that equal the noisy values of the mechanisms `read` in all of these runs; None if one of these is not
    released. runs: with two seeds, and in two worlds, of which one may put noisy values into another order.
    """
    if read is None or len({len(run.mechanisms) for run in runs}) > 1:
        return None
    found: list[str] = []
    for i in read:
        pairs = [(run.mechanisms[i].noisy, run.play) for run in runs]
        array = next((c.array for c in runs[0].play.cells if all(equal(noisy, play, c) for noisy, play in pairs)), None)
        if array is None:
            return None
        found.append(array)
    return tuple(dict.fromkeys(found))


def equal(noisy: NDArray[np.float64], play: Play, cell: Cell) -> bool:
    """Whether a cell has these values, in the floating-point type in which it is released. Whole numbers do not show the values
    that they were cut from.
    """
    released, kind = play.cells.get(cell), play.kinds.get(cell, noisy.dtype)
    if released is None or released.size != noisy.size:
        return False
    return np.array_equal(released.ravel(), (noisy.astype(kind) if kind.kind == "f" else noisy).astype(np.float64).ravel())


def scripts(first: History, started: bool = False, fixed: Collection[int] = ()) -> Iterator[list[Draw]]:
    """Yields the draws of the run with other numbers for all of them: those of other seeds, the ends of their ranges or numbers
    far below and above the usual ones, and random ones. started: whether random initial weights stay as they are. fixed: the
    positions of draws that do. Yields nothing if no draw is left.
    """
    draws = first.play.draws
    others = [at for at, draw in enumerate(draws) if not (started and draw.weights) and at not in fixed]
    if not others:
        return

    def with_others(change: Callable[[Draw], Draw]) -> list[Draw]:
        script = list(draws)
        for at in others:
            script[at] = change(draws[at])
        return script

    yield from other_scripts(first, others)
    for side in (-1, 1):
        yield with_others(partial(at_an_end, random=np.random.default_rng(0), side=side))
    for number in range(REDRAWN):
        yield with_others(partial(far if number % 2 else drawn_again, random=np.random.default_rng(number)))


def at_an_end(draw: Draw, random: np.random.Generator, side: int) -> Draw:
    """The draw with all numbers at the lowest or highest end of its range, or far below or above the usual ones."""
    if draw.spread:
        return apart(draw, draw.values + side * FAR * np.asarray(draw.scale), random)
    if not draw.bounded or draw.values.dtype.kind not in "iufb":
        return draw
    return replace(draw, values=np.full_like(draw.values, draw.lowest if side < 0 else draw.top))


def far(draw: Draw, random: np.random.Generator) -> Draw:
    """The draw with numbers far from its middle, or in another order if its law has no such numbers."""
    if not has_far_numbers(draw):
        return drawn_again(draw, random)
    return apart(draw, far_numbers(draw, random.random(draw.values.shape) < 0.5, random), random)


def apart(draw: Draw, values: NDArray[Any], random: np.random.Generator) -> Draw:
    """The draw with these numbers, or with usual ones if rounding makes some of these equal: equal numbers are no noise."""
    values = values.astype(draw.values.dtype)
    as_before = np.unique(values).size >= np.unique(draw.values).size
    return replace(draw, values=values) if as_before else drawn_again(draw, random)
