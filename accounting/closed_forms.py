"""Epsilon and delta of mechanisms that need no numerical accountant: closed forms, and finite channels by enumeration."""

import math
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln


def noisy_argmax_epsilon(classes: int, scale: float) -> float:
    """The exact epsilon (nats) of releasing argmax(v + Laplace(scale)), if v may be any point of the simplex.

    For a fixed threshold, the probability that no other class exceeds the threshold is log-concave in v, hence smallest at a
    vertex. So two vertices are the worst pair of neighbours. epsilon = ln(a (c-1) / (1-a)), where c = `classes` and a is the
    probability that the noisy label is the class of the vertex. Infinite below scale = 1/740, where 1 - a is less than the
    smallest float64. Raises ValueError for classes < 2 or scale <= 0.
    """
    error = argmax_error_probability(classes, scale)
    return math.log1p(-error) + math.log(classes - 1) - math.log(error) if error else math.inf


def costliest_argmax_epsilon(scale: float) -> float:
    """The largest `noisy_argmax_epsilon` (nats) of any number of classes, or for scales below 1/50 an upper bound on it.

    For c classes, e^epsilon is the mean of g(t) = f(t-1) F(t) / (f(t) F(t-1)) under a density proportional to f(t) F(t-1)
    F(t)^(c-2). Here f and F are those of the noise, and s = 1/scale. g is 1 up to t = 0, rises to 2 e^s - 1 at t = 1, and then
    falls towards e^s. So epsilon <= ln(2 e^s - 1). The kernel F(t)^c is totally positive, so the mean minus a constant changes
    its sign in c at most as often as g minus the constant does in t, and in the same order (Karlin 1968). So epsilon rises up to
    some number of classes and falls from there on, and a search finds its maximum.
    """
    if 1 / scale > 50:
        return 1 / scale + math.log(2 - math.exp(-1 / scale))
    high = 4
    while noisy_argmax_epsilon(high, scale) > noisy_argmax_epsilon(high // 2, scale):
        high *= 2
    low = max(high // 4, 2)
    while high - low > max(2, low // 10_000):
        one, other = low + (high - low) // 3, high - (high - low) // 3
        low, high = (one, high) if noisy_argmax_epsilon(one, scale) < noisy_argmax_epsilon(other, scale) else (low, other)
    return max(noisy_argmax_epsilon(c, scale) for c in (low, (low + high) // 2, high))


def argmax_pair(classes: int, scale: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The worst pair of `noisy_argmax_epsilon`: the distributions of the label for the vertices e_1 and e_2 of the simplex.

    Each is (P(class 1), P(class 2), P(any other class)). For two classes, the last probability is left out.
    """
    error = argmax_error_probability(classes, scale)
    top, other = 1 - error, error / (classes - 1)
    rest = (1 - top - other,) if classes > 2 else ()
    return (top, other, *rest), (other, top, *rest)


def argmax_top_probability(classes: int, scale: float) -> float:
    """The largest accuracy of a noisy label: one minus `argmax_error_probability`."""
    return 1 - argmax_error_probability(classes, scale)


def argmax_error_probability(classes: int, scale: float) -> float:
    """The smallest error of a noisy label: P(1 + Laplace(scale) does not exceed all of classes-1 other draws of Laplace(scale)).

    It is the integral of f(t) (1 - F(t + 1)^(classes-1)), where f and F are the density and the distribution function of
    Laplace(scale). The integral is split where f or F is not smooth. The result has a relative error of about e^-50, also if it
    is tiny; below scale = 1/740 it is 0. Raises ValueError for classes < 2 or scale <= 0.
    """
    if classes < 2 or not scale > 0:
        raise ValueError(f"classes={classes}, scale={scale}: need at least 2 classes and a scale above 0.")
    x, w = gauss_legendre(120)
    shift, total = 1 / scale, 0.0
    # The integration range in units of the scale. A share e^-50 of the integral lies outside.
    for low, high in ((-50.0 - shift, -shift), (-shift, 0.0), (0.0, 50.0)):
        for a in np.linspace(low, high, 26)[:-1]:
            b = a + (high - low) / 25
            t = a + (x + 1) / 2 * (b - a)
            other = t + shift
            above = np.exp(-np.abs(other)) / 2  # the smaller one of F and 1 - F
            log_below = np.where(other < 0, -np.abs(other) - math.log(2), np.log1p(-above))
            total += float(np.sum(w / 2 * (b - a) * np.exp(-np.abs(t)) / 2 * -np.expm1((classes - 1) * log_below)))
    return total


@cache
def gauss_legendre(nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes in (-1, 1) and weights of Gauss-Legendre quadrature, exact for polynomials of degree 2 nodes - 1."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return x, w


def laplace_epsilon(scale: float, delta: float) -> float:
    """The smallest epsilon (nats) of one Laplace release at delta: 1/scale + 2 ln(1 - delta), at least 0. scale: noise scale /
    sensitivity.
    """
    return max(0.0, 1 / scale + 2 * math.log1p(-delta))


def composed_pure_delta(epsilon: float, count: int, target: float) -> float:
    """The smallest delta at epsilon `target` (nats) for every adaptive composition of `count` epsilon-DP mechanisms.

    Kairouz, Oh and Viswanath 2015, theorem 3.3, with k = `count` and x = `epsilon`: the sum over l of C(k, l) (e^((k-l) x) -
    e^(target + l x))_+ / (1 + e^x)^k. Randomised response attains this delta.
    """
    wins = np.arange(count + 1)
    odds = math.log1p(math.exp(-epsilon))
    upper = gammaln(count + 1) - gammaln(wins + 1) - gammaln(count - wins + 1) - wins * epsilon - count * odds
    loss = (count - 2 * wins) * epsilon
    above = loss > target
    if not np.any(above):
        return 0.0
    return float(np.sum(np.exp(upper[above]) * -np.expm1(target - loss[above])))


def composed_pure_epsilon(epsilon: float, count: int, delta: float) -> float:
    """The smallest epsilon (nats) at delta for every adaptive composition of `count` epsilon-DP mechanisms; count * epsilon for
    delta 0.
    """
    if delta <= 0 or epsilon == 0:
        return count * epsilon
    low, high = 0.0, count * epsilon
    if composed_pure_delta(epsilon, count, 0.0) <= delta:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_pure_delta(epsilon, count, middle) > delta else (low, middle)
    return high


def amplified(epsilon: float, rate: float) -> float:
    """The epsilon (nats) of an epsilon-DP mechanism on a secret Poisson sample: ln(1 + rate (e^epsilon - 1)).

    The delta of the mechanism becomes rate * delta.
    """
    if epsilon > 700:
        return max(0.0, epsilon + math.log(rate))
    return math.log1p(rate * math.expm1(epsilon))


def channel_epsilon(probabilities: ArrayLike, delta: float = 0.0) -> float:
    """The exact epsilon (nats) of a channel at delta, over every ordered pair of inputs; infinity if every epsilon needs a larger
    delta.

    probabilities: (inputs, outputs) float; each row adds up to 1. For each pair of rows p, q, the function solves sum(max(p -
    e^epsilon q, 0)) = delta exactly, after sorting the log-ratios. Raises ValueError for other shapes, negative entries and other
    sums.
    """
    p = np.asarray(probabilities, float)
    if p.ndim != 2 or (p < 0).any() or not np.allclose(p.sum(axis=1), 1, atol=1e-9):
        raise ValueError(f"probabilities of shape {p.shape}: needs (inputs, outputs), none negative, each row summing to 1.")
    return max((pair_epsilon(one, other, delta, rounding=1e-15) for one, other in permutations(p, 2)), default=0.0)


def pair_epsilon(p: np.ndarray, q: np.ndarray, delta: float, rounding: float = 0.0) -> float:
    """The smallest epsilon >= 0 with sum(max(p - e^epsilon q, 0)) <= delta + rounding. rounding: errors of the probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, np.log(p) - np.log(q), -math.inf)
    order = np.argsort(-ratio)
    mass, other, ratios = np.cumsum(p[order]).tolist(), np.cumsum(q[order]).tolist(), ratio[order].tolist()
    for k, at in enumerate(ratios):  # if only the k+1 largest ratios exceed epsilon, delta = mass - e^epsilon * other
        last = max(ratios[k + 1] if k + 1 < len(ratios) else 0.0, 0.0)
        if at <= 0:
            return 0.0
        if mass[k] - math.exp(min(last, 700.0)) * other[k] > delta + rounding:
            return math.inf if other[k] == 0 else max(math.log(max(mass[k] - delta, 1e-300) / other[k]), last)
    return 0.0
