"""Graphs on which one node or one edge differs from all others, so that it alone decides statistics of the whole graph.

Programs scale features by the mean and the standard deviation of all nodes, or divide by the largest degree. On a usual graph one
secret hardly changes such a number. Where all others are equal, it changes the number much, and with it what every other node
adds to a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....models.graph.graph import Graph, Worlds, dense, joining
from ....models.graph.rows_redrawn import with_features
from ...case import EDGES
from .worlds import LEAVES, Absence, public_bound, without_edges, without_nodes

JOINED, EQUALS = "matching with one more edge", "graph on which all nodes but one are equal"
PATH, CYCLE, BOOK = "path", "cycle", "book of triangles that share one edge"
Without = Callable[[Worlds], Absence]


def among_equals(graph: Graph, unit: Unit, model: object) -> Iterator[tuple[Graph, Without]]:
    """Yields graphs, each with the function that gives the world without the secret that differs. All have the nodes and the
    split of `graph`. None is yielded if the nodes do not suffice, or if the model declares a bound below two on degrees.
    """
    most = public_bound(model, graph)
    if unit not in EDGES:
        yield from _equal_nodes(graph, unit, LEAVES if most is None else most)
    elif graph.nodes >= 8 and most != 1:
        for name, others, last in _of_edges(graph, LEAVES if most is None else most):
            yield _with_edge(graph, others, last, name), _without_last


def _of_edges(graph: Graph, most: int) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Yields names of graphs, with their edges, (2, m), and one more edge, (2,). The first nodes are training nodes.

    In the first one, half of the nodes are pairs; the last edge joins two of them, and raises the largest degree from 1 to 2. In
    a path, it is the middle one. In a cycle, no node is on a cycle without it. In a book, up to `most` - 1 triangles share it.
    """
    nodes = np.argsort(~graph.train, kind="stable")
    pairs = nodes[: graph.nodes // 4 * 2].reshape(-1, 2).T
    yield JOINED, pairs, np.array([pairs[1, 0], pairs[0, 1]])
    steps = np.stack([nodes, np.roll(nodes, -1)])
    middle = nodes.size // 2 - 1
    yield PATH, np.delete(steps[:, :-1], middle, axis=1), steps[:, middle]
    yield CYCLE, steps[:, :-1], steps[:, -1]
    if most > 2:
        pages = nodes[2 : 1 + min(most, LEAVES)]
        yield BOOK, np.stack([np.repeat(nodes[:2], pages.size), np.tile(pages, 2)]), nodes[:2]


def _with_edge(graph: Graph, others: NDArray[np.int64], last: NDArray[np.int64], name: str) -> Graph:
    edges = joining(np.sort(others, axis=0), graph.directed)
    return replace(graph, edges=np.concatenate([edges, np.sort(last)[:, None]], axis=1), name=name)


def _without_last(whole: Worlds) -> Absence:
    return without_edges(whole, np.array([whole.graph.edges.shape[1] - 1]))


def _equal_nodes(graph: Graph, unit: Unit, most: int) -> Iterator[tuple[Graph, Without]]:
    """All nodes have the features of the shortest row that is not 0, but for one node, which has the row that is farthest from
    it. Both are rows of training nodes, so that the graph keeps what is public of rows, such as a length of 1.

    In the first two graphs this is the training node with most edges. In the first one, labels and edges are those of `graph`. In
    the second one, all labels are equal, but for that node, which has an edge to each of up to `most` others, training nodes
    first, and all edges. The third one is as the second one, for the validation node with most edges: it alone may decide which
    of several models, thresholds or epochs is the best.
    """
    trained = np.flatnonzero(graph.train)
    x = dense(graph.x[trained]).astype(np.float64)
    lengths = np.square(x).sum(axis=1)
    if not lengths.any():
        return
    common = x[np.where(lengths > 0, lengths, np.inf).argmin()]
    own = x[np.square(x - common).sum(axis=1).argmax()]
    if np.array_equal(own, common):
        return
    for part in (trained, np.flatnonzero(graph.val)):
        if not part.size:
            continue
        node = int(part[graph.degree[part].argmax()])
        others = np.delete(np.arange(graph.nodes), node)
        leaves = others[np.argsort(~graph.train[others], kind="stable")][: min(most, LEAVES)]
        star = np.sort(np.stack([np.full(leaves.size, node), leaves]), axis=0)
        some = replace(with_features(with_features(graph, others, common), np.array([node]), own), name=EQUALS)
        label = graph.y[others[0]]
        y = np.full(graph.nodes, label)
        y[node] = (label + 1) % graph.classes
        lone = replace(some, y=y, edges=joining(star, graph.directed))
        for equal in (some, lone) if graph.train[node] else (lone,):
            yield equal, partial(_as_the_others, unit=unit, node=node, row=common, label=label)


def _as_the_others(whole: Worlds, unit: Unit, node: int, row: NDArray[Any], label: int) -> Absence:
    """The world without the node that differs. For a claim about features, and for a validation node, which stays in the public
    mask, it has the row and the label of the others.
    """
    here, graph = np.array([node]), whole.graph
    gone = without_nodes(whole, unit, here) if unit is Unit.NODE else None
    if gone is not None and graph.train[node]:
        return gone
    y = graph.y.copy()
    y[node] = label
    alike = replace(with_features((gone.worlds if gone else whole).graph, here, row), y=y)
    if gone is None:
        secret = f"a replacement of the features and the label of node {node}"
        return Absence(secret, replace(whole, graph=alike), among=here)
    return replace(gone, secret=f"{gone.secret} with its features and label", worlds=replace(gone.worlds, graph=alike), half=True)
