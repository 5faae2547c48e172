"""From fair coins and how many were guessed right to a lower bound on epsilon. Knows nothing of graphs or models."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from .. import gaussian
from ..upper.tradeoff import approximate
from .bounds import Bound, split
from .error_rates import epsilon_of_rates
from .families import Family

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from ..claim import Claim
    from ..upper.tradeoff import Curve


def guessed(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
    attack: str = "",
    audit: str = "",
) -> Bound:
    """A bound against mechanisms shaped like the ledger, from guesses that were fixed beforehand: "world 1" above a score of 0.

    scores: any shape, float. bits: the same shape, True for world 1, independent fair coins of trials that are independent
    given what all of them share, and given that keep to the curve one by one. A size of the noise, or a privacy loss, that is
    drawn once for many of them does not: then up to 18 % of honest audits were refuted at 5 %. curve: the ledger's. family: for a
    ledger that is not Gaussian, its curve with all noise divided by the argument.

    Of a fair coin a guess is right with probability 1 - (a + b) / 2, where a and b are its two error rates. No test of a
    Gaussian mechanism does so more often than Phi(mu / 2) (Dong et al. 2022), whatever the others show. The number of right
    guesses is then no larger than that of independent successes of this probability, however different the trials are, and one
    Clopper-Pearson bound takes all of alpha. Two error rates take half each, and their slacks add up: they need 2.8 times as many
    trials to prove as much of mu. The reach is left open, as the scores need not be the best.
    Raises ValueError for NaN, unequal shapes, a missing world.
    """
    scores0, scores1 = split(scores, bits)
    trials = len(scores0), len(scores1)
    right, count = int(np.count_nonzero(scores0 <= 0) + np.count_nonzero(scores1 > 0)), sum(trials)
    least = float(special.betaincinv(right, count - right + 1, alpha)) if right else 0.0
    if curve.mu is not None:
        mu, most = max(2 * float(special.ndtri(least)), 0.0), float(special.ndtr(gaussian.mu_of_claim(claim) / 2))
        epsilon = float(gaussian.epsilon_of(mu, claim.delta))
    else:
        members, wrong = Family(curve, family), 1 - least
        ruled_out, above = members.last(lambda c: luck(c) < least), members.above(claim)
        any_shape = float(epsilon_of_rates(wrong, wrong, claim.delta))  # at the corner of its region
        epsilon = max(float(ruled_out.epsilon(claim.delta)) if ruled_out else 0.0, any_shape)
        most = min(luck(c) for c in (above, approximate(claim.epsilon, claim.delta)) if c)
    p_value = float(special.betainc(right, count - right + 1, most)) if right and math.isfinite(claim.epsilon) else 1.0
    refuted = epsilon > claim.epsilon
    return Bound(epsilon, alpha, "ledger", "guessed coins", trials, refuted, p_value, math.inf, math.inf, attack, audit)


def luck(curve: Curve) -> float:
    """How often a fair coin is guessed right under this curve, at most: (1 + total variation) / 2."""
    return (1 + float(curve.delta(0.0))) / 2
