"""What limits a reach that one recorded run gives: runs with other noise, and secrets that moved less far at first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from ..mechanisms.absence import Incomparable, history, without
from ..mechanisms.reading import idle, repeated
from ..own.programs.program import External
from ..recorded.laws import cost
from .hiding import EQUAL, same_entries

if TYPE_CHECKING:
    from ...accounting.claim import Claim
    from ..mechanisms.inside import Inside
    from ..recorded.study import History, Shifts, Study

SEEDS = range(1, 8)  # numbers of the runs with other seeds
FEW, SINGLE = 8, 24  # noisy values of at most FEW numbers are moved into their tails, SINGLE numbers in all
TAIL = 1e-3  # probability of noise beyond the tried tail
LAWS = {"normal": stats.norm, "laplace": stats.laplace}


def changed_by_noise(made: Study, first: History, within: Inside, claim: Claim, shifts: Shifts, counted: float) -> str:
    """Why the reach from the first run does not hold for runs with other noise; "" if it seems to.

    In some runs the secret may cost more than the claim, and in others less. Or such a run reads a mechanism that the first run
    does not read, and a secret then costs more. Then the epsilon is an average over the runs, which is not computed. shifts: all
    moves of the secret. counted: the part of their cost that counts, nats.
    """
    assert within.worst is not None
    whole = cost(first.mechanisms, within.counted(shifts), claim.delta)
    share = counted / whole if whole else 1.0
    unread = [i for i, by in enumerate(within.shifts) if not np.any(by) or i in within.idle]
    unread = [i for i in unread if i in within.idle or np.any(shifts[i])]
    epsilons = [counted]
    for run in _with_other_noise(made, first):
        try:
            moved = within.counted(same_entries(first, shifts, without(made, run, within.worst)[1]))
        except Incomparable:
            continue
        epsilons.append(share * cost(run.mechanisms, moved, claim.delta))
        if read := set(unread) - idle(made, run, [[i] for i in unread]) if unread else set():
            for absent in (within.worst, *within.others):
                with suppress(Incomparable):
                    moved = within.counted(without(made, run, absent)[1])
                    if (epsilon := cost(run.mechanisms, moved, claim.delta)) > claim.epsilon * (1 + EQUAL):
                        line = f"with other noise the run reads the noisy value at {first.mechanisms[min(read)].line}"
                        unlike = "which it does not read in the recorded run"
                        return f"{line}, {unlike}; {absent.secret} then costs {epsilon:.3g}"
            unread = [i for i in unread if i not in read]
    if max(epsilons) <= claim.epsilon * (1 + EQUAL):
        return ""
    depends = f"the epsilon of this secret depends on the noise of the run: it is {min(epsilons):.3g} in one run"
    return f"{depends} and {max(epsilons):.3g} in another, and their average is not computed"


def _with_other_noise(made: Study, first: History) -> Iterator[History]:
    """Yields runs with other seeds, and runs in which one number of a small noisy value lies in a tail of its noise."""
    if isinstance(made.model, External):
        return
    lines = [m.line for m in first.mechanisms]
    for number in SEEDS:
        try:
            run = history(made, number)
        except Exception:  # a user's model may fail with some seeds, with any exception
            continue
        if [m.line for m in run.mechanisms] == lines:
            yield run
    left = SINGLE
    for i, mechanism in enumerate(first.mechanisms):
        if mechanism.law not in LAWS or not 0 < mechanism.noisy.size <= min(FEW, left):
            continue
        left -= mechanism.noisy.size
        far = float(LAWS[mechanism.law].isf(TAIL)) * np.broadcast_to(
            np.asarray(mechanism.scale, dtype=np.float64), mechanism.noisy.shape
        )
        for at in np.ndindex(mechanism.noisy.shape):
            for side in (-1, 1):
                noisy = mechanism.noisy.copy()
                noisy[at] = mechanism.clean[at] + side * far[at]
                other = repeated(made, first, {i: mechanism.with_noisy(noisy)})
                if other is not None:
                    yield other
