"""Inner products between the features of the nodes in each row's list, from which DP-SGD computes the norms of gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..sparse.block_diagonal import Operator


@dataclass(frozen=True, eq=False)
class Products:
    """Which stored values of sparse features enter each inner product, so that dropout, which changes only these values, needs no
    new sparse product.

    shape: (K, rows, entries, entries). cells: (m,) int64, flat indices into an array of this shape. left, right: (m,) int64, the
    indices of the two factors among the stored values of all runs. Of two symmetric inner products only one is listed.
    """

    shape: tuple[int, ...]
    cells: Tensor
    left: Tensor
    right: Tensor

    @staticmethod
    def of(x: Operator, lists: list[Lists], device: str) -> Products:
        """x: the features of every run's nodes, block-diagonal. lists: one for each run."""
        rows, entries = lists[0].index.shape
        starts, columns = x.matrix.crow_indices().cpu().numpy(), x.matrix.col_indices().cpu().numpy()
        places = sp.csr_array((np.arange(1, len(columns) + 1), columns, starts), shape=tuple(x.matrix.shape))
        cells, left, right = [], [], []
        for k, own in enumerate(lists):
            for a in range(entries):
                for b in range(a, entries):
                    both = np.flatnonzero((own.weights[:, a] != 0) & (own.weights[:, b] != 0))
                    first, second = places[own.index[both, a] + k * rows], places[own.index[both, b] + k * rows]
                    noise_added = sp.csr_array(first.multiply(second > 0)), sp.csr_array(second.multiply(first > 0))
                    left.append(noise_added[0].data - 1)
                    right.append(noise_added[1].data - 1)
                    row = np.repeat(both + k * rows, np.diff(noise_added[0].indptr))
                    cells.append((row * entries + a) * entries + b)
        found = (torch.from_numpy(np.concatenate(p).astype(np.int64)).to(device) for p in (cells, left, right))
        return Products((len(lists), rows, entries, entries), *found)

    def gram(self, values: Tensor) -> Tensor:
        """The inner products, (K, rows, entries, entries) float32. values: the stored values of the features."""
        half = torch.zeros(self.shape, device=values.device)
        half.view(-1).index_add_(0, self.cells, values[self.left] * values[self.right])
        return half + half.triu(1).transpose(2, 3)


def dense_gram(x: Tensor, index: Tensor) -> Tensor:
    """The inner products of dense features (K, rows, dim): (K, rows, entries, entries). index: (K, rows, entries) int64."""
    runs, rows, entries = index.shape
    listed = [x[k][index[k].reshape(-1)].view(rows, entries, -1) for k in range(runs)]
    return torch.stack([near @ near.transpose(1, 2) for near in listed])


@dataclass(frozen=True, eq=False)
class Lists:
    """The examples of one run. Row i has the label of node nodes[i] and averages over nodes[index[i]].

    nodes: (rows,) int64 ids. alive: (rows,) bool; an absent node sends nothing and its row does not count.
    index: (rows, entries) int64, positions in `nodes`. weights: (rows, entries) float64, 0 for an unused entry.
    """

    nodes: NDArray[np.int64]
    alive: NDArray[np.bool_]
    index: NDArray[np.int64]
    weights: NDArray[np.float64]
