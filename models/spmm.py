"""Sums over neighbours in K worlds at once: one sparse matrix for all runs, each run's absent edges taken off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from .graph import Worlds

FEW = 0.1  # absent share of the edges up to which taking them off is cheaper than a product of each run's own


@dataclass(frozen=True)
class Aggregation:
    """The neighbour sums of some worlds. Built once, used for every hop.

    matrices: (nodes, nodes) sparse, row = receiver: one for all runs, or one for each. absent: run, sender and receiver of
    every arc that a run lacks. alive: (runs, nodes, 1), 0 for a node that neither sends nor receives.
    """

    matrices: Sequence[Tensor]
    absent: tuple[Tensor, ...] | None = None
    alive: Tensor | None = None

    @classmethod
    def of(cls, worlds: Worlds, device: str = "cpu") -> Self:
        """On the edges that each world has."""
        graph, mask, alive = worlds.graph, worlds.edges, None
        if worlds.nodes is not None:
            alive = torch.from_numpy(worlds.nodes.dense(graph.nodes).astype(np.float32)[:, :, None]).to(device)
        if mask is None:
            return cls([sparse(graph.nodes, graph.arcs, device)], None, alive)
        if (~mask.present).sum() > FEW * graph.edges.shape[1] * worlds.runs:
            present = [mask[run : run + 1].dense(graph.edges.shape[1])[0] for run in range(worlds.runs)]
            times = 1 if graph.directed else 2
            return cls([sparse(graph.nodes, graph.arcs[:, np.tile(p, times)], device) for p in present], None, alive)
        run, which = np.nonzero(~mask.present)
        ends = graph.edges[:, mask.items[which]]
        if not graph.directed:
            run, ends = np.tile(run, 2), np.concatenate([ends, ends[::-1]], axis=1)
        absent = tuple(torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (run, *ends))
        return cls([sparse(graph.nodes, graph.arcs, device)], absent, alive)

    @classmethod
    def over(cls, nodes: int, graphs: Sequence[NDArray[np.int64]], device: str = "cpu") -> Self:
        """Each run on a graph of its own. graphs: (2, arcs) int64 each, messages go from row 0 to row 1."""
        return cls([sparse(nodes, arcs, device) for arcs in graphs])

    def __call__(self, x: Tensor) -> Tensor:
        """For each run, the sum of x over the incoming edges that exist in that run.

        x: (runs, nodes, dim) -> (runs, nodes, dim). If all rows of x have length 1 or less, one directed edge more or less
        moves one row of the result by 1 at most (Sajadmanesh et al. 2023, GAP, Lemma 1), and one undirected edge two rows
        by 1 each, sqrt(2) in all.
        """
        if self.alive is not None:
            x = x * self.alive
        # One product a run, not one for all: MKL adds up in another order for another number of columns, and narrow products
        # that stay in cache are as fast.
        matrices = self.matrices if len(self.matrices) > 1 else [self.matrices[0]] * len(x)
        total = torch.stack([matrix @ own.contiguous() for matrix, own in zip(matrices, x, strict=True)])
        if self.absent is not None:
            run, sender, receiver = self.absent
            total.index_put_((run, receiver), -x[run, sender], accumulate=True)
        return total if self.alive is None else total * self.alive


@dataclass(frozen=True)
class Neighbours:
    """A layer: the sum over the neighbours, stacked on the node itself. back: the same arcs in the other direction."""

    there: Aggregation
    back: Aggregation

    def start(self, random: np.random.Generator) -> tuple[list[Any], list[Any]]:
        return [], []

    def forward(self, numbers: Any, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return torch.cat([self.there(x.transpose(1, 2)).transpose(1, 2), x], 1), None

    def backward(self, numbers: Any, dy: Tensor, saved: Any, gradients: Any, inner: bool = True) -> Tensor:
        neighbours, own = dy.chunk(2, 1)
        return self.back(neighbours.transpose(1, 2)).transpose(1, 2) + own


def sparse(nodes: int, arcs: NDArray[np.int64], device: str = "cpu") -> Tensor:
    """(nodes, nodes) CSR of 32-bit indices, which is what MKL multiplies fast; an arc listed twice counts twice."""
    ones = np.ones(arcs.shape[1], dtype=np.float32)
    matrix = sp.csr_array((ones, (arcs[1], arcs[0])), shape=(nodes, nodes))
    offsets, columns = (torch.from_numpy(a.astype(np.int32)) for a in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data)
    return torch.sparse_csr_tensor(offsets, columns, values, matrix.shape, device=device, check_invariants=False)
