"""The numbers of VESPER's theorems: sensitivities of message passing, and the epsilon of its batches.

Wu et al., arXiv 2310.20552. The constants are illegible in the available copy of the paper, so those below were derived from its
text and proofs. sigma is noise std / sensitivity of one layer; the L layers of a step are one Gaussian with multiplier sigma /
sqrt(L).
"""

import math

import numpy as np

from ...accounting.claim import Relation

INTEGER_ORDERS: tuple[float, ...] = tuple(float(a) for a in (*range(2, 65), 96, 128, 192, 256))


def gin_sensitivity() -> float:
    """Proposition 1: sqrt(2). An undirected edge changes two rows of a sum, each by the norm of the weights, 1."""
    return math.sqrt(2)


def gcn_sensitivity_printed(smallest_degree: int) -> float:
    """Proposition 2, C(m): sqrt(2) (1/(m(m+1)) + 1/(m+1) + q), q = (m-1)/(2 m^2) above m = 3, else 1/(3 sqrt(3m)).

    m is `smallest_degree`. C(m) is an upper bound on graphs whose degrees are at least m with and without the edge, although the
    proof omits the neighbours' rows.
    """
    m = smallest_degree
    others = (m - 1) / (2 * m * m) if m > 3 else 1 / (3 * math.sqrt(3 * m))
    return math.sqrt(2) * (1 / (m * (m + 1)) + 1 / (m + 1) + others)


def gcn_sensitivity(smallest_degree: int) -> float:
    """A bound on the change of all rows if both ends of the edge have degree m + 1 with the edge: sqrt(2 k^2 + 4 m c^2 / (m+1)).

    m is `smallest_degree`. k: the change of an end's own row. c: the change of an end's coefficient, which also changes the rows
    of its m other neighbours. The second term is doubled, because both ends may have the same neighbours. If the coefficients
    replace degrees below m by m, this bounds the change on every graph.
    """
    m = smallest_degree
    step = 1 / math.sqrt(m + 1) - 1 / math.sqrt(m + 2)
    end = 1 / ((m + 1) * (m + 2)) + 1 / (m + 2) + m * step / math.sqrt(m + 1)
    return math.sqrt(2 * end**2 + 4 * m * step**2 / (m + 1))


def vesper_epsilon(sigma: float, layers: int, rate: float, steps: int, delta: float, bound: str = "theorem-27") -> float:
    """The epsilon of theorem 2.1: sampled steps, composed by RDP. rate: gamma, the probability that a batch contains the edge
    (`events.inclusion`).

    bound: how one step is bounded: "theorem-27" (of Wang, Balle and Kasiviswanathan, for Gaussians) or "seen" (for batches that
    the other party knows). At every order, the smaller of this bound and the bound without amplification is used.
    """
    from ...accounting.events.mechanisms import message_passing_as_published, message_passing_seen
    from ...accounting.upper.rdp import best, curve

    if bound == "seen":
        one = curve(message_passing_seen(sigma, layers, rate, 1), orders=INTEGER_ORDERS)
    else:
        one = curve(message_passing_as_published(sigma, layers, rate, 1), Relation.REPLACE, INTEGER_ORDERS)
    plain = np.array(INTEGER_ORDERS) * layers / (2 * sigma**2)
    return best(steps * np.minimum(one, plain), delta, INTEGER_ORDERS)
