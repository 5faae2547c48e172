"""The parameters of K networks that learn by Adam, in one flat buffer with a view for each tensor, run axis first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.adam import Adam

# maps the gradient of rows to the gradient of every weight; None means zero
Pull = Callable[[Tensor], Sequence[Tensor | None]]


def pull_through(sent: Tensor, weights: Sequence[Tensor]) -> Pull:
    """A Pull that computes the gradients of `weights` by autograd. sent: the rows, with their autograd history."""
    return lambda slope: torch.autograd.grad(sent, weights, slope, allow_unused=True)


@dataclass(eq=False)
class Learner:
    """Networks and their optimiser. weights: leaves of autograd that share the memory of `adam.flat`."""

    weights: list[Tensor]
    adam: Adam

    @staticmethod
    def of(start: Sequence[Tensor], learning_rate: float, device: str = "cpu") -> Learner:
        """start: the initial parameters, of any shapes."""
        flat = torch.cat([w.reshape(-1) for w in start]).to(device) if start else torch.empty(0, device=device)
        parts = flat.split([w.numel() for w in start])
        weights = [p.view(w.shape).detach().requires_grad_(True) for p, w in zip(parts, start, strict=True)]
        return Learner(weights, Adam(flat, learning_rate))

    @cached_property
    def gradient(self) -> Tensor:
        """A buffer for one gradient, in the layout of `adam.flat`."""
        return torch.empty_like(self.adam.flat)

    @cached_property
    def matrices(self) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """The weights, and the parts of `gradient` that belong to them, as NumPy arrays (K, numbers of a run) on the same
        memory.
        """
        sizes, shapes = [w.numel() for w in self.weights], [(w.shape[0], w[0].numel()) for w in self.weights]
        weights, slopes = (
            [part.view(shape).numpy() for part, shape in zip(flat.split(sizes), shapes, strict=True)]
            for flat in (self.adam.flat, self.gradient)
        )
        return weights, slopes

    def follow(self, gradient: NDArray[np.float32], pull: Pull) -> None:
        """One step from the other party's gradient with respect to the rows that it received. pull: see `Pull`.

        Raises ValueError for a gradient so large that Adam would give NaN. NaN would spread to neighbours and so show the edges.
        """
        flat = self._flat(pull(torch.from_numpy(gradient).to(self.adam.flat.device)))
        if not torch.isfinite(flat.square()).all():
            raise ValueError(
                "party B sent a gradient too large to square; weights computed from it would show which nodes have neighbours."
            )
        self.adam.step(flat)

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """One step of all weights. A gradient of None means zero."""
        self.adam.step(self._flat(grads))

    def _flat(self, grads: Sequence[Tensor | None]) -> Tensor:
        full = [torch.zeros_like(w) if g is None else g for w, g in zip(self.weights, grads, strict=True)]
        return torch.cat([g.reshape(-1) for g in full])
