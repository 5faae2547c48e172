"""The product of propagated features with weights, for K runs. The propagated features are never stored."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .block_diagonal import Operator
from .normalised_sums import Weighted


@dataclass(frozen=True, eq=False)
class Propagated:
    """The features Â^steps (S + offset), for products with weights. The number `offset` is added to every entry of S.

    Â^steps S is a dense matrix, even if S is sparse. So the class computes (Â^steps S) W as Â^steps (S W), which is only as wide
    as the first layer. stored: S, block-diagonal (K * size, K * dim) or (K, size, dim). hop: Â.
    """

    runs: int
    stored: Operator | Tensor
    hop: Weighted
    steps: int
    offset: float = 0.0

    @cached_property
    def ones(self) -> Tensor:
        """(K, size, 1): Â^steps times a vector of ones."""
        scale = self.hop.left[0]
        return self.hop.power(torch.ones(self.runs, len(scale), 1, device=scale.device), self.steps)

    def __matmul__(self, weight: Tensor) -> Tensor:
        """(K, dim, units) -> (K, size, units), as for an Operator."""
        rows = self.hop.power(self.stored @ weight, self.steps)
        if not self.offset:
            return rows
        return torch.baddbmm(rows, self.ones, self.offset * weight.sum(dim=1, keepdim=True))
