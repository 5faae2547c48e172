"""The epsilon of PrivGNN's noisy labels and of PATE, by each theorem of the paper and by the formulas that produced its tables.

Olatunji, Funke and Khosla, TMLR 2023. inverse_scale: the paper's lambda = 1 / beta, which the paper takes as the epsilon of one
label.
"""

import math

import numpy as np
from scipy.special import gammaln

PRINTED_DELTA_FACTOR = 10.0  # the code has 10e-4 and 10e-5 instead of the paper's 1e-4 and 1e-5


def laplace_rdp(alpha: float, inverse_scale: float) -> float:
    """The Renyi divergence of one Laplace release: ln(a/(2a-1) e^((a-1) l) + (a-1)/(2a-1) e^(-a l)) / (a-1).

    In this formula a is `alpha` and l is `inverse_scale`.
    """
    first = math.log(alpha / (2 * alpha - 1)) + (alpha - 1) * inverse_scale
    second = math.log((alpha - 1) / (2 * alpha - 1)) - alpha * inverse_scale
    return float(np.logaddexp(first, second)) / (alpha - 1)


def sampled_laplace_rdp(alpha: int, inverse_scale: float, rate: float, factor: float = 3.0) -> float:
    """The RDP of one Poisson-sampled label, by theorem 8. factor: 3 as in the theorem, or 1 as in the library that computed the
    tables.

    With factor 1, the result is exact for a scalar Laplace release.
    """
    picked = np.arange(3, alpha + 1)
    keep = math.log1p(-rate)
    choose = gammaln(alpha + 1) - gammaln(picked + 1) - gammaln(alpha - picked + 1)
    moments = np.array([(j - 1) * laplace_rdp(int(j), inverse_scale) for j in picked])
    terms = math.log(factor) + choose + (alpha - picked) * keep + picked * math.log(rate) + moments
    pair = math.log(alpha * (alpha - 1) / 2) + 2 * math.log(rate) + (alpha - 2) * keep + laplace_rdp(2, inverse_scale)
    first = (alpha - 1) * keep + math.log(alpha * rate - rate + 1)
    return float(np.logaddexp.reduce(np.concatenate([[first, pair], terms]))) / (alpha - 1)


def privgnn_epsilon(inverse_scale: float, rate: float, queries: int, delta: float, factor: float = 1.0) -> float:
    """The epsilon of algorithm 1 by theorem 8: the minimum over alpha = 2 … 32, with the conversion term ln(1/delta)/(alpha-1).

    The numbers in tables 2 and 3 are those of factor = 1 at ten times the stated delta.
    """
    return min(
        queries * sampled_laplace_rdp(a, inverse_scale, rate, factor) + math.log(1 / delta) / (a - 1) for a in range(2, 33)
    )


def privgnn_theorem_7(inverse_scale: float, rate: float, queries: int, delta: float) -> float:
    """Theorem 7: ln(1/sqrt(delta)) + |Q| ln(1 + g^2 (2/3 e^l + 1/3 e^(-2l) - 1)). It is no bound, because its proof mixes Renyi
    orders 2 and 3.

    In this formula l is `inverse_scale`, g is `rate` and |Q| is `queries`.
    """
    return math.log(1 / math.sqrt(delta)) + queries * _second_moment(inverse_scale, rate)


def privgnn_theorem_7_repaired(inverse_scale: float, rate: float, queries: int, delta: float) -> float:
    """Theorem 7 with the conversion at order 2, the order that its proof uses: ln(1/delta) instead of ln(1/delta) / 2."""
    return math.log(1 / delta) + queries * _second_moment(inverse_scale, rate)


def pate_printed(inverse_scale: float, queries: int, delta: float) -> float:
    """The data-independent epsilon of PATE in the tables: the minimum over l = 1 … 8 of (|Q| min(2 lambda^2 l (l+1), 2 lambda l)
    + ln(1/delta)) / l.

    In this formula lambda is `inverse_scale` and |Q| is `queries`.
    """
    return min(
        (queries * min((2 * inverse_scale) ** 2 * order * (order + 1) / 2, 2 * inverse_scale * order) + math.log(1 / delta))
        / order
        for order in range(1, 9)
    )


def fixed_size_epsilon(inverse_scale: float, rate: float, queries: int, delta: float) -> float:
    """The epsilon for the fixed-size samples that the code draws, when one node is replaced: theorem 9 of Wang, Balle and
    Kasiviswanathan, minimised over alpha = 2 … 32.
    """
    return min(queries * _fixed_size_rdp(a, inverse_scale, rate) + math.log(1 / delta) / (a - 1) for a in range(2, 33))


def _second_moment(inverse_scale: float, rate: float) -> float:
    growth = 2 / 3 * math.exp(inverse_scale) + math.exp(-2 * inverse_scale) / 3 - 1
    return math.log1p(rate**2 * growth)


def _fixed_size_rdp(alpha: int, inverse_scale: float, rate: float) -> float:
    largest = math.expm1(inverse_scale)
    second = laplace_rdp(2, inverse_scale)
    total = 1 + math.comb(alpha, 2) * rate**2 * min(4 * math.expm1(second), math.exp(second) * min(2.0, largest**2))
    for j in range(3, alpha + 1):
        total += math.comb(alpha, j) * rate**j * math.exp((j - 1) * laplace_rdp(j, inverse_scale)) * min(2.0, largest**j)
    return math.log(total) / (alpha - 1)
