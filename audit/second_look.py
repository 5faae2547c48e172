"""Repeats a statistical refutation with fresh randomness before the report counts it. A computed refutation is not repeated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from scipy.special import ndtri

from .instruments.reach import unknown

if TYPE_CHECKING:
    from .audits.registry import Audit
    from .case import Outcome, Setting

LEVEL = 1e-3  # the largest probability that the repetition confirms a false alarm
POWER, SURE = 0.9, 0.99  # power of the first test and of the repetition, both at the smallest detectable violation


def confirmed(
    audit: Audit, outcome: Outcome, setting: Setting, rested: Callable[[Outcome], Outcome] = lambda outcome: outcome
) -> tuple[Outcome, ...]:
    """The outcome, with its statistical refutations marked as confirmed or not, and the outcome of the repetition if there was
    one. rested: adds to an outcome the conditions that hold for every audit of this model.

    A claim is refuted only if both tests refute it. Their coins and noise are independent, so a true claim is refuted with
    probability at most the product of their levels, alpha and LEVEL, where alpha is the level of a printed bound. Some audits
    detect smaller violations with more rounds (`Audit.trial_limited`). Such an audit is repeated if a p-value is below
    `setting.first`, even if no bound refutes the claim. This repetition has the level alpha and more rounds.
    """
    early = audit.trial_limited and any(b.p_value is not None and b.p_value < setting.level for b in outcome.bounds)
    if not early and not any(b.refuted and b.alpha > 0 for b in outcome.bounds):
        return (outcome,)
    key, alpha = setting.key.fold(audit.name, "again"), LEVEL / max(1, audit.looks)
    fresh = dataclasses.replace(setting, key=key, alpha=alpha, first=None)
    if audit.trial_limited:
        fresh = dataclasses.replace(fresh, alpha=setting.alpha, rounds=setting.rounds * times(setting.level, setting.alpha))
    again = rested(audit.run(fresh))
    held = any(b.refuted for b in again.bounds)
    name = f"{audit.name} again"
    second = tuple(dataclasses.replace(b, audit=name, confirmed=True if b.refuted else None) for b in again.bounds)
    if audit.trial_limited:  # only the first test states a detectable violation, because the repetition depends on its result
        second = tuple(unknown(b) for b in second)
    return (marked(outcome, held), dataclasses.replace(again, audit=name, bounds=second))


def times(first: float, alpha: float) -> int:
    """The factor by which a test at level `alpha` needs more rounds than a test at level `first`.

    With this factor, the repetition refutes with probability SURE the violation that the first test detects with probability
    POWER. The formula holds for normal statistics.
    """
    ratio = (ndtri(1 - alpha) + ndtri(SURE)) / (ndtri(1 - first) + ndtri(POWER))
    return max(1, math.ceil(float(ratio) ** 2))


def marked(outcome: Outcome, held: bool) -> Outcome:
    """The outcome, with its statistical refutations marked as confirmed or not."""
    bounds = tuple(dataclasses.replace(b, confirmed=held) if b.refuted and b.alpha > 0 else b for b in outcome.bounds)
    return dataclasses.replace(outcome, bounds=bounds)
