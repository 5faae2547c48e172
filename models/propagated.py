"""Features of K runs that are propagated over the graph without ever being built."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from . import kernel
from .blocks import Blocks, Operator, multiply, products

LANES = 16  # units that power.c takes at a time


class Power(torch.autograd.Function):
    """A constant sparse matrix applied several times to the rows of all runs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, transpose: Tensor, steps: int) -> Tensor:
        ctx.transpose, ctx.steps = transpose, steps
        return power(matrix, rows, steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return power(ctx.transpose, grads[0], ctx.steps), None, None, None


def power(matrix: Tensor, rows: Tensor, steps: int) -> Tensor:
    """matrix^steps times the rows of all runs, (K, size, units), without gradients. steps: at least 1."""
    runs, size, units = rows.shape
    if units % LANES or rows.device.type != "cpu" or kernel.library() is None:
        for _ in range(steps):
            rows = multiply(matrix, rows)
        return rows
    x, out, other = rows.contiguous(), torch.empty_like(rows), torch.empty_like(rows)
    parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values(), x, out, other)
    kernel.loaded().sparse_power(runs, size, units, steps, *(part.data_ptr() for part in parts))
    return out


def normalised(blocks: Blocks) -> Operator:
    """Â = D^-1/2 A D^-1/2 without self loops; the row of a node without edges is zero (KProp)."""
    send, receive = blocks.arcs
    root = 1 / np.sqrt(np.maximum(np.bincount(receive, minlength=blocks.nodes), 1))
    matrix = sp.csr_array((products(root, blocks.arcs), (receive, send)), shape=(blocks.nodes, blocks.nodes))
    return Operator.of(matrix, blocks.device, blocks.both_ways)


def smooth(hop: Operator, rows: Tensor, steps: int) -> Tensor:
    """Â^steps rows for each run, (K, size, units)."""
    if not steps:
        return rows
    out: Tensor = Power.apply(rows, hop.matrix, hop.transpose, steps)
    return out


@dataclass(frozen=True, eq=False)
class Propagated:
    """A matrix of features to be multiplied by weights: Â^steps (S + offset), with one offset for every entry.

    Â^steps S has as many entries as a dense matrix, but (Â^steps S) W is Â^steps (S W), which is as narrow as the first layer.
    stored: S, block-diagonal (K * size, K * dim) or (K, size, dim).
    """

    runs: int
    stored: Operator | Tensor
    hop: Operator
    steps: int
    offset: float = 0.0

    @cached_property
    def ones(self) -> Tensor:
        """(K, size, 1): Â^steps 1."""
        nodes = self.hop.matrix.shape[0]
        return smooth(self.hop, torch.ones(self.runs, nodes // self.runs, 1, device=self.hop.matrix.device), self.steps)

    def __matmul__(self, weight: Tensor) -> Tensor:
        """(K, dim, units) -> (K, size, units), as an Operator does it."""
        rows = smooth(self.hop, self.stored @ weight, self.steps)
        if not self.offset:
            return rows
        return torch.baddbmm(rows, self.ones, self.offset * weight.sum(dim=1, keepdim=True))
