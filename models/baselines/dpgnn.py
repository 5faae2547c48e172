"""DP-GNN: DP-SGD on one graph layer, where a node affects a bounded number of loss terms (Daigavane et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..engine.dpsgd import train_privately
from ..engine.layers import Linear, Selu
from ..engine.network import Network, draw
from ..engine.run_batches import RunGroup
from ..gap import common
from ..gap.stage import private
from ..graph.degree_cap import arc_coins, arc_present
from ..graph.graph import Graph, Worlds
from ..sparse.neighbour_sums import Aggregation

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class DpGnn(common.DegreeRecipe):
    """Classifies a node from its own features and the mean of its neighbours' features. In training, only training nodes send.

    A training node affects its own loss term and those of at most max_degree others.
    Mode "paper": each receiver in a node's list is kept with probability max_degree / (2 degree), and a list that is still longer
    than max_degree is emptied. Batches have a fixed size. The noise std on the sum of clipped gradients is sigma x 2 (max_degree
    + 1) clip.
    Mode "sound": the degree bound is a public promise, and nodes join batches independently. The noise std is sigma x (1 + 2
    max_degree) clip: removing a node removes its own gradient and may reverse the gradients of max_degree others. The ledger does
    not charge for predictions that read training nodes. So only validation and test nodes get predictions, which read validation
    and test neighbours alone.
    Both modes clip all tensors together, as GAP and ProGAP do. The authors' code clips each tensor separately but charges for one
    clipped gradient (finding dpgnn-per-tensor). `DegreeRecipe` and its bases describe the other fields.
    """

    unit: Unit = Unit.NODE
    epochs: int = 10
    max_degree: int = 10
    name = "dpgnn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit is not Unit.NODE:
            raise ValueError(f"dpgnn protects nodes, not a {self.unit}. Use unit = 'node'.")

    @property
    def inclusion_chance(self) -> float | None:
        """None, because `declines` names ClippedGradients."""
        return None

    @property
    def declines(self) -> Mapping[str, str]:
        """The capability that the recipe's attributes suggest but that the recipe lacks, with the reason."""
        if self.mode == "paper":
            return {"ClippedGradients": "its batches have a fixed size: a node that joins a batch displaces another"}
        return {"ClippedGradients": "a node also changes the gradients of its neighbours"}

    @property
    def public(self) -> tuple[str, ...]:
        if self.mode == "paper":
            return (
                "The set of nodes, the split and the number of training nodes are public.",
                "When a node leaves, the random thinning of other nodes' lists can change; the ledger assumes that it does not.",
                "Predictions read the features of neighbours, and the ledger does not cover that.",
            )
        return (*super().public, "No prediction reads the features of a training node.")

    @property
    def steps(self) -> int:
        return self.epochs * (self.train_nodes // self.batch)

    @property
    def ledger(self) -> DpEvent:
        from ...accounting.events.mechanisms import dp_sgd_capped, dp_sgd_occurrences

        if self.mode == "paper":
            return dp_sgd_occurrences(self.sigma, self.train_nodes, self.max_degree + 1, self.batch, self.steps)
        return dp_sgd_capped(self.sigma, self.batch / self.train_nodes, self.max_degree, self.steps)

    @property
    def noise_std(self) -> float:
        """The std of the noise on every entry of a sum of clipped gradients."""
        return self.sigma * self.clip * (2 * (self.max_degree + 1) if self.mode == "paper" else 1 + 2 * self.max_degree)

    def printed(self, delta: float) -> float | None:
        from ..gap import published

        if self.mode == "sound" or not self.sigma:
            return None
        return published.dp_gnn_multi_term(self.sigma, self.max_degree, self.train_nodes, self.batch, self.epochs, delta)

    def footprint(self, graph: Graph) -> int:
        """Bytes of three arrays of features, the activations, the arcs and the weights."""
        return 4 * graph.nodes * (3 * graph.dim + 12 * self.hidden) + 16 * graph.arc_count + 50 * graph.dim * self.hidden

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        worlds, graph = group.worlds, group.worlds.graph
        sends = worlds.trained()
        kept = [arcs & sends[run, graph.arcs[0]] for run, arcs in enumerate(self._bounded(worlds))]
        near = self._mean(group, kept)
        branch = (Linear(graph.dim, self.hidden),)
        network = Network((branch, branch), (Selu(), Linear(2 * self.hidden, graph.classes)), graph.classes)
        how = private(self, self.noise_std / self.clip, fixed=self.mode == "paper")
        parts = draw(network.layers, worlds.seeds, "dpgnn", device=group.device)
        rows, nodes = group.rows("train", [None, near]), group.nodes["train"]
        weights = train_privately(network, parts, rows, nodes, graph.nodes, worlds.seeds, "dpgnn", how)
        if self.mode == "sound":
            unprotected = (graph.val | graph.test)[graph.arcs[0]]
            near = self._mean(group, [arcs & unprotected for arcs in arc_present(worlds)])
        posteriors = common.log_probabilities(network, weights, group.rows("watch", [None, near]))
        return common.withhold(self, worlds, {"posteriors": posteriors})

    def _bounded(self, worlds: Worlds) -> NDArray[np.bool_]:
        """(K, arcs) bool: the arcs that are left after the lists of receivers are shortened; all arcs in mode "sound"."""
        present, graph = arc_present(worlds), worlds.graph
        if self.mode == "sound":
            return present
        sender, receiver = graph.arcs
        for run, seed in enumerate(worlds.seeds):
            degree = np.bincount(sender[present[run]], minlength=graph.nodes)
            coin = arc_coins(graph.nodes, sender, receiver, seed, "bound")
            present[run] &= coin * 2 * degree[sender] < self.max_degree
            left = np.bincount(sender[present[run]], minlength=graph.nodes)
            present[run] &= left[sender] <= self.max_degree
        return present

    def _mean(self, group: RunGroup, kept: list[NDArray[np.bool_]]) -> Tensor:
        """(runs, nodes, dim): for each node, the mean of the features of its senders over the arcs `kept`, (arcs,) bool for each
        run; zero if it has no sender.
        """
        graph = group.worlds.graph
        x = group.features("all").dense.unsqueeze(0).expand(len(kept), -1, -1)
        sums = Aggregation.over(graph.nodes, [graph.arcs[:, arcs] for arcs in kept], group.device)(x)
        counts = np.stack([np.bincount(graph.arcs[1][arcs], minlength=graph.nodes) for arcs in kept])
        return sums / torch.from_numpy(np.maximum(counts, 1).astype(np.float32)[:, :, None]).to(sums)
