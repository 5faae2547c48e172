"""A graph, and many subgraphs of it at once. A model may read nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...accounting.arguments import check_type, shown
from ..random.streams import seeds_of
from .neighbour_lists import BLOCK, Lists, degrees, incoming, received

Features = Any  # NDArray[np.float32] | sp.csr_array; scipy ships no types


def dense(matrix: Any) -> NDArray[Any]:
    """A dense or sparse matrix as an array, which is a copy only if the matrix is sparse."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def stored_as(other: Features, x: Features) -> Features:
    """The features `x` as `other` is stored: as a csr_array if it is one, else dense. A user's model that reads one of them may
    not read the other.
    """
    return sp.csr_array(x) if sp.issparse(other) else dense(x)


def stored_like(other: Graph, graph: Graph) -> Graph:
    """The graph, whose features are stored as those of another graph."""
    return dataclasses.replace(graph, x=stored_as(other.x, graph.x))


# attributes that only the engine reads; the AttributeError of a graph does not list them
NOT_READ = ("incoming", "edge_blocks", "into", "digest", "arc_count", "as_directed")


def joining(pairs: NDArray[np.int64], directed: bool) -> NDArray[np.int64]:
    """The edges that join these pairs of nodes, (2, m): each pair once, or both of its arcs if the graph is directed."""
    return np.concatenate([pairs, pairs[::-1]], axis=1) if directed else pairs


