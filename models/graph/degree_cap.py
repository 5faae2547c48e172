"""Bounds out-degrees by removing random arcs, as GAP and ProGAP do at node level.

One node may change many kept arcs: when it leaves, each of its neighbours may keep another arc instead.
"""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..random.hashed_sampling import finalised
from ..random.streams import stream
from .graph import Worlds


def arc_present(worlds: Worlds) -> NDArray[np.bool_]:
    """(K, arcs) bool: which of graph.arcs exist in each run, after the edge mask and the node mask."""
    edges = worlds.edge_present()
    return edges if worlds.graph.directed else np.concatenate([edges, edges], axis=1)


def bounded(worlds: Worlds, max_degree: int) -> NDArray[np.bool_]:
    """(K, arcs) bool: which arcs each run keeps. Every node keeps max_degree of its outgoing arcs, drawn uniformly, or all of
    them if there are no more.

    The published code never visits the last node, so that node sends nothing; this function does the same. A run orders arcs by
    keys that depend only on the run's seed and on the two ends of the arc. An absent edge therefore does not change the order of
    the other arcs.
    """
    graph = worlds.graph
    present = arc_present(worlds)
    present &= graph.arcs[0] != graph.nodes - 1
    for run, seed in enumerate(worlds.seeds):
        crowded = np.bincount(graph.arcs[0][present[run]], minlength=graph.nodes) > max_degree
        arcs = np.flatnonzero(present[run] & crowded[graph.arcs[0]])
        keys = arc_coins(graph.nodes, graph.arcs[0][arcs], graph.arcs[1][arcs], seed, "bound")
        places = (graph.arcs[0][arcs], np.arange(len(arcs)))  # a sparse matrix sorts the arcs by sender in linear time
        by_sender = sp.csr_array((np.ones(len(arcs), dtype=bool), places), shape=(graph.nodes, len(arcs)))
        starts, arcs, keys = by_sender.indptr, arcs[by_sender.indices], keys[by_sender.indices]
        for sender in np.flatnonzero(crowded):
            own = slice(starts[sender], starts[sender + 1])
            present[run, arcs[own][np.argpartition(keys[own], max_degree)[max_degree:]]] = False
    return present


def arc_coins(
    nodes: int, sender: NDArray[np.int64], receiver: NDArray[np.int64], seed: np.uint64, purpose: str
) -> NDArray[np.float64]:
    """(arcs,) uniform numbers in [0, 1). Each depends only on the run's seed, `purpose` and the two ends of its arc."""
    salt = stream(seed, purpose, "arcs").integers(2**64, dtype=np.uint64)
    cell = sender.astype(np.uint64) * np.uint64(nodes) + receiver.astype(np.uint64)
    return (finalised(finalised(cell ^ salt) + salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53
