"""Studies a model on one graph: its random draws, which of them are noise on which cells, and what the other draws change."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.checks.conditions import Condition
from ...models.base import Model
from ...models.capabilities import Effort, RunsElsewhere, effort
from ...models.errors import TrainingFailed
from ...models.graph.graph import Graph, Worlds
from ...models.random.streams import fold
from ...models.recorder import Draw
from ...models.recorder.draws.draw import SHIFTED, Departed
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.mechanism import Mechanism
from ...models.recorder.mechanisms.sharing import ALIKE, again, in_common
from ...models.recorder.script import alike
from ...reports.rounding import several
from ..key import Key
from ..own.programs.recording import Request, Unrecorded
from .playing import Cell, Diverged, Play, cells, play, rounding
from .secrets.worlds import Absence
from .seeds import few_values
from .sources import MOST, Source, blocks, in_line, located, moved_by, nudge

Floats = NDArray[np.float64]

PERIOD = (
    2**24 * 5**6
)  # a multiple of many moduli, such as 1000 and 65536, to which programs reduce a seed, but not of 2^31 or 2^32
UNSEARCHED = "the release was not searched for noise"
CHANCE = 1e-12  # equal draws of all seeds count as constant if two seeds would give them with a smaller probability than this
SEEDS, SECONDS = 400, 1.0  # limits of `switches_by_seed`: seeds, and seconds of processor time
MANY = 20_000  # largest number of draws in a run, because each one is recorded
SINGLE = 32  # bits of a number of float32; numbers of fewer bits take at most 65,536 values
SHUFFLES = ("shuffle", "permutation", "randperm")  # laws of draws that are an order of all places
CONTINUOUS = (*SHIFTED, "uniform", "exponential")  # laws of numbers that a generator makes of its bits, one after the other
UNRECORDED_NUMBERS = "the release depends on random numbers that were not recorded"
ELSEWHERE = "a library without a recorder draws them, or a cache, such as functools.lru_cache, keeps those of an earlier training"
CAUSES = (
    "a child process, a thread, the clock or a library without a recorder may give it numbers that do not follow from the seed"
)
ROUNDED = 4  # number of runs with other rounding errors of the noise; entries that move by chance little in all of them are rare


@dataclass(frozen=True, eq=False)
class History:
    """A run of the study's model. mechanisms: in order. separate: whether repetitions may give different noisy values to
    `twins`.
    """

    study: Study
    worlds: Worlds
    play: Play
    mechanisms: tuple[Mechanism, ...]
    separate: bool = False

    @cached_property
    def noise(self) -> frozenset[int]:
        """The positions of the draws that are noise of a mechanism."""
        own = {id(draw) for m in self.mechanisms for draw in (m.draw, *m.beside)}
        return frozenset(at for at, draw in enumerate(self.play.draws) if id(draw) in own)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of the mechanisms, in order."""
        return tuple(m.line for m in self.mechanisms)

    @cached_property
    def sharing(self) -> tuple[dict[int, int], str]:
        """Which mechanisms have the same noise, see `sharing.again`."""
        return again(self.mechanisms, self.play.draws, self.study.copies)

    @cached_property
    def twins(self) -> Mapping[int, tuple[int, ...]]:
        """Position of a mechanism -> the positions of all mechanisms that compute the same noisy value, for values that the run
        computes several times, as with a generator that starts from the same seed again.
        """
        same = {} if self.separate else self.sharing[0]
        groups: dict[int, list[int]] = {}
        for i, j in same.items():
            one, two = self.mechanisms[i], self.mechanisms[j]
            apart = np.abs(one.noisy.astype(np.float64) - two.noisy)
            if one.noisy.dtype == two.noisy.dtype and np.all(apart <= ALIKE * np.asarray(two.scale)):
                groups.setdefault(j, [j]).append(i)
        return {i: tuple(group) for group in groups.values() for i in group}

    @cached_property
    def separated(self) -> History:
        """The run in which repetitions may give different noisy values to `twins`, because a secret moves only one of them."""
        return dataclasses.replace(self, separate=True) if self.twins else self

    def first_of(self, i: int) -> int:
        """The position of the mechanism that computes the noisy value of mechanism i first."""
        return self.twins.get(i, (i,))[0]

    def besides(self, some: Collection[int]) -> list[int]:
        """The positions of the mechanisms that compute none of the noisy values of the mechanisms `some`."""
        own = {j for i in some for j in self.twins.get(i, (i,))}
        return [i for i in range(len(self.mechanisms)) if i not in own]

    def by_line(self, places: Iterable[int]) -> dict[str, list[int]]:
        """The positions of draws, by the line of code that draws."""
        lines: dict[str, list[int]] = {}
        for at in places:
            lines.setdefault(self.play.draws[at].line, []).append(at)
        return lines

    def drawn_at(self, places: Iterable[int]) -> str:
        """The lines of code of the draws at these positions, each line once, in words."""
        return ", ".join(self.by_line(places))

    def sizes(self, shifts: Shifts) -> tuple[float, ...]:
        """The size of the move of each clean value, see `Mechanism.size`."""
        return tuple(m.size(by) for m, by in zip(self.mechanisms, shifts, strict=True))


