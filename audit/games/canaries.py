"""Canaries: nodes and edges that an audit adds to a graph, so that each has a large and known effect on the release."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.graph.graph import Graph

HUGE = 1e6  # a feature far outside of the usual range; its square fits a float32


def beside(
    graph: Graph, x: NDArray[np.float32], y: NDArray[np.int64], edges: NDArray[np.int64], role: str | None = None
) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with new nodes that are joined only to one another, and their ids. Existing ids do not change.

    x: (new, dim). y: (new,). edges: (2, m), in the numbering of the new nodes; on a directed graph each becomes two arcs. role:
    "train", "val" or "test", the part of the split for all of them; None leaves them out of the split.
    """
    ids = graph.nodes + np.arange(len(y), dtype=np.int64)
    both = np.concatenate([edges, edges[::-1]], axis=1) if graph.directed else np.sort(edges, axis=0)
    stacked = sp.csr_array(sp.vstack([graph.x, sp.csr_array(x)])) if sp.issparse(graph.x) else np.vstack([graph.x, x])
    masks: dict[str, Any] = {
        part: np.concatenate([getattr(graph, part), np.full(len(y), part == role)]) for part in ("train", "val", "test")
    }
    wider = dataclasses.replace(
        graph,
        x=stacked,
        y=np.concatenate([graph.y, y]),
        edges=np.concatenate([graph.edges, both + graph.nodes], axis=1),
        name=f"{graph.name} with canaries",
        **masks,
    )
    return wider, ids


def with_role(graph: Graph, ids: NDArray[np.int64], role: str) -> Graph:
    """The same graph with these nodes in one part of the split and in no other."""
    masks = {part: getattr(graph, part).copy() for part in ("train", "val", "test")}
    for part, mask in masks.items():
        mask[ids] = part == role
    return dataclasses.replace(graph, **masks)


