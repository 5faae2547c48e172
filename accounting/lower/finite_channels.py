"""Mechanisms with finitely many inputs and outputs: computes epsilon by enumeration, without samples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..checks.conditions import proved
from ..claim import Claim
from .bounds import Bound, resting


def channel_epsilon(probabilities: ArrayLike, delta: float = 0.0) -> float:
    """The exact epsilon (nats) at delta of a channel, over every ordered pair of inputs; infinity if delta is exceeded outright.

    probabilities: (inputs, outputs) float, rows that sum to 1. Solves max over pairs of sum(max(p - e^epsilon q, 0)) = delta
    by sorting the log-ratios, not by search.
    """
    p = np.asarray(probabilities, float)
    if p.ndim != 2 or (p < 0).any() or not np.allclose(p.sum(axis=1), 1, atol=1e-9):
        raise ValueError(f"probabilities of shape {p.shape}: needs (inputs, outputs), none negative, each row summing to 1.")
    return max((_pair(p[i], p[j], delta) for i in range(len(p)) for j in range(len(p)) if i != j), default=0.0)


def enumerated(probabilities: ArrayLike, claim: Claim, *, attack: str = "enumeration", audit: str = "exact") -> Bound:
    """The exact epsilon of a channel as a bound: nothing is sampled, so alpha is 0 and the bound detects every violation."""
    epsilon = channel_epsilon(probabilities, claim.delta)
    refuted = epsilon > claim.epsilon * (1 + 1e-12) + 1e-12  # rounding of the probabilities themselves
    bound = Bound(epsilon, 0.0, "exact", "enumeration", (0, 0), refuted, None, 1.0, claim.epsilon, attack, audit)
    return resting(
        bound, "the definition of (epsilon, delta) over all pairs of inputs", proved("the channel is this table", "given")
    )


def _pair(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """The smallest epsilon >= 0 with sum(max(p - e^epsilon q, 0)) <= delta."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, np.log(p) - np.log(q), -math.inf)
    order = np.argsort(-ratio)
    mass, other = np.cumsum(p[order]), np.cumsum(q[order])
    for k, at in enumerate(ratio[order]):  # with the k+1 largest ratios above epsilon: delta = mass - e^epsilon other
        last = max(float(ratio[order][k + 1]) if k + 1 < len(order) else 0.0, 0.0)
        if at <= 0:
            return 0.0
        if mass[k] - math.exp(min(last, 700.0)) * other[k] > delta + 1e-15:
            return math.inf if other[k] == 0 else max(math.log(max(mass[k] - delta, 1e-300) / other[k]), last)
    return 0.0
