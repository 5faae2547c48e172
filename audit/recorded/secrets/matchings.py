"""Finds the edges that move a value much farther than others do.

All edges of a group are removed in one run. Each row then loses at most one edge, or few in a graph with large degrees, and its
move shows how loud the edges are.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ....models.graph.graph import Graph

LOUD = 3  # largest number of loud edges that `loudest` finds
APART = 1.2  # an edge is loud if it moves its rows more than so many times as far as the median edge
RUNS = ((5_000, 24), (20_000, 6))  # (most nodes, largest number of groups)

Rows = Sequence["NDArray[np.float64]"]  # how far each row of several values moves, in units of the scale: (nodes,) each


def groups(graph: Graph, random: np.random.Generator, most: int = RUNS[0][1]) -> list[NDArray[np.int64]]:
    """The ids of all edges, in at most `most` groups. Each edge enters the group that has the fewest edges at its busier end, so
    the groups are matchings if any two joined nodes have at most `most` + 1 edges together.
    """
    load = np.zeros((most, graph.nodes), dtype=np.int64)
    found: list[list[int]] = [[] for _ in range(most)]
    for edge in random.permutation(graph.edges.shape[1]):
        u, v = graph.edges[:, edge]
        group = int(np.maximum(load[:, u], load[:, v]).argmin())
        load[group, [u, v]] += 1
        found[group].append(int(edge))
    return [np.sort(np.array(edges, dtype=np.int64)) for edges in found if edges]


def loudest(graph: Graph, random: np.random.Generator, moved: Callable[[NDArray[np.int64]], Rows | None]) -> list[int]:
    """The edges that move the two rows of their ends much farther than the median edge does: at most LOUD in all values together,
    and at most LOUD in one of the values, the loudest first, each with the edges of its group that share its louder row. None in
    graphs that RUNS does not list.

    moved: edges -> how far their absence moves each row of the values; None if the run cannot be repeated without them.
    """
    most = next((runs for nodes, runs in RUNS if graph.nodes <= nodes), 0)
    sizes, mates = [], []
    for some in groups(graph, random, most) if most else ():
        rows = moved(some)
        if not rows:
            continue
        ends = graph.edges[:, some]
        load = np.bincount(ends.ravel(), minlength=graph.nodes)[ends]
        each = np.array([by[ends] / load for by in rows])  # (values, two ends, edges)
        sizes.append(np.hypot(each[:, 0], each[:, 1]))
        louder = ends[each.max(0).argmax(0), np.arange(some.size)]
        mates += [some[(ends == row).any(0)] for row in louder]
    if not sizes:
        return []
    size = np.concatenate(sizes, axis=1)
    middle = np.array([np.median(by[by > 0]) if np.any(by > 0) else 1.0 for by in size])
    in_all = np.linalg.norm(size, axis=0)
    ratios = (in_all / np.median(in_all[in_all > 0]) if np.any(in_all > 0) else in_all, (size / middle[:, None]).max(0))
    top = [i for ratio in ratios for i in np.argsort(-ratio, kind="stable")[:LOUD] if ratio[i] > APART]
    return list(dict.fromkeys(int(edge) for i in top for edge in mates[i]))
