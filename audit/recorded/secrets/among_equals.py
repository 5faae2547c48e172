"""Graphs on which one node or one edge differs from all others, so that it alone decides statistics of the whole graph.

Programs scale features by the mean and the standard deviation of all nodes, or divide by the largest degree. On a usual graph one
secret hardly changes such a number. Where all others are equal, it changes the number much, and with it what every other node
adds to a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ....accounting.claim import Unit
from ....models.graph.graph import Graph, Worlds
from ....models.graph.rows_redrawn import with_features
from ...case import EDGES
from .worlds import Absence, public_bound, without_edges, without_nodes

JOINED, EQUALS = "graph of pairs of which one edge joins two", "graph on which all nodes but one are equal"
Without = Callable[[Worlds], Absence]


def among_equals(graph: Graph, unit: Unit, model: object) -> Iterator[tuple[Graph, Without]]:
    """Yields graphs, each with the function that gives the world without the secret that differs. All have the nodes and the
    split of `graph`. None is yielded if the nodes do not suffice, or if the model declares a bound below two on degrees.
    """
    if unit not in EDGES:
        yield from _equal_nodes(graph, unit)
    elif graph.nodes >= 8 and public_bound(model, graph) != 1:
        yield _pairs(graph), lambda whole: without_edges(whole, np.array([whole.graph.edges.shape[1] - 1]))


def _pairs(graph: Graph) -> Graph:
    """Half of the nodes are pairs, each with one edge, and the others have none. The last edge joins two pairs: it raises the
    largest degree from 1 to 2.
    """
    first = np.argsort(~graph.train, kind="stable")[: graph.nodes // 4 * 2].reshape(-1, 2).T
    pairs = np.sort(first, axis=0)
    if graph.directed:
        pairs = np.concatenate([pairs, pairs[::-1]], axis=1)
    joined = np.sort([[first[1, 0]], [first[0, 1]]], axis=0)
    return replace(graph, edges=np.concatenate([pairs, joined], axis=1), name=JOINED)


def _equal_nodes(graph: Graph, unit: Unit) -> Iterator[tuple[Graph, Without]]:
    """All nodes have equal features, but for the training node with most edges. Each feature of one of the two rows is the lowest
    of its column, and that of the other row is the highest: the common row has one high feature, and the row of the node that
    differs has one low feature. In the first graph, labels and edges are those of `graph`. In the second one, all labels are
    equal, but for that node, and only this node has edges.
    """
    low, high = (np.asarray(end.toarray() if sp.issparse(end) else end).ravel() for end in (graph.x.min(0), graph.x.max(0)))
    trained, varying = np.flatnonzero(graph.train), np.flatnonzero(low < high)
    if not trained.size or not varying.size:
        return
    node = trained[graph.degree[trained].argmax()]
    one = np.arange(graph.dim) == varying[0]
    here, others = np.array([node]), np.delete(np.arange(graph.nodes), node)
    common, own = np.where(one, high, low), np.where(one, low, high)
    some = replace(with_features(with_features(graph, others, common), here, own), name=EQUALS)
    y = np.full(graph.nodes, graph.y[others[0]])
    y[node] = (y[node] + 1) % graph.classes

    def without(whole: Worlds) -> Absence:
        if unit is Unit.NODE:
            return without_nodes(whole, unit, here)
        labels = whole.graph.y.copy()
        labels[node] = graph.y[others[0]]
        other = replace(whole, graph=replace(with_features(whole.graph, here, common), y=labels))
        return Absence(f"other features and another label of node {node}", other, among=here)

    for equal in (some, replace(some, y=y, edges=graph.edges[:, (graph.edges == node).any(axis=0)])):
        yield equal, without
