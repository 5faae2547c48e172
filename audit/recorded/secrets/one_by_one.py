"""Graphs whose secrets go one after the other, until none is left, so that every degree and every count takes many values.

Programs drop nodes of more than 20 neighbours, or suppress counts below 10. One secret then decides what a whole neighbourhood or
a whole count adds, but only where the degree or the count stands at the threshold. On a usual graph perhaps none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Unit
from ....models.graph.graph import Graph, Worlds
from ...case import EDGES
from .worlds import LEAVES, Absence, small, without_edges, without_nodes

JOINED_TO_ALL = "graph of nodes that are all joined"


@dataclass(frozen=True, eq=False)
class Chain:
    """A graph, and the order in which its secrets go. steps: numbers of absent secrets, rising; of each such world, the next
    secret in the order is of interest.
    """

    graph: Graph
    unit: Unit
    order: NDArray[np.int64]
    steps: NDArray[np.int64]

    def lacking(self, whole: Worlds, gone: int) -> Absence:
        """The world without the first `gone` secrets of the order. whole: a world of `graph`."""
        return lacking(whole, self.unit, self.order[:gone])

    def left(self, whole: Worlds, gone: int) -> tuple[Graph, NDArray[np.int64]]:
        """The graph without the first `gone` secrets, and the id of the next secret in it, (1,)."""
        some, secret = self.order[:gone], self.order[gone]
        if not gone:
            return self.graph, np.array([secret])
        what = {Unit.NODE: f"without {gone} of its nodes", Unit.FEATURES: f"with other features of {gone} of its nodes"}
        name = f"{self.graph.name}, {what.get(self.unit, f'without {gone} of its edges')}"
        number = secret - np.count_nonzero(some < secret) if self.unit in EDGES else secret
        return replace(self.lacking(whole, gone).worlds.graph, name=name), np.array([number])


def chains(graph: Graph, unit: Unit, most: int | None, random: np.random.Generator) -> Iterator[Chain]:
    """Yields `small`, whose edges or features go in a random order, so that its hub loses leaf by leaf. For nodes and edges it
    yields LEAVES + 1 nodes that are all joined. With each node that goes, all others lose a neighbour. Edges go node by node, and
    the edges of interest are those of nodes that are still all joined. most: the largest degree of the graphs.
    """
    few = small(graph, most)
    if unit is not Unit.NODE:
        secrets = few.edges.shape[1] if unit in EDGES else few.nodes
        yield Chain(few, unit, random.permutation(secrets), np.arange(secrets))
    nodes = 1 + (LEAVES if most is None else min(LEAVES, most))
    if unit is Unit.FEATURES or nodes < 2:
        return
    joined = _all_joined(graph, few, nodes)
    if unit is Unit.NODE:
        yield Chain(joined, unit, random.permutation(nodes), np.arange(nodes))
        return
    later = joined.edges.max(axis=0)
    order = np.argsort(-later, kind="stable")
    yield Chain(joined, unit, order, np.flatnonzero(np.diff(later[order], prepend=nodes)))


def lacking(whole: Worlds, unit: Unit, secrets: NDArray[np.int64]) -> Absence:
    """The world without these secrets."""
    secrets = np.sort(secrets)
    return without_edges(whole, secrets) if unit in EDGES else without_nodes(whole, unit, secrets)


def _all_joined(graph: Graph, few: Graph, nodes: int) -> Graph:
    """The first nodes of `few`, all joined to each other. The last one has the last class of `graph`."""
    edges = np.array(np.triu_indices(nodes, 1), dtype=np.int64)
    if graph.directed:
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    y = np.where(np.arange(nodes) < nodes - 1, few.y[:nodes], graph.classes - 1)
    train, val, test = (part[:nodes] for part in (few.train, few.val, few.test))
    return replace(few, x=few.x[:nodes], y=y, edges=edges, train=train, val=val, test=test, name=JOINED_TO_ALL)
