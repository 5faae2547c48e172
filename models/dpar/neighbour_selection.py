"""Selects the training rows of one DPAR run: which nodes exist, which nodes get a PageRank list, and the noise on the lists."""

import math

import numpy as np
from numpy.typing import NDArray

from ..graph.graph import Graph
from ..random import witness
from ..random.streams import stream
from .pagerank import among, capped, column_normalised, gaussian_rows, gumbel_scores, largest, page_rank
from .recipe import DparRecipe
from .row_products import Lists


def draw(
    model: DparRecipe, graph: Graph, edges: NDArray[np.int64], trained: NDArray[np.bool_], seed: np.uint64
) -> tuple[Lists, NDArray[np.float32], NDArray[np.int64]]:
    """One run's training rows; the noisy PageRank rows, (sources, nodes) float32; and the ids of their sources, (sources,), -1
    for a missing source. edges: the edges of the run. trained: (nodes,) bool.
    """
    pool, paper = np.flatnonzero(~(graph.val | graph.test)), model.mode == "paper"
    order = stream(seed, "nodes").permutation(pool.size)
    if paper:
        members = pool[order][trained[pool[order]]]
        nodes = members[: math.ceil(model.node_rate * members.size)]
        alive, chosen = np.ones(nodes.size, dtype=bool), np.arange(min(model.sources, nodes.size))
    else:
        nodes = pool
        drawn = stream(seed, "sample").random(pool.size) < model.node_rate
        witness.sampled("nodes", drawn[None])
        alive = trained[pool] & drawn
        chosen = order[: model.sources]
    released = np.zeros((model.sources, graph.nodes), dtype=np.float32)
    ids = np.full(model.sources, -1)
    listed, weight = np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1))
    if chosen.size:
        present = np.isin(np.arange(graph.nodes), nodes[alive])
        adjacency = among(edges, present, model.symmetric(graph))
        vectors = page_rank(adjacency, nodes[chosen], model.teleport, model.threshold)[:, nodes].toarray().astype(np.float64)
        if not paper:
            vectors[np.arange(chosen.size), chosen] = 0  # it is public that every source lists itself
        listed, weight, rows = noisy_lists(model, vectors, seed)
        released[: chosen.size, nodes], ids[: chosen.size] = rows, nodes[chosen]
    if paper:
        index, weights = placed(listed, weight, chosen, nodes.size)
        weights = column_normalised(index, weights, nodes.size)
    else:
        index, weights = seated(listed, weight, chosen, alive, model.cap, 2 * model.teleport / (1 + model.teleport))
    return Lists(nodes, alive, index, weights), released, ids


def placed(
    listed: NDArray[np.int64], weight: NDArray[np.float64], sources: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index and weights, (rows, entries) each: a source has its list; every other row lists only its own node.

    listed, weight: (sources, entries). sources: the rows of the sources.
    """
    entries = listed.shape[1]
    index, weights = np.zeros((rows, entries), dtype=np.int64), np.zeros((rows, entries))
    index[:, 0], weights[:, 0] = np.arange(rows), 1.0
    index[sources], weights[sources] = listed, weight
    return index, weights


def seated(
    listed: NDArray[np.int64],
    weight: NDArray[np.float64],
    sources: NDArray[np.int64],
    alive: NDArray[np.bool_],
    cap: int,
    share: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Index and weights, (rows, entries) each, in which every node occurs in at most `cap` rows.

    Lists keep a node in this order until it has occurred `cap` times: its own list if it is a source; the lists in which its
    weight is largest; its own row if it is no source. In its own list a source has weight `share`, and the other nodes of the
    list share the rest in proportion to their weights. A row that lists an absent node is empty and has no gradient. So the
    removal of a node empties at most `cap` rows and changes no other row. It changes a sum of clipped gradients by at most cap *
    clip in L2 norm.

    listed, weight: (sources, picks), noisy. sources: the rows of the sources. alive: (rows,) bool.
    """
    own = sources[:, None]
    crowd = np.isin(listed, sources)
    positive = np.where(listed == own, 0.0, np.maximum(weight, 0.0))
    kept = capped(listed, np.where(crowd, positive, 0.0), sources, cap - 1)
    kept += capped(listed, np.where(crowd, 0.0, positive), sources, cap)
    total = kept.sum(axis=1, keepdims=True)
    rest = np.divide(kept, total, out=np.zeros_like(kept), where=total > 0)
    shares = np.concatenate([np.where(total > 0, share, 1.0), (1 - share) * rest], axis=1)
    index, weights = placed(np.concatenate([own, listed], axis=1), shares, sources, alive.size)
    full = np.bincount(listed[kept > 0], minlength=alive.size) >= cap
    full[sources] = False
    weights[full] = 0
    weights[((weights > 0) & ~alive[index]).any(axis=1)] = 0
    return index, weights


def noisy_lists(
    model: DparRecipe, vectors: NDArray[np.float64], seed: np.uint64
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """The row numbers and the weights of each list, (sources, picks) each, and the released noisy rows, (sources, rows)."""
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
    rows = np.zeros(vectors.shape)
    np.put_along_axis(rows, listed, weights, axis=1)
    return listed, weights, rows
