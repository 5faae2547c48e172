"""Approximate personalised PageRank of many sources at once, and DPAR's private choice of the largest entries."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..random import witness

CHUNK = 1024  # how many sources are computed at a time


def page_rank(
    adjacency: sp.csr_array, sources: NDArray[np.int64], teleport: float = 0.25, threshold: float = 1e-4, tolerance: float = 1e-4
) -> sp.csr_array:
    """The PageRank vector of each source, without entries below the threshold: (sources, nodes) float32, sparse.

    The PageRank vector p of each source s minimises the l1-regularised objective of Fountoulakis et al. 2019. On its support,
    p - (1 - teleport) W p = teleport e_s - threshold teleport d, where every node has a self loop, d are the degrees and W = (I +
    A D^-1) / 2 is the lazy walk. Every iteration takes all residuals above their threshold, adds them to the solution and passes
    them to the neighbours. The iteration stops when no residual exceeds its threshold by more than the tolerance, a share of the
    threshold. The entries grow monotonically towards the minimum.

    adjacency: (nodes, nodes), without self loops. An arc without its reverse counts in the degree of its sender but transports no
    weight, as in the released code of DPAR.
    """
    nodes = adjacency.shape[0]
    loops = sp.eye_array(nodes, dtype=np.float32, format="csr")
    degree = np.asarray(adjacency.sum(axis=1)).ravel() + 1
    both_ways = sp.csr_array(adjacency.multiply(adjacency.T)) + loops
    sent = (1 - teleport) / (1 + teleport) / degree
    settle = sp.csr_array(sp.dia_array((sent[None], [0]), shape=(nodes, nodes)) @ both_ways - loops).astype(np.float32)
    least = (2 * threshold * teleport / (1 + teleport) * degree).astype(np.float32)
    start = 2 * teleport / (1 + teleport)
    parts = [_push(settle, least, sources[i : i + CHUNK], start, tolerance) for i in range(0, len(sources), CHUNK)]
    return sp.csr_array(sp.vstack(parts)) if parts else sp.csr_array((0, nodes), dtype=np.float32)


def _push(
    settle: sp.csr_array, least: NDArray[np.float32], sources: NDArray[np.int64], start: float, tolerance: float
) -> sp.csr_array:
    shape, one_each = (len(sources), len(least)), np.arange(len(sources) + 1)
    waiting = sp.csr_array((np.full(len(sources), start, np.float32), sources, one_each), shape=shape)
    mass = sp.csr_array(shape, dtype=np.float32)
    while True:
        kept = least[waiting.indices]
        above = waiting.data > kept * (1 + tolerance)
        if not above.any():
            return mass
        starts = np.concatenate([[0], np.cumsum(above)])[waiting.indptr]
        moved = sp.csr_array((waiting.data[above] - kept[above], waiting.indices[above], starts), shape=shape)
        mass = mass + moved
        waiting = waiting + moved @ settle


def among(edges: NDArray[np.int64], present: NDArray[np.bool_], both_ways: bool) -> sp.csr_array:
    """(nodes, nodes) float32 0/1: the edges between present nodes, row = sender, without self loops. present: (nodes,) bool.
    both_ways: whether each edge counts in both directions.
    """
    send, receive = edges[:, present[edges[0]] & present[edges[1]] & (edges[0] != edges[1])]
    if both_ways:
        send, receive = np.concatenate([send, receive]), np.concatenate([receive, send])
    matrix = sp.csr_array((np.ones(send.size, np.float32), (send, receive)), shape=(present.size, present.size))
    matrix.data[:] = 1  # an arc listed twice counts once
    return matrix


def smoothed(scores: NDArray[np.float32], adjacency: sp.csr_array, teleport: float, steps: int) -> NDArray[np.float32]:
    """Personalised PageRank of predictions by power iteration: scores <- (1 - teleport) D^-1 A scores + teleport scores_0.

    The walk has a self loop at every node, so a node without edges keeps its own scores. scores: (nodes, classes).
    """
    own, degree = scores, np.asarray(adjacency.sum(axis=1)).ravel()[:, None] + 1
    for _ in range(steps):
        scores = (1 - teleport) * (adjacency @ scores + scores) / degree + teleport * own
    return scores


def gaussian_rows(vectors: NDArray[np.float64], clip: float, std: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """DP-APPR-GM: every row scaled to L2 norm `clip` at most, plus Gaussian noise on every entry.

    The removal of a node may turn the row of another node into any non-negative row of norm at most `clip`. Two such rows differ
    by at most sqrt(2) clip.
    """
    clipped = vectors * (clip / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), clip))
    witness.clean("rows", clipped[None])
    noisy = clipped + std * rng.standard_normal(vectors.shape)
    witness.released("rows", noisy[None], scale=std, events=len(vectors))
    return noisy


def gumbel_scores(vectors: NDArray[np.float64], clip: float, epsilon: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """DP-APPR-EM: entries of at most `clip`, plus Gumbel noise of scale 2 clip / epsilon.

    The k largest scores, in order, are k draws of the exponential mechanism without replacement. Each draw is
    epsilon-bounded-range (Durfee & Rogers 2019), because one score may rise by `clip` while another falls by `clip`.
    """
    return np.minimum(vectors, clip) + rng.gumbel(scale=2 * clip / epsilon, size=vectors.shape)


def largest(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """(rows, count) int64: the columns of the largest scores of every row, largest first."""
    some = np.argpartition(scores, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def capped(index: NDArray[np.int64], weights: NDArray[np.float64], rows: NDArray[np.int64], cap: int) -> NDArray[np.float64]:
    """The weights, of which some are set to 0, so that no node is in more than `cap` lists besides its own. Each node keeps its
    largest weights.

    index, weights: (lists, entries). rows: (lists,) the node to which each list belongs.
    """
    flat, size = index.ravel(), np.abs(weights).ravel()
    counted = (index != rows[:, None]).ravel() & (size > 0)
    at = np.flatnonzero(counted)
    order = at[np.lexsort((-size[at], flat[at]))]
    first = np.searchsorted(flat[order], flat[order], side="left")
    dropped = order[np.arange(order.size) - first >= cap]
    kept = weights.copy()
    kept.ravel()[dropped] = 0
    return kept


def column_normalised(index: NDArray[np.int64], weights: NDArray[np.float64], nodes: int) -> NDArray[np.float64]:
    """Every weight divided by the sum of its node's absolute weights over all lists. index, weights: (rows, entries)."""
    norm = np.bincount(index.ravel(), weights=np.abs(weights).ravel(), minlength=nodes)[index]
    return np.where(norm > 0, weights / np.where(norm > 0, norm, 1), 0.0)