Shifts = tuple["NDArray[np.float64]", ...]  # for each mechanism, how far its clean value moves, in units of the scale


@dataclass(frozen=True, eq=False)
class Study:
    """What several runs of a model on the whole graph show.

    base: the first run. others: the draws of runs with other seeds.
    sources: noise that was located in the release.
    constant: the positions of draws that are the same for two seeds that differ by PERIOD, or for two of many random seeds. Such
    draws take few values (at most PERIOD), and whoever tries all of them knows the noise.
    few: position of a draw -> about how many values it takes, if two of many random seeds gave the same numbers.
    copies: position of a draw -> position of the earlier draw that it repeats.
    free: the positions of all draws that are neither sources nor constant nor copies.
    slack: how far rounding alone moves each entry of each cell. wide: the same for all entries of a cell, the largest that any of
    them may need; a proof that noise is missing uses it, because some entries react by chance less than others.
    doubt: why nothing can be stated about this model, or "".
    unplaced: why no noise was searched for in the release; "" if it was.
    histories: for a program, runs with different seeds whose mechanisms were recorded. The first is `base`.
    weights: the positions of draws that count as initial weights or as public, although their numbers look like noise, see
    initial_weights.py.
    closely, maxima: how the mechanisms of its runs are recorded, see `Mechanisms`.
    """

    model: Model
    whole: Worlds
    base: Play
    others: tuple[list[Draw], ...] = ()
    sources: tuple[Source, ...] = ()
    constant: frozenset[int] = frozenset()
    copies: Mapping[int, int] = field(default_factory=dict)
    slack: Mapping[Cell, Floats] = field(default_factory=dict)
    wide: Mapping[Cell, Floats] = field(default_factory=dict)
    doubt: str = ""
    unplaced: str = ""
    histories: tuple[tuple[Worlds, Play, tuple[Mechanism, ...]], ...] = ()
    few: Mapping[int, int] = field(default_factory=dict)
    weights: frozenset[int] = frozenset()
    closely: bool = False
    maxima: bool = False

    @property
    def placed(self) -> set[int]:
        """The positions of the draws of all sources."""
        return {at for s in self.sources for at, _ in s.block.parts}

    @property
    def of_one_value(self) -> frozenset[int]:
        """The positions of constant draws that are not known to take several values."""
        return frozenset(at for at in self.constant if self.few.get(at, 1) == 1)

    @property
    def free(self) -> list[int]:
        taken = self.placed | self.constant | set(self.copies)
        return [at for at in range(len(self.base.draws)) if at not in taken]

    @property
    def loose(self) -> dict[int, NDArray[np.bool_]]:
        """Position of a draw of a source -> which of its numbers are noise on no cell. Other draws are left out."""
        found: dict[int, NDArray[np.bool_]] = {}
        for source in self.sources:
            noised: NDArray[Any] = in_line(source.factor, source.across) != 0
            first = 0
            for at, part in source.block.parts:
                count = part.stop - part.start
                found.setdefault(at, np.ones(self.base.draws[at].values.size, dtype=bool))[part] &= ~noised[first : first + count]
                first += count
        return {at: numbers.reshape(self.base.draws[at].values.shape) for at, numbers in found.items() if numbers.any()}

    def shifted(self, shifts: Sequence[Floats]) -> dict[int, NDArray[Any]]:
        """The numbers of the first run's draws after the noise of each source has moved, as `moved_by` gives them."""
        return moved_by(self.base.draws, zip((s.block for s in self.sources), shifts, strict=True), self.copies)

    def values(self, at: int) -> str:
        """A remark on how many values a draw takes; "" if this is not known."""
        return f" (it takes about {several(self.few[at], 'value')})" if at in self.few else ""

    @property
    def effort(self) -> Effort:
        return effort(self.model)

    def on(self, cell: Cell) -> list[Source]:
        return [s for s in self.sources if s.cell == cell]


