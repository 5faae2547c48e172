"""The public side of PrivGNN and PATE: public nodes and edges, whom teachers are asked about, and the student that learns.

One union graph holds both sides. Training nodes are private; validation and test nodes are public with their features and the
edges between them. Teachers are asked about validation nodes. An edge between the sides belongs to neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..random.streams import stream
from .small_graphs import Columns, Graphs, Prepared, arcs_within, compact, with_mean
from .teachers import Recipe, adams_of, ask, start, train

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..engine.adam import Adam
    from ..graph.graph import Graph, Worlds

CACHE = 6 << 20  # bytes that one hidden layer of the students trained together may take
ARRAYS = ("posteriors", "votes")
MODES = ("paper", "sound")
SELECTIONS = ("random", "pagerank", "clusters")
CLUSTERS = 10
DAMPING, SWEEPS = 0.9, 100
PUBLIC = (
    "The validation and test nodes, their features and the edges between them are public; only training nodes are protected.",
    "Which validation nodes the teachers are asked about is public.",
)


def check_fields(name: str, mode: str, keep: tuple[str, ...], selection: str) -> None:
    """Raises ValueError for what a recipe cannot do."""
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: must be 'paper' (as published) or 'sound' (as proved).")
    unknown = [k for k in keep if k not in ARRAYS]
    if unknown or not keep:
        raise ValueError(f"keep={keep}: {name} can release {', '.join(ARRAYS)}.")
    if selection not in SELECTIONS:
        raise ValueError(f"selection={selection!r}: must be one of {', '.join(SELECTIONS)}.")


def between(graph: Graph, nodes: NDArray[np.bool_]) -> sp.csr_array:
    """(nodes, nodes) csr_array of the arcs between some nodes of one side: row = receiver, column = sender, value = edge id."""
    send, receive = graph.arcs
    kept = np.flatnonzero(nodes[send] & nodes[receive] & (graph.train[send] == graph.train[receive]))
    kept = kept[np.lexsort((send[kept], receive[kept]))]
    starts = np.concatenate([[0], np.cumsum(np.bincount(receive[kept], minlength=graph.nodes))])
    return sp.csr_array((kept % max(1, graph.edges.shape[1]), send[kept], starts), shape=(graph.nodes, graph.nodes))


@dataclass(frozen=True, eq=False)
class Public:
    """What all may know of some worlds. present: (K, edges) bool, or None where every run has every public edge."""

    worlds: Worlds
    x: Any
    nodes: NDArray[np.int64]
    arcs: sp.csr_array
    present: NDArray[np.bool_] | None

    @staticmethod
    def of(worlds: Worlds) -> Public:
        """Raises ValueError for a graph without validation nodes."""
        graph = worlds.graph
        if not graph.val.any():
            raise ValueError(
                f"{graph.name} has no validation nodes, about which teachers are asked. Use a split such as 50/25/25."
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
        """(K, edges) bool, or None where an edge is absent only because an end of it is, and that end is private."""
        return None if self.present is None and self.worlds.edges is None else self.worlds.edge_present()

    def usable(self, runs: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return None if self.present is None else self.present[runs]

    def neighbours(self, run: int, node: int) -> NDArray[np.int64]:
        """Public neighbours of a public node, ascending."""
        listed = slice(self.arcs.indptr[node], self.arcs.indptr[node + 1])
        found: NDArray[np.int64] = self.arcs.indices[listed].astype(np.int64)
        return found if self.present is None else found[self.present[run, self.arcs.data[listed]]]

    def ball(self, run: int, nodes: NDArray[np.int64], hops: int) -> NDArray[np.int64]:
        """Some nodes, first and in this order, and whatever reaches them within so many hops."""
        ball, edge = nodes, nodes
        for _ in range(hops):
            near = np.unique(np.concatenate([nodes[:0], *(self.neighbours(run, int(v)) for v in edge)]))
            edge = np.setdiff1d(near, ball, assume_unique=True)
            ball = np.concatenate([ball, edge])
        return ball

    def inputs(self) -> tuple[Any, NDArray[np.int64]]:
        """What a first layer reads of every node, run after run, and where each run begins; once where all runs are alike.

        Returns (rows, 2 dim) as of `with_mean` and (K,) int64.
        """
        graph, runs = self.worlds.graph, len(self.worlds)
        worlds = 1 if self.present is None else runs
        everyone = [np.arange(graph.nodes)] * worlds
        arcs = arcs_within(self.arcs, everyone, self.usable(np.arange(worlds)))
        x = sp.vstack([self.x] * worlds, format="csr") if sp.issparse(self.x) else np.tile(self.x, (worlds, 1))
        return with_mean(x, arcs), np.arange(runs) * (graph.nodes if worlds > 1 else 0)

    def queries(self, count: int, selection: str) -> NDArray[np.int64]:
        """(K, at most count) ids of validation nodes, each once: in a fixed random order, or those that say most of others.

        pagerank: the most central of the public graph. clusters: as many from each of ten clusters of their features. Both, as
        the order, read nothing but public data.
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
        """(nodes,) float64 over the public graph of one run, by power iteration; a node without arcs jumps anywhere."""
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
    """(rows,) the cluster of each row, by k-means on rows of length one."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    count = min(CLUSTERS, x.shape[0])
    found: NDArray[np.int64] = KMeans(count, n_init=1, random_state=0).fit_predict(normalize(x)).astype(np.int64)
    return found


def spread(cluster: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order of the rows that takes one of each cluster in turn, while there are any."""
    by_cluster = np.argsort(cluster, kind="stable")
    sizes = np.bincount(cluster)
    turn = np.empty_like(cluster)
    turn[by_cluster] = np.arange(cluster.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((cluster, turn))


def learn(
    public: Public,
    recipe: Recipe,
    queries: NDArray[np.int64],
    answers: NDArray[np.float32],
    device: str = "cpu",
    going_on: list[Adam] | None = None,
) -> NDArray[np.float32]:
    """Trains a student of each run on the public graph and asks it about the watched nodes.

    queries: (K, q) ids. answers: (K, q, classes), the distribution to learn for each. going_on: the teachers' optimiser, of which
    a copy goes on. Returns log-probabilities (K, w, classes) float32. A private node is asked about by its features alone,
    whether the run has it or not: its edges are never read.
    """
    step = max(1, CACHE // (4 * max(recipe.hidden) * public.nodes.size)) if going_on is None else len(queries)
    parts = [np.arange(first, min(first + step, len(queries))) for first in range(0, len(queries), step)]
    return np.concatenate([_learn(public, runs, recipe, queries, answers, device, going_on) for runs in parts])


def _learn(
    public: Public,
    runs: NDArray[np.int64],
    recipe: Recipe,
    queries: NDArray[np.int64],
    answers: NDArray[np.float32],
    device: str,
    going_on: list[Adam] | None,
) -> NDArray[np.float32]:
    learned, asked = graphs_of(public, runs)
    columns = Columns.read(learned, asked) if going_on is None else Columns.every(learned)
    randoms = [stream(public.worlds.seeds[k], "student") for k in runs]
    values = start(recipe, randoms, learned.inputs.shape[1], columns, device)
    target = soft_target(public, queries[runs], answers[runs])
    train(recipe, values, Prepared.of(learned, columns, device), target, randoms, adams_of(recipe, values, going_on))
    return watched(public, ask(values, Prepared.of(asked, columns, device)))


def graphs_of(public: Public, runs: NDArray[np.int64]) -> tuple[Graphs, Graphs]:
    """The public graph of each run to learn on, and the same with the watched private nodes, each alone, behind it."""
    watch = public.worlds.watch
    strangers = np.setdiff1d(watch, public.nodes)
    graphs = []
    for rows in (public.nodes, np.concatenate([public.nodes, strangers])):
        members = [rows] * len(runs)
        graphs.append(Graphs.induced(public.x, members, arcs_within(public.arcs, members, public.usable(runs))))
    return graphs[0], graphs[1]


def watched(public: Public, answers: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows of the second graph of `graphs_of` that are watched, in the order of the watch."""
    watch = public.worlds.watch
    place = np.full(public.worlds.graph.nodes, -1)
    rows = np.concatenate([public.nodes, np.setdiff1d(watch, public.nodes)])
    place[rows] = np.arange(rows.size)
    return answers[:, place[watch]]


def soft_target(public: Public, queries: NDArray[np.int64], answers: NDArray[np.float32]) -> NDArray[np.float32]:
    """(runs, classes, public nodes) float32: the mean over the queries of -sum(answer * log p)."""
    runs, count, classes = answers.shape
    target = np.zeros((runs, public.nodes.size, classes), dtype=np.float32)
    target[np.arange(runs)[:, None], np.searchsorted(public.nodes, queries)] = answers / max(1, count)
    return np.ascontiguousarray(target.transpose(0, 2, 1))
