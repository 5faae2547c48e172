"""The privacy profile and the trade-off curve of a ledger. They limit the error rates of every test."""

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from ..arguments import is_finite, member, shown
from ..claim import Claim, Relation, check_claim
from ..events.tree import Unsupported, gaussian_mu, parts, scaled
from ..events.well_formed import check_ledger
from ..gaussian import delta_of, epsilon_of, mu_of_claim, tradeoff
from . import rdp
from .exact import composed_sides
from .pld import below_zero, between, distribution, grid, knots

__all__ = ["Curve", "Unsupported", "approximate", "curve", "epsilon_at_least", "gaussian", "scaled"]

# nats: e^LARGEST still fits a float64. At larger epsilons a curve keeps the delta of LARGEST, which is an upper bound.
LARGEST = 700.0
# The accountant moves tails to an infinite loss. This mass is below CUT for up to 1000 different mechanisms, and below LEAST for
# up to 100,000 equal ones.
CUT, LEAST = 1e-12, 1e-10
# The rounding errors of the Fourier transform have either sign. So the sum of the negative ones shows how much they may add to
# delta; this multiple of it is a bound.
ROUNDED = 2.0


@dataclass(frozen=True, eq=False)
class Curve:
    """delta as a function of epsilon, and beta as a function of alpha, each for the worse of both orders of a pair of neighbours.

    mu: a number if the curve is exactly that of N(0, 1) against N(mu, 1), and then the knots are empty; else None. knots: (k,)
    float64 epsilons (nats), ascending from 0. deltas: (k,) float64, delta at each knot; between the knots delta is linear in
    e^epsilon, after the last it is constant. surplus: how much the accountant's rounding may have added to the deltas.
    """

    mu: float | None
    knots: NDArray[np.float64]
    deltas: NDArray[np.float64]
    surplus: float = CUT

    def delta(self, epsilon: ArrayLike) -> NDArray[np.float64]:
        """The smallest delta at each epsilon (nats, of either sign), for the worse of adding and removing the unit."""
        e = np.asarray(epsilon, dtype=np.float64)
        size = np.abs(e)
        positive = delta_of(self.mu, size) if self.mu is not None else between(self.knots, self.deltas, size)
        # The trade-off curve is symmetric, hence 1 - delta(-e) = e^-e (1 - delta(e)).
        return np.where(e < 0, 1 - np.exp(-size) * (1 - positive), positive)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 (nats) whose delta is at most `delta`; inf if there is none."""
        if self.mu is not None:
            return float(epsilon_of(self.mu, delta))
        if self.deltas[-1] > delta:
            return math.inf
        i = int(np.argmax(self.deltas <= delta))
        if i == 0:
            return 0.0
        share = (self.deltas[i - 1] - delta) / (self.deltas[i - 1] - self.deltas[i])
        step = math.expm1(self.knots[i] - self.knots[i - 1])
        return float(self.knots[i - 1] + math.log1p(share * step))

    def epsilon_at_least(self, delta: float) -> float:
        """The same for lower bounds: `epsilon` at delta + surplus, and at least at LEAST.

        The accountant moves a little mass to an infinite loss. So at smaller deltas `epsilon` may be infinite although the
        ledger's is finite. The result exceeds the true epsilon only by the rounding of losses to the grid.
        """
        return self.epsilon(delta if self.mu is not None else max(delta + self.surplus, LEAST))

    def beta(self, alpha: ArrayLike) -> NDArray[np.float64]:
        """The smallest type II error of any test whose type I error is alpha in [0, 1]: convex, decreasing, symmetric."""
        a = np.asarray(alpha, dtype=np.float64)
        if self.mu is not None:
            return tradeoff(self.mu, a)
        return np.interp(a, *self._vertices)

    @cached_property
    def _vertices(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Corners (alpha, beta): upper envelope of the lines 1 - delta(e) - e^e alpha and their mirror images."""
        d = np.minimum.accumulate(self.deltas)
        slope = (d[:-1] - d[1:]) / np.expm1(np.diff(self.knots))  # alpha times e^epsilon, where two neighbouring lines meet
        beta = np.maximum.accumulate(np.clip(1 - d[:-1] - slope, 0, 1))
        alpha = np.maximum.accumulate((slope * np.exp(-self.knots[:-1]))[::-1])[::-1]
        top = 1 - d[-1]
        first = np.concatenate([[0.0], alpha[::-1], beta, [top, 1.0]])
        second = np.concatenate([[top], beta[::-1], alpha, [0.0, 0.0]])
        return np.maximum.accumulate(first), np.minimum.accumulate(second)


