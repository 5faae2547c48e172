"""Stacked parameters of K networks that learn by Adam: one flat buffer, with a view for each tensor, run axis first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..engine.adam import Adam

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(eq=False)
class Learner:
    """weights: leaves of autograd that share the memory of `adam.flat`."""

    weights: list[Tensor]
    adam: Adam

    @staticmethod
    def of(start: Sequence[Tensor], learning_rate: float, device: str = "cpu") -> Learner:
        """start: the parameters before the first step, any shapes."""
        flat = torch.cat([w.reshape(-1) for w in start]).to(device) if start else torch.empty(0, device=device)
        parts = flat.split([w.numel() for w in start])
        weights = [p.view(w.shape).detach().requires_grad_(True) for p, w in zip(parts, start, strict=True)]
        return Learner(weights, Adam(flat, learning_rate))

    def follow(self, gradient: NDArray[np.float32], sent: Tensor) -> None:
        """One step from the other party's gradient with respect to the rows that it was sent.

        Raises ValueError for a gradient so large that Adam would give NaN: NaN spreads to neighbours and so shows the edges.
        """
        grads = torch.autograd.grad(sent, self.weights, torch.from_numpy(gradient).to(sent.device), allow_unused=True)
        if not all(bool(torch.isfinite(g.square()).all()) for g in grads if g is not None):
            raise ValueError("party B sent a gradient too large to square; weights made of it would show who has neighbours.")
        self.step(grads)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """One step of all weights; a gradient of None is zero."""
        full = [torch.zeros_like(w) if g is None else g for w, g in zip(self.weights, grads, strict=True)]
        self.adam.step(torch.cat([g.reshape(-1) for g in full]))
