"""DPAR's rows of one run: which nodes there are, whose lists are drawn from PageRank, and the noise on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from . import witness
from .noise import stream
from .pagerank import among, capped, column_normalised, gaussian_rows, gumbel_scores, largest, page_rank
from .row_sgd import Lists

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .dpar import Dpar
    from .graph import Graph


def draw(
    model: Dpar, graph: Graph, edges: NDArray[np.int64], trained: NDArray[np.bool_], seed: np.uint64
) -> tuple[Lists, NDArray[np.float32], NDArray[np.int64]]:
    """One run's rows, the noisy PageRank rows (sources, nodes), and whose they are."""
    pool = np.flatnonzero(~(graph.val | graph.test))
    order = stream(seed, "nodes").permutation(pool.size)
    if model.mode == "paper":
        members = pool[order][trained[pool[order]]]
        nodes = members[: math.ceil(model.node_rate * members.size)]
        alive, chosen = np.ones(nodes.size, dtype=bool), np.arange(min(model.sources, nodes.size))
    else:
        nodes = pool
        drawn = stream(seed, "sample").random(pool.size) < model.node_rate
        witness.sampled("nodes", drawn[None])
        alive = trained[pool] & drawn
        chosen = order[: model.sources]
    rows = nodes.size
    index, weights = np.zeros((rows, max(1, model.picks)), dtype=np.int64), np.zeros((rows, max(1, model.picks)))
    index[:, 0], weights[:, 0] = np.arange(rows), 1.0
    released = np.zeros((model.sources, graph.nodes), dtype=np.float32)
    ids = np.full(model.sources, -1)
    if chosen.size:
        present = np.isin(np.arange(graph.nodes), nodes[alive])
        adjacency = among(edges, present, model.symmetric(graph))
        vectors = page_rank(adjacency, nodes[chosen], model.teleport, model.threshold)[:, nodes].toarray()
        listed, weight, seen = noisy_lists(model, vectors.astype(np.float64), seed)
        if model.mode == "sound":
            weight = capped(listed, weight, chosen, model.cap)
        count = listed.shape[1]
        index[chosen], weights[chosen] = 0, 0.0
        index[chosen, :count], weights[chosen, :count] = listed, weight
        released[: chosen.size, nodes], ids[: chosen.size] = seen, nodes[chosen]
    return Lists(nodes, alive, index, column_normalised(index, weights, rows)), released, ids


def noisy_lists(
    model: Dpar, vectors: NDArray[np.float64], seed: np.uint64
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Places and weights (sources, picks) of each list, and the rows as released (sources, rows)."""
    rng, count = stream(seed, "rows"), min(model.picks, vectors.shape[1])
    if not model.row_noise:
        listed = largest(vectors, count)
        return listed, np.take_along_axis(vectors, listed, axis=1), vectors
    if model.mechanism == "gaussian":
        sensitivity = model.source_clip * (math.sqrt(2) if model.mode == "sound" else 1)
        noisy = gaussian_rows(vectors, model.source_clip, model.row_noise * sensitivity, rng)
        listed = largest(noisy, count)
        return listed, np.take_along_axis(noisy, listed, axis=1), noisy
    listed = largest(gumbel_scores(vectors, model.source_clip, 1 / model.row_noise, rng), count)
    weights = np.full(listed.shape, 1 / count)
    if model.values:
        exact = np.minimum(np.take_along_axis(vectors, listed, axis=1), model.source_clip)
        weights = exact + stream(seed, "values").laplace(scale=model.source_clip * model.row_noise, size=listed.shape)
    seen = np.zeros(vectors.shape)
    np.put_along_axis(seen, listed, weights, axis=1)
    return listed, weights, seen
