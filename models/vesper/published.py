"""The numbers that VESPER's theorems print: sensitivities of message passing, and the sampled Gaussian by the bounds it cites.

Wu et al., arXiv 2310.20552. The printed constants are illegible in the available copy; these follow from its text and proofs.
sigma is noise std / sensitivity of one layer; the L layers of a step are one Gaussian with multiplier sigma / sqrt(L).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ...accounting.claim import Relation
from ...accounting.events.mechanisms import message_passing_as_published, message_passing_secret_edges, message_passing_seen

INTEGER_ORDERS: tuple[float, ...] = tuple(float(a) for a in (*range(2, 65), 96, 128, 192, 256))


def gin_sensitivity(norm: float = 1.0) -> float:
    """Proposition 1: an undirected edge moves two rows of a sum by the norm of the weights each."""
    return math.sqrt(2) * norm


def gcn_sensitivity_printed(smallest_degree: int, norm: float = 1.0) -> float:
    """Proposition 2, C(m): sqrt(2) (1/(m(m+1)) + 1/(m+1) + q), q = (m-1)/(2 m^2) above m = 3, else 1/(3 sqrt(3m)).

    It is an upper bound on graphs whose degrees are at least m with and without the edge, although the proof omits the
    neighbours' rows.
    """
    m = smallest_degree
    others = (m - 1) / (2 * m * m) if m > 3 else 1 / (3 * math.sqrt(3 * m))
    return math.sqrt(2) * norm * (1 / (m * (m + 1)) + 1 / (m + 1) + others)


def gcn_sensitivity_two_rows(smallest_degree: int) -> float:
    """The exact change of the two end rows, both of degree m + 1 with the edge and m without."""
    return math.sqrt(2) * _end_row(smallest_degree)


def gcn_sensitivity(smallest_degree: int, common_neighbours: bool = True) -> float:
    """The exact change of all rows: sqrt(2 k^2 + 2 m c^2 / (m+1)), twice the second term where neighbours may be common.

    With degrees floored at m in the coefficients it holds for every graph.
    """
    m = smallest_degree
    others = (4 if common_neighbours else 2) * m * _coefficient_step(m + 1) ** 2 / (m + 1)
    return math.sqrt(2 * _end_row(m) ** 2 + others)


def truncated_gcn_sensitivity(smallest_degree: int, low_degree_neighbours: bool = True) -> float:
    """The true sensitivity of truncated message passing to one edge: two ends at degree m fall below the gate and change branch.

    sqrt(2) (1 + 2/(m+1) + (m-1)/sqrt(2(m+1))) where the other neighbours have degree 1, and 2 sqrt(2) where they have many.
    """
    m = smallest_degree
    if not low_degree_neighbours:
        return 2 * math.sqrt(2)
    return math.sqrt(2) * (1 + 2 / (m + 1) + (m - 1) / math.sqrt(2 * (m + 1)))


def node_sensitivity(degree: int, norm: float = 1.0) -> float:
    """Theorem D.1, where a node is removed with its edges: its own row has norm D + 1, and D other rows lose one term each."""
    return norm * math.sqrt((degree + 1) ** 2 + degree)


def affected_roots(fan_out: int, layers: int) -> int:
    """tau: how many roots may have a given edge in their L-layer neighbourhood, 2 (1 + D + … + D^(L-1))."""
    return 2 * sum(fan_out**i for i in range(layers))


def vfgnn_sensitivity(fan_out: int, layers: int, clip: float = 1.0) -> float:
    """Proposition 3: tau rows of norm at most C, each moved by 2C at most."""
    return 2 * clip * math.sqrt(affected_roots(fan_out, layers))


def row_count(layers: int, epochs: int, batches: int, degree: int) -> int:
    """K: rows that see an edge when every computed row counts as released, two ends, layers and epochs together."""
    return 2 * epochs * sum(min(sum(degree**i for i in range(layers - layer + 1)), batches) for layer in range(1, layers + 1))


def vesper_epsilon(
    sigma: float,
    layers: int,
    rate: float,
    steps: int,
    delta: float,
    bound: str = "theorem-27",
    orders: tuple[float, ...] = INTEGER_ORDERS,
) -> float:
    """Theorem 2.1: T sampled steps composed by RDP. rate: gamma, how likely a batch holds the edge (`events.inclusion`).

    bound: "theorem-9" (Wang, Balle and Kasiviswanathan, the general one that the paper cites), "theorem-27" (theirs for
    Gaussians), "poisson", "seen" (batches that the other party knows) or "none" (no amplification). At every order the
    smaller of itself and "none" is taken. Raises ValueError for another bound.
    """
    from ...accounting.upper.rdp import best, curve

    alpha = np.array(orders)
    plain = alpha * layers / (2 * sigma**2)
    if bound == "theorem-9":
        one = np.array([without_replacement_rdp(int(a), rate, sigma / math.sqrt(layers)) for a in orders])
    elif bound == "theorem-27":
        one = curve(message_passing_as_published(sigma, layers, rate, 1), Relation.REPLACE, orders)
    elif bound == "poisson":
        one = curve(message_passing_secret_edges(sigma, layers, rate, 1), orders=orders)
    elif bound == "seen":
        one = curve(message_passing_seen(sigma, layers, rate, 1), orders=orders)
    elif bound == "none":
        one = plain
    else:
        raise ValueError(f"bound={bound!r}: must be theorem-9, theorem-27, poisson, seen or none.")
    return best(steps * np.minimum(one, plain), delta, orders)


def without_replacement_rdp(alpha: int, rate: float, sigma: float) -> float:
    """Theorem 9 for a Gaussian, whose largest loss is infinite: the R(alpha) of one step, before the minimum with no sampling.

    ln(1 + g^2 C(alpha, 2) min(4 (e^R(2) - 1), 2 e^R(2)) + 2 sum over j >= 3 of g^j C(alpha, j) e^((j-1) R(j))) / (alpha-1).
    """
    picked = np.arange(3, alpha + 1, dtype=np.float64)
    second = math.log(min(4 * math.expm1(1 / sigma**2), 2 * math.exp(min(1 / sigma**2, 700.0))))
    terms = math.log(2) + picked * math.log(rate) + _log_choose(alpha, picked) + (picked - 1) * picked / (2 * sigma**2)
    pair = 2 * math.log(rate) + float(_log_choose(alpha, np.array([2.0]))[0]) + second
    return float(np.logaddexp.reduce(np.concatenate([[0.0, pair], terms]))) / (alpha - 1)


def _log_choose(n: int, k: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), dtype=np.float64)


def _coefficient_step(x: float) -> float:
    return 1 / math.sqrt(x) - 1 / math.sqrt(x + 1)


def _end_row(m: int) -> float:
    return 1 / ((m + 1) * (m + 2)) + 1 / (m + 2) + m * _coefficient_step(m + 1) / math.sqrt(m + 1)
