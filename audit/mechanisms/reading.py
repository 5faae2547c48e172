"""Finds out which mechanisms of a run, and which entries of a randomised report, the run reads.

If the run does not read a value, another value in its place changes neither the release nor another mechanism.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.recorder import Draw
from ...models.recorder.draws.draw import Departed
from ...models.recorder.mechanisms.found import UNREAD, Mechanisms, OtherMechanisms
from ...models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ..recorded.laws import NOTHING
from ..recorded.playing import Diverged, Play, play, same_rows, with_numbers
from ..recorded.sources import moved_by as shifted
from ..recorded.sources import nudge
from ..recorded.study import History, Shifts

FAR = (1.0, 8.0, 64.0)  # distances of other noisy values, in units of the scale
FARTHER = (8.0, 64.0, 64.0, 64.0, 64.0, 64.0)  # the same, before a mechanism counts as not read
ACROSS = 8  # further runs before that, with noisy values moved by about twice the largest of them
ENDS = "with other draws the training ends"
SEEDS = 2**16  # whole numbers from so many values may be seeds, which change nothing if all later draws are replaced
EACH = 4  # largest number of mechanisms that are tested one by one
HALVES = 48  # random halves of entries: a number that does not depend on an entry changes with it in all of them once in 2^48
Entry = tuple[int, ...]


def idle(first: History, groups: Iterable[Sequence[int]]) -> frozenset[int]:
    """The positions of the mechanisms that the run does not read. Mechanisms of one group are tested together; all of them count
    as read if one is read.
    """
    found: set[int] = set()
    for some in groups:
        if all(unmoved(first, other, found) for other in near_and_far(first, some)):
            found |= set(some)
    return frozenset(found)


def with_other_values(first: History, some: Sequence[int]) -> Iterator[History | None]:
    """Yields runs in which the mechanisms `some` have other noisy values, see `elsewhere`, and all others keep theirs: two runs,
    and six more with values far away, if the mechanisms are no reports. The index of a maximum often stays the same if noisy
    values change by as much as noise usually does.
    """
    for half in (False, True):
        yield repeated(first, {i: elsewhere(first.mechanisms[i], i, half) for i in some})
    sums = [i for i in some if first.mechanisms[i].law != REPORT]
    for number, size in enumerate(FARTHER if sums else ()):
        yield repeated(first, {i: moved_by(first.mechanisms[i], size, 2 + i + number) for i in sums})


def near_and_far(first: History, some: Sequence[int]) -> Iterator[History | None]:
    """Yields the runs of `with_other_values`, and runs in which the noisy values of `some`, except reports, move by about twice
    the largest of them. The index of a maximum over values that are far apart, and a comparison with a distant threshold, need
    such a move.
    """
    yield from with_other_values(first, some)
    sums = {i: first.mechanisms[i] for i in some if first.mechanisms[i].law != REPORT}
    for number in range(ACROSS if sums else 0):
        far = {i: 2 * float(np.abs(m.noisy).max(initial=0)) for i, m in sums.items()}
        yield repeated(first, {i: moved_by(m, 1.0, 100 + i + number, far[i]) for i, m in sums.items()})


def repeated(
    first: History, instead: Mapping[int, Mechanism], draws: list[Draw] | None = None, unread: float = 0.0
) -> History | None:
    """Repeats a run with other noisy values of some mechanisms.

    instead: position of a mechanism -> the mechanism with its other noisy value. draws: by default those of the first run.
    unread: see `Mechanisms`.
    Returns None if the run has other mechanisms or fails with these values.
    """
    try:
        return rerun(first, instead, draws, unread)
    except Departed:
        return None


def rerun(first: History, instead: Mapping[int, Mechanism], draws: list[Draw] | None = None, unread: float = 0.0) -> History:
    """As `repeated`, but raises OtherMechanisms if the run has other mechanisms, and Diverged if it fails. Of `History.twins` all
    get the other value of the first of them that `instead` has.
    """
    recorded = Mechanisms([_other(first, instead, i) for i in range(len(first.mechanisms))], unread=unread)
    try:
        played = play(first.study.model, first.worlds, script=draws or first.play.draws, follow=recorded)
    except Departed:
        raise
    except Exception as fault:  # a user's model may refuse other values with any exception
        raise Diverged(f"{ENDS} ({type(fault).__name__}), so they may hide a secret") from fault
    if len(recorded.found) != len(first.mechanisms):
        raise OtherMechanisms("with other draws the run has other mechanisms, which may hide a secret")
    return History(first.study, first.worlds, played, tuple(recorded.found))


def _other(first: History, instead: Mapping[int, Mechanism], i: int) -> Mechanism:
    """A mechanism with the noisy value that a repetition gives it, see `rerun`."""
    at = next((j for j in first.twins.get(i, (i,)) if j in instead), None) if instead else None
    if at is None:
        return first.mechanisms[i]
    return instead[i] if at == i else replace(first.mechanisms[i], noisy=instead[at].noisy)


def also_noised(first: History, sizes: Sequence[float] = FAR[:1]) -> set[str]:
    """The released arrays that change with noise which was located in the release and is no noise of a mechanism of the run, or
    is one pick that the run records as a report. sizes: of the changes of the noise, in units of its scale.
    """
    draws, located = first.play.draws, [(at, s.block) for s in first.study.sources for at, _ in s.block.parts]
    lost = list(dict.fromkeys(block for at, block in located if at not in first.noise))
    picks = [i for i, m in enumerate(first.mechanisms) if m.draw.picked and any(m.draw is draws[at] for at, _ in located)]
    runs = [
        repeated(first, {i: with_entries(first.mechanisms[i], list(np.ndindex(first.mechanisms[i].noisy.shape)))}) for i in picks
    ]
    for i, block, size in ((i, block, size) for i, block in enumerate(lost) for size in sizes):
        # one by one, because the noise of a cell may be a difference of two draws
        moved = shifted(draws, [(block, nudge(block, i, size))], first.study.copies)
        runs.append(repeated(first, {}, with_numbers(draws, moved)))
    return set().union(*(differing(first, run) for run in runs))


def differing(one: History, other: History | None) -> set[str]:
    """The released arrays that two runs do not have in common: all if there is no other run."""
    again = {} if other is None else other.play.cells
    return {cell.array for cell, a in one.play.cells.items() if not np.array_equal(a, again.get(cell, np.zeros(0)))}


def redrawn(first: History, some: Collection[int]) -> list[Draw]:
    """The draws of the study's first run, but of another seed at the positions `some`."""
    return [first.study.others[0][at] if at in some else draw for at, draw in enumerate(first.study.base.draws)]


