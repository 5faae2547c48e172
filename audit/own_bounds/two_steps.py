"""Bounds from picks in worlds in which an absent node has another label or other features.

A reader may say that such a world lies two steps away: a node goes, and another one comes. How far one of two steps changes a
pick is not known. So a pick refutes a claim in one of two ways only. Either the absence of the node changes it by more than the
claim also if the node keeps its row and is in no mask. Or both steps together cost more than a claim for one step permits two:
2 epsilon at (1 + e^epsilon) delta (group privacy, Vadhan 2017, lemma 2.2).
"""

import math
from contextlib import suppress
from dataclasses import replace

from ...accounting.checks.conditions import Condition, proved
from ...accounting.claim import Claim
from ...accounting.lower.bounds import Bound
from ..case import Case
from ..mechanisms.absence import Incomparable, moves_without
from ..mechanisms.inside import Inside, read_only, reports
from ..recorded.secrets.worlds import Absence, in_no_mask
from .within_run import from_secret

LARGEST = 300.0  # epsilon (nats) up to which delta is computed
GROUP = proved(
    "one of two steps costs at least half", "a claim for one step is one of 2ε and (1 + e^ε) δ for two (group privacy)"
)
UNMASKED = Condition(
    "the row of an absent node may hold other features and another label",
    "checked",
    "or the node is in no mask: that costs as much",
)


def from_picks(case: Case, within: Inside) -> Bound | None:
    """The bound from a world in which an absent node has another row and a pick changes, if it refutes the claim; else None."""
    for part, where in within.parts:
        for rule in (without_masks, from_both_steps):
            with suppress(Incomparable):
                if part.picked is not None and (found := rule(case, part, part.picked)) is not None:
                    return replace(found, method=f"{found.method}{where}")
    return None


def without_masks(case: Case, part: Inside, picked: Absence) -> Bound | None:
    """The smaller of the bounds from this world and from the one in which the node is in no mask, if both refute the claim."""
    found = whole_moves(case, part, picked)
    if not found.refuted:
        return None
    other = whole_moves(case, part, in_no_mask(part.run.study.whole, picked.among))
    if not other.refuted:
        return None
    return replace(min(found, other, key=lambda bound: bound.epsilon), conditions=(*found.conditions, UNMASKED))


def from_both_steps(case: Case, part: Inside, picked: Absence) -> Bound | None:
    """The bound for one of two steps, if what both cost together refutes the claim."""
    found = whole_moves(for_two(case, case.claim.epsilon), part, picked)
    if not found.refuted:
        return None
    # for the delta that belongs to the bound itself
    epsilon = whole_moves(for_two(case, min(found.epsilon / 2, LARGEST)), part, picked).epsilon / 2
    if epsilon <= case.claim.epsilon:
        return None
    method = f"{found.method}; these are two steps, so one of them costs at least half"
    return replace(found, epsilon=epsilon, method=method, conditions=(*found.conditions, GROUP), notices=1.0, reach=epsilon)


def for_two(case: Case, epsilon: float) -> Case:
    """The case with the claim for two steps that follows from a claim of epsilon for one step."""
    delta = min(case.claim.delta * (1 + math.exp(min(epsilon, LARGEST))), 1 - 1e-9)
    return replace(case, claim=Claim(2 * epsilon, delta, case.claim.unit))


def whole_moves(case: Case, part: Inside, absent: Absence) -> Bound:
    """The bound from a world as if it were one step away. Raises Incomparable if the run cannot be repeated in it."""
    there = replace(absent, half=False)
    moves, _ = read_only(part.run, part.idle, moves_without(part.run, there), reports(part.run))
    return from_secret(case, replace(part, worst=there, shifts=moves), projections=True)[0]
