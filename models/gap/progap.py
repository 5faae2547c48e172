"""ProGAP: stage after stage, each on the noisy neighbour sums of the ones before, all of which learn on (WSDM 2024)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...accounting.claim import Unit
from ..base import Release
from ..engine.layers import BatchNorm, GroupNorm, Layer, Linear, Selu, UnitLength, UnitLinear
from ..engine.network import Network, Parts, Weights, draw, through, together
from ..engine.run_batches import Company, companies
from . import common
from .stage import ledger, train_stage

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray
    from torch import Tensor

    from ..graph.graph import Graph, Worlds


@dataclass(frozen=True)
class ProGap:
    """Sajadmanesh & Gatica-Perez 2024: stage k learns from x_0 = features and x_j = A unit(base_{j-1}(x_{j-1})) + noise, j <= k.

    depth: how many aggregations; there is one stage more. The sums of a stage are drawn once and kept, while the bases
    below go on learning. The other fields are those of Gap; public_seed is for the first stage, which sees no edge.
    """

    depth: int = 5
    sigma: float = 0.0
    mode: str = "sound"
    unit: Unit = None  # type: ignore[assignment]
    hidden: int = 16
    base_layers: int = 1
    epochs: int = 100
    learning_rate: float = 0.01
    keep: tuple[str, ...] = ("posteriors",)
    public_seed: int | None = None
    max_degree: int = 100
    batch: int = 256
    train_nodes: int = 0
    clip: float = 1.0
    name = "progap"
    offers = common.ARRAYS

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", common.checked_unit(self.name, self.mode, self.unit))
        common.check_batch(self)
        common.check_kept(self.name, self.keep, self.depth)
        if self.base_layers < 1 or self.depth < 0:
            raise ValueError(f"base_layers={self.base_layers}, depth={self.depth}: at least one layer, at least no depth.")

    @property
    def inclusion_chance(self) -> float | None:
        """The chance that a node joins a batch; None at edge level, where nothing is sampled."""
        return self.batch / self.train_nodes if self.unit is Unit.NODE else None

    @property
    def releases(self) -> tuple[str, ...]:
        return self.keep

    @property
    def public(self) -> tuple[str, ...]:
        return common.taken_as_public(self)

    @property
    def ledger(self) -> DpEvent:
        return ledger(self, self.depth, stages=self.depth + 1)

    @property
    def noise_std(self) -> float:
        """What is added to every entry of a sum of unit rows."""
        return self.sigma * common.sensitivity(self.unit, self.max_degree)

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        from . import published

        if self.mode == "sound" or not self.sigma:
            return None
        if self.unit is Unit.NODE:
            return published.progap_node_coded(self.sigma, self.depth, self.train_nodes, self.batch, self.epochs, delta)
        return published.progap_edge_coded(self.sigma, self.depth, delta)

    def footprint(self, graph: Graph) -> int:
        """The sums of all stages, the activations of the last one and what its backward pass keeps."""
        return 4 * (graph.nodes * self.hidden * (self.depth + 1) * (8 + 4 * self.base_layers) + graph.dim * self.hidden * 6)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        common.check_graph(self, worlds.graph)
        parts = [
            self._fit(Company(worlds[runs], device))
            for runs in companies(worlds, self.hidden, self.batch if self.unit is Unit.NODE else None)
        ]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in self.keep}
        return Release(arrays, worlds.watch, {"noise_std": self.noise_std, "sigma": self.sigma})

    def _fit(self, company: Company) -> dict[str, NDArray[np.float32]]:
        worlds, classes = company.worlds, company.worlds.graph.classes
        aggregation = company.aggregation(self.max_degree if self.unit is Unit.NODE and self.mode == "paper" else None)
        sums: list[Tensor] = []
        rows: list[Tensor] = []
        branches: list[tuple[Layer, ...]] = []
        bases: Parts = []
        for stage in range(self.depth + 1):
            branches.append(self._base(self.hidden if stage else worlds.graph.dim))
            network = Network(tuple(branches), (UnitLinear(self.hidden * (stage + 1), classes),), classes)
            shared = stage == 0 and self.public_seed is not None and self.unit is not Unit.NODE
            seeds = np.array([self.public_seed], dtype=np.uint64) if shared else worlds.seeds
            fresh = draw((*branches[-1], *network.trunk), seeds, "stage", stage, device=company.device)
            inputs = [None, *sums]
            if stage == self.depth and "posteriors" not in self.keep:
                break
            weights = train_stage(self, company, network, [*bases, *fresh], inputs, f"stage {stage}")
            if shared:
                weights = Weights(together([weights.parts] * worlds.runs))
            bases = weights.parts[: -len(network.trunk)]
            if stage == self.depth:
                break
            own = weights.numbers[len(bases) - len(branches[-1]) : len(bases)]
            x = sums[-1].transpose(1, 2).contiguous() if sums else company.features("all")
            rows.append(through((*branches[-1], UnitLength()), [*own, ()], x).transpose(1, 2))
            sums.append(common.perturb(aggregation(rows[-1]), worlds.seeds, self.noise_std, stage + 1))
        released: dict[str, Any] = {}
        if "posteriors" in self.keep:
            released["posteriors"] = common.log_probabilities(network, weights, company.rows("watch", inputs))
        for name, hops in (("aggregates", sums), ("inputs", rows)):
            if name in self.keep:
                released[name] = common.watched_hops(hops, worlds.watch)
        return common.withhold(self, worlds, released)

    def _base(self, inputs: int) -> tuple[Layer, ...]:
        norm = GroupNorm if self.unit is Unit.NODE else BatchNorm
        widths = [inputs] + [self.hidden] * self.base_layers
        return tuple(
            layer for i in range(self.base_layers) for layer in (Linear(widths[i], self.hidden), Selu(), norm(self.hidden))
        )
