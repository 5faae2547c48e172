"""Many graphs joined into one block-diagonal graph, so that K runs need only one sparse product."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..graph.graph import Graph, dense
from .attention import attention

EDGES = 1 << 18  # how many edges are processed at a time, to limit memory
DENSE = 0.1  # features with a larger share of non-zeros are multiplied as a dense matrix


@dataclass(frozen=True, eq=False)
class Operator:
    """A sparse matrix, and its transpose for the backward pass. Gradients do not reach the values of the matrix."""

    matrix: Tensor
    transpose: Tensor

    @staticmethod
    def of(matrix: sp.csr_array, device: str, symmetric: bool = False) -> Operator:
        """symmetric: whether the matrix is its own transpose; it is then stored once."""
        there = csr(matrix).to(device)
        return Operator(there, there if symmetric else csr(sp.csr_array(matrix.T)).to(device))

    @cached_property
    def order(self) -> Tensor:
        """For each value of the transpose, its index among the values of the matrix."""
        starts, columns = self.matrix.crow_indices().cpu().numpy(), self.matrix.col_indices().cpu().numpy()
        places = sp.csr_array((np.arange(len(columns)), columns, starts), shape=tuple(self.matrix.shape))
        return torch.from_numpy(sp.csr_array(places.T).data).to(self.matrix.device)

    def scaled(self, factors: Tensor) -> Operator:
        """The matrix with every stored value multiplied by its factor. factors: (stored,), in the order of the matrix."""
        values = self.matrix.values() * factors
        return Operator(with_values(self.matrix, values), with_values(self.transpose, values[self.order]))

    def __matmul__(self, rows: Tensor) -> Tensor:
        """The block-diagonal matrix times the rows of all runs: (K, columns / K, units) -> (K, rows / K, units)."""
        product: Tensor = Product.apply(rows, self.matrix, self.transpose)
        return product


class Product(torch.autograd.Function):
    """A sparse matrix times a dense one, whose backward pass is the transpose times the gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, transpose: Tensor) -> Tensor:
        ctx.transpose = transpose
        return multiply(matrix, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return multiply(ctx.transpose, grads[0]), None, None


def multiply(matrix: Tensor, rows: Tensor) -> Tensor:
    """The block-diagonal matrix times the rows of all runs, as in `Operator.__matmul__`, without gradients."""
    runs, _, units = rows.shape
    out = rows.new_empty((runs, matrix.shape[0] // runs, units))
    flat = out.view(-1, units)
    torch.addmm(flat, matrix, rows.reshape(-1, units), beta=0, out=flat)  # without `out`, torch.addmm copies its first argument
    return out


def csr(matrix: sp.csr_array) -> Tensor:
    """A torch CSR matrix of float32. Its indices have 32 bits, because the time to read them dominates a multiplication."""
    rows, cols = (torch.from_numpy(a.astype(np.int32, copy=False)) for a in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data.astype(np.float32, copy=False))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(rows, cols, values, matrix.shape, check_invariants=False)


def with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """A CSR matrix with the stored positions of `matrix` and other values."""
    return torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape, check_invariants=False)


@dataclass(frozen=True, eq=False)
class Blocks:
    """K graphs of `size` nodes each as one graph of K * size nodes; node i of run k is row k * size + i.

    arcs: (2, a) int32 or int64, senders above receivers, without self loops; no arc joins two runs. both_ways: whether every arc
    has its reverse.
    """

    runs: int
    size: int
    arcs: NDArray[np.int32] | NDArray[np.int64]
    device: str
    both_ways: bool = False

    @staticmethod
    def of(graph: Graph, members: list[NDArray[np.int64]], edges: NDArray[np.bool_], device: str = "cpu") -> Blocks:
        """The subgraph of each run on its own nodes. Runs with fewer nodes are padded with nodes without arcs.

        members: for each run the ids of its nodes, in the order of its rows. edges: (K, m) bool, which of graph.edges the run
        keeps; both ends of a kept edge must be members.
        """
        size = max(len(rows) for rows in members)
        kind, ways = np.int32 if len(members) * size < 2**31 else np.int64, 1 if graph.directed else 2
        arcs, at = np.empty((2, ways * int(edges.sum())), dtype=kind), 0
        for k, rows in enumerate(members):
            place = np.full(graph.nodes, -1, dtype=kind)
            place[rows] = np.arange(len(rows)) + k * size
            count = int(edges[k].sum())
            for first in range(0, edges.shape[1], EDGES):
                some = slice(first, first + EDGES)
                kept = place[graph.edges[:, some][:, edges[k, some]]]
                arcs[:, at : at + kept.shape[1]] = kept
                if not graph.directed:
                    arcs[:, at + count : at + count + kept.shape[1]] = kept[::-1]
                at += kept.shape[1]
            at += count * (ways - 1)
        return Blocks(len(members), size, arcs, device, both_ways=not graph.directed)

    @property
    def nodes(self) -> int:
        return self.runs * self.size

    @cached_property
    def total(self) -> Operator:
        """Computes, for every node, the sum over the arcs into it."""
        return Operator.of(self._adjacency(np.ones(self.arcs.shape[1], dtype=np.float32)), self.device, self.both_ways)

    @cached_property
    def mean(self) -> Operator:
        """Computes, for every node, the mean over the arcs into it; zero if there are none."""
        degree = np.bincount(self.arcs[1], minlength=self.nodes)
        return Operator.of(self._adjacency((1 / np.maximum(degree, 1)).astype(np.float32)[self.arcs[1]]), self.device)

    @cached_property
    def symmetric(self) -> Operator:
        """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I (Kipf and Welling 2017, equation 2)."""
        root = 1 / np.sqrt(np.bincount(self.arcs[1], minlength=self.nodes) + 1.0)
        loops = sp.dia_array((root[None] ** 2, [0]), shape=(self.nodes, self.nodes))
        return Operator.of(sp.csr_array(self._adjacency(products(root, self.arcs)) + loops), self.device, self.both_ways)

    def attend(self, rows: Tensor, to: Tensor, fro: Tensor) -> Tensor:
        """`attention` over the arcs into each node and its self loop. rows: (K, size, heads, units); fro, to: (K, size, heads)"""
        send, receive = self.looped
        flat, to, fro = (x.reshape(self.nodes, *x.shape[2:]) for x in (rows, to, fro))
        return attention(flat[send], fro[send], to, receive).view(rows.shape)

    @cached_property
    def looped(self) -> Tensor:
        """(2, a + nodes) int64: the arcs, then a self loop at every node."""
        own = np.arange(self.nodes)
        return torch.from_numpy(np.concatenate([self.arcs, np.stack([own, own])], axis=1)).to(self.device)

    def _adjacency(self, weights: NDArray[np.float32]) -> sp.csr_array:
        return sp.csr_array((weights, (self.arcs[1], self.arcs[0])), shape=(self.nodes, self.nodes))


def products(factors: NDArray[np.float64], arcs: NDArray[Any]) -> NDArray[np.float32]:
    """For each arc, the factor of its sender times the factor of its receiver, rounded to float32 once."""
    weights = np.empty(arcs.shape[1], dtype=np.float32)
    for first in range(0, arcs.shape[1], EDGES):
        send, receive = arcs[:, first : first + EDGES]
        weights[first : first + EDGES] = factors[send] * factors[receive]
    return weights


def features(x: Any, members: list[NDArray[np.int64]], device: str) -> Operator | Tensor:
    """The members' rows of x for every run, padded with zero rows. A block-diagonal matrix (K * size, K * dim) if at most a share
    DENSE of x is non-zero, else a tensor (K, size, dim).
    """
    size = max(len(rows) for rows in members)
    share = x.nnz / (x.shape[0] * x.shape[1]) if sp.issparse(x) else np.count_nonzero(x) / max(x.size, 1)
    if share <= DENSE:
        whole = sp.csr_array(x)
        parts = [whole[rows] for rows in members]
        for part in parts:
            part.resize((size, x.shape[1]))
        return Operator.of(sp.csr_array(sp.block_diag(parts, format="csr")), device)
    whole = dense(x)
    filled = np.zeros((len(members), size, x.shape[1]), dtype=np.float32)
    for k, rows in enumerate(members):
        filled[k, : len(rows)] = whole[rows]
    return torch.from_numpy(filled).to(device)


def linear(x: Operator | Tensor, weight: Tensor) -> Tensor:
    """Each run's rows times that run's weight. x: (K, size, inputs), or a result of `features`; weight: (K, inputs, units)."""
    return torch.bmm(x, weight) if isinstance(x, Tensor) else x @ weight
