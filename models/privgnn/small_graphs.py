"""Joins many small graphs into one block-diagonal graph. For each graph, only the feature columns that it uses are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.features import limited
from ..sparse.block_diagonal import DENSE, Blocks, Operator


@dataclass(frozen=True, eq=False)
class Graphs:
    """B graphs in one block-diagonal graph. Row i of graph b is row b * size + i; padding rows have no features and no arcs.

    inputs: (B * size, 2 dim) float32, csr_array or dense: the mean over the neighbours, then the node's own features. These are
    all inputs of the first GraphSAGE layer, so the mean is computed once and not in every epoch. counts: (B,) int64, the number
    of real rows of each graph, which come before the padding. arcs: (2, a) int64, senders above receivers.
    """

    inputs: Any
    counts: NDArray[np.int64]
    arcs: NDArray[np.int64]

    @property
    def size(self) -> int:
        return int(self.inputs.shape[0]) // len(self.counts)

    @staticmethod
    def induced(x: Any, members: list[NDArray[np.int64]], arcs: NDArray[np.int64]) -> Graphs:
        """Graphs whose means are taken over their own arcs. members: each graph's rows of x. arcs: see `arcs_within`."""
        own, counts = stacked(x, members)
        return Graphs(with_mean(own, arcs), counts, arcs)

    @staticmethod
    def cut_out(inputs: Any, members: list[NDArray[np.int64]], arcs: NDArray[np.int64]) -> Graphs:
        """Parts of a larger graph, whose means were taken in the larger graph. inputs: (nodes, 2 dim), the result of `with_mean`
        for the larger graph.
        """
        rows, counts = stacked(inputs, members)
        return Graphs(rows, counts, arcs)


def stacked(x: Any, members: list[NDArray[np.int64]]) -> tuple[Any, NDArray[np.int64]]:
    """Each graph's rows of x, padded with zero rows to the same number for all graphs, and the numbers of rows before padding."""
    counts = np.array([len(m) for m in members], dtype=np.int64)
    size = max(1, int(counts.max(initial=0)))
    slots = (np.arange(size) < counts[:, None]).ravel()
    chosen = np.concatenate(members)
    if not sp.issparse(x):
        rows = np.zeros((len(slots), x.shape[1]), dtype=np.float32)
        rows[slots] = x[chosen]
        return rows, counts
    some = x[chosen]
    lengths = np.zeros(len(slots), dtype=np.int64)
    lengths[slots] = np.diff(some.indptr)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return sp.csr_array((some.data, some.indices, starts), shape=(len(slots), x.shape[1])), counts


def with_mean(x: Any, arcs: NDArray[np.int64]) -> Any:
    """(rows, 2 dim) float32: the mean of x over the arcs into each row, zero if there are none, then x itself."""
    rows = x.shape[0]
    degree = np.bincount(arcs[1], minlength=rows)
    weights = (1 / degree[arcs[1]]).astype(np.float32)
    mean = sp.csr_array((weights, (arcs[1], arcs[0])), shape=(rows, rows)) @ x
    return sp.hstack([mean, x], format="csr") if sp.issparse(x) else np.concatenate([mean, x], axis=1)


def compact(x: Any) -> Any:
    """Features for these functions, float32: a csr_array if at most a share DENSE is non-zero, else dense."""
    x = limited(x)
    share = (x.nnz if sp.issparse(x) else np.count_nonzero(x)) / max(1, x.shape[0] * x.shape[1])
    if share <= DENSE:
        return sp.csr_array(x, dtype=np.float32)
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)