def unreplaced(made: Study, draws: Sequence[Draw]) -> frozenset[int]:
    """The positions of constant draws of a study that have the numbers of its first run in these draws too."""
    kept = (at for at in made.constant if at < len(draws))
    return frozenset(at for at in kept if np.array_equal(draws[at].values, made.base.draws[at].values))


def study(model: Model, graph: Graph, key: Key, probed: bool = True, searched: bool = True) -> Study:
    """Runs the model on the whole graph a few times, and finds the noise in its release. probed: whether to try many seeds, to
    find noise that takes few values. searched: whether to search the release for noise; mechanisms need no such search.

    A program starts anew for each run, which takes long. So the study of a program records mechanisms, and does not search the
    release for noise.
    """
    if isinstance(model, RunsElsewhere):
        return study_of_program(model, graph, key)
    whole = first_run(graph, key)
    seeds = (key.fold("heard", 1).seed, related(int(whole.seeds[0])))
    worlds = [whole, *(Worlds.of(graph, np.array([seed], dtype=np.uint64)) for seed in seeds)]
    plain = play(model, worlds[0])  # a library may draw at its first use; such draws do not belong to the model
    if len(plain.draws) > MANY:
        text = f"{len(plain.draws)} numbers are drawn one by one, too many to record (at most {MANY}): draw them as arrays"
        return _doubted(Study(model, worlds[0], plain), text)
    base, *others = (play(model, w) for w in worlds)
    made = Study(model, worlds[0], base)
    if text := from_earlier(base.stale):
        return _doubted(made, text)
    if reason := not_replayable(made, plain, worlds[1], others):
        return _doubted(made, reason)
    if probed and switches_by_seed(model, graph, key, base):
        return _doubted(made, "with the same draws another seed gives another release, so some seeds may switch the noise off")
    few = few_values(model, graph, key, base.draws, sure) if probed else {}
    constant = frozenset(at for at, d in enumerate(base.draws) if at in few or constant_draw(d, others[-1].draws[at]))
    copies = repeats([base.draws, others[0].draws])
    if not constant and (text := across(base.draws, others[0].draws)):
        return _doubted(made, text)
    draws = tuple(o.draws for o in others)
    made = dataclasses.replace(made, others=draws, constant=constant, few=few, copies=copies)
    return placed(made) if searched else dataclasses.replace(made, unplaced=UNSEARCHED)


@lru_cache(maxsize=8)
def placed(made: Study) -> Study:
    """The study with the noise that a search finds in the release, or with the reason why it was not searched."""
    worlds, base, copies = made.whole, made.base, made.copies
    tried = blocks(base.draws, {a.size for cell, a in base.cells.items() if not cell.public}, made.constant | set(copies))
    if len(tried) > MOST:
        lines = ", ".join(dict.fromkeys(block.line for block in tried))
        unplaced = (
            f"the numbers drawn at {lines} are {len(tried)} times as many as those of a released array, or fill it in parts; the "
            f"tool tries at most {MOST} such parts as noise on the release, and did not follow them to a sum with data"
        )
        return dataclasses.replace(made, unplaced=unplaced)
    sources = tuple(located(made.model, worlds, base, tried, copies))
    slack, wide = _slack(made.model, worlds, base, sources, copies)
    return dataclasses.replace(made, sources=sources, slack=slack, wide=wide, unplaced="")


def first_run(graph: Graph, key: Key) -> Worlds:
    """The run that a study with this key records first."""
    return Worlds.of(graph, np.array([key.fold("heard", 0).seed], dtype=np.uint64))


