"""The part of a release that does not depend on some of the mechanisms, such as reports which no released number shows.

It may not be known how much of them the other arrays show. But an adversary who sees the whole release can leave out arrays. So
an epsilon that is proved for the arrays that are left holds for the whole release too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from ....models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ...mechanisms.absence import moves_without
from ...mechanisms.inside import Inside, read_only, reports, without_idle, without_secrets
from ...mechanisms.reading import all_else, anywhere, differing, ends, near_and_far, repeated, with_other_values
from ...recorded.exposed import only
from ...recorded.secrets.worlds import Absence
from ...recorded.study import History

MANY = 24  # with more mechanisms that the run reads, arrays are not judged alone
BACKGROUNDS = 3  # runs in which all that is random besides has other values, each with two values of the reports


def unread_by_arrays(first: History, idle: Collection[int]) -> Iterator[list[int]]:
    """Yields the mechanisms besides `idle` on which some released array does not seem to depend, one list for each set of them,
    the shortest first. Yields nothing if a run with other values fails, for a single array, and for more than MANY mechanisms.
    """
    arrays = {cell.array for cell in first.play.cells if not cell.public}
    live = [i for i in range(len(first.mechanisms)) if i not in idle]
    if len(arrays) < 2 or not 1 < len(live) <= MANY:
        return
    unread: dict[str, list[int]] = defaultdict(list)
    for i in live:
        left = set(arrays)
        for other in with_other_values(first, [i]):
            if other is None:
                return
            left -= differing(first, other)
        for array in left:
            unread[array].append(i)
    yield from sorted({tuple(some): some for some in unread.values() if len(some) < len(live)}.values(), key=len)


def independent_of(first: History, some: Collection[int]) -> tuple[frozenset[int], tuple[str, ...]]:
    """The mechanisms `some` with those whose clean values or noise depend on them, directly or through others, and the released
    arrays that depend on none of them; no array if a run with other values fails.
    """
    dependent = set(some)
    arrays = list(dict.fromkeys(cell.array for cell in first.play.cells if not cell.public))
    while arrays:
        found: set[int] = set()
        for one, other in with_others(first, sorted(dependent)):
            if one is None or other is None:
                return frozenset(dependent), ()
            differ = differing(one, other)
            arrays = [array for array in arrays if array not in differ]
            pairs = enumerate(zip(one.mechanisms, other.mechanisms, strict=True))
            found |= {i for i, (m, o) in pairs if not same_noise(m, o)} - dependent
        if not found:
            break
        dependent |= found
    return frozenset(dependent), tuple(arrays)


def same_noise(one: Mechanism, other: Mechanism) -> bool:
    """Whether two mechanisms add noise of one law and size to the same values."""
    return one.law == other.law and np.array_equal(one.clean, other.clean) and np.array_equal(one.scale, other.scale)


def with_others(first: History, some: list[int]) -> Iterator[tuple[History | None, History | None]]:
    """Yields pairs of runs that differ in the noisy values of the mechanisms `some` alone: the recorded run and others, and runs
    in which everything else that is random has other values.
    """
    yield from ((first, other) for other in near_and_far(first, some))
    for end in (0, 1):
        at_end = {i: ends(first.mechanisms[i])[end] for i in some if first.mechanisms[i].law == REPORT}
        yield first, repeated(first, at_end)
    for number in range(BACKGROUNDS):
        random = np.random.default_rng(number)
        rest, draws = all_else(first, some, random)
        one, other = (repeated(first, rest | {i: anywhere(first.mechanisms[i], random) for i in some}, draws) for _ in range(2))
        yield one, other


def seen_in(arrays: tuple[str, ...], within: Inside, worst: Absence, dependent: Collection[int]) -> Inside:
    """What the run shows of its mechanisms to an adversary who sees the released `arrays` alone, with the moves of the worst
    secret. dependent: the mechanisms on which these arrays do not depend. Raises Incomparable.
    """
    run = only(within.run, arrays)
    found = without_secrets(run)
    idle = found.idle | frozenset(dependent)
    idle |= {i for group in found.sums if idle & set(group) for i in group}
    moves, doubts = read_only(run, idle, moves_without(run, worst), reports(run))
    past = {array: text for array, text in within.past.items() if array in arrays}
    return replace(
        within,
        run=run,
        again=without_idle(found.again, idle),
        sums=found.sums,
        shared=found.shared,
        entangled=found.entangled,
        undone=found.undone,
        idle=idle,
        shifts=moves,
        past=past,
        doubts=(*within.doubts, *doubts),
        small=None,
    )
