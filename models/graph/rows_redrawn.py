"""A graph in which some nodes have other features and labels."""

import dataclasses

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .graph import Graph, dense, stored_as


def redrawn(graph: Graph, nodes: NDArray[np.int64], random: np.random.Generator) -> Graph:
    """The graph with other features and labels of these nodes. Each feature is drawn from its column, so a function of the
    features that a reflection leaves as it is, such as a sum of squares, changes too.
    """
    rows = dense(graph.x)[random.integers(graph.nodes, size=(nodes.size, graph.dim)), np.arange(graph.dim)]
    y = graph.y.copy()
    y[nodes] = (y[nodes] + 1 + random.integers(max(graph.classes - 1, 1), size=nodes.size)) % graph.classes
    return dataclasses.replace(with_features(graph, nodes, rows), y=y)


def with_features(graph: Graph, nodes: NDArray[np.int64], rows: NDArray[np.float32] | float) -> Graph:
    """The graph with other features of these nodes, stored as before: rows of numbers, (nodes, dim), or one number for all."""
    x = graph.x.toarray() if sp.issparse(graph.x) else graph.x.copy()
    x[nodes] = rows
    return dataclasses.replace(graph, x=stored_as(graph.x, x))


def with_rows(graph: Graph, nodes: NDArray[np.int64], other: Graph) -> Graph:
    """The graph with the features and labels that these nodes have in another graph."""
    rows, y = other.x[nodes], graph.y.copy()
    y[nodes] = other.y[nodes]
    return dataclasses.replace(with_features(graph, nodes, dense(rows)), y=y)
