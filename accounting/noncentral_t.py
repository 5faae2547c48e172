"""The upper tail of the noncentral t distribution, and its inverse, without the missing values of other implementations."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

Array = NDArray[np.float64]
REACH = 8.5  # half the width of an integral, in the widest standard deviation that the integrand can have
NODES, WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(64))
MANY = 2e5  # degrees of freedom


def tail(t: ArrayLike, freedom: ArrayLike, shift: ArrayLike) -> Array:
    """P(T > t) of the noncentral t distribution with `freedom` degrees of freedom, a whole number, and noncentrality `shift`.

    T = (Z + shift) / S, where Z is standard normal and freedom * S^2 is chi-squared. Broadcasts. For shift >= 0 the relative
    error is below 1e-8, up to MANY degrees of freedom below 1e-10. Where an argument is NaN or freedom is below 1, the result is
    1, which rejects nothing.
    """
    t, freedom, shift = np.broadcast_arrays(*(np.asarray(x, float) for x in (t, freedom, shift)))
    known = np.isfinite(t) & np.isfinite(shift) & (freedom >= 1) & np.isfinite(freedom)
    found = np.where(np.isposinf(t) & np.isfinite(shift), 0.0, 1.0)
    below = t < 0  # P(T > t) = 1 - P(-T > -t), and -T has the noncentrality -shift
    sign = np.where(below, -1.0, 1.0)
    for rule, chosen in ((_over_s, t * t <= 2 * freedom), (_over_z, t * t > 2 * freedom)):
        chosen = chosen & known
        found[chosen] = rule(sign[chosen] * t[chosen], freedom[chosen], sign[chosen] * shift[chosen])
    return np.clip(np.where(below & known, 1 - found, found), 0.0, 1.0)


@lru_cache(maxsize=1024)  # a search for the smallest detectable violation asks for the same value at every step
def critical_value(alpha: float, freedom: float, shift: float) -> float:
    """The t that T, see `tail`, exceeds with probability alpha. Raises ValueError for freedom below 1."""
    if freedom < 1:
        raise ValueError(f"freedom={freedom}: must be at least 1.")
    low, high = min(shift, 0.0) - 1, max(shift, 0.0) + 1
    while tail(high, freedom, shift) > alpha:
        high = 2 * high
    while tail(low, freedom, shift) < alpha:
        low = 2 * low
    return float(optimize.brentq(lambda t: float(tail(t, freedom, shift)) - alpha, low, high, xtol=1e-300, rtol=1e-14))


def _peak(t: Array, freedom: Array, shift: Array) -> Array:
    """About where density(s) P(Z > t s - shift) is largest: where the density of (S, Z) at (s, t s - shift) is, at most 1."""
    product, root = t * shift, np.sqrt((t * shift) ** 2 + 4 * freedom * (t * t + freedom))
    # two forms of one root of a quadratic equation; each is exact for one sign of the product
    s = np.where(product > 0, (product + root) / (2 * (t * t + freedom)), 2 * freedom / (root - np.minimum(product, 0.0)))
    return np.minimum(s, 1.0)


def _over_s(t: Array, freedom: Array, shift: Array) -> Array:
    """The integral of density(s) P(Z > t s - shift) over s. (n,) each, t >= 0 -> (n,). Smooth if t is small: t^2 <= 2 freedom."""
    peak, reach = _peak(t, freedom, shift), REACH / np.sqrt(freedom)
    low = np.maximum(peak - reach, 0.0)[:, None]
    width = (peak + reach)[:, None] - low
    beyond = (low - 1) + width * (NODES + 0.5)  # s - 1
    half = freedom / 2
    with np.errstate(invalid="ignore"):
        stirling = np.log(half / (2 * np.pi)) / 2 - 1 / (12 * half) + 1 / (360 * half**3)
    constant = np.log(2) + np.where(half > 100, stirling, special.xlogy(half, half) - half - special.gammaln(half))
    n = freedom[:, None]
    density = constant[:, None] + (n - 1) * np.log1p(beyond) - n * (beyond + beyond**2 / 2)
    return np.exp(density + special.log_ndtr(shift[:, None] - t[:, None] * (1 + beyond))) @ WEIGHTS * width[:, 0]


def _over_z(t: Array, freedom: Array, shift: Array) -> Array:
    """The integral of density(z) P(S < (z + shift) / t) over z. (n,) each, t > 0 -> (n,). Smooth if t is large."""
    peak = np.maximum(t * _peak(t, freedom, shift) - shift, 0.0)
    low = np.maximum(peak - REACH, -shift)[:, None]
    width = peak[:, None] + REACH - low
    z = low + width * (NODES + 0.5)
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return density * _below((z + shift[:, None]) / t[:, None], freedom[:, None]) @ WEIGHTS * width[:, 0]


def _below(s: Array, freedom: Array) -> Array:
    """P(S < s). Broadcasts. Above MANY degrees of freedom, where SciPy's incomplete gamma function is imprecise, by the normal
    approximation of Barndorff-Nielsen (1986).
    """
    above, root = np.maximum(s * s, 1e-9) - 1, np.sqrt(freedom / 2)  # with MANY, the chance below 1e-9 is 0 in floating point
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.sign(above) * np.sqrt(freedom * (above - np.log1p(above)))
        correction = np.where(np.abs(above) < 1e-4, (1 / 3 - above / 36) / root, np.log(root * above / r) / r)
    few = special.gammainc(np.minimum(freedom, MANY) / 2, freedom * s * s / 2)
    return np.where(freedom > MANY, special.ndtr(r + correction), few)
