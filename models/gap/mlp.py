"""The baseline that reads no edge: a multi-layer perceptron, plain or by DP-SGD (DP-MLP)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ...accounting.claim import Unit
from ..base import Release
from ..engine.network import Network, draw
from ..engine.run_batches import Company, companies
from . import common
from .gap import mlp
from .stage import ledger, train_stage

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ..graph.graph import Graph, Worlds


@dataclass(frozen=True)
class Mlp:
    """The MLP of GAP's code. As an edge model it costs nothing; at unit "node" it is DP-MLP, trained by DP-SGD.

    layers: how many linear ones. sigma: noise std / clip at node level, without meaning otherwise. The other fields are those of
    Gap.
    """

    layers: int = 3
    sigma: float = 0.0
    mode: str = "sound"
    unit: Unit = None  # type: ignore[assignment]
    hidden: int = 16
    epochs: int = 100
    learning_rate: float = 0.01
    batch: int = 256
    train_nodes: int = 0
    clip: float = 1.0
    name = "mlp"
    releases = ("posteriors",)
    max_degree = 0  # no message is sent, so that nothing is asked of degrees

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", common.checked_unit(self.name, self.mode, self.unit))
        common.check_batch(self)

    @property
    def inclusion_chance(self) -> float | None:
        """The chance that a node joins a batch; None at edge level, where nothing is sampled."""
        return self.batch / self.train_nodes if self.unit is Unit.NODE else None

    @property
    def public(self) -> tuple[str, ...]:
        return common.taken_as_public(self)

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import NoOpDpEvent

        return ledger(self, 0, stages=1) if self.unit is Unit.NODE else NoOpDpEvent()

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma)) if self.unit is Unit.NODE else self

    def printed(self, delta: float) -> float | None:
        from . import published

        if self.mode == "sound" or self.unit is not Unit.NODE or not self.sigma:
            return None
        return published.dp_mlp_coded(self.sigma, self.train_nodes, self.batch, self.epochs, delta)

    def footprint(self, graph: Graph) -> int:
        """Activations of all layers and what the backward pass keeps."""
        return 4 * (graph.nodes * self.hidden * self.layers * 6 + graph.dim * self.hidden * 6)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        parts = [
            self._fit(Company(worlds[runs], device))
            for runs in companies(worlds, self.hidden, self.batch if self.unit is Unit.NODE else None)
        ]
        return Release({"posteriors": np.concatenate(parts)}, worlds.watch, {"sigma": self.sigma})

    def _fit(self, company: Company) -> np.ndarray:
        graph = company.worlds.graph
        widths = [graph.dim, *[self.hidden] * (self.layers - 1), graph.classes]
        network = Network((mlp(widths, self.unit),), (), graph.classes)
        parts = draw(network.layers, company.worlds.seeds, "mlp", device=company.device)
        weights = train_stage(self, company, network, parts, [None], "mlp")
        posteriors = common.log_probabilities(network, weights, company.rows("watch", [None]))
        return common.withhold(self, company.worlds, {"posteriors": posteriors})["posteriors"]
