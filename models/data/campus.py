"""Generates a social graph: friendships within and across classes, a few hubs, and binary features that depend on the class."""

import numpy as np
from numpy.typing import NDArray

from ..random.streams import stream
from .checks import BLOCK, Raw, distinct

MOST = 10**9  # largest number of nodes; the numbers of all pairs of more nodes do not fit 64 bits


def campus(
    n: int = 2000, seed: int = 0, classes: int = 6, degree: float = 24.0, same: float = 0.45, dim: int = 64, signal: float = 0.4
) -> Raw:
    """A degree-corrected block model (Karrer & Newman 2011) with n nodes and n * degree / 2 edges, sampled in O(edges).

    Each node has a popularity: a Pareto number whose density falls with exponent 2.5, truncated so that no node's expected degree
    is far above n / 8. The first end of an edge is drawn in proportion to popularity. So is the second end, with probability
    `same` from the class of the first end, else from all nodes. Edges do not depend on the features.
    x: (n, dim) float32, each 0 or 1, independent given the class. The log-odds of a feature in a class are the feature's own
    log-odds plus a normal number of standard deviation `signal`. The arguments determine the graph.
    Raises ValueError if n is above 10^9, or too small for this number of classes or edges.
    """
    if n < 20 * classes:
        raise ValueError(f"n={n}: campus needs at least {20 * classes} nodes, 20 for each of its {classes} classes.")
    if n > MOST:
        raise ValueError(f"n={n}: campus makes at most {MOST} nodes.")
    if not 0 < degree <= n / 10:
        raise ValueError(
            f"degree={degree:g} (24 if not given): must be in (0, n / 10 = {n / 10:g}]. Say campus:n={n}:degree={n / 20:g}."
        )
    rng = stream(seed, "campus", n)
    share = np.linspace(1.5, 0.5, classes)
    bounds = np.concatenate([[0], np.round(np.cumsum(share) / share.sum() * n).astype(np.int64)])
    y = np.repeat(np.arange(classes), np.diff(bounds))  # the nodes are sorted by class here and shuffled at the end

    popularity = (1 - rng.random(n)) ** (-1 / 1.5)
    popularity = np.minimum(popularity, popularity.mean() * n / (8 * degree) + 1)
    total = np.concatenate([[0.0], np.cumsum(popularity)])
    wanted = round(n * degree / 2)
    edges = np.empty(0, dtype=np.int64)
    while edges.size < wanted:
        edges = distinct(np.concatenate([edges, *pairs(rng, total, bounds, same, int(1.1 * (wanted - edges.size)) + 100)]))
    edges = np.delete(edges, rng.choice(edges.size, edges.size - wanted, replace=False, shuffle=False))

    odds = rng.normal(-1.0, 0.7, dim) + signal * rng.standard_normal((classes, dim))
    answers = (1 / (1 + np.exp(-odds))).astype(np.float32)
    x = (rng.random((n, dim), dtype=np.float32) < answers[y]).astype(np.float32)
    order = rng.permutation(n)
    place = np.argsort(order)
    x, y = x[order], y[order]
    ends = np.empty((2, wanted), dtype=np.int64)
    for at in range(0, wanted, BLOCK):
        ends[:, at : at + BLOCK] = place[np.stack(np.divmod(edges[at : at + BLOCK], n))]
    return Raw(x=x, y=y, edges=ends)


def pairs(
    rng: np.random.Generator, total: NDArray[np.float64], bounds: NDArray[np.int64], same: float, draws: int
) -> list[NDArray[np.int64]]:
    """`draws` edges as the numbers u * nodes + v with u < v, in one array for all nodes and one for each class. Edges may be
    repeated; those that join a node to itself are left out.

    total: (nodes + 1,) cumulative popularity. bounds: (classes + 1,) where each class begins. Each end is found by a search in
    `total`. The searches run in ascending order, because neighbouring searches then share cache lines; one of the two ends is
    shuffled afterwards.
    """

    def drawn(low: int, high: int, count: int) -> NDArray[np.int64]:
        at = rng.uniform(total[low], total[high], count)
        at.sort()
        found = np.searchsorted(total, at, side="right")
        found -= 1
        return np.minimum(found, high - 1, out=found)

    nodes, edges = total.size - 1, []
    near = rng.binomial(draws, same)
    weight = np.diff(total[bounds])
    counts = rng.multinomial(near, weight / weight.sum())
    for low, high, count in [(0, nodes, draws - near), *zip(bounds[:-1], bounds[1:], counts, strict=True)]:
        one, other = drawn(low, high, count), drawn(low, high, count)
        rng.shuffle(other)
        numbers = np.minimum(one, other) * nodes
        numbers += np.maximum(one, other)
        edges.append(numbers[one != other])
    return edges