def visible(first: History, i: int, entries: Sequence[Entry] = ()) -> bool:
    """Whether the release changes if a mechanism has another noisy value and all other noisy values stay the same. entries: by
    default all; of several entries, each one alone must change the release.
    """
    if not entries:
        return any(other is not None and not alike(first, other.play) for other in with_other_values(first, [i]))
    return all(
        any(run is not None and not alike(first, run.play) for run in with_other_entries(first, i, [entry])) for entry in entries
    )


def unmoved(
    first: History, other: History | None, left_out: Collection[int] = (), hidden: NDArray[np.int64] | None = None
) -> bool:
    """Whether another run adds noise to the same values and releases the same numbers, see `same_means` and `alike`; False if
    there is no other run.
    """
    return other is not None and same_means(first, other, left_out) and alike(first, other.play, hidden)


def same_means(first: History, other: History, left_out: Collection[int] = ()) -> bool:
    """Whether noise was added to the same values in both runs. The mechanisms `left_out` are not compared."""
    pairs = enumerate(zip(first.mechanisms, other.mechanisms, strict=True))
    return all(i in left_out or np.array_equal(m.clean, o.clean) for i, (m, o) in pairs)


def alike(first: History, other: Play, hidden: NDArray[np.int64] | None = None) -> bool:
    """Whether two runs release the same numbers. hidden: nodes whose own rows are not compared."""
    return same_rows(first.play, other, first.worlds.graph.nodes, hidden)


def elsewhere(mechanism: Mechanism, seed: int, half: bool = False) -> Mechanism:
    """The mechanism with another noisy value. Each entry moves by its own random amount, because a softmax or a normalisation may
    undo a common change. A report gets the values of `others`. With `half`, only a random half of its entries change, because the
    sum modulo 2 of two reports stays the same if both change.
    """
    if mechanism.law == REPORT:
        kept = half & (np.random.default_rng(seed).random(mechanism.noisy.shape) < 0.5)
        return replace(mechanism, noisy=np.where(kept, mechanism.noisy, others(mechanism)).astype(mechanism.noisy.dtype))
    return moved_by(mechanism, 1.0, seed + half)