def aligned(graph: Graph) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The mean features of the two commonest classes, (2, dim), and those classes. A classifier can distinguish these
    two rows. Raises ValueError if only one class has nodes.
    """
    sizes = np.bincount(graph.y, minlength=graph.classes)
    if np.count_nonzero(sizes) < 2:
        raise ValueError("the graph has nodes of one class only; canary edges need nodes of two classes")
    common = np.argsort(-sizes, kind="stable")[:2]
    means = [np.asarray(graph.x[graph.y == c].mean(axis=0), dtype=np.float32).reshape(-1) for c in common]
    return np.stack(means), common.astype(np.int64)


def pairs(graph: Graph, count: int, decoys: int = 0) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """`count` isolated pairs of nodes joined by an edge, and `decoys` pairs without one; all outside of the split.

    The two ends of a pair have the mean features of two classes, so that the edge changes the direction of both rows. A change of
    their length alone would be lost when the model normalises the rows. Returns the graph, the ids of the edges (count,) (of
    their first arcs on a directed graph), and the ends of all pairs (count + decoys, 2), those with an edge first.
    """
    means, classes = aligned(graph)
    ends = np.arange(2 * (count + decoys)).reshape(2, -1)
    wider, ids = beside(graph, means.repeat(ends.shape[1], axis=0), classes.repeat(ends.shape[1]), ends[:, :count])
    return wider, np.arange(graph.edges.shape[1], graph.edges.shape[1] + count, dtype=np.int64), ids[ends.T]


def stars(graph: Graph, count: int, leaves: int) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """`count` separate stars: a training node and `leaves` test nodes around it.

    With `leaves` equal to the degree bound, the centre changes as many rows as possible. The leaves have equal features, so that
    they add up in the centre's row. Returns the graph, the centres (count,) and the leaves (count, leaves).
    """
    means, classes = aligned(graph)
    size = leaves + 1
    middle = np.arange(count) * size
    around = (middle[:, None] + 1 + np.arange(leaves)).ravel()
    y = np.full(count * size, classes[-1])
    y[middle] = classes[0]
    x = means[-1:].repeat(count * size, axis=0)
    x[middle] = means[0]
    wider, ids = beside(graph, x, y, np.stack([middle.repeat(leaves), around]), "test")
    return with_role(wider, ids[middle], "train"), ids[middle], ids[around].reshape(count, leaves)


def hub(graph: Graph) -> tuple[Graph, NDArray[np.int64]]:
    """A graph with a new training node that is joined to all other training nodes, so that random walks often visit it; and the
    node's id as (1,).
    """
    means, classes = aligned(graph)
    wider, ids = beside(graph, means[:1], classes[:1], np.zeros((2, 0), dtype=np.int64), "train")
    others = np.flatnonzero(graph.train)
    spokes = np.stack([others, np.full(others.size, ids[0])])
    both = np.concatenate([spokes, spokes[::-1]], axis=1) if graph.directed else spokes
    return dataclasses.replace(wider, edges=np.concatenate([wider.edges, both], axis=1)), ids


def cap_breaker(graph: Graph, cap: int, senders: int) -> tuple[Graph, NDArray[np.int64]]:
    """`senders` nodes joined to the same cap + 1 receivers, so that a degree cap of `cap` drops one edge of each sender.

    Consider the senders that keep their edge to one receiver. If this receiver is removed, each of them keeps the edge that it
    had dropped before. So the removal moves the sums of other receivers once for each such sender. Returns the graph and the cap
    + 1 receivers; all new nodes are training nodes.
    """
    means, classes = aligned(graph)
    new = senders + cap + 1
    edges = np.stack([np.arange(senders).repeat(cap + 1), np.tile(senders + np.arange(cap + 1), senders)])
    wider, ids = beside(graph, means[:1].repeat(new, axis=0), np.full(new, classes[0]), edges, "train")
    return wider, ids[senders:]


def double_star(graph: Graph, floor: int) -> tuple[Graph, int]:
    """Two adjacent hubs of degree `floor`: without their edge both are below a minimum degree of `floor`.

    Returns the graph and the id of the edge. On a directed graph it is the first of its two arcs.
    """
    means, classes = aligned(graph)
    leaves = floor - 1
    edges = [[0, 1], *([0, 2 + i] for i in range(leaves)), *([1, 2 + leaves + i] for i in range(leaves))]
    new = 2 + 2 * leaves
    wider, _ = beside(graph, means[:1].repeat(new, axis=0), np.full(new, classes[0]), np.array(edges).T)
    return wider, graph.edges.shape[1]


def strange_rows(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """Training nodes with features that clipping or normalisation may mishandle, each joined to an ordinary test node.

    Returns the graph and the ids by name: zero, huge, negative, twin and other twin. The two twins have equal rows.
    """
    means, classes = aligned(graph)
    rows = {
        "zero": np.zeros(graph.dim),
        "huge": np.full(graph.dim, HUGE),
        "negative": np.full(graph.dim, -HUGE),
        "twin": means[0],
        "other twin": means[0],
    }
    odd = np.arange(len(rows))
    x = np.concatenate([np.stack(list(rows.values())), means[-1:].repeat(len(rows), axis=0)]).astype(np.float32)
    wider, ids = beside(graph, x, np.full(len(x), classes[0]), np.stack([odd, odd + len(rows)]), "test")
    return with_role(wider, ids[odd], "train"), dict(zip(rows, ids[odd].tolist(), strict=True))


def own_features(graph: Graph, count: int, size: float) -> tuple[Graph, NDArray[np.int64]]:
    """`count` isolated training nodes, each with one new feature of this size that no other node has; and their ids.

    The first layer's gradient for a feature that only one node has comes from that node alone (a Dirac canary, Nasr et al. 2023).
    Therefore the canaries of one run are independent trials.
    """
    _, classes = aligned(graph)
    own = sp.csr_array(sp.eye_array(count, dtype=np.float32) * np.float32(size))
    if sp.issparse(graph.x):
        x: Any = sp.csr_array(sp.block_diag([graph.x, own], format="csr"))
    else:
        x = np.zeros((graph.nodes + count, graph.dim + count), dtype=np.float32)
        x[: graph.nodes, : graph.dim] = graph.x
        x[graph.nodes :, graph.dim :] = own.toarray()
    nothing = np.zeros((count, graph.dim), dtype=np.float32)
    wider, ids = beside(graph, nothing, np.full(count, classes[-1]), np.zeros((2, 0), dtype=np.int64), "train")
    return dataclasses.replace(wider, x=x), ids
