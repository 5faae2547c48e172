"""What the moves of a pick, such as the index of the largest of several noisy counts, leave open: how far one of two steps
changes it, and what it tells on graphs on which values are probable that are improbable here.
"""

import dataclasses
from collections.abc import Sequence

from ...accounting.claim import Claim
from ..recorded.laws import NOTHING
from ..recorded.secrets.worlds import Absence
from ..recorded.study import History, Shifts
from .absence import moved
from .relations import SAME


def in_full(first: History, absent: Absence, after: History, shifts: Shifts, picks: Sequence[int]) -> Shifts:
    """The moves without a secret, in which the picks count in full also if the world lies two steps away. shifts: the moves, see
    `moved`, without those of the picks in such a world.
    """
    if not (absent.half and picks):
        return shifts
    whole = moved(first, dataclasses.replace(absent, half=False), after)
    return tuple(whole[i] if i in picks else by for i, by in enumerate(shifts))


def changed_in_two_steps(first: History, absent: Absence, shifts: Shifts, whole: Shifts, picks: Sequence[int]) -> str:
    """A sentence about the first pick that a world two steps away changes; "" if there is none. shifts, whole: the moves without
    those of picks, and with them.
    """
    more = (i for i in picks if first.mechanisms[i].size(whole[i] - shifts[i]) > NOTHING) if absent.half else iter(())
    at = next(more, None)
    if at is None:
        return ""
    steps = "these are two steps: one node goes, and another one comes"
    return f"{absent.secret} changes the pick at {first.mechanisms[at].line} by more than the claim, but {steps}"


def improbable_here(first: History, absent: Absence, shifts: Shifts, picks: Sequence[int], claim: Claim) -> str:
    """A sentence about the first pick of which a secret changes the probability of a value by more than a factor of e^epsilon,
    whether or not delta permits it because such a value is improbable here; "" if there is none. On other graphs the scores of
    an exponential mechanism may differ less, and there the same move of a score counts. Nothing is said of normal noise, whose
    far values always do so. In a world two steps away, one of the steps changes the probability by the root of the factor.
    """
    for i in picks if claim.delta else ():
        m = first.mechanisms[i]
        if m.largest and (m.computed or m.draw.law) == "normal":
            continue
        size = float(m.each(shifts[i]).max(initial=0)) / (1 + absent.half)
        if size > claim.epsilon * (1 + SAME):
            change = f"{absent.secret} changes the probability of a value of the pick at {m.line} by {size:.3g} nats"
            return f"{change}; such values may be improbable on this graph, and probable on another one"
    return ""
