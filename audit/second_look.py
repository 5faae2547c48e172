"""Repeats an audit that refutes a claim by a statistical test. The report counts the refutation only if it is confirmed."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from scipy.special import ndtri

from ..accounting.lower.bounds import Bound
from .audits.registry import Audit
from .case import Outcome, Setting
from .instruments.reach import unknown

LEVEL = 1e-3  # largest level of the repetition of an audit: the largest chance that it confirms a false alarm
POWER, SURE = 0.9, 0.99  # power of the first test and of a trial-limited repetition at the smallest detectable violation


def confirmed(
    audit: Audit, outcome: Outcome, setting: Setting, rested: Callable[[Outcome], Outcome] = lambda outcome: outcome
) -> tuple[Outcome, ...]:
    """The outcome, with its statistical refutations marked as confirmed or not, and the outcome of the repetition if there was
    one. The function does not repeat an audit whose refutations are all computed without samples. rested: adds to an outcome the
    conditions that hold for every audit of the model.

    A refutation is confirmed if the same test refutes in both outcomes, see `backs`. The repetition has fresh coins and noise, so
    its errors are independent of those of the first test. The probability that a test refutes a true claim in both outcomes is at
    most the product of its levels, `setting.alpha` and LEVEL / tests. The level of the bounds of the repetition is the smaller of
    these two, because they are printed too. `setting.patience` does not limit the repetition: whether a refutation counts must
    not depend on how busy the machine is.

    A trial-limited audit (`Audit.trial_limited`) detects smaller violations with more rounds. The function repeats such an audit
    if a p-value is below `setting.level`, even if no bound refutes the claim. The repetition has the level alpha and more rounds,
    and may refute the claim alone: a true claim is then refuted with probability at most `setting.level` times alpha, or looks^2
    times as much if the audit makes several tests.
    """
    early = audit.trial_limited and any(b.p_value is not None and b.p_value < setting.level for b in outcome.bounds)
    if not early and not any(b.refuted and b.alpha > 0 for b in outcome.bounds):
        return (outcome,)
    key, level = setting.key.fold(audit.name, "again"), LEVEL / max(1, audit.tests)
    fresh = dataclasses.replace(setting, key=key, alpha=min(setting.alpha, level), first=None, repeats=True, patience=math.inf)
    fresh = dataclasses.replace(fresh, shared={})  # no recorded run of the first test serves again
    if audit.trial_limited:
        fresh = dataclasses.replace(fresh, alpha=setting.alpha, rounds=setting.rounds * times(setting.level, setting.alpha))
    again = dataclasses.replace(rested(audit.run(fresh)), audit=f"{audit.name} again")
    second = marked(again, again.bounds if audit.trial_limited else outcome.bounds)
    if audit.trial_limited:  # only the first test states a detectable violation: its result decides whether there is a second
        second = dataclasses.replace(second, bounds=tuple(unknown(b) for b in second.bounds))
    return (marked(outcome, again.bounds, 0.0 if audit.trial_limited else level), second)


def times(first: float, alpha: float) -> int:
    """The number of rounds of the repetition, at level `alpha`, divided by that of the first test, at level `first`.

    With this many rounds the repetition detects with probability SURE the violation that the first test detects with probability
    POWER, if the test statistics are normal.
    """
    ratio = (ndtri(1 - alpha) + ndtri(SURE)) / (ndtri(1 - first) + ndtri(POWER))
    return max(1, math.ceil(float(ratio) ** 2))


def marked(outcome: Outcome, others: Sequence[Bound], level: float = 0.0) -> Outcome:
    """The outcome with each statistical refutation marked as confirmed, if a bound in `others` backs it at this level, or not."""
    bounds = tuple(
        dataclasses.replace(b, confirmed=any(backs(other, b, level) for other in others)) if b.refuted and b.alpha > 0 else b
        for b in outcome.bounds
    )
    return dataclasses.replace(outcome, bounds=bounds)


def backs(other: Bound, bound: Bound, level: float = 0.0) -> bool:
    """Whether another outcome's bound is a refutation by the same test, and of the same thing: the claim, or at least the ledger.

    level: a p-value below it is a refutation too, even if the bound, at a smaller level, does not refute. The name of the method
    after a comma is a part of the data that the test chose by itself, such as the view of residuals.
    """
    same = (other.shape, other.method.split(",")[0]) == (bound.shape, bound.method.split(",")[0])
    refutes = other.refuted or (other.p_value is not None and other.p_value < level)
    return refutes and other.alpha > 0 and same and other.against in ("claim", bound.against)
