"""Certificates from events that noise makes possible in only one of two neighbouring graphs.

A secret may decide whether noise changes an entry of an array, as in `noisy[counts < 10] = 0` after `noisy = counts + noise`, or
whether the run draws any random number. Then the entry always has the same value in one graph, and other values in the other one.

A network with noisy weights that reads the exact graph gives each node an answer that noise moves. But it gives two nodes with
the same inputs the same answer, whatever the weights. So does noise of which all rows have the same numbers. A secret may decide
whether two nodes have the same inputs. Then the event that their rows differ has the probability 0 in one of two neighbouring
graphs.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Self

import numpy as np

from ...accounting.checks.conditions import Condition
from ...accounting.claim import Unit
from ...accounting.lower.bounds import Bound
from ...models.capabilities import RunsElsewhere
from ...models.graph.graph import Graph, Worlds
from ...models.random.streams import fold
from ...models.recorder.draws.draw import Departed
from ...reports.rounding import several
from ..case import Case, offered
from ..instruments.repetition import NO_NODE
from ..key import Key
from ..mechanisms.absence import both, changed_without, history, moved_cells
from ..mechanisms.inside import Inside
from ..mechanisms.past_noise import begun
from ..mechanisms.reading import drawn_again, many_values, near_and_far
from ..recorded.playing import Cell, Diverged, Play, play
from ..recorded.secrets.among_equals import among_equals
from ..recorded.secrets.chains import chains
from ..recorded.secrets.copies import Copies, copies
from ..recorded.secrets.worlds import Absence, public_bound, small, without_one
from ..recorded.seeds import CHANCE, RARE, needed
from ..recorded.study import History, Study, constant_draw
from .certain_paths import CLEAR, REDRAWN, TRIED, Mask, numbers_of_runs, scripts, tried
from .other_runs import SEEDS
from .released_noise import PATHS, REPEATED, exact

RUNS = (1, 2, 3)  # numbers of the trainings with other seeds in the world in which the rows are equal
SECONDS = 4.0  # of processor time for the trainings on chains of graphs
ALONE = 4  # how often the draws of one line are replaced alone
EQUAL = Condition(
    "noise never tells the two rows apart where the nodes are the same",
    "checked",
    f"the rows stay equal with {len(RUNS)} other seeds, with other numbers for all draws, usual ones and numbers far outside of "
    f"their range, {REDRAWN} times, and with other noisy values, near and far; no line's draws change other rows alone",
)
STILL = Condition(
    "in one world nothing random changes these entries",
    "checked",
    f"they stay the same with {len(RUNS)} other seeds, with other numbers for all draws that seeds change ({REDRAWN} times, "
    "usual ones and numbers far outside of their range), and with other noisy values, near and far; no draw but seeds and large "
    "samples chooses from more values",
)
SILENT = Condition("the run draws no random number in one world", "checked", "two seeds give the same release there")
HOW_OFTEN = f"in one training at delta = 0, else in so many that a binomial test rejects 'at most delta' at level {CHANCE:g}"
MOVED = Condition("in the other world they have other values", "checked", HOW_OFTEN)
DIFFER = Condition("the rows differ where the nodes differ", "checked", HOW_OFTEN)


@dataclass(frozen=True)
class Apart:
    """Two rows of a released array that differ in one of two neighbouring graphs only."""

    cell: Cell
    found: Copies
    begun: str = ""

    def __str__(self) -> str:
        rows = f"rows {self.found.node} and {self.found.copy} of {self.cell}"
        if self.found.alike:
            text = f"{rows} are equal whatever is drawn, and {self.found.absent.secret} lets them differ"
        else:
            text = f"{rows} differ, and {self.found.absent.secret} makes them equal whatever is drawn"
        return f"{text}, on the graph in which node {self.found.copy} is a copy of node {self.found.node}{self.begun}"


def from_copies(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if the release tells two nodes with the same features and neighbours apart when a secret changes the
    neighbours or the features of one of them, although no noise ever does; None if this is not shown. It looks at arrays with a
    path past the noise, and at all if rows have noise numbers in common.
    """
    first = within.run
    some = set(offered(case.model)) if in_common(first) else set(within.past) & set(offered(case.model))
    cells = [c for c, a in first.play.cells.items() if c.array in some and a.ndim and len(a) == first.worlds.graph.nodes]
    found = copies(first.study.whole, case.claim.unit, Key("copies")) if cells else None
    if found is None:
        return None
    with suppress(Departed):
        for cell in cells:
            if certain(first, found, cell, case.claim.delta):
                apart = Apart(cell, found, next((begun(first, absent) for absent in within.across[:1]), ""))
                return exact(np.inf, str(apart), PATHS, (REPEATED, EQUAL, DIFFER))
    return None


