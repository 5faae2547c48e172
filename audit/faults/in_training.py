"""Models with one privacy fault each in their DP-SGD training: in clipping, noise, data or model selection."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from ...models.base import Release
from ...models.dpar import neighbour_selection
from ...models.dpar.dpar import Dpar
from ...models.engine import dpsgd
from ...models.engine.network import Network, Weights
from ...models.gap import stage
from ...models.gap.gap import Gap
from ...models.gap.mlp import Mlp
from ...models.graph.graph import Graph, Worlds, dense
from ...models.kernels.compiler import compiled

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class FaultyTraining(Mlp):
    """An MLP trained by DP-SGD with a fault. `change` maps names of functions in the module `where` to faulty functions."""

    where: ClassVar[Any] = dpsgd

    def change(self) -> dict[str, Any]:
        raise NotImplementedError

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patch.multiple(self.where, **self.change()), compiled.unused():  # the compiled kernel has no functions to replace
            return super().fit(worlds, device)


def unclipped() -> Any:
    """A `private_gradient` that does not clip."""
    honest: Any = dpsgd.private_gradient
    return lambda *given: honest(*given[:5], math.inf, given[6])


def rescaled(by: Any, honest: Any = None) -> Any:
    """A `private_gradient` that multiplies its sums by factors. by(sums, real, clip) returns the factors, (runs,)."""
    honest = honest or dpsgd.private_gradient

    def gradient(
        network: Network, weights: Weights, inputs: Any, target: Tensor, real: Tensor, clip: float, into: Weights
    ) -> None:
        honest(network, weights, inputs, target, real, clip, into)
        tensors = [a for layer in into.trained for a in layer]
        factor = by(tensors, real, clip)
        for a in tensors:
            a.mul_(factor.view(-1, *[1] * (a.ndim - 1)))

    return gradient


class SameNoiseEveryEpoch(FaultyTraining):
    """Restarts a run's noise from the run's own seed in every epoch, so differences between epochs contain no noise."""

    def change(self) -> dict[str, Any]:
        honest, batches, done = dpsgd.add_noise, self.train_nodes // self.batch, [0]
        first: dict[Any, Any] = {}  # generator of a run -> its state before the first epoch

        def noise(gradients: Weights, random: Any, std: float) -> None:
            if done[0] % batches == 0:
                for one in random:
                    one.bit_generator.state = first.setdefault(one, one.bit_generator.state)
            done[0] += 1
            honest(gradients, random, std)

        return {"add_noise": noise}


class DividesByPrivateBatchSize(FaultyTraining):
    """Divides the gradient by the actual batch size, which is private, instead of the expected batch size."""

    def change(self) -> dict[str, Any]:
        return {"private_gradient": rescaled(lambda sums, real, clip: self.batch / real.sum(1).clamp(min=1))}


class NoClipping(FaultyTraining):
    """Does not clip gradients."""

    def change(self) -> dict[str, Any]:
        return {"private_gradient": unclipped()}


class ClipsMeanGradient(FaultyTraining):
    """Clips the mean gradient of a batch instead of each node's gradient."""

    def change(self) -> dict[str, Any]:
        def by(sums: list[Tensor], real: Tensor, clip: float) -> Tensor:
            norm = torch.stack([a.flatten(1).square().sum(1) for a in sums]).sum(0).sqrt() / self.batch
            return (self.clip / norm.clamp(min=1e-12)).clamp(max=1)

        return {"private_gradient": rescaled(by, unclipped())}


@dataclass(frozen=True)
class DividedNoise(FaultyTraining):
    """Divides the noise by the field `by`. With "batch", the sum of the gradients gets noise that is made for their mean. With
    "clip", it gets noise for a clipping norm of 1, whatever the clipping norm is.
    """

    by: str = "batch"

    def change(self) -> dict[str, Any]:
        honest = dpsgd.add_noise
        return {"add_noise": lambda gradients, random, std: honest(gradients, random, std / getattr(self, self.by))}


class ClipsEachLayer(FaultyTraining):
    """Clips each layer's gradient separately. The noise is for one clipping norm in total."""

    def change(self) -> dict[str, Any]:
        def gradient(
            network: Network, weights: Weights, inputs: Any, target: Tensor, real: Tensor, clip: float, into: Weights
        ) -> None:
            logits, tape = network.forward(weights.numbers, inputs, training=True)
            mechanism: list[Any] = network.backward(weights.numbers, tape, torch.softmax(logits, 1).sub_(target), None)
            for i, (layer, dy, saved) in zip(reversed(range(len(mechanism))), mechanism, strict=True):
                if weights.trained[i]:
                    scale = (clip / (layer.square_norms(dy, saved).sqrt() + 1e-6)).clamp_(max=1).mul_(real).unsqueeze(1)
                    layer.gradient(dy * scale, saved, into.trained[i])

        return {"private_gradient": gradient}


class NodeInTwoMicroBatches(FaultyTraining):
    """Puts each node in two micro-batches of a step and clips its gradient in each. The noise is for one gradient."""

    def change(self) -> dict[str, Any]:
        return {"private_gradient": rescaled(lambda sums, real, clip: torch.full_like(real[:, 0], 2.0))}


class StandardisesByPrivateNodes(Mlp):
    """Standardises each feature by its mean and standard deviation over the private nodes, without noise."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return Release.join([self._one(worlds[k : k + 1], device) for k in range(worlds.runs)])

    def _one(self, worlds: Worlds, device: str) -> Release:
        x = dense(worlds.graph.x)
        private = x[worlds.trained()[0]]
        scaled = ((x - private.mean(0)) / (private.std(0) + 1e-3)).astype(np.float32)
        return super().fit(dataclasses.replace(worlds, graph=dataclasses.replace(worlds.graph, x=scaled)), device)


class SelectsEpochByPrivateLabels(FaultyTraining):
    """Keeps the epoch with the best accuracy on the private nodes, and publishes this accuracy."""

    where: ClassVar[Any] = stage

    def change(self) -> dict[str, Any]:
        honest: Any = stage.train_privately
        return {"train_privately": lambda network, parts, rows, *rest: honest(network, parts, rows, *rest[:-1], rows)}

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        all_nodes = np.arange(worlds.graph.nodes)
        release = super().fit(dataclasses.replace(worlds, watch=all_nodes), device)
        right = release["posteriors"].argmax(2) == worlds.graph.y
        share = (right & worlds.trained()).sum(1, keepdims=True) / worlds.trained().sum(1, keepdims=True)
        arrays = {"posteriors": release["posteriors"][:, worlds.watch], "log": share.astype(np.float32)}
        return Release(arrays, worlds.watch, release.public)


class OneOfTwoModulesCharged(Gap):
    """Trains an encoder and a classifier on the same private nodes. Its ledger charges for one training only."""

    @property
    def ledger(self) -> DpEvent:
        return stage.ledger(self, self.hops, stages=1)


class DegreeBoundNotEnforced(Gap):
    """Assumes that no node sends to more than `max_degree` others, and does not enforce it."""

    def check(self, graph: Graph) -> None:
        """Accepts every graph."""


class ListsNotCapped(Dpar):
    """Does not limit a node to `cap` neighbour lists."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        with patch.multiple(neighbour_selection, capped=lambda listed, weights, rows, cap: weights):
            return super().fit(worlds, device)


class PageRankNotClipped(Dpar):
    """Does not clip PageRank vectors before it adds noise."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        honest = neighbour_selection.gaussian_rows
        with patch.multiple(neighbour_selection, gaussian_rows=lambda vectors, clip, std, rng: honest(vectors, 1e9, std, rng)):
            return super().fit(worlds, device)
