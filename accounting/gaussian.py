"""The Gaussian mechanism in closed form: conversions between mu, epsilon and delta, and the exact test of mu from two samples."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .claim import Claim
from .noncentral_t import tail

Array = NDArray[np.float64]
LARGE = 1e6  # a mu above which rounding in `delta_of` outweighs delta
STEPS = 80  # bisection steps; the bracket shrinks below one unit in the last place


def delta_of(mu: ArrayLike, epsilon: ArrayLike) -> NDArray[np.float64]:
    """The smallest delta at which mu-GDP is (epsilon, delta)-DP (Dong et al. 2022, Corollary 1). epsilon: nats. Broadcasts."""
    mu, epsilon = np.broadcast_arrays(np.asarray(mu, float), np.asarray(epsilon, float))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = special.log_ndtr(-epsilon / mu + mu / 2)
        second = np.minimum(epsilon + special.log_ndtr(-epsilon / mu - mu / 2) - first, 0.0)
        delta = -np.exp(first) * np.expm1(second)
    delta = np.where(mu <= 0, 0.0, delta)
    delta = np.where(np.isinf(mu) & np.isfinite(epsilon), 1.0, delta)
    return np.where(np.isinf(epsilon), 0.0, delta)


def epsilon_of(mu: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """The smallest epsilon at which mu-GDP is (epsilon, delta)-DP, in nats; infinity for delta = 0 < mu. Broadcasts."""
    mu, delta = np.broadcast_arrays(np.asarray(mu, float), np.asarray(delta, float))
    with np.errstate(invalid="ignore", over="ignore"):
        # delta(epsilon) <= Phi(-epsilon/mu + mu/2), so this value is never below the solution.
        start = np.maximum(mu * mu / 2 - mu * special.ndtri(delta), 0.0)
    _, high = bisected(np.zeros_like(start), start, lambda epsilon: delta_of(mu, epsilon) > delta, near=1e-15)
    high = np.where(mu < LARGE, high, start)
    high = np.where((mu <= 0) | (delta_of(mu, 0.0) <= delta), 0.0, high)
    return np.where((mu > 0) & ((delta <= 0) | np.isinf(mu)), np.inf, high)


def mu_of(epsilon: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """The largest mu at which mu-GDP is (epsilon, delta)-DP; 0 for delta = 0, infinity for epsilon = infinity. Broadcasts."""
    epsilon, delta = np.broadcast_arrays(np.asarray(epsilon, float), np.asarray(delta, float))
    finite = np.where(np.isinf(epsilon), 0.0, epsilon)
    top = np.sqrt(2 * finite) + 80.0  # at this mu, delta equals 1 in double precision
    low, _ = bisected(np.zeros_like(finite), top, lambda mu: delta_of(mu, finite) <= delta, near=1e-15)
    return np.where(np.isinf(epsilon), np.inf, np.where(delta <= 0, 0.0, low))


@lru_cache(maxsize=4096)
def mu_of_claim(claim: Claim) -> float:
    """The largest mu at which mu-GDP satisfies the claim."""
    return float(mu_of(claim.epsilon, claim.delta))


def bisected(
    low: Array, high: Array, below: Callable[[Array], NDArray[np.bool_]], steps: int = STEPS, near: float = 0.0
) -> tuple[Array, Array]:
    """Brackets of any shape, closed in on the point up to which `below` is true. near: relative width that is close enough."""
    for _ in range(steps):
        middle = (low + high) / 2
        is_below = below(middle)
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        if not (high - low > near * high).any():
            break
    return low, high


def tradeoff(mu: ArrayLike, alpha: ArrayLike) -> NDArray[np.float64]:
    """The smallest false-negative rate that mu-GDP allows at false-positive rate alpha. Broadcasts."""
    alpha = np.asarray(alpha, float)
    with np.errstate(invalid="ignore"):
        beta = special.ndtr(-special.ndtri(alpha) - np.asarray(mu, float))
    return np.where(alpha <= 0, 1.0, np.where(alpha >= 1, 0.0, beta))


def mu_lower(
    difference: ArrayLike, sd: ArrayLike, n0: ArrayLike, n1: ArrayLike, alpha: ArrayLike, *, sd_known: bool = False
) -> NDArray[np.float64]:
    """A lower confidence bound at level 1 - alpha on mu, the difference of the means of two normal samples in units of their
    common sd. Broadcasts.

    difference: sample mean of world 1 minus sample mean of world 0. sd: the pooled sample sd; the test is then the noncentral t
    with n0 + n1 - 2 degrees of freedom. With sd_known, sd is the true sd, and the test is normal. n0, n1: sizes of the samples.
    The bound is exact: before it is cut off at 0, it exceeds the true mu with probability alpha.
    """
    n0, n1, alpha = np.asarray(n0, float), np.asarray(n1, float), np.asarray(alpha, float)
    error = np.sqrt(1 / n0 + 1 / n1)
    seen = np.asarray(difference, float) / np.asarray(sd, float)
    if sd_known:
        return np.maximum(seen + special.ndtri(alpha) * error, 0.0)
    t, freedom = np.broadcast_arrays(seen / error, n0 + n1 - 2)
    top = np.maximum(t, 0.0) * 1.5 + 10.0
    return bisected(np.zeros_like(t), top, lambda shift: tail(t, freedom, shift) < alpha, STEPS // 2)[0] * error


def mu_p_value(difference: float, sd: float, n0: int, n1: int, mu: float, *, sd_known: bool = False) -> float:
    """The p-value of the hypothesis that the true mu is at most `mu`: the level alpha at which `mu_lower` equals `mu`."""
    error = float(np.sqrt(1 / n0 + 1 / n1))
    if sd_known:
        return float(special.ndtr((mu - difference / sd) / error))
    return float(tail(difference / sd / error, n0 + n1 - 2, mu / error))
