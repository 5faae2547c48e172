"""Exact epsilons in nats. Functions that return method -> epsilon compute it by dp_accounting and by a closed form or Opacus."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from ...accounting.gaussian import delta_of, epsilon_of

ROUNDED_DOWN: dict[str, Any] = {"pessimistic_estimate": False, "use_connect_dots": False}
CLOSED, LIBRARY, PRV = "closed form", "dp_accounting, rounded down", "Opacus PRV"


def gaussian(mu: float, delta: float) -> dict[str, float]:
    """Method -> the epsilon of N(0, 1) against N(mu, 1)."""
    closed = float(epsilon_of(mu, delta))
    found = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=max(1e-4, closed / 2e4), **ROUNDED_DOWN)
    return {CLOSED: closed, LIBRARY: float(found.get_epsilon_for_delta(delta))}


def sampled_gaussian(mu: float, rate: float, delta: float) -> dict[str, float]:
    """Method -> the epsilon of (1-q) N(0, 1) + q N(mu, 1) against N(0, 1): one Gaussian on a secret sample, with q = rate."""
    closed = sampled_gaussian_closed(mu, rate, delta)
    step = max(1e-3, closed / 1e4)
    found = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step, sampling_prob=rate, **ROUNDED_DOWN)
    return {CLOSED: closed, LIBRARY: float(found.get_epsilon_for_delta(delta))}


def sampled_steps(mu: float, rate: float, count: int, delta: float) -> dict[str, float]:
    """Method -> the epsilon of `count` Gaussians, each with this mu on a fresh Poisson sample, if a record is removed."""
    one = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=5e-5 * mu * mu, sampling_prob=rate, **ROUNDED_DOWN)
    grid = np.linspace(-9.5, mu + 9.5, 200_001)
    middle = (grid[:-1] + grid[1:]) / 2
    loss = np.log1p(rate * np.expm1(mu * middle - mu * mu / 2))
    mass = (1 - rate) * np.diff(ndtr(grid)) + rate * np.diff(ndtr(grid - mu))
    library = float(one.self_compose(count).get_epsilon_for_delta(delta))
    return {LIBRARY: library, PRV: convolved(loss, mass, count, delta)}


def sampled_gaussian_closed(mu: float, rate: float, delta: float) -> float:
    """The epsilon of `sampled_gaussian`, by the closed form alone."""
    return amplified(lambda e: float(delta_of(mu, e)), rate, delta)


def amplified(profile: Callable[[float], float], rate: float, delta: float) -> float:
    """The exact epsilon of a mechanism on a secret sample, if a record is removed. profile: epsilon -> delta without sampling.

    delta' = q delta(ln(1 + (e^epsilon' - 1) / q)) (Balle, Barthe and Gaboardi 2018, theorem 8, which is tight).
    """
    inner = epsilon_at(profile, delta / rate)
    return inner + float(np.log(rate + (1 - rate) * np.exp(-inner))) if inner else 0.0  # ln(1 + q (e^x - 1)) without overflow


def epsilon_at(profile: Callable[[float], float], delta: float) -> float:
    """The epsilon at which a decreasing profile(epsilon) equals delta; 0 if profile(0) is not larger."""
    if profile(0.0) <= delta:
        return 0.0
    high = 1.0
    while profile(high) > delta:
        high *= 2
    return float(brentq(lambda e: profile(e) - delta, 0.0, high, xtol=1e-12))


def coin_flips(high: float, low: float, count: int, delta: float) -> dict[str, float]:
    """Method -> the epsilon of `count` coin flips that show heads with probability `high` in one world and `low` in the other.

    For delta = 0, dp_accounting computes epsilon at delta = 1e-12.
    """
    sides = [{0: float(np.log(p)), 1: float(np.log1p(-p))} for p in (low, high)]
    how: dict[str, Any] = {"pessimistic_estimate": False, "value_discretization_interval": 2e-5}
    found = [pld.from_two_probability_mass_functions(*order, **how).self_compose(count) for order in (sides, sides[::-1])]
    library = max(one.get_epsilon_for_delta(max(delta, 1e-12)) for one in found)
    return {CLOSED: coin_flips_closed(high, low, count, delta), LIBRARY: float(library)}


def coin_flips_closed(high: float, low: float, count: int, delta: float) -> float:
    """The epsilon of `coin_flips`, from the binomial distribution of the number of heads, in both orders of the worlds."""
    from scipy.stats import binom

    logs = [binom.logpmf(np.arange(count + 1), count, chance) for chance in (high, low)]

    def root(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        def excess(e: float) -> float:
            above = one > other + e
            return float(np.sum(np.exp(one[above]) * -np.expm1(other[above] + e - one[above]))) - delta

        if delta == 0:
            return float((one - other).max())
        return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(np.abs(one - other).max()), xtol=1e-11))

    return max(root(*logs), root(*logs[::-1]))


def sigma_for(epsilon_of_sigma: Callable[[float], float], target: float) -> float:
    """The sigma between e^-6 and e^10 at which a decreasing epsilon(sigma) equals the target."""
    return float(np.exp(brentq(lambda log: epsilon_of_sigma(math.exp(log)) - target, -6.0, 10.0, xtol=1e-12)))


def mixture(sensitivities: list[float], chances: list[float], std: float, count: int, delta: float) -> dict[str, float]:
    """Method -> the epsilon of `count` releases of the mixture sum(chance N(sensitivity, std^2)) against N(0, std^2)."""
    one = pld.from_mixture_gaussian_mechanism(
        std, sensitivities, chances, value_discretization_interval=1e-3 / count**0.5, **ROUNDED_DOWN
    )
    library = float(one.self_compose(count).get_epsilon_for_delta(delta))
    shift, share = np.array(sensitivities) / std, np.array(chances)
    grid = np.linspace(shift.min() - 9.5, shift.max() + 9.5, 200_001)
    middle = (grid[:-1] + grid[1:]) / 2
    ratio = np.log(np.exp(middle[:, None] * shift - shift**2 / 2) @ share)
    mass = np.sum(share * np.diff(ndtr(grid[:, None] - shift), axis=0), axis=1)
    return {LIBRARY: library, PRV: convolved(ratio, mass, count, delta)}


def convolved(losses: NDArray[np.float64], masses: NDArray[np.float64], count: int, delta: float) -> float:
    """The epsilon at delta of the sum of `count` independent privacy losses, by Opacus' discrete PRV accountant.

    losses: (n,) nats. masses: (n,) probabilities in the world of the numerator. The discretisation keeps the mean exact.
    """
    from ...accounting.upper.libraries import _opacus_accountants

    prv = _opacus_accountants().analysis.prv
    mean = float(losses @ masses)
    sd = max(float((losses - mean) ** 2 @ masses), 1e-12) ** 0.5
    step = max(2e-6, sd / 400, float(np.ptp(losses)) / 2e6)
    most = max(count * abs(mean) + 12 * sd * count**0.5 + float(np.abs(losses).max()), 1.0) * 1.1
    domain = prv.Domain.create_aligned(-most, most, max(step, most / 2e6))
    place = (losses - domain.t_min) / domain.dt
    low = np.floor(place).astype(int)
    pmf = np.zeros(domain.size)
    np.add.at(pmf, low, masses * (1 - (place - low)))  # each mass is split between the two nearest points, which keeps the mean
    np.add.at(pmf, low + 1, masses * (place - low))
    whole = prv.compose_heterogeneous([prv.DiscretePRV(pmf, domain)], [count])
    return epsilon_of_losses(whole.domain.t_min, whole.domain.dt, whole.pmf, delta)


def epsilon_of_losses(start: float, step: float, masses: NDArray[np.float64], delta: float) -> float:
    """The smallest epsilon >= 0 with sum of max(1 - e^(epsilon - loss), 0) mass <= delta. The losses are start, start + step, ...

    The sums run from the largest loss down, so no exponential overflows.
    """
    from scipy.signal import lfilter

    losses, p = start + step * np.arange(masses.size), np.maximum(masses, 0.0)
    above = np.append(np.cumsum(p[::-1])[::-1][1:], 0.0)
    weighted = np.append(lfilter([math.exp(-step)], [1.0, -math.exp(-step)], p[::-1])[::-1][1:], 0.0)
    i = int(np.argmax((above - weighted <= delta) & (losses >= 0)))
    # for epsilon between losses[i - 1] and losses[i], the sum is kept - e^(epsilon - losses[i]) * discounted
    kept, discounted = float(above[i] + p[i]), float(weighted[i] + p[i])
    return max(float(losses[i]) + math.log((kept - delta) / discounted), 0.0) if kept > delta else 0.0
