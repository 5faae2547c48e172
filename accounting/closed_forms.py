"""Closed forms: mechanisms whose epsilon needs no numerical accountant."""

from __future__ import annotations

import math
from functools import cache

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray
from scipy.special import gammaln

from .events.tree import Unsupported, gaussian_mu, parts
from .events.types import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent
from .gaussian import epsilon_of


def noisy_argmax_epsilon(classes: int, scale: float) -> float:
    """The exact epsilon (nats) of releasing argmax(v + Laplace(scale)) for v on the simplex, any v against any other.

    For a fixed threshold the probability that no other class passes it is log-concave in v, hence smallest at a
    vertex; so the worst pair is e_j against e_k, and epsilon = ln(a (c-1) / (1-a)) with a = P(the favoured class wins).
    """
    top = argmax_top_probability(classes, scale)
    return math.log(top * (classes - 1) / (1 - top))


def argmax_pair(classes: int, scale: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The laws of a noisy label where one class is sure, and where another is: chances of the one, the other, and the rest."""
    top = argmax_top_probability(classes, scale)
    other = (1 - top) / (classes - 1)
    rest = (1 - top - other,) if classes > 2 else ()
    return (top, other, *rest), (other, top, *rest)


def argmax_top_probability(classes: int, scale: float, gap: float = 1.0) -> float:
    """P(gap + Laplace(scale) exceeds the largest of classes-1 further draws): also the best accuracy of a noisy label.

    Computed as the integral of f(t) F(t + gap)^(c-1), split where f or F bends.
    """
    if classes < 2 or not scale > 0:
        raise ValueError(f"classes={classes}, scale={scale}: need at least 2 classes and a scale above 0.")
    x, w = gauss_legendre(120)
    shift, total = gap / scale, 0.0
    # In units of the scale; e^-50 of the mass lies outside.
    for low, high in ((-50.0 - shift, -shift), (-shift, 0.0), (0.0, 50.0)):
        for a in np.linspace(low, high, 26)[:-1]:
            b = a + (high - low) / 25
            t = a + (x + 1) / 2 * (b - a)
            other = t + shift
            below = np.where(other < 0, np.exp(np.minimum(other, 0)) / 2, 1 - np.exp(-np.abs(other)) / 2)
            total += float(np.sum(w / 2 * (b - a) * np.exp(-np.abs(t)) / 2 * below ** (classes - 1)))
    return total


@cache
def gauss_legendre(nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes in (-1, 1) and weights of a quadrature that is exact for polynomials of degree 2 nodes - 1."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return x, w


def laplace_delta(scale: float, epsilon: float) -> float:
    """delta of one Laplace release with noise scale / sensitivity = scale: 1 - e^((epsilon - 1/scale)/2), at least 0."""
    return max(0.0, -math.expm1((epsilon - 1 / scale) / 2))


def laplace_epsilon(scale: float, delta: float) -> float:
    """The smallest epsilon (nats) of one Laplace release at delta: 1/scale + 2 ln(1 - delta), at least 0."""
    return max(0.0, 1 / scale + 2 * math.log1p(-delta))


def composed_pure_delta(epsilon: float, count: int, target: float) -> float:
    """The exact delta at `target` of `count` epsilon-DP mechanisms of any kind, adaptively chosen.

    Kairouz, Oh and Viswanath 2015, theorem 3.3: sum over l of C(k, l) (e^((k-l) e) - e^(target + l e))_+ / (1 + e^e)^k.
    Randomised response attains it.
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
    """The exact epsilon (nats) at delta of `count` epsilon-DP mechanisms; count * epsilon when delta is 0."""
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
    """The epsilon (nats) of an epsilon-DP mechanism on a secret sample: ln(1 + rate (e^epsilon - 1)).

    Its delta becomes rate * delta.
    """
    if epsilon > 700:
        return max(0.0, epsilon + math.log(rate))
    return math.log1p(rate * math.expm1(epsilon))


def epsilon(ledger: DpEvent, delta: float) -> float:
    """The epsilon (nats) of a ledger for which a closed form exists. Raises Unsupported for all others.

    Gaussian throughout; one Laplace release; one or more equal pure mechanisms; and at delta = 0 anything made of pure parts,
    whose worst cases add up.
    """
    mu = gaussian_mu(ledger)
    if mu is not None:
        return float(epsilon_of(mu, delta))
    found = parts(ledger)
    if any(isinstance(e, dp.NonPrivateDpEvent) for e, _ in found):
        return math.inf
    if delta == 0:
        return math.fsum(count * pure_epsilon(event) for event, count in found)
    if len(found) == 1:
        event, count = found[0]
        if isinstance(event, dp.LaplaceDpEvent) and count == 1:
            return laplace_epsilon(event.noise_multiplier, delta)
        if isinstance(event, PureDpEvent):
            return composed_pure_epsilon(event.epsilon, count, delta)
        if isinstance(event, FiniteDpEvent | dp.RandomizedResponseDpEvent) and count == 1:
            return finite_epsilon(event if isinstance(event, FiniteDpEvent) else response_pair(event), delta)
    raise Unsupported("no closed form for this composition.")


def pure_epsilon(event: DpEvent) -> float:
    """The smallest epsilon (nats) for which one part is epsilon-DP. Raises Unsupported when there is none or it is unknown."""
    match event:
        case dp.LaplaceDpEvent():
            return float(1 / event.noise_multiplier)
        case PureDpEvent() | BoundedRangeDpEvent():
            return float(event.epsilon)
        case FiniteDpEvent():
            return finite_epsilon(event, 0.0)
        case dp.RandomizedResponseDpEvent():
            return finite_epsilon(response_pair(event), 0.0)
        case dp.PoissonSampledDpEvent():
            return amplified(math.fsum(n * pure_epsilon(e) for e, n in parts(event.event)), event.sampling_probability)
        case VisibleMixtureDpEvent():
            drawn = [e for e, p in zip(event.events, event.probabilities, strict=True) if p > 0]
            return max((math.fsum(n * pure_epsilon(e) for e, n in parts(d)) for d in drawn), default=0.0)
    raise Unsupported(f"{type(event).__name__} has no finite epsilon at delta=0.")


def finite_epsilon(event: FiniteDpEvent, delta: float) -> float:
    """The epsilon (nats) of a pair of finite distributions, the larger of both orders."""
    best = 0.0
    for p, q in ((event.upper, event.lower), (event.lower, event.upper)):
        pairs = sorted(zip(p, q, strict=True), key=lambda x: x[0] / x[1] if x[1] else math.inf, reverse=True)
        above, below = 0.0, 0.0
        for i, (up, low) in enumerate(pairs):
            above, below = above + up, below + low
            # With the outcomes so far rejected, delta(e) = above - e^e below; the next outcome joins once e falls below its loss.
            following = pairs[i + 1][0] / pairs[i + 1][1] if i + 1 < len(pairs) and pairs[i + 1][1] else 0.0
            if above - following * below >= delta and above > delta:
                best = max(best, math.log((above - delta) / below) if below else math.inf)
                break
    return best


def response_pair(event: dp.RandomizedResponseDpEvent) -> FiniteDpEvent:
    """The reports of two users with different values: with probability noise_parameter a uniform draw from num_buckets."""
    buckets = event.num_buckets
    other = event.noise_parameter / buckets
    rest = ((buckets - 2) * other,) if buckets > 2 else ()
    keep = 1 - event.noise_parameter + other
    return FiniteDpEvent((keep, other, *rest), (other, keep, *rest))
