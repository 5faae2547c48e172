"""Corrects the smallest detectable violation of a bound, and builds the family of a ledger."""

import dataclasses
import math
from collections.abc import Callable
from functools import cache

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from ...accounting.claim import Claim
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...accounting.lower.bounds import Bound, unknown
from ...accounting.lower.guessing import most_provable
from ...accounting.lower.residuals import assumptions
from ...accounting.upper.exact import epsilon as exact_epsilon
from ...accounting.upper.tradeoff import Curve, approximate, curve, gaussian, scaled

UNREPORTED = "this model reports nothing about its noise"


def weaker(bound: Bound, claim: Claim, strength: float) -> Bound:
    """The bound, with its smallest detectable violation corrected for canaries that move the means by `strength` noise sds.

    `bound` assumes that canaries move the means by the mu of the claim. If they move less, the test needs noise that is smaller
    in proportion.
    """
    mu = mu_of_claim(claim)
    if not (strength > 0 and 0 < mu < math.inf):
        return unknown(bound)
    notices = bound.notices / min(strength / mu, 1.0)
    return dataclasses.replace(bound, notices=notices, reach=float(epsilon_of(notices * mu, claim.delta)))


def limit_in_words(bound: Bound, claim: Claim) -> str:
    """What `most_provable` limits a bound to that counts guesses of coins, as the end of a sentence; "" at delta = 0 and for a
    claim without a limit.
    """
    if claim.delta == 0 or math.isinf(claim.epsilon):
        return ""
    coins = sum(bound.trials)
    most = most_provable(claim.epsilon, claim.delta, coins, bound.alpha)
    return (
        f"; on a Gaussian mechanism of epsilon {claim.epsilon:g}, a bound of any shape from {coins} coins exceeds {most:.2f} "
        "in at most half of all audits"
    )


def worth(ledger: DpEvent, claim: Claim, factor: float) -> float:
    """The true epsilon (nats), at least the claimed one, if all noise of a ledger is too small by this factor.

    It is the epsilon of the ledger with its noise divided by the factor, exact at delta = 0, where the log-ratios of pure
    mechanisms grow in proportion to the factor. At larger deltas epsilon grows faster. If the curve of the ledger is not known,
    the function assumes the faster of two kinds of growth: in proportion, or as for a Gaussian mechanism of the claimed epsilon.
    """
    if math.isinf(factor):
        return math.inf
    try:
        smaller = scaled(ledger, factor)
        if claim.delta == 0:
            epsilon = exact_epsilon(smaller, 0.0, claim.relation)
        else:
            epsilon = curve(smaller, claim.relation).epsilon(claim.delta)
    except OverflowError:
        return math.inf
    except ValueError:
        mu = mu_of_claim(claim)
        epsilon = max(
            claim.epsilon * factor, float(epsilon_of(factor * mu, claim.delta)) if claim.delta and mu < math.inf else 0.0
        )
    return max(claim.epsilon, epsilon)


def assumed(residuals: NDArray[np.float64]) -> str:
    """The p-values of `assumptions` for these residuals, as text."""
    return f"p-values of its checks: {', '.join(f'{name} {p:.2g}' for name, p in assumptions(residuals).items())}"


def promised(claim: Claim, ledger: Curve | None) -> Curve:
    """The trade-off curve of the claim: that of a Gaussian mechanism if the curve of the ledger is Gaussian, else that of all
    mechanisms with this epsilon and delta. ledger: None if its curve is unknown.
    """
    if ledger is not None and ledger.mu is not None:
        return gaussian(mu_of_claim(claim))
    return approximate(claim.epsilon, claim.delta)


def family(ledger: DpEvent) -> Callable[[float], Curve]:
    """The function factor -> trade-off curve of the ledger with all noise divided by the factor. Curves are cached."""

    @cache
    def member(kappa: float) -> Curve:
        return curve(scaled(ledger, kappa))

    return member
