"""The public part of a graph: the nodes that teachers are queried about, and the edges among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from .small_graphs import arcs_within, compact, with_mean

CLUSTERS, DAMPING, SWEEPS = 10, 0.9, 100


def between(graph: Graph, nodes: NDArray[np.bool_]) -> sp.csr_array:
    """The arcs among `nodes` that join two private or two public nodes: a csr_array (nodes, nodes), row = receiver, column =
    sender, value = the index of the edge in graph.edges. nodes: (nodes,) bool.
    """
    send, receive = graph.arcs
    kept = np.flatnonzero(nodes[send] & nodes[receive] & (graph.train[send] == graph.train[receive]))
    kept = kept[np.lexsort((send[kept], receive[kept]))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(receive[kept], minlength=graph.nodes))])
    return sp.csr_array((kept % max(1, graph.edges.shape[1]), send[kept], starts), shape=(graph.nodes, graph.nodes))


@dataclass(frozen=True, eq=False)
class Public:
    """The public data of some worlds. x: the features of all nodes. nodes: ids of the public nodes. arcs: see `between`. present:
    (K, edges) bool, or None if every run has every public edge.
    """

    worlds: Worlds
    x: Any
    nodes: NDArray[np.int64]
    arcs: sp.csr_array
    present: NDArray[np.bool_] | None

    @staticmethod
    def of(worlds: Worlds) -> Public:
        """The public data of these worlds. Raises ValueError for a graph without validation nodes."""
        graph = worlds.graph
        if not graph.val.any():
            raise ValueError(
                f"{graph.name} has no validation nodes, for which teachers are queried. Use a split such as 50/25/25."
            )
        public = graph.val | graph.test
        arcs = between(graph, public)
        present: NDArray[np.bool_] | None = None
        if worlds.edges is not None or worlds.nodes is not None:
            present = worlds.edge_present()
            if present[:, arcs.data].all():
                present = None
        return Public(worlds, compact(graph.x), np.flatnonzero(public), arcs, present)

    def private_present(self) -> NDArray[np.bool_] | None:
        """(K, edges) bool: which edges exist; None if every absent edge has an absent private node as an end."""
        return None if self.present is None and self.worlds.edges is None else self.worlds.edge_present()

    def usable(self, runs: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return None if self.present is None else self.present[runs]

    def neighbours(self, run: int, node: int) -> NDArray[np.int64]:
        """The public neighbours of a public node, ascending ids."""
        listed = slice(self.arcs.indptr[node], self.arcs.indptr[node + 1])
        found: NDArray[np.int64] = self.arcs.indices[listed].astype(np.int64)
        return found if self.present is None else found[self.present[run, self.arcs.data[listed]]]

    def ball(self, run: int, nodes: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
        """`nodes` in their order, then all other public nodes from which a path of at most `hops` arcs leads to one of them."""
        ball, edge = nodes, nodes
        for _ in range(hops):
            near = np.unique(np.concatenate([nodes[:0], *(self.neighbours(run, int(v)) for v in edge)]))
            edge = np.setdiff1d(near, ball, assume_unique=True)
            ball = np.concatenate([ball, edge])
        return ball

    def inputs(self) -> tuple[Any, NDArray[np.int64]]:
        """The first layer's input for every node, run after run, (rows, 2 dim) (see `with_mean`), and the first row of each run,
        (K,) int64. Runs with equal inputs share them.
        """
        graph, runs = self.worlds.graph, len(self.worlds)
        worlds = 1 if self.present is None else runs
        everyone = [np.arange(graph.nodes)] * worlds
        arcs = arcs_within(self.arcs, everyone, self.usable(np.arange(worlds)))
        x = sp.vstack([self.x] * worlds, format="csr") if sp.issparse(self.x) else np.tile(self.x, (worlds, 1))
        return with_mean(x, arcs), np.arange(runs) * (graph.nodes if worlds > 1 else 0)

    def queries(self, count: int, selection: str) -> NDArray[np.int64]:
        """(K, at most count) int64: for each run the ids of different validation nodes, chosen from public data alone.

        selection: "random": a fixed random choice. "pagerank": the most central nodes of the public graph. "clusters": equally
        many nodes from each of ten clusters of their features.
        """
        graph = self.worlds.graph
        candidates = stream(0, "queries").permutation(np.flatnonzero(graph.val))
        if selection == "pagerank":
            ranks = [self._page_rank(run) for run in range(len(self.worlds) if self.present is not None else 1)]
            best = [candidates[np.argsort(-rank[candidates], kind="stable")][:count] for rank in ranks]
            return np.stack(best) if len(best) == len(self.worlds) else np.repeat(best, len(self.worlds), axis=0)
        if selection == "clusters":
            candidates = candidates[spread(clusters(graph.x[candidates]))]
        return np.repeat(candidates[None, :count], len(self.worlds), axis=0)

    def _page_rank(self, run: int) -> NDArray[np.float64]:
        """(nodes,) float64: the PageRank of each node in the public graph of one run, by power iteration. From a node without
        outgoing arcs, the walk jumps to a random public node.
        """
        nodes = self.worlds.graph.nodes
        everyone = [np.arange(nodes)]
        send, receive = arcs_within(self.arcs, everyone, self.usable(np.array([run])))
        out = np.bincount(send, minlength=nodes)
        step = sp.csr_array((1 / out[send], (receive, send)), shape=(nodes, nodes))
        home = np.zeros(nodes)
        home[self.nodes] = 1 / self.nodes.size
        rank = home
        for _ in range(SWEEPS):
            rank = DAMPING * (step @ rank + rank[out == 0].sum() * home) + (1 - DAMPING) * home
        return rank


def clusters(x: Any) -> NDArray[np.int64]:
    """(rows,) int64: the cluster of each row, by k-means on rows scaled to length one."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    count = min(CLUSTERS, x.shape[0])
    found: NDArray[np.int64] = KMeans(count, n_init=1, random_state=0).fit_predict(normalize(x)).astype(np.int64)
    return found


def spread(cluster: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order of the rows that takes one row of each cluster in turn. cluster: (rows,), the cluster of each row."""
    by_cluster = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster)
    turn = np.empty_like(cluster)
    turn[by_cluster] = np.arange(cluster.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((cluster, turn))
