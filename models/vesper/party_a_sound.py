"""Party A in the sound variants: it computes noisy sums over the whole graph a few times, and learns from released values only.

s1: the encoder is trained without edges; then the noisy sums of every layer are released once. s2: noise is added before the
weight is applied, so that the gradient of a weight needs only the released sums; no gradient passes through the adjacency. s3:
like s2, but gradients pass through the adjacency, clipped and with noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .aggregators import Neighbours, aggregate, normalise, own_term
from .learner import pull_through
from .networks import Sender

# (path of the draw, clean rows) -> noisy rows. The path is ("forward" or "backward", refresh, layer).
Perturb = Callable[[tuple[str, int, int], Tensor], Tensor]


class _NoisyBackward(torch.autograd.Function):
    """Returns `released`. The backward pass applies `back`, which clips the rows of the gradient, sums them over neighbours and
    adds noise.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, released: Tensor, back: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.back = back
        return released

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(grads[0]), None, None


@dataclass(eq=False)
class Refresh(Sender):
    """A's network for K runs.

    learner: the encoder's weight and bias, then in s2 and s3 a (K, width, width) weight after each of the `layers` sums.
    neighbours: number of the pass -> the adjacency of that pass; if A samples edges in secret, each pass draws a new one. watch:
    nodes whose inputs and noisy sums are stored in `watched`. clip: in s3, the norm to which rows of the gradient are clipped;
    else None.
    """

    layers: int
    neighbours: Callable[[int], Neighbours]
    aggregator: str
    floor: int
    perturb: Perturb
    watch: NDArray[np.int64]
    clip: float | None = None
    refreshes: int = 0
    inputs: list[Tensor] = field(default_factory=list)  # for each layer, the rows that the last pass summed
    sums: list[Tensor] = field(default_factory=list)  # for each layer, the noisy sums of the last pass
    # the inputs and sums of the watched nodes, for every layer of every pass
    watched: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _graph: list[Tensor] = field(default_factory=list)  # in s3, every layer's rows with their autograd history

    def refresh(self) -> None:
        """Makes a pass: computes the noisy sums of every layer over the whole graph, with the current weights."""
        adjacency = self.neighbours(self.refreshes)
        with torch.set_grad_enabled(self.clip is not None):
            rows = self.encode(self.learner.weights[:2], None)
            self._graph, self.inputs, self.sums = [rows], [], []
            for layer in range(self.layers):
                clean = aggregate(self.aggregator, self.floor, adjacency, rows.detach())
                noisy = self.perturb(("forward", self.refreshes, layer), clean)
                self.inputs.append(rows.detach())
                self.sums.append(noisy)
                self.watched.append((rows.detach()[:, :, self.watch], noisy[:, :, self.watch]))
                if self.clip is not None:
                    noisy = _NoisyBackward.apply(rows, noisy, self._backward(adjacency, layer))
                rows = self._next(layer, own_term(self.aggregator, rows) + noisy)
                self._graph.append(rows)
        self.refreshes += 1

    def _next(self, layer: int, released: Tensor) -> Tensor:
        weights = self.learner.weights[2:]  # the first two tensors are the encoder's weight and bias
        return normalise(torch.relu(weights[layer] @ released) if weights else released)

    def _backward(self, adjacency: Neighbours, layer: int) -> Callable[[Tensor], Tensor]:
        path = ("backward", self.refreshes, layer)

        def back(gradient: Tensor) -> Tensor:
            assert self.clip is not None
            scaled = torch.nan_to_num(gradient / self.clip)  # infinite entries become finite, so that no row becomes NaN
            clipped = scaled / scaled.norm(dim=1, keepdim=True).clamp_min(1)
            return self.clip * self.perturb(path, aggregate(self.aggregator, self.floor, adjacency, clipped))

        return back

    def rows(self, nodes: NDArray[np.int64], learn: bool) -> NDArray[np.float32]:
        """(K, 1 + layers, width, rows) float32: layer 0, which reads no edges, then every layer of the last pass. learn: whether
        a gradient for these rows will follow.
        """
        index = torch.from_numpy(nodes)
        if learn and self.clip is not None and self._graph:
            slots = [rows[:, :, index] for rows in self._graph]
        else:
            with torch.set_grad_enabled(learn):
                slots = [self.encode(self.learner.weights[:2], nodes)]
                for layer, (rows, noisy) in enumerate(zip(self.inputs, self.sums, strict=True)):
                    released = own_term(self.aggregator, rows[:, :, index]) + noisy[:, :, index]
                    slots.append(self._next(layer, released))
        sent = torch.stack(slots, 1)
        self._pull = pull_through(sent, self.learner.weights) if learn else None
        return sent.detach().cpu().numpy()

    def learn(self, gradient: NDArray[np.float32]) -> None:
        if self._pull is not None:
            self._graph = []
        super().learn(gradient)
