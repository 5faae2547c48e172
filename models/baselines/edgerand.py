"""EdgeRand: randomised response perturbs the edges, and an ordinary GraphSAGE learns from the perturbed graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ..engine.layers import Layer, Linear, UnitLength
from ..engine.network import Network, Rows, draw
from ..engine.run_batches import RunGroup
from ..engine.training import train
from ..gap import common
from ..gap.gap import activated, mlp
from ..graph.degree_cap import arc_coins, arc_present
from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from ..sparse.neighbour_sums import Aggregation, Neighbours

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LINK_SHARE = 0.9  # the share of epsilon that the entries spend; the density spends the rest
CHUNK = 500  # rows that share one density in the published code


@dataclass(frozen=True)
class EdgeRand(common.EdgeRecipe):
    """Asymmetric randomised response, the edge-level GraphSAGE baseline of GAP and ProGAP ("sage-edp"); without noise, GraphSAGE.

    sigma: 1 / epsilon (nats), because Laplace noise of this scale on a value of sensitivity 1 costs epsilon; 0 keeps the graph
    unchanged. The recipe spends nine tenths of epsilon on the entries of the adjacency matrix and the rest on its density.
    Mode "paper": every directed entry is flipped independently, self loops too. Each block of 500 rows has its own noisy density,
    whose noise is calibrated for the density of the whole matrix. This noise is too small. The ledger computes the true cost from
    the public number of nodes, `nodes`.
    Mode "sound": one density. Every pair is flipped independently, or every directed entry without self loops if the unit is the
    directed edge. `EdgeRecipe` describes the other fields.
    """

    base_layers: int = 2
    layers: int = 1
    nodes: int = 0
    name = "edgerand"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit is Unit.NODE:
            raise ValueError("edgerand protects edges, not nodes. Use unit = 'undirected-edge' or 'directed-edge'.")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma={self.sigma}: must be 1 / epsilon, or 0 to keep the graph unchanged.")

    @property
    def epsilon(self) -> float:
        return 1 / self.sigma if self.sigma else math.inf

    @property
    def public(self) -> tuple[str, ...]:
        return (
            "The set of nodes, the split, features and labels are public.",
            "The best epoch is chosen by public labels, on a perturbed graph that the ledger charges for.",
        )

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import LaplaceDpEvent, NonPrivateDpEvent

        from ...accounting.events.mechanisms import PureDpEvent, composed

        if not self.sigma:
            return NonPrivateDpEvent()
        link, density = PureDpEvent(LINK_SHARE * self.epsilon), (1 - LINK_SHARE) * self.epsilon
        if self.mode == "sound":
            return composed(link, LaplaceDpEvent(1 / density))
        if not self.nodes:
            raise ValueError("nodes=0: the ledger of edgerand as published depends on the public number of nodes. Set nodes.")
        fewest = self.nodes % CHUNK or CHUNK  # rows of the smallest block, whose density one arc changes most
        return composed(link, LaplaceDpEvent(fewest / (self.nodes * density)))

    def printed(self, delta: float) -> float | None:
        return None if self.mode == "sound" or not self.sigma else self.epsilon

    def footprint(self, graph: Graph) -> int:
        """Bytes of two sparse matrices, the activations of all layers and the values that the backward pass stores."""
        return 4 * (graph.nodes * self.hidden * (self.layers * 8 + 16) + graph.dim * self.hidden * 6) + 60 * graph.arc_count

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        worlds, classes = group.worlds, group.worlds.graph.classes
        graphs = [self.response(worlds, run) for run in range(worlds.runs)]
        there, back = (Aggregation.over(worlds.graph.nodes, ends, group.device) for ends in (graphs, [g[::-1] for g in graphs]))
        base = mlp([worlds.graph.dim, *[self.hidden] * self.base_layers], Unit.DIRECTED_EDGE, plain=False)
        # a layer has one matrix for the sum over the neighbours and one for the node's own row, and scales rows to length 1
        linear = Linear(2 * self.hidden, self.hidden)
        layer: tuple[Layer, ...] = (Neighbours(there, back), linear, UnitLength(), *activated(self.hidden, self.unit))
        network = Network((base,), (*layer * self.layers, Linear(self.hidden, classes)), classes)
        everyone = group.rows("all", [None])
        labels = torch.from_numpy(worlds.graph.y).to(group.device)

        def counted(which: str) -> Rows:
            index = torch.from_numpy(group.nodes[which]).to(group.device)
            return Rows(everyone.inputs, labels[index], index)

        parts = draw(network.layers, worlds.seeds, "sage", device=group.device)
        check = counted("check") if group.nodes["check"].size else None
        weights = train(network, parts, counted("train"), self.epochs, self.learning_rate, check)
        return {"posteriors": common.log_probabilities(network, weights, everyone)[:, worlds.watch]}

    @property
    def one_density(self) -> bool:
        """Whether all pairs use the same noisy density. In mode "paper" each block of rows has its own."""
        return self.mode == "sound"

    @property
    def declines(self) -> Mapping[str, str]:
        """The capabilities that the recipe's attributes suggest but that the recipe lacks, each with the reason."""
        return {} if self.sigma else {"RandomisedEdges": "without noise it flips no entry"}

    def entry_chances(self, density: float, kappa: float = 1.0) -> tuple[float, float]:
        """The probabilities that an existing edge is kept and that an absent edge appears, at `kappa` times the epsilon that the
        recipe spends on an entry.
        """
        return probabilities(LINK_SHARE * kappa * self.epsilon, density)

    def response(self, worlds: Worlds, run: int) -> NDArray[np.int64]:
        """(2, arcs) int64: the perturbed graph of one run, arcs (from, to)."""
        graph, seed = worlds.graph, worlds.seeds[run]
        sender, receiver = graph.arcs[:, arc_present(worlds[run : run + 1])[0]]
        if not self.sigma:
            return np.stack([sender, receiver])
        random, once = stream(seed, "response"), self.unit is Unit.UNDIRECTED_EDGE
        if once:
            sender, receiver = np.minimum(sender, receiver)[sender < receiver], np.maximum(sender, receiver)[sender < receiver]
        coin = arc_coins(graph.nodes, sender, receiver, seed, "response")
        pairs = graph.nodes * (graph.nodes - 1) / (2 if once else 1)
        density = len(sender) / pairs + random.laplace(0, 1 / (pairs * (1 - LINK_SHARE) * self.epsilon))
        chunk, arcs = receiver // CHUNK, []
        order, starts = np.argsort(chunk, kind="stable"), range(0, graph.nodes, CHUNK)
        cuts = np.cumsum(np.bincount(chunk, minlength=len(starts)))[:-1]
        true = np.split(np.stack([sender, receiver])[:, order], cuts, axis=1)
        for first, own, uniforms in zip(starts, true, np.split(coin[order], cuts), strict=True):
            cells = min(CHUNK, graph.nodes - first) * graph.nodes
            if self.mode == "paper":
                density = own.shape[1] / cells + random.laplace(0, 1 / (graph.nodes**2 * (1 - LINK_SHARE) * self.epsilon))
            stays, appears = probabilities(LINK_SHARE * self.epsilon, min(max(density, 0.0), 1.0))
            cell = random.choice(cells, random.binomial(cells, appears), replace=False, shuffle=False) + first * graph.nodes
            false = cell[~np.isin(cell, own[1] * graph.nodes + own[0])]
            arcs.append(np.concatenate([own[:, uniforms < stays], [false % graph.nodes, false // graph.nodes]], axis=1))
        drawn = np.concatenate(arcs, axis=1)
        if self.mode == "sound":
            drawn = drawn[:, drawn[0] < drawn[1] if once else drawn[0] != drawn[1]]
        return np.concatenate([drawn, drawn[::-1]], axis=1) if once else drawn


def probabilities(epsilon: float, density: float) -> tuple[float, float]:
    """The probabilities that an existing edge is kept and that an absent edge appears, chosen so that the expected density does
    not change.

    They are p q and (1 - p) q with p = 1 / (1 + e^-epsilon), so their ratio is e^epsilon. The ratio of their complements is at
    most e^epsilon.
    """
    p = 1 / (1 + math.exp(-epsilon))
    share = 2 * p * density - p - density + 1
    q = min(1.0, density / share) if share > 0 else 1.0
    return p * q, (1 - p) * q
