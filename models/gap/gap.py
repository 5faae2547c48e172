"""GAP (USENIX Security 2023): an encoder that reads no edges, noisy sums over neighbours, and a classifier on all hops."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..engine.layers import BatchNorm, Layer, Linear, Selu, UnitLength
from ..engine.network import Network, draw, through
from ..engine.run_batches import RunGroup
from ..graph.graph import Graph
from . import common
from .stage import ledger, train_stage

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class Gap(common.NoisySums):
    """Sajadmanesh, Shamsabadi, Bellet & Gatica-Perez 2023: z_0 = unit(encoder(x)), z_k = unit(A z_{k-1} + noise), where unit
    scales every row to length 1.

    sigma: noise std / sensitivity of every hop, and at node level also noise std / clip of DP-SGD; 0 means no privacy. The
    encoder is the network that reads no edges. Without "posteriors" in `keep`, the classifier is not trained. `NoisySums` and its
    bases describe the other fields.
    """

    hops: int = 2
    encoder_layers: int = 2
    name = "gap"

    def __post_init__(self) -> None:
        super().__post_init__()
        common.check_kept(self.name, self.keep, self.hops)
        if self.encoder_layers < 1 or self.hops < 0:
            numbers = f"encoder_layers={self.encoder_layers}, hops={self.hops}"
            raise ValueError(f"{numbers}: encoder_layers must be at least 1, hops at least 0.")

    @property
    def ledger(self) -> DpEvent:
        return ledger(self, self.hops, stages=2)

    def printed(self, delta: float) -> float | None:
        from . import published

        if self.mode == "sound" or not self.sigma:
            return None
        if self.unit is Unit.NODE:
            return published.gap_node_coded(self.sigma, self.hops, self.train_nodes, self.batch, self.epochs, self.epochs, delta)
        return published.gap_edge_coded(self.sigma, self.hops, delta)

    def footprint(self, graph: Graph) -> int:
        """Bytes of the rows of all hops, the activations of the classifier, and the values that its backward pass stores."""
        return 4 * (graph.nodes * self.hidden * (self.hops + 1) * 14 + graph.dim * self.hidden * 6)

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        worlds = group.worlds
        aggregation = group.aggregation(self._cut)
        steps, sums = [self._encoded(group)], []
        for hop in range(1, self.hops + 1):
            sums.append(common.perturb(aggregation(steps[-1]), worlds.seeds, self.noise_std, hop))
            steps.append(torch.nn.functional.normalize(sums[-1], dim=2))
        released = self._watched(worlds, aggregates=sums, inputs=steps[: self.hops])
        if "posteriors" in self.keep:
            released["posteriors"] = self._classified(group, steps)
        return common.withhold(self, worlds, released)

    def _encoded(self, group: RunGroup) -> Tensor:
        """The encoder's output: (runs, nodes, hidden), rows of length 1."""
        worlds, classes = group.worlds, group.worlds.graph.classes
        wide = (worlds.graph.dim, *[self.hidden] * self.encoder_layers)
        encoder = (*mlp(wide, self.unit), UnitLength())
        network = Network((encoder,), (*activated(self.hidden, self.unit), Linear(self.hidden, classes)), classes)
        parts = draw(network.layers, self._first_seeds(worlds), "encoder", device=group.device)
        weights = train_stage(self, group, network, parts, [None], "encoder")
        z = through(encoder, weights.numbers[: len(encoder)], group.features("all"))
        return z.transpose(1, 2).expand(worlds.runs, -1, -1)

    def _classified(self, group: RunGroup, steps: list[Tensor]) -> NDArray[np.float32]:
        """Trains the classifier on the rows of all hops, (runs, nodes, hidden) each. Returns log-probabilities (runs, w,
        classes).
        """
        worlds, classes = group.worlds, group.worlds.graph.classes
        base, wide = mlp([self.hidden] * (self.base_layers + 1), self.unit), self.hidden * len(steps)
        trunk = (UnitLength(), *activated(wide, self.unit), Linear(wide, classes))
        network = Network((base,) * len(steps), trunk, classes)
        parts = draw(network.layers, worlds.seeds, "classifier", device=group.device)
        weights = train_stage(self, group, network, parts, steps, "classifier")
        return common.log_probabilities(network, weights, group.rows("watch", steps))


def activated(units: int, unit: Unit) -> tuple[Layer, ...]:
    """A batch norm, then SELU. At node level SELU alone, because DP-SGD needs a gradient for each node and a batch norm mixes
    nodes.
    """
    return (Selu(),) if unit is Unit.NODE else (BatchNorm(units), Selu())


def mlp(widths: list[int] | tuple[int, ...], unit: Unit, plain: bool = True) -> tuple[Layer, ...]:
    """Linear layers, each followed by `activated`. plain: whether the last linear layer ends the network instead."""
    layers: list[Layer] = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        if plain and i == len(widths) - 2:
            layers.append(Linear(inputs, outputs))
        else:
            layers += [Linear(inputs, outputs, centred=unit is not Unit.NODE), *activated(outputs, unit)]
    return tuple(layers)
