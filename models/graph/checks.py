"""Checks that a graph obeys the rules of `Graph`. Reads large arrays in blocks, because they may be mapped from files."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...accounting.arguments import check_type, is_whole, shown
from .graph import Graph

BLOCK = 1 << 20  # how many numbers are checked at a time


def check(graph: object, ordered: bool = False) -> None:
    """Raises ValueError for anything that breaks the rules of `Graph`. The message is one line and names the field.

    ordered: whether edges must also be sorted, as in a mapped graph.
    """
    if not isinstance(graph, Graph):
        way = f"Write load({graph!r})." if isinstance(graph, str) else "`load` and Graph(x, y, edges, train, val, test) make one."
        raise ValueError(f"graph={shown(graph)}: must be a Graph. {way}")
    check_type("name", graph.name, str, "a word for the tables.")
    check_type("directed", graph.directed, bool | np.bool_, "True or False.")
    check_labels(graph)
    check_features(graph)
    check_masks(graph)
    check_edges(graph, ordered)


def check_labels(graph: Graph) -> None:
    array("y", graph.y, np.int64, 1)
    if not graph.nodes:
        raise ValueError("y has shape (0,): the graph has no nodes. Nothing can be trained on it.")
    low, least = int(graph.y.min()), int(graph.y.max()) + 1
    if low < 0:
        raise ValueError(f"y holds class {low}: must be 0 or more. Leave out the nodes without a class.")
    if not (is_whole(graph.classes) and graph.classes >= least):
        raise ValueError(
            f"classes={shown(graph.classes)}: must be at least {least}, because y holds class {least - 1}. 0 counts them."
        )


def check_features(graph: Graph) -> None:
    x = graph.x
    if sp.issparse(x):
        check_type("x", x, sp.csr_array, "a scipy.sparse.csr_array or a dense array. Write scipy.sparse.csr_array(x).")
        array("x.data", x.data, np.float32, 1)
    else:
        array("x", x, np.float32, 2)
    if x.shape[0] != graph.nodes or not x.shape[1]:
        raise ValueError(
            f"x has shape {x.shape}: must be ({graph.nodes}, features), a row for each node, with a feature or more."
        )
    numbers = x.data if sp.issparse(x) else x
    step = max(1, BLOCK // max(1, numbers[:1].size))
    for at in range(0, len(numbers), step):
        if not np.isfinite(numbers[at : at + step]).all():
            raise ValueError("x holds NaN or infinity: must be finite numbers. Fill or drop them first.")


def check_masks(graph: Graph) -> None:
    masks = {"train": graph.train, "val": graph.val, "test": graph.test}
    for name, mask in masks.items():
        array(name, mask, np.bool_, 1)
        if len(mask) != graph.nodes:
            raise ValueError(f"{name} has shape {mask.shape}: must be ({graph.nodes},), True for the nodes in it.")
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        both = np.flatnonzero(masks[one] & masks[other])
        if both.size:
            raise ValueError(f"{one} and {other} share {both.size} nodes, such as node {both[0]}: must be disjoint.")


def check_edges(graph: Graph, ordered: bool) -> None:
    array("edges", graph.edges, np.int64, 2)
    if graph.edges.shape[0] != 2:
        raise ValueError(f"edges have shape {graph.edges.shape}: must be (2, m), senders above receivers. Transpose them?")
    last, ascending = -1, True
    for at in range(0, graph.edges.shape[1], BLOCK):
        low, high = graph.edges[:, at : at + BLOCK]
        outside = (low < 0) | (high < 0) | (low >= graph.nodes) | (high >= graph.nodes)
        refuse(low, high, outside, f"node ids must be in 0 … {graph.nodes - 1}.")
        refuse(low, high, low == high, "an edge from a node to itself. Drop it.")
        if not graph.directed:
            way = "an undirected graph lists each edge once, as u < v. Sort the two ends, or set directed=True."
            refuse(low, high, low > high, way)
        numbers = low * np.int64(graph.nodes) + high
        ascending = ascending and bool((np.diff(numbers, prepend=last) > 0).all())
        last = int(numbers[-1])
    if not ascending and ordered:
        raise ValueError("edges must be sorted, first by row 0 and then by row 1, each once.")
    if not ascending:
        check_repeats(graph)


def check_repeats(graph: Graph) -> None:
    numbers = np.sort(graph.edges[0] * np.int64(graph.nodes) + graph.edges[1])
    again = numbers[1:][np.diff(numbers) == 0]
    if again.size:
        u, v = divmod(int(again[0]), graph.nodes)
        raise ValueError(
            f"edges hold ({u}, {v}) twice ({again.size} such): each edge must be listed once. Use np.unique(…, axis=1)."
        )


def refuse(low: NDArray[np.int64], high: NDArray[np.int64], wrong: NDArray[np.bool_], why: str) -> None:
    """Raises ValueError with the first edge (low, high) that `wrong` marks, if it marks one. low, high, wrong: (edges,)."""
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(f"edges hold ({low[first]}, {high[first]}): {why}")


def array(name: str, value: Any, dtype: type[np.generic], dimensions: int) -> None:
    """Raises ValueError unless `value` is an array of this type and number of dimensions."""
    wanted = np.dtype(dtype).name
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name}={shown(value)}: must be a NumPy array. Write np.array({name}, dtype=np.{wanted}).")
    if value.dtype != dtype:
        way = f"mask = np.zeros(nodes, bool); mask[{name}] = True" if wanted == "bool" else f"{name}.astype(np.{wanted})"
        raise ValueError(f"{name} has type {value.dtype}: must be {wanted}. Write {way}.")
    if value.ndim != dimensions:
        raise ValueError(f"{name} has shape {value.shape}: must have {dimensions} {'axis' if dimensions == 1 else 'axes'}.")