def on_its_base(made: Study, absent: Absence) -> tuple[Study, Absence]:
    """The study of a run of the base of a world, with other random numbers, and the world compared with it; both as they are if
    the world has no base.

    In a world that lacks many secrets, the noisy values of a run of the whole graph may be most improbable. What one more secret
    changes there may then be as improbable. Raises Diverged if the run of the base draws other numbers than the study, or fails.
    """
    if absent.base is None:
        return made, absent
    seeds = np.array([fold(int(s), "base") % 2**64 for s in made.whole.seeds], dtype=np.uint64)
    whole = dataclasses.replace(absent.base.worlds, seeds=seeds)
    try:
        there = play(made.model, whole)
    except Exception as fault:  # a user's model may refuse a graph with any exception
        raise Diverged(f"{absent.base.secret} ends the training ({type(fault).__name__})") from None
    if [(d.law, d.values.shape) for d in there.draws] != [(d.law, d.values.shape) for d in made.base.draws]:
        raise Diverged(f"{absent.base.secret} changes what is drawn")
    return dataclasses.replace(made, whole=whole, base=there, histories=()), dataclasses.replace(absent, base=None)


def not_replayable(made: Study, plain: Play, world: Worlds, others: Sequence[Play]) -> str:
    """Why a run with another seed cannot be repeated with the draws of the first; "" if it can. plain: the first run, played once
    more. world: with another seed. others: runs with other seeds.
    """
    base = made.base
    if base.notes:
        return base.notes[0]
    if not same(plain, base):
        return "the same seed gives another release, so no run can be repeated"
    try:
        recorded = close(base, play(made.model, world, script=base.draws))
    except Diverged as line:
        return f"another seed draws more or fewer numbers ({line}), so recorded draws cannot be replayed"
    if not recorded:
        return f"{UNRECORDED_NUMBERS}: {ELSEWHERE}"
    return other_count(base, others)


def other_count(base: Play, others: Sequence[Play]) -> str:
    """A sentence if runs with other seeds make more or fewer draws than `base`, with the line of the first draw that one of two
    runs lacks, and what to write instead; "" if not.
    """
    other = next((o for o in others if len(o.draws) != len(base.draws)), None)
    if other is None:
        return ""
    fewer, more = sorted((base.draws, other.draws), key=len)
    left = Counter(draw.where for draw in fewer)
    left.subtract(draw.where for draw in more)
    text = f"another seed draws more or fewer numbers, at {next(draw.where for draw in more if left[draw.where] < 0)}"
    way = "let every run draw equally many: train all epochs and keep the best, or draw one array before the loop or the `if`"
    return f"{text}, as a loop with draws that ends at a noisy comparison does, or a draw within an `if`; {way}"


def switches_by_seed(model: Model, graph: Graph, key: Key, base: Play) -> bool:
    """Whether the release of a run with the draws of `base` and one of SEEDS other seeds differs from that of `base`. Fewer seeds
    are tried after SECONDS of processor time.
    """
    started = time.process_time()
    for number in range(SEEDS):
        if time.process_time() - started > SECONDS:
            break
        world = Worlds.of(graph, np.array([key.fold("switch", number).seed], dtype=np.uint64))
        try:
            after = play(model, world, script=base.draws)
        except Diverged:
            return True
        if not close(base, after):
            return True
    return False


