"""Features of K runs that are propagated over the graph without ever being built."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .block_diagonal import Operator
from .normalised_sums import Weighted


@dataclass(frozen=True, eq=False)
class Propagated:
    """A matrix of features to be multiplied by weights: Â^steps (S + offset), where the number `offset` is added to every entry.

    Â^steps S has as many entries as a dense matrix, but (Â^steps S) W is Â^steps (S W), which is only as wide as the first layer.
    stored: S, block-diagonal (K * size, K * dim) or (K, size, dim).
    """

    runs: int
    stored: Operator | Tensor
    hop: Weighted
    steps: int
    offset: float = 0.0

    @cached_property
    def ones(self) -> Tensor:
        """(K, size, 1): Â^steps 1."""
        scale = self.hop.left[0]
        return self.hop.power(torch.ones(self.runs, len(scale), 1, device=scale.device), self.steps)

    def __matmul__(self, weight: Tensor) -> Tensor:
        """(K, dim, units) -> (K, size, units), with the interface of an Operator."""
        rows = self.hop.power(self.stored @ weight, self.steps)
        if not self.offset:
            return rows
        return torch.baddbmm(rows, self.ones, self.offset * weight.sum(dim=1, keepdim=True))