def arcs_within(neighbours: sp.csr_array, members: list[NDArray[np.int64]], usable: Any = None) -> NDArray[np.int64]:
    """(2, a) int64: for each list of nodes, the arcs between these nodes, with rows numbered as in `Graphs`.

    neighbours: (nodes, nodes), row = receiver, value = the index of the edge. usable: (graphs, edges) bool, which edges each
    graph has; None means all.
    """
    nodes, size = neighbours.shape[0], max(1, *(len(m) for m in members))
    graph = np.repeat(np.arange(len(members)), [len(m) for m in members])
    flat = np.concatenate(members)
    place = np.full((len(members), nodes), -1, dtype=np.int64)
    place[graph, flat] = np.concatenate([np.arange(len(m)) for m in members]) + graph * size
    length = np.diff(neighbours.indptr)[flat]
    ends = np.cumsum(length)
    at = np.arange(ends[-1] if ends.size else 0) + np.repeat(neighbours.indptr[flat] - (ends - length), length)
    graph, receive = np.repeat(graph, length), np.repeat(place[graph, flat], length)
    send = place[graph, neighbours.indices[at]]
    kept = send >= 0
    if usable is not None:
        kept &= usable[graph, neighbours.data[at]]
    return np.stack([send[kept], receive[kept]])


@dataclass(frozen=True, eq=False)
class Columns:
    """The input columns for which each network stores weights. The others are left out, because training would never change them.

    ids: (c,) int64, graph * 2 dim + column, ascending: the order in which the first layer's weights are stored. dim: 2 dim.
    """

    ids: NDArray[np.int64]
    dim: int

    @staticmethod
    def read(*several: Graphs) -> Columns | None:
        """The columns in which some row of these graphs has an entry; None for dense inputs, for which all columns are stored."""
        if not sp.issparse(several[0].inputs):
            return None
        dim = several[0].inputs.shape[1]
        return Columns(np.unique(np.concatenate([column_ids(g, dim) for g in several])), dim)

    @staticmethod
    def every(graphs: Graphs) -> Columns | None:
        if not sp.issparse(graphs.inputs):
            return None
        dim = graphs.inputs.shape[1]
        return Columns(np.arange(len(graphs.counts) * dim), dim)


def column_ids(graphs: Graphs, dim: int) -> NDArray[np.int64]:
    """For each stored entry of the inputs, the number graph * dim + column. dim: the number of input columns."""
    lengths = np.diff(graphs.inputs.indptr.reshape(-1)[:: graphs.size])
    ids: NDArray[np.int64] = np.repeat(np.arange(len(graphs.counts)), lengths) * dim + graphs.inputs.indices
    return ids


@dataclass(frozen=True, eq=False)
class Prepared:
    """Graphs in the form that the networks read. inputs: a matrix (B * size, stored columns), or a tensor (B, size, 2 dim).

    begins: (B + 1,) int64, where the stored columns of each graph begin and end; zeros for dense inputs.
    """

    inputs: Operator | Tensor
    blocks: Blocks
    real: Tensor  # (B, size, 1) float32, 1 for real rows
    counts: Tensor  # (B, 1, 1) float32, at least 1
    begins: NDArray[np.int64]

    @staticmethod
    def of(graphs: Graphs, columns: Columns | None, device: str) -> Prepared:
        runs, size = len(graphs.counts), graphs.size
        begins = np.zeros(runs + 1, dtype=np.int64)
        if columns is None:
            inputs: Operator | Tensor = torch.from_numpy(graphs.inputs.reshape(runs, size, -1)).to(device)
        else:
            found = np.searchsorted(columns.ids, column_ids(graphs, columns.dim))
            begins = np.searchsorted(columns.ids, np.arange(runs + 1) * columns.dim)
            shape = (runs * size, len(columns.ids))
            inputs = Operator.of(sp.csr_array((graphs.inputs.data, found, graphs.inputs.indptr), shape=shape), device)
        real = (np.arange(size) < graphs.counts[:, None]).astype(np.float32)[:, :, None]
        counts = np.maximum(1, graphs.counts).astype(np.float32)[:, None, None]
        blocks = Blocks(runs, size, graphs.arcs, device)
        return Prepared(inputs, blocks, torch.from_numpy(real).to(device), torch.from_numpy(counts).to(device), begins)
