"""A social graph made on the spot: friends of all kinds, a few of them very popular, and answers that hint at their class."""

from __future__ import annotations

import numpy as np

from .checks import Raw, distinct
from .noise import stream


def campus(
    n: int = 2000,
    seed: int = 0,
    classes: int = 6,
    degree: float = 24.0,
    same: float = 0.45,
    dim: int = 64,
    signal: float = 0.4,
) -> Raw:
    """A degree-corrected block model (Karrer & Newman 2011) with n nodes and n * degree / 2 edges, sampled in O(edges).

    Popularity is Pareto with exponent 2.5, cut off where a node would know about an eighth of all. An edge has a
    first end drawn by popularity, and with probability `same` a second end from the same class, else from anywhere; it
    does not depend on the features. x: (n, dim) float32, each 0 or 1, answers that are independent given the class, whose
    log-odds differ between classes by a normal of standard deviation `signal`. Deterministic in its arguments.
    Raises ValueError where n is too small for so many classes or edges.
    """
    if n < 20 * classes:
        raise ValueError(f"n={n}: campus needs at least {20 * classes} nodes, 20 for each of its {classes} classes.")
    if not 0 < degree <= n / 10:
        raise ValueError(f"degree={degree}: must be positive and at most n / 10 = {n / 10:g}.")
    rng = stream(seed, "campus", n)
    share = np.linspace(1.5, 0.5, classes)
    bounds = np.round(np.cumsum(share) / share.sum() * n).astype(np.int64)
    y = np.searchsorted(bounds, np.arange(n), side="right")  # sorted by class here; shuffled at the end
    starts = np.concatenate([[0], bounds[:-1]])

    popularity = (1 - rng.random(n)) ** (-1 / 1.5)
    popularity = np.minimum(popularity, popularity.mean() * n / (8 * degree) + 1)
    total = np.concatenate([[0.0], np.cumsum(popularity)])
    edges = np.empty(0, dtype=np.int64)
    wanted = round(n * degree / 2)
    while edges.size < wanted:
        draws = int(1.2 * (wanted - edges.size)) + 100
        u = np.searchsorted(total, rng.random(draws) * total[-1], side="right") - 1
        near = rng.random(draws) < same
        low = np.where(near, total[starts[y[u]]], 0.0)
        high = np.where(near, total[bounds[y[u]]], total[-1])
        v = np.searchsorted(total, low + rng.random(draws) * (high - low), side="right") - 1
        u, v = np.minimum(u, v), np.maximum(u, v)
        new = (u * n + v)[(u != v) & (v < n)]
        edges = distinct(np.concatenate([edges, new]))
    edges = rng.permutation(edges)[:wanted]

    odds = rng.normal(-1.0, 0.7, dim) + signal * rng.standard_normal((classes, dim))
    x = (rng.random((n, dim), dtype=np.float32) < (1 / (1 + np.exp(-odds)))[y]).astype(np.float32)
    place = rng.permutation(n)
    order = np.argsort(place)
    return Raw(x=x[order], y=y[order], edges=place[np.stack(np.divmod(edges, n))])
