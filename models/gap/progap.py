"""ProGAP (WSDM 2024): trains in stages. Each stage reads noisy sums over neighbours and continues the networks before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..engine.layers import BatchNorm, GroupNorm, Layer, Linear, Selu, UnitLength, UnitLinear
from ..engine.network import Network, Parts, Weights, draw, through, together
from ..engine.run_batches import RunGroup
from ..graph.graph import Graph
from . import common
from .stage import ledger, train_stage

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class ProGap(common.NoisySums):
    """Sajadmanesh & Gatica-Perez 2024: stage k learns from x_0 = features and x_j = A unit(base_{j-1}(x_{j-1})) + noise, j <= k.

    depth: number of aggregations; there are depth + 1 stages. The noisy sums of a stage are computed once and kept, while the
    networks of the earlier stages continue to learn. The first stage is the network that reads no edges. `NoisySums` and its
    bases describe the other fields.
    """

    depth: int = 5
    name = "progap"

    def __post_init__(self) -> None:
        super().__post_init__()
        common.check_kept(self.name, self.keep, self.depth)
        if self.base_layers < 1 or self.depth < 0:
            numbers = f"base_layers={self.base_layers}, depth={self.depth}"
            raise ValueError(f"{numbers}: base_layers must be at least 1, depth at least 0.")

    @property
    def ledger(self) -> DpEvent:
        return ledger(self, self.depth, stages=self.depth + 1)

    def printed(self, delta: float) -> float | None:
        from . import published

        if self.mode == "sound" or not self.sigma:
            return None
        if self.unit is Unit.NODE:
            return published.progap_node_coded(self.sigma, self.depth, self.train_nodes, self.batch, self.epochs, delta)
        return published.progap_edge_coded(self.sigma, self.depth, delta)

    def theorem_epsilon(self, delta: float) -> float | None:
        """The epsilon of theorem 4.1 at edge level and of theorem 4.2 at node level; None without noise."""
        from . import published

        if not self.sigma:
            return None
        if self.unit is Unit.NODE:
            return published.progap_node_theorem(self.sigma, self.depth, self.train_nodes, self.batch, self.epochs, delta)
        return published.progap_edge_theorem(self.sigma, self.depth, delta)

    def footprint(self, graph: Graph) -> int:
        """Bytes of the sums of all stages, the activations of the last stage, and the values that its backward pass stores."""
        return 4 * (graph.nodes * self.hidden * (self.depth + 1) * (8 + 4 * self.base_layers) + graph.dim * self.hidden * 6)

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        worlds, classes = group.worlds, group.worlds.graph.classes
        aggregation = group.aggregation(self._cut)
        sums: list[Tensor] = []
        rows: list[Tensor] = []
        branches: list[tuple[Layer, ...]] = []
        bases: Parts = []
        for stage in range(self.depth + 1):
            branches.append(self._base(self.hidden if stage else worlds.graph.dim))
            network = Network(tuple(branches), (UnitLinear(self.hidden * (stage + 1), classes),), classes)
            seeds = self._first_seeds(worlds) if stage == 0 else worlds.seeds
            fresh = draw((*branches[-1], *network.trunk), seeds, "stage", stage, device=group.device)
            inputs = [None, *sums]
            if stage == self.depth and "posteriors" not in self.keep:
                break
            weights = train_stage(self, group, network, [*bases, *fresh], inputs, f"stage {stage}")
            if len(seeds) < worlds.runs:
                weights = Weights(together([weights.parts] * worlds.runs))
            bases = weights.parts[: -len(network.trunk)]
            if stage == self.depth:
                break
            own = weights.numbers[len(bases) - len(branches[-1]) : len(bases)]
            x = sums[-1].transpose(1, 2).contiguous() if sums else group.features("all")
            rows.append(through((*branches[-1], UnitLength()), [*own, ()], x).transpose(1, 2))
            sums.append(common.perturb(aggregation(rows[-1]), worlds.seeds, self.noise_std, stage + 1))
        released = self._watched(worlds, aggregates=sums, inputs=rows)
        if "posteriors" in self.keep:
            released["posteriors"] = common.log_probabilities(network, weights, group.rows("watch", inputs))
        return common.withhold(self, worlds, released)

    def _base(self, inputs: int) -> tuple[Layer, ...]:
        norm = GroupNorm if self.unit is Unit.NODE else BatchNorm
        widths = [inputs] + [self.hidden] * self.base_layers
        return tuple(
            layer for i in range(self.base_layers) for layer in (Linear(widths[i], self.hidden), Selu(), norm(self.hidden))
        )
