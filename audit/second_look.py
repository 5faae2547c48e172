"""Repeats an audit that refutes a claim by a statistical test. The report counts the refutation only if it is confirmed."""

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

LEVEL = 1e-3  # level of a repetition, unless the audit is trial-limited: the largest chance that it confirms a false alarm
POWER, SURE = 0.9, 0.99  # power of the first test and of a trial-limited repetition at the smallest detectable violation


def confirmed(
    audit: Audit, outcome: Outcome, setting: Setting, rested: Callable[[Outcome], Outcome] = lambda outcome: outcome
) -> tuple[Outcome, ...]:
    """The outcome, with its statistical refutations marked as confirmed or not, and the outcome of the repetition if there was
    one. The function does not repeat an audit whose refutations are all computed without samples. rested: adds to an outcome the
    conditions that hold for every audit of the model.

    The repetition has fresh coins and noise, so its errors are independent of those of the first test. The probability that both
    tests refute a true claim is at most the product of their levels: alpha, the level of a printed bound, and LEVEL.

    A trial-limited audit (`Audit.trial_limited`) detects smaller violations with more rounds. The function repeats such an audit
    if a p-value is below `setting.level`, even if no bound refutes the claim. The repetition has the level alpha and more rounds,
    and may refute the claim alone: a true claim is then refuted with probability at most `setting.level` times alpha.
    """
    early = audit.trial_limited and any(b.p_value is not None and b.p_value < setting.level for b in outcome.bounds)
    if not early and not any(b.refuted and b.alpha > 0 for b in outcome.bounds):
        return (outcome,)
    key, alpha = setting.key.fold(audit.name, "again"), LEVEL / max(1, audit.looks)
    fresh = dataclasses.replace(setting, key=key, alpha=alpha, first=None, repeats=True)
    if audit.trial_limited:
        fresh = dataclasses.replace(fresh, alpha=setting.alpha, rounds=setting.rounds * times(setting.level, setting.alpha))
    again = rested(audit.run(fresh))
    held = any(b.refuted for b in again.bounds)
    name = f"{audit.name} again"
    second = tuple(dataclasses.replace(b, audit=name, confirmed=True if b.refuted else None) for b in again.bounds)
    if audit.trial_limited:  # only the first test states a detectable violation: its result decides whether there is a second
        second = tuple(unknown(b) for b in second)
    return (marked(outcome, held), dataclasses.replace(again, audit=name, bounds=second))


def times(first: float, alpha: float) -> int:
    """The number of rounds of the repetition, at level `alpha`, divided by that of the first test, at level `first`.

    With this many rounds the repetition detects with probability SURE the violation that the first test detects with probability
    POWER, if the test statistics are normal.
    """
    ratio = (ndtri(1 - alpha) + ndtri(SURE)) / (ndtri(1 - first) + ndtri(POWER))
    return max(1, math.ceil(float(ratio) ** 2))


def marked(outcome: Outcome, held: bool) -> Outcome:
    """The outcome, with its statistical refutations marked as confirmed or not."""
    bounds = tuple(dataclasses.replace(b, confirmed=held) if b.refuted and b.alpha > 0 else b for b in outcome.bounds)
    return dataclasses.replace(outcome, bounds=bounds)