def anywhere(mechanism: Mechanism, random: np.random.Generator) -> Mechanism:
    """The mechanism with another noisy value; each entry of a report gets any value that it has with a positive probability. A
    matrix of which one half is mirrored has reports in the other half that are 0 for certain.
    """
    if mechanism.law != REPORT:
        return elsewhere(mechanism, int(random.integers(2**32)))
    chosen = np.where(mechanism.chances > 0, random.random(mechanism.clean.shape), -1.0).argmax(-1)
    return replace(mechanism, noisy=np.asarray(np.array(mechanism.values)[chosen], dtype=mechanism.noisy.dtype))


def moved_by(mechanism: Mechanism, size: float, seed: int, least: float = 0.0) -> Mechanism:
    """The mechanism with noisy values moved at random, by about `size` times the noise, or by more than rounding, or by about
    `least`, whichever is largest.
    """
    rounding = 8.0 * np.spacing(np.abs(mechanism.noisy))
    step = np.maximum(size * np.asarray(mechanism.scale, dtype=np.float64), np.maximum(rounding, least))
    other = np.random.default_rng(seed).standard_normal(mechanism.noisy.shape)
    return mechanism.with_noisy(mechanism.noisy + step * other)


def others(report: Mechanism, size: float = 1.0) -> NDArray[np.float64]:
    """For each entry of a mechanism another possible value: for a report the next in order, where the first follows the last; for
    a sum, one that is about `size` times as far away as the noise is large.
    """
    if report.law != REPORT:
        return np.asarray(moved_by(report, size, int(size)).noisy, dtype=np.float64)
    values = np.array(report.values)
    return values[(np.abs(np.asarray(report.noisy, dtype=np.float64)[..., None] - values).argmin(-1) + 1) % len(values)]


@dataclass(frozen=True, eq=False)
class Read:
    """What is known of a report. entries: entry -> whether the run reads it, None if unknown. ends: runs in which all its entries
    have their lowest or their highest value.
    """

    entries: dict[Entry, bool | None] = field(default_factory=dict)
    ends: list[History] = field(default_factory=list)


def unread(first: History, i: int, by: NDArray[np.float64], known: Read) -> tuple[NDArray[np.float64], int]:
    """The move `by` of report `i`, set to 0 at the entries that the run does not read, and the number of entries of which this is
    not known. The run reads an entry if it does so for the values of the other entries in the run, or if all others are lowest or
    all are highest: a maximum of two reports depends on one of them only if the other one is low.

    The search halves groups of entries until each group is unread or has one entry. After `halvings` runs, see
    `Effort`, the remaining entries are unknown, and their move is set to 0 too. If so many runs may not suffice, the entries are
    looked for in the release first, see `in_place`. The function adds to `known`.
    """
    moved = [tuple(entry) for entry in np.argwhere(first.mechanisms[i].moved(by)).tolist()]
    left = first.study.effort.halvings
    if 2 * len(new := [entry for entry in moved if entry not in known.entries]) > left:
        known.entries.update(dict.fromkeys(in_place(first, i, new), True))

    def reads(group: list[Entry]) -> bool:
        if _read(first, i, group):
            return True
        if not known.ends:
            runs = [repeated(first, {i: other}) for other in ends(first.mechanisms[i])]
            known.ends.extend(run for run in runs if run is not None)
        return any(_read(run, i, group) for run in known.ends)

    def any_read(group: list[Entry], certain: bool = False) -> bool | None:
        """Tests a group and adds its entries to `known`. Returns whether the run reads an entry of the group, None if unknown.
        certain: whether it is already known that the run reads one.
        """
        nonlocal left
        if not group:
            return False
        left -= not certain
        read = True if certain else None if left < 0 else reads(group)
        if not read or len(group) == 1:
            known.entries.update(dict.fromkeys(group, read))
            return read
        half = len(group) // 2
        one = any_read(group[:half])
        any_read(group[half:], certain=one is False)
        return True

    any_read([entry for entry in moved if entry not in known.entries])
    return only(by, [entry for entry in moved if known.entries[entry]]), sum(known.entries[entry] is None for entry in moved)


