"""LPGNN's local mechanisms in closed form: the multi-bit encoder, its best number of bits, and randomised response.

Sajadmanesh and Gatica-Perez, CCS 2021. Features lie in [0, 1] unless stated otherwise; epsilon in nats. A user who
reports features at epsilon_x and a label at epsilon_y spends their sum.
"""

from __future__ import annotations

import math

OPTIMUM = 2.1773189849653067  # the root of sinh z = 2 z: epsilon / m at the continuous optimum; the paper rounds it to 2.18


def lpgnn_epsilon(features: float, labels: float) -> float:
    """The paper's guarantee for one user, at delta = 0."""
    return features + labels


def bits_printed(epsilon: float, dim: int) -> int:
    """The paper's number of sampled features: max(1, min(d, floor(epsilon / 2.18)))."""
    return max(1, min(dim, math.floor(epsilon / 2.18)))


def bits_best(epsilon: float, dim: int) -> int:
    """The integer with the smallest variance: minimises coth(epsilon / (2m))^2 / m, next to the continuous optimum."""
    near = range(max(1, math.floor(epsilon / OPTIMUM) - 1), min(dim, math.ceil(epsilon / OPTIMUM) + 1) + 1)
    return min(near, key=lambda m: _spread(epsilon, m) / m, default=dim)


def bit_probability(x: float, epsilon: float, bits: int = 1, low: float = 0.0, high: float = 1.0) -> float:
    """The probability that the bit of a sampled feature is 1: linear in x, from 1/(e^(epsilon/m) + 1) at low to its
    complement.
    """
    odds = math.exp(epsilon / bits)
    return 1 / (odds + 1) + (x - low) / (high - low) * (odds - 1) / (odds + 1)


def rectified(sign: int, dim: int, epsilon: float, bits: int, low: float = 0.0, high: float = 1.0) -> float:
    """The server's estimate of a feature from a report: sign is -1 or 1 for a sampled feature, 0 for all others. Unbiased."""
    return dim * (high - low) / (2 * bits) / math.tanh(epsilon / (2 * bits)) * sign + (low + high) / 2


def rectified_variance(x: float, dim: int, epsilon: float, bits: int, low: float = 0.0, high: float = 1.0) -> float:
    """Variance of the rectified value of a feature x over the sampling and the coin."""
    return dim / bits * ((high - low) / 2) ** 2 * _spread(epsilon, bits) - (x - (low + high) / 2) ** 2


def response_probabilities(epsilon: float, classes: int) -> tuple[float, float]:
    """Randomised response: the probability that the true label is sent, and that of each other one."""
    total = math.exp(epsilon) + classes - 1
    return math.exp(epsilon) / total, 1 / total


def response_epsilon(kept: float, classes: int) -> float:
    """The epsilon of a response that keeps the truth with probability `kept` and spreads the rest evenly."""
    return math.log(kept * (classes - 1) / (1 - kept))


def _spread(epsilon: float, bits: int) -> float:
    return 1 / math.tanh(epsilon / (2 * bits)) ** 2