def study_of_program(model: Model, graph: Graph, key: Key) -> Study:
    """Runs a program four times: without recording; recorded; with the recorded draws and another seed; and recorded with that
    seed. A program whose release changes when it is recorded may take random bytes from the operating system; it runs once more,
    with the bytes of the recorded run and without recording.
    """
    whole = first_run(graph, key)
    worlds = [whole, Worlds.of(graph, np.array([related(int(whole.seeds[0]))], dtype=np.uint64))]
    bare = Play(cells(model.fit(worlds[0])), [])
    histories = []
    try:
        for world in worlds:
            recorded = Mechanisms()
            played = play(model, world, follow=recorded)
            histories.append((world, played, tuple(recorded.found)))
            if len(histories) == 1 and not same(bare, played) and not same(unrecorded(model, world), played):
                why = "the release changes when the run is recorded or repeated with the same seed"
                causes = "; ".join(played.notes) or CAUSES
                return _doubted(Study(model, world, played), f"{why}: {causes}")
            if len(histories) == 1 and not close(
                played, play(model, worlds[1], script=played.draws, follow=Mechanisms(recorded.found))
            ):
                return _doubted(Study(model, world, played), UNRECORDED_NUMBERS)
    except Unrecorded as reason:
        return _doubted(Study(model, worlds[0], bare), str(reason))
    except TrainingFailed as fault:
        played = histories[0][1] if histories else bare
        return _doubted(Study(model, worlds[0], played), f"a training with another seed, or while it is recorded, fails: {fault}")
    except Departed as line:
        summary = f"with another seed the program makes other draws ({line}), so recorded draws cannot be replayed"
        return _doubted(Study(model, worlds[0], histories[0][1]), summary)
    base, *others = (played for _, played, _ in histories)
    made = Study(model, worlds[0], base, tuple(o.draws for o in others), histories=tuple(histories))
    if text := from_earlier(list(dict.fromkeys(path for _, played, _ in histories for path in played.stale))):
        return dataclasses.replace(made, doubt=text)
    if text := other_count(base, others):
        return dataclasses.replace(made, doubt=text)
    constant = frozenset(at for at, d in enumerate(base.draws) if constant_draw(d, others[-1].draws[at]))
    doubt = next(iter(base.notes), "") or ("" if constant else across(base.draws, others[0].draws))
    return dataclasses.replace(made, constant=constant, copies=repeats([base.draws, others[0].draws]), doubt=doubt)


def unrecorded(model: Model, world: Worlds) -> Play:
    """A run of a program with the random bytes of the operating system that a recorded run gets, and without recording."""
    assert isinstance(model, RunsElsewhere)
    release, _ = model.recorded(world, Request(silently=True))
    return Play(cells(release), [])


def _doubted(made: Study, reason: str) -> Study:
    """The study with this reason why nothing is concluded from it, or with the files that its first run read, if an earlier
    training may have written them.
    """
    return Study(made.model, made.whole, made.base, doubt=from_earlier(made.base.stale) or reason)


def from_earlier(files: Sequence[str]) -> str:
    """Why nothing is concluded from a run that read these files, which were written since the audit began; "" if none."""
    if not files:
        return ""
    return f"a training reads {_named(files)}, written since the audit began, perhaps by an earlier training on another graph"


def from_before(made: Study) -> list[Condition]:
    """The condition under which alone a verdict holds, if the run read files that were written before the audit began."""
    if not made.base.older:
        return []
    what = f"if nothing of a private graph is in {_named(made.base.older)}"
    return [Condition(what, "limited", "each training reads this, and none of the audit has written it")]


def _named(files: Sequence[str]) -> str:
    """The first of some files, and the number of the others."""
    return files[0] + (f" and {several(len(files) - 1, 'more file')}" if files[1:] else "")


def same(one: Play, other: Play) -> bool:
    """Whether the releases of two runs are equal bit for bit."""
    return one.cells.keys() == other.cells.keys() and all(np.array_equal(a, other.cells[c]) for c, a in one.cells.items())


def close(one: Play, other: Play) -> bool:
    """Whether the releases of two runs are equal up to rounding. A run with the draws of another run standardises them and scales
    them again, which rounds.
    """
    pairs = ((a, other.cells.get(c)) for c, a in one.cells.items())
    return all(b is not None and a.shape == b.shape and bool((np.abs(a - b) <= 10 * rounding(a)).all()) for a, b in pairs)


def related(seed: int) -> int:
    """A seed that differs from `seed` by PERIOD, so that both have the same remainder for every divisor of PERIOD."""
    return seed + PERIOD if seed + PERIOD < 1 << 63 else seed - PERIOD


def constant_draw(draw: Draw, other: Draw) -> bool:
    """Whether two seeds draw the same numbers, although equal numbers are practically impossible under the law, or with a
    generator of the same state.
    """
    certain = sure(draw) or 0 < draw.state == other.state or 0 < draw.began == other.began
    return certain and alike(draw, other) and np.array_equal(draw.values, other.values)


def sure(draw: Draw) -> bool:
    """Whether equal numbers are practically impossible for two independent seeds."""
    return draw.law in CONTINUOUS or draw.masks is not None or improbable(draw)


