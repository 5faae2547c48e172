"""Sums over neighbours in K worlds at once.

If few edges are absent, all runs use the lists of the whole graph, and the rows of absent edges are subtracted. Otherwise each
run has lists of its own.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..graph.graph import Worlds
from ..graph.neighbour_lists import Lists, incoming

FEW = 0.1  # share of absent edges up to which subtracting their rows is cheaper than separate lists for each run
ROWS = 1 << 14  # receivers that are summed at a time


@dataclass(frozen=True, eq=False)
class Bags:
    """Neighbour lists as tensors, for sums. Raises ValueError for lists that name nodes outside the graph.

    torch.embedding_bag reads the senders in order, so they may lie in a file that is larger than the memory.
    """

    lists: Lists
    device: str = "cpu"

    def __post_init__(self) -> None:
        starts, senders = self.lists.starts, self.lists.senders
        sorted_starts = starts[0] == 0 and starts[-1] == len(senders) and (starts[1:] >= starts[:-1]).all()
        if not sorted_starts or senders.view(np.uint32).max(initial=0) >= max(1, len(starts) - 1):
            raise ValueError("neighbour lists lead out of the graph: make them again from its edges.")

    @cached_property
    def blocks(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """For each block of ROWS receivers: the senders, (arcs,) int32, and where each receiver's list begins, (receivers + 1,)
        int32.
        """
        starts, senders, found = self.lists.starts, mapped(self.lists.senders).to(self.device), []
        for at in range(0, len(starts) - 1, ROWS):
            own = starts[at : at + ROWS + 1]
            found.append((senders[own[0] : own[-1]], torch.from_numpy((own - own[0]).astype(np.int32)).to(self.device)))
        return tuple(found)

    def add_up(self, rows: Tensor, out: Tensor) -> None:
        """Writes into row i of `out` the sum of the rows of i's senders. rows, out: (nodes, dim), contiguous."""
        for part, (own, offsets) in zip(out.split(ROWS), self.blocks, strict=True):
            part.copy_(torch.embedding_bag(rows, own, offsets, include_last_offset=True)[0])  # mode 0: the sum


def mapped(array: NDArray[Any]) -> Tensor:
    """A tensor that shares the array's memory. Nothing may write to the tensor, because the array may be a read-only file."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


@dataclass(frozen=True, eq=False)
class Aggregation:
    """Computes the neighbour sums of some worlds. One instance serves every hop.

    bags: one for all runs, or one for each. absent: the run, sender and receiver of every arc in `bags` that a run lacks, (n,)
    int64 each; None if there is none. alive: (runs, nodes, 1) float32, 0 for a node that neither sends nor receives, else 1;
    None if all do.
    """

    bags: Sequence[Bags]
    absent: tuple[Tensor, ...] | None = None
    alive: Tensor | None = None

    @classmethod
    def of(cls, worlds: Worlds, device: str = "cpu") -> Self:
        """Sums over the edges that each world has."""
        graph, mask, alive = worlds.graph, worlds.edges, None
        if worlds.nodes is not None:
            alive = torch.from_numpy(worlds.nodes.dense(graph.nodes).astype(np.float32)[:, :, None]).to(device)
        if mask is None:
            return cls([Bags(graph.incoming, device)], None, alive)
        if (~mask.present).sum() > FEW * graph.edges.shape[1] * worlds.runs:
            present = (mask[run : run + 1].dense(graph.edges.shape[1])[0] for run in range(worlds.runs))
            lists = (incoming(graph.edges[:, kept], graph.nodes, graph.directed) for kept in present)
            return cls([Bags(own, device) for own in lists], None, alive)
        run, which = np.nonzero(~mask.present)
        ends = graph.edges[:, mask.items[which]]
        if not graph.directed:
            run, ends = np.tile(run, 2), np.concatenate([ends, ends[::-1]], axis=1)
        absent = tuple(torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in (run, *ends))
        return cls([Bags(graph.incoming, device)], absent, alive)

    @classmethod
    def over(cls, nodes: int, graphs: Sequence[NDArray[np.int64]], device: str = "cpu") -> Self:
        """Sums in which each run has its own graph. graphs: for each run (2, arcs) int64; messages go from row 0 to row 1."""
        return cls([Bags(incoming(arcs, nodes, directed=True), device) for arcs in graphs])

    def __call__(self, x: Tensor) -> Tensor:
        """For each run, the sum of x over the incoming edges that exist in that run.

        x: (runs, nodes, dim) -> (runs, nodes, dim). If all rows of x have length 1 or less, adding or removing one directed edge
        moves one row of the result by at most 1 (Sajadmanesh et al. 2023, GAP, Lemma 1). An undirected edge moves two rows by at
        most 1 each, so by sqrt(2) in Euclidean norm.
        """
        if self.alive is not None:
            x = x * self.alive
        bags = self.bags if len(self.bags) > 1 else [self.bags[0]] * len(x)
        total = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for own, rows, out in zip(bags, x, total, strict=True):
            own.add_up(rows.contiguous(), out)
        if self.absent is not None:
            run, sender, receiver = self.absent
            total.index_put_((run, receiver), -x[run, sender], accumulate=True)
        return total if self.alive is None else total.mul_(self.alive)


@dataclass(frozen=True)
class Neighbours:
    """A layer without parameters: stacks the sum over a node's neighbours on the node's own row. (runs, units, nodes) -> (runs,
    2 units, nodes). back: the same arcs in the other direction.
    """

    there: Aggregation
    back: Aggregation

    def start(self, random: np.random.Generator) -> tuple[list[Any], list[Any]]:
        return [], []

    def forward(self, numbers: Any, x: Tensor, training: bool) -> tuple[Tensor, Any]:
        return torch.cat([self.there(x.transpose(1, 2)).transpose(1, 2), x], 1), None

    def backward(self, numbers: Any, dy: Tensor, saved: Any, gradients: Any, inner: bool = True) -> Tensor:
        neighbours, own = dy.chunk(2, 1)
        return self.back(neighbours.transpose(1, 2)).transpose(1, 2) + own
