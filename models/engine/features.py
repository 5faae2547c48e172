"""Features that all runs share, and their product with the first layer of many networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..graph.graph import Features, dense
from ..sparse.block_diagonal import csr

BLOCK = 1 << 18  # how many numbers of mapped features are read at a time: 1 MiB, which fits the cache
LARGEST = 1e9  # squares of much larger features overflow, and one node's NaN would reach its neighbours and all weights


def limited(x: Any) -> Any:
    """Features, dense or sparse, with entries clipped to ±LARGEST, so that all results computed from them are finite."""
    stored = x.data if sp.issparse(x) else x
    if stored.size and max(stored.max(), -stored.min()) > LARGEST:
        return clipped(x, -LARGEST, LARGEST)
    return x


class Shared:
    """Some rows of a graph's features, dense or sparse, for products with many weight matrices.

    Dense features may be mapped from a file that is larger than the memory. Their rows are read again for every product.
    """

    def __init__(self, x: Any, rows: NDArray[np.int64], device: str = "cpu") -> None:
        """x: (nodes, dim) float32, dense or csr_array. rows: ids of the nodes, in the order in which they are used."""
        self.sparse, self.rows, self.device = bool(sp.issparse(x)), rows, device
        self.mapped = isinstance(x, np.memmap)
        self.x = x if self.mapped else limited(x[rows])
        self.nodes, self.dim = len(rows), x.shape[1]

    @cached_property
    def dense(self) -> Tensor:
        """(nodes, dim) float32."""
        x = self.x.toarray() if self.sparse else self._read(self.rows) if self.mapped else self.x
        return torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(self.device)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """The dense rows in order: in one block if they are in memory, otherwise block by block."""
        if not self.mapped:
            yield slice(self.nodes), self.dense
            return
        step = max(1, BLOCK // self.dim)
        for at in range(0, self.nodes, step):
            yield slice(at, at + step), torch.from_numpy(self._read(self.rows[at : at + step])).to(self.device)

    def _read(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of a mapped file."""
        return np.clip(self.x[rows], -LARGEST, LARGEST)

    @cached_property
    def bags(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The columns of every row, (stored,), where each row begins, (nodes + 1,), and the entries, or None if all are one."""
        x = sp.csr_array(self.x)
        index, offsets = (torch.from_numpy(a.astype(np.int64)).to(self.device) for a in (x.indices, x.indptr))
        return index, offsets, None if np.all(x.data == 1) else torch.from_numpy(x.data.astype(np.float32)).to(self.device)

    @cached_property
    def rows32(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Where each row begins, the columns of every row, and the entries, or None if all are one. Integers are int32.

        Raises ValueError for column numbers out of range, with which the kernel would read and write beyond its memory.
        """
        columns, starts, entries = self.bags
        if len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < self.dim:
            raise ValueError(f"sparse features have columns outside of 0 … {self.dim - 1}: make their matrix again.")
        return starts.to(torch.int32), columns.to(torch.int32), entries

    @cached_property
    def columns(self) -> Tensor:
        """The transpose of sparse features, (dim, nodes) CSR."""
        return csr(sp.csr_array(self.x.T)).to(self.device)

    def product(self, weight: Tensor, bias: Tensor) -> Tensor:
        """W X^T + b of every run. weight: (runs, units, dim), bias: (runs, units, 1) -> (runs, units, nodes)."""
        runs, units, _ = weight.shape
        if not self.sparse:
            wide = weight.new_empty(runs * units, self.nodes)
            for part, rows in self.blocks():
                torch.mm(weight.reshape(runs * units, self.dim), rows.t(), out=wide[:, part])
            return wide.view(runs, units, self.nodes).add_(bias)
        index, offsets, values = self.bags
        table = weight.reshape(runs * units, self.dim).t().contiguous()
        wide = torch.nn.functional.embedding_bag(
            index, table, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        # The product with the identity moves the nodes from the first axis to the last, twice as fast as a copy.
        unit = torch.eye(units, device=wide.device).expand(runs, units, units)
        return torch.baddbmm(bias, unit, wide.view(self.nodes, runs, units).permute(1, 2, 0))

    def gradient(self, dy: Tensor, out: Tensor) -> None:
        """Writes dy X of every run into `out`. dy: (runs, units, nodes), out: (runs, units, dim)."""
        runs, units, _ = dy.shape
        if not self.sparse:
            flat, wide = out.view(runs * units, self.dim), dy.reshape(runs * units, self.nodes)
            flat.zero_()
            for part, rows in self.blocks():
                flat.addmm_(wide[:, part], rows)
            return
        unit = torch.eye(units, device=dy.device).expand(runs, units, units)
        first = torch.bmm(dy.transpose(1, 2), unit)
        for run in range(runs):
            out[run].copy_((self.columns @ first[run]).t())

    @cached_property
    def padded(self) -> tuple[Tensor, Tensor] | None:
        """Columns and entries of sparse features, (nodes, most entries of a row) each, padded with zero entries. None if the
        features are dense, or if a row has more than dim / 8 entries.
        """
        if not self.sparse:
            return None
        x = sp.csr_array(self.x)
        sizes = np.diff(x.indptr)
        if 8 * sizes.max(initial=0) > self.dim:
            return None
        real = np.arange(max(1, sizes.max(initial=0))) < sizes[:, None]
        columns, entries = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape, dtype=np.float32)
        columns[real], entries[real] = x.indices, x.data
        return torch.from_numpy(columns).to(self.device), torch.from_numpy(entries).to(self.device)

    def gather(self, index: Tensor) -> Tensor | Drawn:
        """Each run's own choice of rows: (runs, dim, batch), or `Drawn` for sparse features. index: (runs, batch) row numbers."""
        if self.padded is None:
            if self.mapped:
                return torch.from_numpy(self._read(self.rows[index.cpu().numpy()])).to(self.device).transpose(1, 2)
            return self.dense[index].transpose(1, 2)
        columns, entries = self.padded
        return Drawn(columns[index], entries[index], self.dim)


@dataclass(frozen=True)
class Drawn:
    """Sparse feature rows, chosen by each run. columns, entries: (runs, batch, most entries of a row)."""

    columns: Tensor
    entries: Tensor
    dim: int

    @property
    def places(self) -> Tensor:
        """The row of each entry's weights in the stacked weights of all runs."""
        first = torch.arange(len(self.columns), device=self.columns.device) * self.dim
        return (self.columns + first.view(-1, 1, 1)).flatten(0, 1)

    def product(self, weight: Tensor, bias: Tensor) -> Tensor:
        """W X^T + b of every run. weight: (runs, units, dim), bias: (runs, units, 1) -> (runs, units, batch)."""
        runs, units, _ = weight.shape
        table = weight.transpose(1, 2).reshape(runs * self.dim, units)
        rows = torch.nn.functional.embedding_bag(self.places, table, mode="sum", per_sample_weights=self.entries.flatten(0, 1))
        return rows.view(runs, -1, units).transpose(1, 2) + bias

    def gradient(self, dy: Tensor, out: Tensor) -> None:
        """Writes dy X of every run into `out`. dy: (runs, units, batch), out: (runs, units, dim)."""
        runs, units, _ = dy.shape
        parts = dy.transpose(1, 2).unsqueeze(2) * self.entries.unsqueeze(3)
        table = torch.zeros(runs * self.dim, units, device=dy.device)
        table.index_add_(0, self.places.flatten(), parts.reshape(-1, units))
        out.copy_(table.view(runs, self.dim, units).transpose(1, 2))

    def square_lengths(self) -> Tensor:
        """(runs, batch): the squared L2 norm of each row."""
        return self.entries.square().sum(2)


def clipped(x: Features, low: float, high: float) -> Features:
    """Features with every entry clipped to [low, high]. Sparse features stay sparse if this interval contains 0."""
    if not sp.issparse(x) or not low <= 0 <= high:
        return np.clip(dense(x), low, high)
    return sp.csr_array((np.clip(x.data, low, high), x.indices, x.indptr), shape=x.shape)