def improbable(draw: Draw) -> bool:
    """Whether the probability that two seeds draw the same numbers is below CHANCE. False if the probabilities of the values are
    not known. All orders of a shuffle are equally likely.
    """
    if draw.law in SHUFFLES and draw.values.ndim == 1:
        return math.lgamma(draw.values.size + 1) > -math.log(CHANCE)
    if draw.chances is None:
        return False
    equal = np.log((draw.chances**2).sum(-1))  # log-probability of equal numbers from two seeds, by row
    return float(equal.sum() * draw.values.size / equal.size) < np.log(CHANCE)


def repeats(runs: Sequence[Sequence[Draw]]) -> dict[int, int]:
    """Draws that repeat the numbers of an earlier draw in every run, or come from a generator of the same state in every run:
    position of the copy -> position of the original.
    """
    first: dict[Any, int] = {}
    found = {}
    for at, draws in enumerate(zip(*runs, strict=False)):
        followed = draws[0].law in CONTINUOUS and draws[0].values.dtype.kind == "f"
        if not followed and not all(d.state for d in draws):
            continue
        name = tuple((d.law, d.values.shape, d.units.tobytes() if followed else d.state) for d in draws)
        original = first.setdefault(name, at)
        if original != at:
            found[at] = original
    return found


def across(one: Sequence[Draw], other: Sequence[Draw]) -> str:
    """A sentence if the noise of one seed has many numbers in common with the noise of another seed; "" if not."""
    firsts = in_common([*one, *other])
    at = next((first for first in firsts[len(one) :] if first < len(one)), None)
    if at is None:
        return ""
    text, bits = f"noise of two seeds, drawn at {one[at].where}, has many numbers in common", 8 * one[at].values.dtype.itemsize
    return f"numbers of {bits} bits take few values, unlike those of float32, so {text}" if bits < SINGLE else text


def _slack(
    model: Model, worlds: Worlds, base: Play, sources: Sequence[Source], copies: Mapping[int, int]
) -> tuple[dict[Cell, Floats], dict[Cell, Floats]]:
    """For each cell, how far its entries may move if the noise changes only by rounding errors: `slack` and `wide` of the study.

    Each entry has its own slack: an array may be steep in one noisy value and hold exact data beside it. An entry that does not
    react to other noise gets last places only. One that reacts gets at least the last places of the largest entry in its row,
    because a difference of large numbers, as in a log-softmax, rounds as these do.
    """
    rng = np.random.default_rng(0)
    most = {cell: np.zeros(a.shape) for cell, a in base.cells.items()}
    for _ in range(ROUNDED if sources else 2):
        changes = []
        for s in sources:
            noise = s.factor * s.numbers(base.draws)
            gap = rounding(np.abs(base.cells[s.cell]) + np.abs(noise)) * _signed(rng, noise.shape)
            changes.append((s.block, in_line(np.divide(gap, s.factor, out=np.zeros_like(gap), where=s.noised), s.across)))
        again = play(model, worlds, moved_by(base.draws, changes, copies), base.draws)
        most = {cell: np.maximum(most[cell], np.abs(again.cells[cell] - a)) for cell, a in base.cells.items()}
    reacts = {cell: by > 0 for cell, by in most.items()}
    for seed in range(2 if sources else 0):
        moved = moved_by(base.draws, [(s.block, nudge(s.block, seed)) for s in sources], copies)
        try:
            after = play(model, worlds, moved, base.draws).cells
        except Diverged:
            after = {}
        for cell, a in base.cells.items():
            known = cell in after and after[cell].shape == a.shape
            reacts[cell] = reacts[cell] | (after[cell] != a) if known else np.ones(a.shape, dtype=bool)
    slack, wide = {}, {}
    for cell, by in most.items():
        own = np.where(reacts[cell], np.maximum(20 * by, base.largest_places(cell)), 0.0)
        slack[cell] = np.maximum(base.last_places(cell), own)
        wide[cell] = np.maximum(slack[cell], 20 * by.max(initial=0))
    return slack, wide


def _signed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Random numbers between 0.5 and 1 with random signs, because equal ones may cancel."""
    return rng.choice([-1.0, 1.0], size=shape) * (1 + rng.random(shape)) / 2
