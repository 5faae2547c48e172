"""Adds canaries to a graph: nodes and edges with a large and known effect on the release."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...models.graph.graph import Graph, joining

HUGE = 1e6  # a feature far outside of the usual range, whose square still fits a float32


def beside(
    graph: Graph, x: NDArray[np.float32], y: NDArray[np.int64], edges: NDArray[np.int64], role: str | NDArray[np.str_] = ""
) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with new nodes that are joined only to one another, and the ids of these nodes. Existing ids do not change.

    x: (new, dim) features. y: (new,) classes. edges: (2, m) between new nodes, numbered from 0; on a directed graph each becomes
    two arcs. role: "train", "val" or "test", the part of the split that gets all new nodes; (new,) for the part of each; "" for
    none.
    """
    ids = graph.nodes + np.arange(len(y), dtype=np.int64)
    both = joining(edges if graph.directed else np.sort(edges, axis=0), graph.directed)
    stacked = sp.csr_array(sp.vstack([graph.x, sp.csr_array(x)])) if sp.issparse(graph.x) else np.vstack([graph.x, x])
    roles = np.broadcast_to(role, len(y))
    masks: dict[str, Any] = {part: np.concatenate([getattr(graph, part), roles == part]) for part in ("train", "val", "test")}
    wider = dataclasses.replace(
        graph,
        x=stacked,
        y=np.concatenate([graph.y, y]),
        edges=np.concatenate([graph.edges, both + graph.nodes], axis=1),
        name=f"{graph.name} with canaries",
        **masks,
    )
    return wider, ids


def aligned(graph: Graph) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The mean features of the two commonest classes, (2, dim) float32, and these classes, (2,). A classifier can distinguish the
    two rows. Raises ValueError if only one class has nodes.
    """
    sizes = np.bincount(graph.y, minlength=graph.classes)
    if np.count_nonzero(sizes) < 2:
        raise ValueError("the graph has nodes of one class only; canary edges need nodes of two classes")
    common = np.argsort(-sizes, kind="stable")[:2]
    means = [np.asarray(graph.x[graph.y == c].mean(axis=0), dtype=np.float32).reshape(-1) for c in common]
    return np.stack(means), common.astype(np.int64)


def pairs(graph: Graph, count: int, decoys: int = 0) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """The graph with `count` new pairs of nodes joined by an edge, and `decoys` new pairs without one, all outside of the split.

    The two ends of a pair have the mean features of two classes, so the edge changes the direction of both rows. A model that
    normalises rows would undo a change of their length alone. Returns the graph, the ids of the edges (count,) (of their first
    arcs on a directed graph), and the ends of all pairs (count + decoys, 2), first of the pairs with an edge.
    """
    means, classes = aligned(graph)
    ends = np.arange(2 * (count + decoys)).reshape(2, -1)
    wider, ids = beside(graph, means.repeat(ends.shape[1], axis=0), classes.repeat(ends.shape[1]), ends[:, :count])
    return wider, np.arange(graph.edges.shape[1], graph.edges.shape[1] + count, dtype=np.int64), ids[ends.T]


def stars(graph: Graph, count: int, leaves: int) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """The graph with `count` new separate stars. The centre of a star is a training node, and its `leaves` leaves are test nodes.

    With as many leaves as the degree bound, a centre changes as many rows as possible. The leaves have equal features, which add
    up in the centre's row. Returns the graph, the centres (count,) and the leaves (count, leaves).
    """
    means, classes = aligned(graph)
    stars = np.arange(count * (leaves + 1)).reshape(count, leaves + 1)
    middle, around = stars[:, 0], stars[:, 1:]
    leaf = np.isin(stars.ravel(), around).astype(np.int64)
    edges = np.stack([middle.repeat(leaves), around.ravel()])
    wider, ids = beside(graph, means[leaf], classes[leaf], edges, np.array(["train", "test"])[leaf])
    return wider, ids[middle], ids[around]


def hub(graph: Graph) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with a new training node that is joined to all other training nodes, and the id of this node, (1,). Random walks
    visit the node often.
    """
    means, classes = aligned(graph)
    wider, ids = beside(graph, means[:1], classes[:1], np.zeros((2, 0), dtype=np.int64), "train")
    others = np.flatnonzero(graph.train)
    spokes = np.stack([others, np.full(others.size, ids[0])])
    both = joining(spokes, graph.directed)
    return dataclasses.replace(wider, edges=np.concatenate([wider.edges, both], axis=1)), ids


def cap_breaker(graph: Graph, cap: int, senders: int) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with `senders` new nodes that are all joined to the same cap + 1 new receivers.

    A degree cap of `cap` drops one edge of each sender. If a receiver is removed, each sender that had kept its edge to this
    receiver keeps its dropped edge instead. So the removal moves the sums of other receivers once for each such sender. All new
    nodes are training nodes. Returns the graph and the ids of the receivers, (cap + 1,).
    """
    means, classes = aligned(graph)
    new = senders + cap + 1
    edges = np.stack([np.arange(senders).repeat(cap + 1), np.tile(senders + np.arange(cap + 1), senders)])
    wider, ids = beside(graph, means[:1].repeat(new, axis=0), np.full(new, classes[0]), edges, "train")
    return wider, ids[senders:]


def double_star(graph: Graph, floor: int) -> tuple[Graph, int]:
    """The graph with two new adjacent hubs of degree `floor`. Without their edge, the degree of both is below `floor`.

    Returns the graph and the id of this edge, or of the first of its two arcs on a directed graph.
    """
    means, classes = aligned(graph)
    leaves = floor - 1
    edges = [[0, 1], *([0, 2 + i] for i in range(leaves)), *([1, 2 + leaves + i] for i in range(leaves))]
    new = 2 + 2 * leaves
    wider, _ = beside(graph, means[:1].repeat(new, axis=0), np.full(new, classes[0]), np.array(edges).T)
    return wider, graph.edges.shape[1]


def strange_rows(graph: Graph) -> tuple[Graph, dict[str, int]]:
    """The graph with new training nodes whose features clipping or normalisation may mishandle. Each has one test node as its
    neighbour.

    Returns the graph and the ids by name: zero, huge, negative, twin and other twin. The two twins have equal features.
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
    roles = np.repeat(["train", "test"], len(rows))
    wider, ids = beside(graph, x, np.full(len(x), classes[0]), np.stack([odd, odd + len(rows)]), roles)
    return wider, dict(zip(rows, ids[odd].tolist(), strict=True))


def own_features(graph: Graph, count: int, size: float) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with `count` new isolated training nodes, and their ids. Each has one feature, of value `size`, that no other
    node has. The graph gets `count` new columns for these features.

    If only one node has a feature, the first layer's gradient for this feature comes from that node alone (a Dirac canary, Nasr
    et al. 2023). Therefore the canaries of one run are independent trials.
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
