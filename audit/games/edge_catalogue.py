"""Selects the edges that audits remove one by one: at hubs, at nodes of low degree, at the last node, and at random."""

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from ..key import Key
from .game import shuffled

EACH = 3  # largest number of edges of each of the four kinds


def catalogue(graph: Graph, key: Key) -> NDArray[np.int64]:
    """The ids of the selected edges, (c,) int64, ascending. Of all nodes with an edge, the last node is the one with the largest
    id.
    """
    degree, last = graph.degree, max((int(block.max()) for block in graph.edge_blocks() if block.size), default=-1)
    most, least, at_last, at = np.zeros((2, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.int64), [], 0
    for block in graph.edge_blocks():
        ends, ids = degree[block], at + np.arange(block.shape[1])
        most = first(np.concatenate([most, [-ends.min(0), ids]], axis=1))
        least = first(np.concatenate([least, [ends.max(0), ids]], axis=1))
        at_last += ids[(block == last).any(0)][:EACH].tolist()
        at += block.shape[1]
    at_random = list(islice(shuffled(graph, np.zeros(graph.nodes, dtype=bool), key), EACH))
    return np.unique(np.concatenate([most[1], least[1], at_last[:EACH], at_random])).astype(np.int64)


def first(found: NDArray[Any]) -> NDArray[Any]:
    """The EACH columns of `found` with the smallest numbers in row 0, in ascending order of these numbers."""
    return found[:, np.argsort(found[0], kind="stable")[:EACH]]
