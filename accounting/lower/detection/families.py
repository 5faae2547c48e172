"""The family of a ledger: the same ledger with all noise divided by one factor, kappa. Finds the members that two error rates
contradict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...claim import Claim

if TYPE_CHECKING:
    from ...upper.tradeoff import Curve

# The values of kappa that are tried, from 1/32 to 32. The grid is fixed, so a cached `member` computes each curve once for all
# tests of a plan.
KAPPAS = tuple(float(k) for k in np.exp2(np.arange(-640, 641) / 128))


@dataclass(frozen=True)
class Family:
    """The curves of a ledger whose noise is divided by kappa. ledger: the curve at kappa = 1. member: kappa -> curve; None if
    only `ledger` is known.
    """

    ledger: Curve
    member: Callable[[float], Curve] | None

    def holding(self, holds: Callable[[Curve], bool]) -> int:
        """The number of KAPPAS for which `holds` is true. `holds` must be true up to some kappa and false above it. Needs
        `member`.
        """
        member = self.member
        assert member is not None
        return bisect_left(KAPPAS, True, key=lambda kappa: not holds(member(kappa)))

    def epsilon(self, rejected: Callable[[Curve], bool], delta: float) -> float:
        """The epsilon (nats) at `delta` of the least private member for which `rejected` is true; 0 if there is none. Without
        `member`, only the ledger's curve is tried.
        """
        if self.member is None:
            last = self.ledger if rejected(self.ledger) else None
        else:
            count = self.holding(rejected)
            last = self.member(KAPPAS[count - 1]) if count else None
        return float(last.epsilon_at_least(delta)) if last is not None else 0.0

    def above(self, claim: Claim) -> Curve | None:
        """The member with the most noise that violates the claim; None if no known member violates it."""
        if self.member is None:
            return self.ledger if self.ledger.epsilon_at_least(claim.delta) > claim.epsilon else None
        count = self.holding(lambda c: c.epsilon_at_least(claim.delta) <= claim.epsilon)
        return self.member(KAPPAS[count]) if count < len(KAPPAS) else None