def in_place(first: History, i: int, entries: Sequence[Entry]) -> dict[Entry, tuple[int, float]]:
    """The entries of report `i` that an array of the release shows at their place: in HALVES runs, each with other values at a
    random half of the entries, the number at the place of an entry changed exactly if the entry had another value. If a number
    does not depend on an entry, given the others, it is a coin of probability 1/2 in each run whether that is so.

    Returns, for each of these entries, the position of the number among all that are released, and the number in one of the runs
    in which the entry had another value.
    """
    at, random, before = tuple(np.array(entries).T), np.random.default_rng(len(entries)), first.play.numbers
    sizes, shape = [array.size for array in first.play.cells.values()], first.mechanisms[i].noisy.shape
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    like = [start for start, array in zip(starts, first.play.cells.values(), strict=True) if array.shape == shape]
    places = np.array(like, dtype=np.int64)[:, None] + np.ravel_multi_index(at, shape)
    kept, others = np.ones(places.shape, dtype=bool), np.zeros(places.shape)
    for _ in range(HALVES):
        if not kept.any():
            return {}
        half = random.random(len(entries)) < 0.5
        run = repeated(first, {i: with_entries(first.mechanisms[i], [e for e, also in zip(entries, half, strict=True) if also])})
        if run is None or run.play.numbers.shape != before.shape:
            return {}
        after = run.play.numbers[places]
        kept &= (after != before[places]) == half
        others = np.where(half, after, others)
    return {entries[n]: (int(places[cell, n]), float(others[cell, n])) for cell, n in np.argwhere(kept).tolist()}


def ends(report: Mechanism) -> list[Mechanism]:
    """The report with the lowest value in all its entries, and with the highest."""
    values = [np.asarray(end, dtype=report.noisy.dtype) for end in (report.values[0], report.values[-1])]
    return [replace(report, noisy=np.where(report.covered, end, report.noisy)) for end in values]


def _read(first: History, i: int, entries: Sequence[Entry], hidden: NDArray[np.int64] | None = None) -> bool:
    """Whether other values of these entries of a mechanism change the release or another mechanism."""
    some = [entry for entry, also in zip(entries, np.random.default_rng(i).random(len(entries)) < 0.5, strict=True) if also]
    return any(
        not unmoved(first, other, hidden=hidden)
        for changed in ((entries, some) if some else (entries,))
        for other in with_other_entries(first, i, changed)
    )


def farthest(first: History, moves: Shifts) -> list[int]:
    """The positions of the sums of data and noise that a secret moves, those that move farthest first."""
    sizes = {i: m.size(by) for i, (m, by) in enumerate(zip(first.mechanisms, moves, strict=True)) if m.law != REPORT}
    return sorted((i for i, size in sizes.items() if size > NOTHING), key=lambda i: -sizes[i])


def only(move: NDArray[np.float64], entries: Collection[Entry]) -> NDArray[np.float64]:
    """The move at these entries, 0 elsewhere."""
    kept = np.zeros_like(move)
    for entry in entries:
        kept[entry] = move[entry]
    return kept


def moved_entries(by: NDArray[np.float64]) -> list[Entry]:
    """The entries of a mechanism that move by more than rounding."""
    return [tuple(entry) for entry in np.argwhere(np.abs(by) > NOTHING).tolist()]


def unread_entries(first: History, moves: Shifts, hidden: NDArray[np.int64] | None) -> tuple[Shifts, str]:
    """The moves of sums of data and noise, set to 0 at entries that the run does not read, and why these entries are not all
    known, or "".

    The search tests as many entries as `Effort` says, of the EACH mechanisms that move farthest, one by one. If
    a mechanism has more, it tests some of them, drawn with probabilities in proportion to the squares of their moves. hidden: the
    nodes whose own released rows do not count.
    """
    kept = list(moves)
    moved = farthest(first, moves)
    tested = moved[:EACH]
    most = first.study.effort.entries // max(1, len(tested))
    for i in tested:
        by, random = moves[i], np.random.default_rng(i)
        entries = moved_entries(by)
        if len(entries) > most:
            chances = np.square([by[entry] for entry in entries])
            entries = [entries[at] for at in random.choice(len(entries), most, p=chances / chances.sum())]
        unread = [entry for entry in dict.fromkeys(entries) if not _read(first, i, [entry], hidden)]
        if unread and (len(moved) > len(tested) or len(moved_entries(by)) > most):
            return tuple(kept), f"the run does not read all entries of the noisy value at {first.mechanisms[i].line}"
        kept[i] = by.copy()
        for entry in unread:
            kept[i][entry] = 0.0
    return tuple(kept), ""