def from_still_entries(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if one secret decides whether anything random changes entries of an array, in the graph or in another
    one; None if this is not shown. It looks at arrays with a path past the noise.
    """
    for part, where in within.parts:
        cells = [cell for cell in part.run.play.cells if cell.array in set(part.past) & set(offered(case.model))]
        for absent in islice(tried(part, cells), TRIED) if cells and part.across else ():
            with suppress(Departed):
                for cell in cells:
                    if count := still_entries(part.run, absent, cell, case.claim.delta):
                        return exact(np.inf, changed_by(absent, count, cell, where), PATHS, (REPEATED, STILL, MOVED))
    return None


def still_entries(first: History, absent: Absence, cell: Cell, delta: float) -> int:
    """How many entries of a cell nothing random changes in one of two worlds, if they have other values in the other world with a
    probability above delta, see `certain_paths.certain`; else 0. Raises as `certain`.
    """
    here, there = both(first, absent)
    shown = absent.shown(here.play.cells[cell].shape)
    return still_in(here, there, cell, shown, delta) or still_in(there, here, cell, shown, delta)


def still_in(still: History, moved: History, cell: Cell, shown: Mask, delta: float) -> int:
    """As `still_entries`, if nothing random changes the entries in the world of `still`. shown: the entries that count."""
    return moved_in_one(still, trained(still, RUNS), others(moved, delta), cell, shown, delta)


def moved_in_one(
    still: History, quiet: Iterable[Play], loud: tuple[Iterable[Play], int], cell: Cell, shown: Mask, delta: float
) -> int:
    """How many entries of a cell nothing random changes in the world of `still`, and runs of the other world change; 0 if some
    draw chooses from so many values that the tried numbers may miss one. quiet: trainings with other seeds in the first world.
    loud: such trainings in the second world, and their number. shown: the entries that count.
    """
    same, known = np.logical_and.reduce([shown, *(still.play.same(run, cell) for run in quiet)]), still.study.of_one_value

    def changed(run: Play) -> Mask:
        return same & ~still.play.same(run, cell)

    seen = happening(*loud, delta, lambda run: bool(changed(run).any())) if same.any() else []
    if not seen or any(many_values(d, REDRAWN) for at, d in enumerate(still.play.draws) if at not in known):
        return 0
    if any(changed(run).any() for run in chain(redrawn(still, known), with_others(still))):
        return 0
    return int(np.logical_or.reduce([changed(run) for run in seen]).sum())


def from_other_draws(case: Case, made: Study) -> tuple[Bound | None, dict[str, str]]:
    """An infinite bound, if one secret changes entries of an array that nothing random changes in one of the two worlds. So does
    a statistic that is released without noise, and noise that is added to the stored entries of a sparse matrix alone. None if
    this is not shown; then also the arrays that a secret changes although all draws are the same, each with a sentence about it;
    none if the release has known noise, because then these arrays may be functions of noisy values.

    The runs on which the bound rests have draws of their own. The rule is for models of which a run without a secret cannot
    repeat the draws of the run with it, and for models without known mechanisms. It tries the graphs of `tried_worlds`.
    """
    changed: dict[str, str] = {}
    for other, secrets in tried_worlds(made, case.claim.unit):
        where = "" if other is made.whole.graph else f", on a {other.name}"
        with suppress(Exception):  # a user's model may refuse other graphs, or other numbers, with any exception
            here = OwnRuns.of(made, Worlds.of(other, made.whole.seeds))
            for absent in secrets(here.first.worlds):
                cells = changed_without(here.first, absent)
                arrays = {cell.array for cell in cells or () if not cell.public}
                if cells is not None and not arrays:
                    continue
                if (found := fixed_in_one(here, absent, case.claim.delta, where)) is not None:
                    return found, {}
                for array in arrays if not made.sources else ():
                    changed.setdefault(array, f"{absent.secret} changes '{array}' although all draws are the same{where}")
    return None, changed


def tried_worlds(made: Study, unit: Unit) -> Iterator[tuple[Graph, Callable[[Worlds], Iterable[Absence]]]]:
    """Yields the graph of a study and, if its model asks for a thorough search, graphs that the audit builds, each with the
    function that gives the worlds that differ from it by one secret: the small graph of unusual nodes, the graphs of
    `among_equals`, and those of `chains` until SECONDS have passed. Yields none for a program, or if runs do not repeat.
    """
    if made.doubt or isinstance(made.model, RunsElsewhere):
        return
    graph = made.whole.graph
    most = public_bound(made.model, graph)

    def some(whole: Worlds) -> Iterator[Absence]:
        secrets = without_one(whole, unit, Key("other draws"), NO_NODE)
        return islice((absent for absent in secrets if absent.base is None), TRIED)

    yield graph, some
    if not made.effort.thorough:
        return
    yield small(graph, most), some
    for equal, without in among_equals(graph, unit, made.model):
        yield equal, only(without)
    until = time.process_time() + SECONDS
    for links in chains(graph, unit, most, Key("other draws").generator()):
        for link in links:
            if time.process_time() > until:
                return
            yield link.graph, only(link.absence)


def only(without: Callable[[Worlds], Absence]) -> Callable[[Worlds], tuple[Absence]]:
    return lambda whole: (without(whole),)


@dataclass(frozen=True, eq=False)
class OwnRuns:
    """Trainings in one world, which share no draws with those in another: the first one, recorded, and those of RUNS. Draws that
    are the same in all of them are the constant draws of its study.
    """

    first: History
    runs: tuple[Play, ...]

    @classmethod
    def of(cls, made: Study, world: Worlds) -> Self:
        whole = replace(world, seeds=made.whole.seeds)
        first = history(replace(made, whole=whole, others=(), histories=(), copies={}, constant=frozenset()), 0)
        runs = tuple(trained(first, RUNS))
        draws = enumerate(zip(first.play.draws, *(run.draws for run in runs), strict=False))
        constant = frozenset(at for at, (draw, *others) in draws if all(constant_draw(draw, other) for other in others))
        return cls(replace(first, study=replace(first.study, base=first.play, constant=constant)), runs)

    def loud(self, delta: float) -> tuple[Iterable[Play], int]:
        """Trainings that may show that something has a probability above delta, and their number: more than those of RUNS only
        for a delta for which these are too few.
        """
        if needed(delta, len(RUNS)) <= len(RUNS):
            return self.runs, len(RUNS)
        return chain(self.runs, trained(self.first, SEEDS[len(RUNS) :])), len(SEEDS)


def fixed_in_one(here: OwnRuns, absent: Absence, delta: float, where: str) -> Bound | None:
    """An infinite bound, if nothing random changes some entries of a cell in one of two worlds, and they have other values in the
    other one, see `moved_in_one`; else None. where: the words that end its sentence.
    """
    there = OwnRuns.of(here.first.study, absent.worlds)
    for still, moved in ((here, there), (there, here)):
        for cell, values in here.first.play.cells.items():
            if cell.public or cell not in there.first.play.cells:
                continue
            if count := moved_in_one(still.first, still.runs, moved.loud(delta), cell, absent.shown(values.shape), delta):
                return exact(np.inf, changed_by(absent, count, cell, where), PATHS, (REPEATED, STILL, MOVED))
    return None


def from_unmatched(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if on a graph of `suspicious` the run has other mechanisms without the secret, and nothing random
    changes entries of the release in one of the two worlds; None if this is not shown.
    """
    for part, where in within.parts:
        for absent in part.unmatched:
            with suppress(Exception):  # a user's model may refuse other graphs, or other numbers, with any exception
                made = part.run.study
                if (found := fixed_in_one(OwnRuns.of(made, made.whole), absent, case.claim.delta, where)) is not None:
                    return found
    return None


def changed_by(absent: Absence, count: int, cell: Cell, where: str) -> str:
    entries, them = several(count, "entry", "entries"), "it" if count == 1 else "them"
    return f"{absent.secret} changes {entries} of {cell}; in one of the two worlds nothing random changes {them}{where}"


def from_silence(case: Case, within: Inside) -> Bound | None:
    """An infinite bound, if one secret decides whether the run draws any random number, in the graph or in another one, and the
    release is another one where it does; None if this is not shown.
    """
    delta = case.claim.delta
    for part, where in within.parts:
        first = part.run
        for absent in part.silenced[:TRIED]:
            with suppress(Exception):  # a user's model may refuse other graphs, or other numbers, with any exception
                silent = play(first.study.model, replace(absent.worlds, seeds=first.worlds.seeds))
                if happening(*others(first, delta), delta, partial(differs, silent, absent, offered(case.model))):
                    text = f"{absent.secret} decides whether the run draws any random number{where}"
                    return exact(np.inf, text, PATHS, (REPEATED, SILENT, MOVED))
    return None


def differs(one: Play, absent: Absence, arrays: Collection[str], other: Play) -> bool:
    """Whether some of these arrays differ in two runs, see `moved_cells`."""
    return any(cell.array in arrays for cell in moved_cells(one, other, absent))


def happening(runs: Iterable[Play], count: int, delta: float, event: Callable[[Play], bool]) -> list[Play]:
    """The first of these runs in which an event happens: so many that its probability exceeds delta, see `needed`. Empty if it
    happens in fewer. count: of the runs.
    """
    enough = needed(delta, count)
    found = list(islice(filter(event, runs), enough))
    return found if len(found) == enough else []


def others(world: History, delta: float) -> tuple[Iterator[Play], int]:
    """The trainings with other seeds in which a rare event is looked for, in the world of a run, and their number."""
    numbers = numbers_of_runs(world.study, delta)
    return trained(world, numbers), len(numbers)


def in_common(run: History) -> bool:
    """Whether some noise number serves several entries of a noisy value, for example all rows."""
    return any(m.shared for m in run.mechanisms)


def certain(first: History, found: Copies, cell: Cell, delta: float) -> bool:
    """Whether the rows of two nodes differ in one world, and no draw and no noisy value makes them differ in the other. Raises
    Departed if a run cannot be repeated.

    The rows must differ with a probability above delta, see `needed`. The first run counts too, if delta is at most RARE.
    """
    here, there = both(first, found.absent)
    same, other = (here, there) if found.alike else (there, here)
    forced = not in_common(first)  # else the noisy values of the first run, which both worlds have, are none of the copies' graph
    if forced and not equal(same.play, cell, found):
        return False
    recorded = [other.play] * (forced and delta <= RARE)  # the nodes may have been found by this run
    runs, count = others(other, delta)
    if not happening(chain(recorded, runs), len(recorded) + count, delta, lambda run: not equal(run, cell, found, CLEAR)):
        return False
    tests = chain(trained(same, RUNS), redrawn(same), with_others(same))
    return all(equal(run, cell, found) for run in tests) and not reached_elsewhere(same, cell, found)


def reached_elsewhere(run: History, cell: Cell, found: Copies) -> bool:
    """Whether other numbers at one line of code change other rows of the cell, but not those of the two nodes. So does a place
    that is drawn at random. Then few of the tried numbers reach these two rows, and do not show that they never differ. True as
    well if a training ends with other numbers, because then they show nothing.
    """
    draws = run.play.draws
    for places in run.by_line(at for at, draw in enumerate(draws) if not (draw.spread or draw.weights)).values():
        for number in range(ALONE):
            random = np.random.default_rng(number)
            script = [drawn_again(draw, random) if at in places else draw for at, draw in enumerate(draws)]
            try:
                other = play(run.study.model, run.worlds, script=script)
            except Exception:  # a user's model may refuse other numbers with any exception
                return True
            rows = np.array([not row.all() for row in run.play.same(other, cell)])
            if rows.any() and not rows[[found.node, found.copy]].any():
                return True
    return False


def trained(world: History, numbers: Iterable[int]) -> Iterator[Play]:
    """Trainings in the world of a run with other seeds, in which nothing is replaced. Raises Diverged if one of them fails."""
    for number in numbers:
        seeds = np.array([fold(int(s), "copies", number) % 2**64 for s in world.worlds.seeds], dtype=np.uint64)
        try:
            yield play(world.study.model, replace(world.worlds, seeds=seeds))
        except Exception as fault:  # a user's model may fail with other seeds, with any exception
            raise Diverged(f"another seed ends the training: {type(fault).__name__}") from fault


def redrawn(run: History, known: Collection[int] = ()) -> Iterator[Play]:
    """Trainings in the world of a run with other numbers for all of its draws, near and far, but those at the positions `known`.
    Those that make other draws then, such as samples of another size, are left out. Raises Diverged if these are more than half.
    """
    tried = failed = 0
    for script in scripts(run, fixed=known):
        tried += 1
        try:
            yield play(run.study.model, run.worlds, script=script)
        except Exception:  # a user's model may refuse other numbers with any exception
            failed += 1
    if 2 * failed > tried:
        raise Diverged("other numbers end the training")


def with_others(run: History) -> Iterator[Play]:
    """Runs in the world of a run with other noisy values, near and far, of mechanisms whose entries have numbers of their own.
    Raises Diverged if the training ends with them.
    """
    places = [i for i, m in enumerate(run.mechanisms) if not m.shared]
    for again in near_and_far(run, places) if places else ():
        if again is None:
            raise Diverged("other noisy values end the training")
        yield again.play


def equal(run: Play, cell: Cell, found: Copies, most: float = 0.0) -> bool:
    """Whether the rows of both nodes differ by rounding at most, or by at most `most` of the largest entry of the cell."""
    values = run.cells[cell]
    gap = np.abs(values[found.node] - values[found.copy])
    allowed = np.maximum(run.largest_places(cell)[[found.node, found.copy]].max(0), most * np.abs(values).max(initial=0))
    return bool((gap <= allowed).all())
