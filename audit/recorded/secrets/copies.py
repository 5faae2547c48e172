"""Two neighbouring graphs of which one alone has two nodes that a model cannot tell apart: the one is a copy of the other."""

import dataclasses

import numpy as np

from ....accounting.claim import Unit
from ....models.graph.graph import Graph, Worlds
from ....models.graph.rows_redrawn import with_rows
from ...case import EDGES
from ...key import Key
from .worlds import Absence, with_other_rows, without_edges, without_nodes


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """Two nodes, and a secret that decides whether they have the same features, label, split and neighbours.

    absent: the world without the secret, whose `base` is the world with it. alike: whether the nodes are the same in the base
    (True), or in the world without the secret (False).
    """

    node: int
    copy: int
    absent: Absence
    alike: bool


def copies(whole: Worlds, unit: Unit, key: Key) -> Copies | None:
    """A node with few neighbours and a copy of it that takes the place of another node; None if the graph has too few edges. If
    possible, the other node has the same place in the split and the same class, so that both counts stay as they are.

    For claims about edges, the secret is an edge of the copy. For claims about nodes it is a neighbour of the node that is none
    of the copy. For claims about features it is the row of the copy.
    """
    graph = whole.graph
    into = np.bincount(graph.arcs[1], minlength=graph.nodes)
    linked = np.flatnonzero(into > 0)
    if graph.nodes < 3 or not linked.size:
        return None
    node = int(linked[np.argmin(np.where(into[linked] > 1, into[linked], graph.nodes + into[linked]))])
    near = graph.arcs[0][graph.arcs[1] == node]
    others = np.setdiff1d(np.arange(graph.nodes), [node, *near, *graph.arcs[1][graph.arcs[0] == node]])
    if not others.size:
        return None
    split = np.stack([graph.train, graph.val, graph.test])
    moved = (split[:, others] != split[:, [node]]).any(0)
    order = np.lexsort([into[others], graph.y[others] != graph.y[node], moved])
    copy, neighbour = int(others[order[0]]), int(near[0])
    with_copy = copied(graph, node, copy)
    base = dataclasses.replace(whole, graph=with_copy)
    edge = np.flatnonzero((np.sort(with_copy.edges, axis=0) == np.sort([[neighbour], [copy]], axis=0)).all(0))
    if graph.directed:
        edge = edge[with_copy.edges[1, edge] == copy]
    if unit in EDGES:
        absent = without_edges(base, edge[:1])
    elif unit is Unit.NODE:
        base = without_edges(base, edge).worlds
        absent = without_nodes(base, unit, np.array([neighbour]))
    else:
        absent = with_other_rows(base, unit, np.array([copy]), key.fold("copy").generator())
    return Copies(node, copy, dataclasses.replace(absent, base=Absence("", base)), unit is not Unit.NODE)


def copied(graph: Graph, node: int, copy: int) -> Graph:
    """The graph in which node `copy` has the features, the label, the split and the neighbours of `node`, and no other edge."""
    edges = graph.edges[:, ~(graph.edges == copy).any(0)]
    own = edges[:, (edges == node).any(0)]
    edges = np.concatenate([edges, np.where(own == node, copy, own)], axis=1)
    edges = edges if graph.directed else np.sort(edges, axis=0)
    order, parts = np.lexsort(edges[::-1]), {name: getattr(graph, name).copy() for name in ("train", "val", "test")}
    for part in parts.values():
        part[copy] = part[node]
    x, y = graph.x[np.where(np.arange(graph.nodes) == copy, node, np.arange(graph.nodes))], graph.y.copy()
    y[copy] = y[node]
    same_rows = with_rows(graph, np.array([copy]), dataclasses.replace(graph, x=x, y=y))
    return dataclasses.replace(same_rows, edges=np.ascontiguousarray(edges[:, order]), **parts)
