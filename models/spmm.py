"""Sums over neighbours in K worlds at once: one sparse product for all runs, then each run's absent edges are taken off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from .graph import Worlds

CACHE = 16 * 2**20  # bytes of the summed matrix that one pass should touch; beyond, every neighbour is a cache miss
FEW = 0.1  # absent share of the edges up to which taking them off is cheaper than a product of each run's own


class Aggregation:
    """The neighbour sums of some worlds. Built once, used for every hop."""

    def __init__(self, worlds: Worlds, device: str = "cpu", arcs: NDArray[np.bool_] | None = None) -> None:
        """arcs: (runs, arcs) bool, which of graph.arcs each run may use at all; None means those that its world has."""
        graph = worlds.graph
        sender, receiver = graph.arcs
        order = np.lexsort((sender, receiver))
        self.nodes, self.device = graph.nodes, device
        self.offsets = _index(np.concatenate([[0], np.cumsum(graph.degree)]), device)
        self.columns = _index(sender[order], device)
        self.matrix = self._matrix(np.ones(order.size))
        self.alive: Tensor | None = None
        self.absent: tuple[Tensor, ...] | None = None
        self.own: list[Tensor] | None = None
        if worlds.nodes is not None:
            alive = worlds.nodes.dense(graph.nodes)[:, :, None]
            self.alive = torch.from_numpy(alive.astype(np.float32)).to(device)
        if arcs is not None:
            self.own = [self._matrix(present[order]) for present in arcs]
        elif worlds.edges is not None:
            self._set_edges(worlds, order)

    def _set_edges(self, worlds: Worlds, order: NDArray[np.int64]) -> None:
        graph, mask = worlds.graph, worlds.edges
        assert mask is not None
        lacking = ~mask.present
        edges = graph.edges.shape[1]
        if lacking.sum() > FEW * edges * worlds.runs:
            present = mask.dense(edges)
            self.own = [self._matrix(present[run, order % edges]) for run in range(worlds.runs)]
            return
        run, which = np.nonzero(lacking)
        ends = graph.edges[:, mask.items[which]]
        if not graph.directed:
            run, ends = np.tile(run, 2), np.concatenate([ends, ends[::-1]], axis=1)
        self.absent = tuple(torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for a in (run, *ends))

    def _matrix(self, values: NDArray[Any]) -> Tensor:
        ones = torch.from_numpy(values.astype(np.float32)).to(self.device)
        size = (self.nodes, self.nodes)
        return torch.sparse_csr_tensor(self.offsets, self.columns, ones, size, check_invariants=False)

    def __call__(self, x: Tensor) -> Tensor:
        """For each run, the sum of x over the incoming edges that exist in that run.

        x: (runs, nodes, dim) -> (runs, nodes, dim). If all rows of x have length 1 or less, one directed edge more or less
        moves one row of the result by 1 at most (Sajadmanesh et al. 2023, GAP, Lemma 1), and one undirected edge two rows
        by 1 each, sqrt(2) in all.
        """
        if self.alive is not None:
            x = x * self.alive
        if self.own is not None:
            total = torch.stack([matrix @ own.contiguous() for matrix, own in zip(self.own, x, strict=True)])
        else:
            total = self._together(x)
        return total if self.alive is None else total * self.alive

    def _together(self, x: Tensor) -> Tensor:
        runs, nodes, dim = x.shape
        wide = x.permute(1, 0, 2).reshape(nodes, runs * dim).contiguous()
        block = max(16, CACHE // (4 * nodes))
        if block >= wide.shape[1]:
            total = self.matrix @ wide
        else:
            total = torch.cat([self.matrix @ part.contiguous() for part in wide.split(block, 1)], 1)
        if self.absent is not None:
            run, sender, receiver = self.absent
            messages = wide.view(nodes * runs, dim).index_select(0, sender * runs + run)
            total.view(nodes * runs, dim).index_add_(0, receiver * runs + run, messages, alpha=-1)
        return total.view(nodes, runs, dim).permute(1, 0, 2)


def _index(a: NDArray[Any], device: str) -> Tensor:
    return torch.from_numpy(a.astype(np.int32)).to(device)