def with_other_entries(first: History, i: int, entries: Sequence[Entry]) -> Iterator[History | None]:
    """Yields runs with other values at some entries of a mechanism: for a sum with near and far ones on both sides, because a run
    may clip, or choose the largest.
    """
    mechanism = first.mechanisms[i]
    if mechanism.law == REPORT:
        yield repeated(first, {i: with_entries(mechanism, entries)})
        return
    for size in FAR:
        other = with_entries(mechanism, entries, size)
        yield repeated(first, {i: other})
        yield repeated(first, {i: mechanism.with_noisy(2 * mechanism.noisy - other.noisy)})


def with_entries(report: Mechanism, entries: Sequence[Entry], size: float = 1.0) -> Mechanism:
    """The mechanism with other values at some entries, see `others`."""
    noisy, other = report.noisy.copy(), others(report, size)
    for entry in entries:
        noisy[entry] = other[entry]
    return report.with_noisy(noisy)


def drawn_again(draw: Draw, random: np.random.Generator) -> Draw:
    """The draw with new numbers of its law, if it is uniform, or if it is a choice from known values. For another law the same
    numbers in another order.
    """
    shape = draw.values.shape
    if draw.chances is not None and draw.chances.ndim == 1:
        values = random.choice(np.array(draw.among), shape, p=draw.chances)
    elif draw.law == "uniform":
        values = draw.loc + draw.scale * random.random(shape)
    elif (given := population(draw)) is not None:
        values = random.choice(given, shape, replace=np.unique(draw.values).size < draw.values.size)
    else:
        values = random.permutation(draw.values.ravel()).reshape(shape)
    return replace(draw, values=np.asarray(values, dtype=draw.values.dtype))


def all_else(first: History, some: Collection[int], random: np.random.Generator) -> tuple[dict[int, Mechanism], list[Draw]]:
    """Other values for all that is random besides the mechanisms `some`: the other mechanisms, see `anywhere`, and all draws."""
    instead = {k: anywhere(first.mechanisms[k], random) for k in first.besides(some)}
    return instead, [drawn_again(draw, random) for draw in first.study.others[0]]


def many_values(draw: Draw, tries: int) -> bool:
    """Whether a draw chooses from so many whole numbers that this many tries may miss one that changes the release. A sample
    without repetition does not, if it takes a fourth of them or more. Numbers of more than SEEDS values are seeds.
    """
    if draw.values.dtype.kind not in "iu" or draw.weights:
        return False
    known = population(draw)
    if known is not None:
        count = known if isinstance(known, int) else np.unique(known).size
    else:
        count = len(draw.among) or (int(draw.highest - draw.lowest) + 1 if draw.law == "integers" else 0)
    distinct = draw.law != "integers" and draw.values.size > 1 and np.unique(draw.values).size == draw.values.size
    return tries < count <= SEEDS and not (distinct and 4 * draw.values.size >= count)


def population(draw: Draw) -> NDArray[Any] | int | None:
    """The values from which a draw chose whole numbers, or how many there are from 0 on, if the call of `choice`, `sample` or
    `integers` names them; else None.
    """
    if draw.law not in ("choice", "sample", "integers") or draw.values.dtype.kind not in "iu" or not draw.parameters:
        return None
    given = draw.parameters[0]
    if draw.law == "integers":  # between two ends, or below one
        return None if draw.lowest or given.ndim or not np.isfinite(draw.highest) else int(draw.highest) + 1
    named = given if given.ndim else np.arange(int(given))
    return named if named.ndim == 1 and named.dtype.kind in "iu" and np.isin(draw.values, named).all() else None


def added_later(first: History) -> bool:
    """Whether the run adds further data to some noisy value, and reads no noisy value before its last data are added: other
    values in its place change neither the release nor another clean value.
    """
    if not any(m.parts > 1 or max(m.terms, default=1) > 1 for m in first.mechanisms):
        return False
    return all(unmoved(first, repeated(first, {}, unread=away)) for away in (UNREAD, -UNREAD))