def curve(ledger: DpEvent, relation: Relation = Relation.ADD_REMOVE, interval: float | None = None) -> Curve:
    """The curve of a ledger, from its privacy-loss distribution, or in closed form if all parts are Gaussian.

    interval: grid of the losses in nats, by default that of `grid`. The grid rounds delta up and beta down. Raises Unsupported (a
    ValueError) if no dominating pair of distributions is known for a part of the ledger, and ValueError for impossible numbers.
    """
    check_ledger(ledger)
    relation = member("relation", relation, Relation)
    if interval is not None and not (is_finite(interval) and interval > 0):
        raise ValueError(f"interval={shown(interval)}: must be a finite number of nats above 0, or None for the usual grid.")
    mu = gaussian_mu(ledger)
    if mu is not None:
        return gaussian(mu)
    if any(isinstance(e, dp.NonPrivateDpEvent) for e, _ in parts(ledger)):
        return _from_knots(np.zeros(1), np.ones(1))
    losses = distribution(ledger, relation, grid(ledger, relation) if interval is None else interval)
    sides = [knots(losses._pmf_remove), knots(losses._pmf_add)]
    top = min(max(float(k[-1]) for k, _ in sides), LARGEST)
    at = np.unique(np.concatenate([[0.0], *(k[(k > 0) & (k <= top)] for k, _ in sides)]))
    surplus = CUT + ROUNDED * max(below_zero(losses._pmf_remove), below_zero(losses._pmf_add))
    return _from_knots(at, np.maximum(*(between(k, d, at) for k, d in sides)), surplus)


def epsilon_at_least(ledger: DpEvent, delta: float, interval: float | None = None) -> float:
    """The epsilon (nats) of the pairs of distributions that a ledger names, for lower bounds.

    At delta = 0 it is exact: the largest log-ratios of all parts add up, in the order of the pairs whose sum is larger. At larger
    deltas it is `Curve.epsilon_at_least`, or if that is smaller this sum or the epsilon of the ledger's RDP; only the rounding of
    losses to the grid may raise it. Where the losses are much smaller than the grid, RDP limits what rounding adds. interval: as
    for `curve`. Raises Unsupported as `curve`.
    """
    try:
        most = max(composed_sides(ledger))
    except Unsupported:
        most = math.inf
    else:
        if delta == 0 or most == 0:
            return most
    found = curve(ledger, interval=interval)
    if found.mu is None:
        with suppress(Unsupported, ArithmeticError):  # RDP may be unknown, and its numbers may overflow
            most = min(most, rdp.epsilon(ledger, delta))
    return min(most, found.epsilon_at_least(delta))


def gaussian(mu: float) -> Curve:
    """The curve of N(0, 1) against N(mu, 1). `count` Gaussian releases of sigma have mu = sqrt(count) / sigma (Dong, Roth and Su
    2022). Raises ValueError unless mu >= 0.
    """
    if not mu >= 0:
        raise ValueError(f"mu={mu}: must be at least 0; mu is sensitivity / noise std.")
    return Curve(float(mu), np.zeros(0), np.zeros(0))


def gaussian_curve(claim: Claim) -> Curve:
    """The curve of the Gaussian mechanism that just satisfies a claim. Raises ValueError for a finite epsilon with delta = 0,
    which no Gaussian mechanism satisfies.
    """
    check_claim(claim)
    if claim.delta == 0 and claim.epsilon < math.inf:
        way = "Claim a delta above 0, or use curve(PureDpEvent(epsilon))."
        raise ValueError(f"delta=0: must be above 0, because no Gaussian noise meets a claim without delta. {way}")
    return gaussian(mu_of_claim(claim))


def approximate(epsilon: float, delta: float = 0.0) -> Curve:
    """The curve of (epsilon, delta)-DP, that of full disclosure with probability delta and else randomised response. epsilon:
    nats. Raises ValueError unless epsilon >= 0 and delta is in [0, 1].
    """
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise ValueError(f"epsilon={epsilon}, delta={delta}: need epsilon >= 0 and delta in [0, 1].")
    at = np.array([0.0]) if epsilon == 0 else np.array([0.0, min(epsilon, LARGEST)])
    response = -np.expm1(at - epsilon) / (1 + math.exp(-epsilon))
    return _from_knots(at, delta + (1 - delta) * response)


def _from_knots(at: NDArray[np.float64], deltas: NDArray[np.float64], surplus: float = CUT) -> Curve:
    return Curve(None, at, np.minimum.accumulate(np.clip(deltas, 0, 1)), surplus)