@dataclass(frozen=True, eq=False)
class Graph:
    """Features, labels, edges and the public split of the nodes.

    x: (nodes, dim) float32, dense or a scipy csr_array. y: (nodes,) int64, classes 0 … classes-1.
    edges: (2, m) int64. An undirected graph lists every edge once, as u < v; a directed graph lists its arcs (from, to). A sum
    over neighbours needs both directions: use `arcs` (alias `edge_index`), `adjacency()` or `to_pyg()`.
    train, val, test: (nodes,) bool, disjoint. The node set and the split are public.

    Raises ValueError for labels that are not whole numbers in one dimension. The other rules are checked when a graph enters an
    audit, and not here, because an audit derives thousands of graphs.
    """

    x: Features
    y: NDArray[np.int64]
    edges: NDArray[np.int64]
    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    directed: bool = False
    name: str = "graph"
    classes: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.y, np.ndarray) or self.y.ndim != 1 or self.y.dtype.kind not in "iu":
            way = "an array of whole numbers, (nodes,) int64, the class of each node."
            raise ValueError(f"y={shown(self.y)}: must be {way}")
        object.__setattr__(self, "classes", self.classes or int(self.y.max(initial=-1)) + 1)

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError for a name that a graph lacks, with the names that it has."""
        names = (*(f.name for f in dataclasses.fields(Graph)), *(n for n in vars(Graph) if n[0] != "_" and n not in NOT_READ))
        meant = "".join(f" Did you mean {near}?" for near in get_close_matches(name, names, 1))
        raise AttributeError(f"a graph has no {name!r}.{meant} It has {', '.join(dict.fromkeys(names))}.")

    @property
    def nodes(self) -> int:
        return int(self.y.shape[0])

    @property
    def dim(self) -> int:
        return int(self.x.shape[1])

    @cached_property
    def arcs(self) -> NDArray[np.int64]:
        """(2, arcs) int64: messages go from row 0 to row 1. Edge i of m undirected edges becomes the arcs i and i + m."""
        return joining(self.edges, not self.directed)

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """`arcs` under the name that PyTorch Geometric uses: (2, arcs), both directions of every undirected edge."""
        return self.arcs

    @property
    def arc_count(self) -> int:
        """The number of arcs, computed without building `arcs`."""
        return int(self.edges.shape[1]) * (1 if self.directed else 2)

    def as_directed(self) -> Graph:
        """The same graph with each arc as one edge, for claims that count directed edges."""
        return self if self.directed else dataclasses.replace(self, edges=self.arcs, directed=True)

    def adjacency(self) -> sp.csr_array:
        """(nodes, nodes) float32: row = receiver, column = sender. An arc that is listed twice counts twice."""
        send, receive = self.arcs
        ones = np.ones(send.shape[0], dtype=np.float32)
        return sp.csr_array((ones, (receive, send)), shape=(self.nodes, self.nodes))

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """(nodes,) int64: the number of arcs into each node."""
        return degrees(self.edges, self.nodes, self.directed)

    @cached_property
    def incoming(self) -> Lists:
        """The adjacency as a list of senders for every receiver. An arc that is listed twice counts twice."""
        return incoming(self.edges, self.nodes, self.directed)

    def edge_blocks(self) -> Iterator[NDArray[np.int64]]:
        """All edges in order, in blocks of (2, …) int64, because they may not fit into memory together."""
        yield from (self.edges[:, at : at + BLOCK] for at in range(0, self.edges.shape[1], BLOCK))

    def into(self, nodes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int32]]]:
        """The senders to each of `nodes`, for some nodes at a time: see `neighbour_lists.received`."""
        return received(self.incoming, nodes)

    @cached_property
    def digest(self) -> str:
        """A hash, 32 hex digits, of everything that a model could read, except the name."""
        h = hashlib.blake2b(digest_size=16)
        x = (self.x.data, self.x.indices, self.x.indptr) if sp.issparse(self.x) else (self.x,)
        for a in (*x, self.y, self.edges, self.train, self.val, self.test):
            h.update(f"{a.dtype}{a.shape}".encode())
            h.update(np.ascontiguousarray(a).data)
        h.update(f"{self.directed} {self.classes}".encode())
        return h.hexdigest()

    def to_pyg(self) -> Any:
        """A torch_geometric.data.Data with both directions of every undirected edge."""
        import torch
        from torch_geometric.data import Data

        masks = {f"{s}_mask": torch.from_numpy(getattr(self, s)) for s in ("train", "val", "test")}
        x = torch.from_numpy(dense(self.x))
        return Data(x=x, y=torch.from_numpy(self.y), edge_index=torch.from_numpy(self.arcs), **masks)


@dataclass(frozen=True, eq=False)
class Mask:
    """Which of `items` exist in each run. Everything else exists in all runs.

    items: (c,) int64 ids, ascending, without repeats. present: (runs, c) bool.
    """

    items: NDArray[np.int64]
    present: NDArray[np.bool_]

    def __getitem__(self, runs: slice) -> Mask:
        return Mask(self.items, self.present[runs])

    def dense(self, size: int) -> NDArray[np.bool_]:
        """(runs, size) bool: which of the ids 0 … size-1 exist in each run."""
        full = np.ones((self.present.shape[0], size), dtype=bool)
        full[:, self.items] = self.present
        return full


@dataclass(frozen=True, eq=False)
class Worlds:
    """K subgraphs of one graph that contains them all, one seed for each run, and the nodes whose rows are released.

    seeds: (K,) uint64. All randomness of run k comes from seeds[k], so the result of a run does not depend on the runs that are
    trained with it.
    edges, nodes, labels: which edges, nodes and training labels exist in each run; None means all of them.
        A masked edge is absent. A masked node sends nothing, receives nothing and is not trained on; its own row is still
        computed, as that of a node without edges. A masked label is not trained on, but its node keeps its edges.
    watch: (w,) int64 node ids, the rows that a release holds.

    Raises ValueError for values of other types, ids out of range, and masks of another shape.
    """

    graph: Graph
    seeds: NDArray[np.uint64]
    watch: NDArray[np.int64]
    edges: Mask | None = None
    nodes: Mask | None = None
    labels: Mask | None = None

    def __post_init__(self) -> None:
        check_type("graph", self.graph, Graph, "a Graph. `load` makes one.")
        rows = np.asarray(self.watch)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise ValueError(f"watch={shown(rows)}: must be node ids, (w,) int64. Write np.flatnonzero(mask) for a mask.")
        if rows.size and (rows.min() < 0 or rows.max() >= self.graph.nodes):
            raise ValueError(f"watch={shown(rows)}: node ids must be in 0 … {self.graph.nodes - 1}.")
        object.__setattr__(self, "seeds", seeds_of(self.seeds).astype(np.uint64, copy=False))
        object.__setattr__(self, "watch", rows.astype(np.int64, copy=False))
        for name in ("edges", "nodes", "labels"):
            mask = getattr(self, name)
            check_type(name, mask, Mask | None, "a Mask(items, present), or None for all.")
            if mask is not None and mask.present.shape != (self.runs, len(mask.items)):
                shape = f"must be ({self.runs}, {len(mask.items)}), a row for each seed and a column for each item."
                raise ValueError(f"{name}: present has shape {mask.present.shape}: {shape}")

    @staticmethod
    def of(graph: Graph, seeds: NDArray[np.uint64] | list[int], watch: NDArray[np.int64] | None = None) -> Worlds:
        """Identical worlds: the whole graph in every run. watch: node ids; None means all nodes."""
        check_type("graph", graph, Graph, "a Graph. `load` makes one.")
        rows = np.arange(graph.nodes, dtype=np.int64) if watch is None else watch
        return Worlds(graph, seeds_of(seeds), rows)

    @property
    def runs(self) -> int:
        return int(self.seeds.shape[0])

    def __len__(self) -> int:
        return self.runs

    def __getitem__(self, runs: slice) -> Worlds:
        part = {f: m[runs] for f in ("edges", "nodes", "labels") if (m := getattr(self, f)) is not None}
        return dataclasses.replace(self, seeds=self.seeds[runs], **part)

    def trained(self) -> NDArray[np.bool_]:
        """(K, nodes) bool: on which nodes each run trains."""
        rows = np.repeat(self.graph.train[None], self.runs, axis=0)
        for mask in (self.nodes, self.labels):
            if mask is not None:
                rows[:, mask.items] &= mask.present
        return rows

    def edge_present(self) -> NDArray[np.bool_]:
        """(K, m) bool: which of graph.edges exist in each run, after the edge mask and the node mask."""
        m = self.graph.edges.shape[1]
        present = np.ones((self.runs, m), dtype=bool) if self.edges is None else self.edges.dense(m)
        if self.nodes is not None:
            alive = self.nodes.dense(self.graph.nodes)
            present &= alive[:, self.graph.edges[0]] & alive[:, self.graph.edges[1]]
        return present

    def removed(self, run: int) -> Worlds:
        """Run `run` alone, as Worlds of one run. Its `.graph` is the graph of that run, and its masks are None.

        Absent edges are not in `.graph.edges`; absent nodes have no edges and are not in `.graph.train`.
        """
        one = self if self.runs == 1 else self[run : run + 1]
        edges = self.graph.edges[:, one.edge_present()[0]]
        graph = dataclasses.replace(self.graph, edges=edges, train=one.trained()[0])
        return Worlds(graph, one.seeds, self.watch)
