"""One ledger at many strengths: which of its copies with less noise a pair of error rates rules out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .claim import Claim
    from .curves import Curve

# Noise divided by these; a fixed grid, so that a cached `member` computes each curve once in a whole plan.
KAPPAS = tuple(float(k) for k in np.exp2(np.arange(-160, 161) / 32))


@dataclass(frozen=True)
class Family:
    """The curves of a ledger whose noise is divided by kappa. member: kappa -> curve; None knows kappa = 1 only."""

    ledger: Curve
    member: Callable[[float], Curve] | None

    def last(self, holds: Callable[[Curve], bool]) -> Curve | None:
        """The weakest privacy of which `holds` is true, given that it is true up to some kappa and false from there on."""
        if self.member is None:
            return self.ledger if holds(self.ledger) else None
        low, high = -1, len(KAPPAS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(self.member(KAPPAS[middle])) else (low, middle)
        return self.member(KAPPAS[low]) if low >= 0 else None

    def epsilon(self, false_positive: float, false_negative: float, delta: float) -> float:
        """The epsilon of the weakest member whose curve lies above this pair of rates; 0 if none does."""
        curve = self.last(lambda c: bool(c.beta(np.array([false_positive]))[0] > false_negative))
        return float(curve.epsilon(delta)) if curve is not None else 0.0

    def above(self, claim: Claim) -> Curve | None:
        """The strongest member that does not keep the claim; None if every member known keeps it."""
        if self.member is None:
            return self.ledger if self.ledger.epsilon(claim.delta) > claim.epsilon else None
        low, high = -1, len(KAPPAS)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.member(KAPPAS[middle]).epsilon(claim.delta) <= claim.epsilon else (low, middle)
        return self.member(KAPPAS[high]) if high < len(KAPPAS) else None
