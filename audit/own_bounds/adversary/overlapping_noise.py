"""Noise numbers that two mechanisms of a run have in common at some of their entries. If both noisy values are released, the
difference of two such entries, each divided by its scale, has no noise.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ....models.recorder.mechanisms.mechanism import REPORT, Mechanism
from ....models.recorder.mechanisms.sharing import ALIKE
from ....reports.rounding import several
from ...mechanisms.absence import history
from ...mechanisms.inside import Inside, moving
from ...mechanisms.relations import in_full
from ...recorded.laws import NOTHING
from ...recorded.playing import Diverged
from ...recorded.study import History, Shifts
from .hiding import both_lines

MOST = 16  # with more mechanisms whose noise is one draw, none are compared
OTHERS = (1, 2, 3)  # numbers of the runs with other seeds in which the same entries must have numbers in common

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def overlapping(run: History, within: Inside, moves: Shifts) -> Iterator[str]:
    """Yields a sentence for each two mechanisms with noise numbers in common, if a secret moves such entries of both by different
    amounts, and the release contains all noisy values of both. moves: those of the secret.

    Two independent normal numbers are as close as ALIKE with a probability below 6e-5. So independent noise of a million entries
    has such an entry in OTHERS too with a probability below 1e-6.
    """
    plain = [i for i, m in enumerate(run.mechanisms) if of_one_draw(m) and i not in within.idle]
    if not within.shared or len(plain) > MOST:
        return
    moved = moving(run, moves)
    for i, j in combinations(plain, 2):
        if not {i, j} & moved:
            continue
        one, two = common(run, i, j)
        apart = np.abs(moves[i].ravel()[one] - moves[j].ravel()[two])
        if apart.max(initial=0) > 10 * NOTHING and in_full(run, (i, j)):
            first, second = run.mechanisms[i], run.mechanisms[j]
            drawn = " and again at ".join(dict.fromkeys((first.draw.where, second.draw.where)))
            are, used = "is" if one.size == 1 else "are", both_lines(first, second)
            shared = f"{several(one.size, 'number')} drawn at {drawn} {are} noise {used}"
            yield f"{shared}, and both noisy values are released; their difference depends on the secret and has no noise"


def of_one_draw(mechanism: Mechanism) -> bool:
    """Whether each entry with noise has a number of its own from one draw, and no other noise."""
    return mechanism.law != REPORT and not (mechanism.beside or mechanism.shared or mechanism.mirrored)


@lru_cache(maxsize=MOST)  # it depends on no secret
def common(run: History, i: int, j: int) -> Pairs:
    """The entries at which two mechanisms have the same noise numbers, in this run and in others with other seeds, as positions
    in each flattened value. No entry if the other runs have other mechanisms.
    """
    one, two = equal_numbers(run.mechanisms[i], run.mechanisms[j])
    for number in OTHERS if one.size else ():
        try:
            other = history(run.study, number).mechanisms
        except Diverged:
            return one[:0], two[:0]
        if [m.clean.shape for m in other] != [m.clean.shape for m in run.mechanisms]:
            return one[:0], two[:0]
        same = np.abs(other[i].units.ravel()[one] - other[j].units.ravel()[two]) <= ALIKE
        one, two = one[same], two[same]
    return one, two


def equal_numbers(one: Mechanism, two: Mechanism) -> Pairs:
    """Pairs of one entry of each mechanism: for each of the second, that of the first whose noise number is closest, if it is as
    close as ALIKE.
    """
    places, others = np.flatnonzero(one.own), np.flatnonzero(two.own)
    numbers, wanted = one.units.ravel()[places], two.units.ravel()[others]
    order = np.argsort(numbers, kind="stable")
    if not order.size:
        return places, places
    right = np.clip(np.searchsorted(numbers[order], wanted), 1, max(1, order.size - 1))
    near = np.stack([order[np.minimum(right, order.size - 1)], order[right - 1]])
    gaps = np.abs(numbers[near] - wanted)
    best = near[gaps.argmin(0), np.arange(wanted.size)]
    same = gaps.min(0, initial=np.inf) <= ALIKE
    return places[best[same]], others[same]
