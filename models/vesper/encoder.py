"""A linear map of shared features and SELU, for K runs at once: the edge-free part of party A's network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..engine.features import Shared
from .decoders import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..graph.graph import Features


class _Product(torch.autograd.Function):
    """W X^T + b, whose gradient reaches W and b."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, shared: Shared) -> Tensor:
        ctx.shared, ctx.shape = shared, weight.shape
        return shared.product(weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        out = grads[0].new_empty(ctx.shape)
        ctx.shared.gradient(grads[0].contiguous(), out)
        return out, grads[0].sum(2, keepdim=True), None


@dataclass(eq=False)
class Encoder:
    """x: (nodes, dim), dense or csr_array. The rows asked for last are kept, as training asks for the same ones again."""

    x: Features
    device: str = "cpu"
    _nodes: NDArray[np.int64] | None = None
    _kept: Shared | None = None

    def start(self, seeds: Sequence[int], width: int) -> list[Tensor]:
        """A weight (K, width, dim) and a bias (K, width, 1)."""
        dim = self.x.shape[1]
        return [uniform(seeds, (width, dim), dim, "encoder", 0), uniform(seeds, (width, 1), dim, "encoder", 1)]

    def __call__(self, weights: list[Tensor], nodes: NDArray[np.int64] | None) -> Tensor:
        """(K, width, rows) for these nodes, or for all."""
        weight, bias = weights
        product: Tensor = _Product.apply(weight, bias, self._rows(nodes))
        return torch.selu(product)

    def _rows(self, nodes: NDArray[np.int64] | None) -> Shared:
        if nodes is None:
            nodes = np.arange(self.x.shape[0])
        if self._kept is None or not np.array_equal(nodes, self._nodes if self._nodes is not None else ()):
            self._kept, self._nodes = Shared(self.x, nodes, self.device), nodes.copy()
        return self._kept
