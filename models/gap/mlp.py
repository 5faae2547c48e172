"""The baseline that reads no edges: a multi-layer perceptron, trained by Adam or by DP-SGD (DP-MLP)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from numpy.typing import NDArray

from ...accounting.claim import Unit
from ..engine.network import Network, draw
from ..engine.run_batches import RunGroup
from ..graph.graph import Graph
from . import common
from .gap import mlp
from .stage import ledger, train_stage

if TYPE_CHECKING:
    import numpy as np
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class Mlp(common.NodeRecipe):
    """The MLP of GAP's code. Its epsilon for edges is 0, because it reads no edges. With unit "node" it is DP-MLP, trained by
    DP-SGD.

    layers: number of linear layers. sigma: noise std / clip at node level; unused at edge level. `NodeRecipe` and its base
    describe the other fields.
    """

    layers: int = 3
    name = "mlp"

    def check(self, graph: Graph) -> None:
        """Accepts every graph, because the model reads no edges."""

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
        """Bytes of the activations of all layers and of the values that the backward pass stores."""
        return 4 * (graph.nodes * self.hidden * self.layers * 6 + graph.dim * self.hidden * 6)

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        graph = group.worlds.graph
        widths = [graph.dim, *[self.hidden] * (self.layers - 1), graph.classes]
        network = Network((mlp(widths, self.unit),), (), graph.classes)
        parts = draw(network.layers, group.worlds.seeds, "mlp", device=group.device)
        weights = train_stage(self, group, network, parts, [None], "mlp")
        posteriors = common.log_probabilities(network, weights, group.rows("watch", [None]))
        return common.withhold(self, group.worlds, {"posteriors": posteriors})
