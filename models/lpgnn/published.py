"""LPGNN's local mechanisms in closed form: the multi-bit encoder, its best number of bits, and randomised response.

Sajadmanesh and Gatica-Perez, CCS 2021. epsilon is in nats.
"""

import math

OPTIMUM = 2.1773189849653067  # the root of sinh z = 2 z: epsilon / m at the best real number m; the paper rounds it to 2.18


def lpgnn_epsilon(features: float, labels: float) -> float:
    """The paper's guarantee for one user, at delta = 0: the sum of the budgets of the features and of the label."""
    return features + labels


def bits_printed(epsilon: float, dim: int) -> int:
    """The paper's number of sampled features: max(1, min(dim, floor(epsilon / 2.18)))."""
    return max(1, min(dim, math.floor(epsilon / 2.18)))


def bits_best(epsilon: float, dim: int) -> int:
    """The number m of bits with the smallest variance: the minimum of coth(epsilon / (2m))^2 / m over integers near the best real
    number.
    """
    near = range(max(1, math.floor(epsilon / OPTIMUM) - 1), min(dim, math.ceil(epsilon / OPTIMUM) + 1) + 1)
    return min(near, key=lambda m: 1 / math.tanh(epsilon / (2 * m)) ** 2 / m, default=dim)
