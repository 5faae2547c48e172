"""GAP: a graph-free encoder, noisy neighbour sums hop after hop, and a classifier on all hops (USENIX Security 2023)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from ...accounting.claim import Unit
from ..base import Release
from ..engine.layers import BatchNorm, Layer, Linear, Selu, UnitLength
from ..engine.network import Network, draw, through
from ..engine.run_batches import Company, companies
from . import common
from .stage import ledger, train_stage

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray
    from torch import Tensor

    from ..graph.graph import Graph, Worlds


@dataclass(frozen=True)
class Gap:
    """Sajadmanesh, Shamsabadi, Bellet & Gatica-Perez 2023: z_0 = unit(encoder(x)), z_k = unit(A z_{k-1} + noise).

    sigma: noise std / sensitivity of every hop, and at node level noise std / clip of DP-SGD; 0 means no privacy. unit: None
    stands for the directed edge of the paper, and for the undirected edge in mode "sound". keep: which arrays a release holds, of
    "posteriors", "aggregates" (the sums as drawn) and "inputs" (the rows that were summed); without "posteriors" no
    classifier is trained. public_seed: train the encoder once, from this seed, for all runs with the same training nodes: at edge
    level it sees public data only, so an adversary may know it. What an audit then finds holds for that one encoder.
    Node level: train_nodes is the public number N of training nodes; each node joins a batch with chance batch / N, in
    epochs x floor(N / batch) steps for the encoder and as many for the classifier; max_degree is the published
    code's random cut of out-degrees, or in mode "sound" a public promise.
    """

    hops: int = 2
    sigma: float = 0.0
    mode: str = "sound"
    unit: Unit = None  # type: ignore[assignment]
    hidden: int = 16
    encoder_layers: int = 2
    base_layers: int = 1
    epochs: int = 100
    learning_rate: float = 0.01
    keep: tuple[str, ...] = ("posteriors",)
    public_seed: int | None = None
    max_degree: int = 100
    batch: int = 256
    train_nodes: int = 0
    clip: float = 1.0
    name = "gap"
    offers = common.ARRAYS

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", common.checked_unit(self.name, self.mode, self.unit))
        common.check_batch(self)
        common.check_kept(self.name, self.keep, self.hops)
        if self.encoder_layers < 1 or self.hops < 0:
            raise ValueError(f"encoder_layers={self.encoder_layers}, hops={self.hops}: at least one layer, at least no hops.")

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
        return ledger(self, self.hops, stages=2)

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
            return published.gap_node_coded(self.sigma, self.hops, self.train_nodes, self.batch, self.epochs, self.epochs, delta)
        return published.gap_edge_coded(self.sigma, self.hops, delta)

    def footprint(self, graph: Graph) -> int:
        """The rows of all hops twice over, the activations of the classifier and what its backward pass keeps."""
        return 4 * (graph.nodes * self.hidden * (self.hops + 1) * 14 + graph.dim * self.hidden * 6)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        common.check_graph(self, worlds.graph)
        parts = [
            self._fit(Company(worlds[runs], device))
            for runs in companies(worlds, self.hidden, self.batch if self.unit is Unit.NODE else None)
        ]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in self.keep}
        return Release(arrays, worlds.watch, {"noise_std": self.noise_std, "sigma": self.sigma})

    def _fit(self, company: Company) -> dict[str, NDArray[np.float32]]:
        worlds = company.worlds
        aggregation = company.aggregation(self.max_degree if self.unit is Unit.NODE and self.mode == "paper" else None)
        steps, sums = [self._encoded(company)], []
        for hop in range(1, self.hops + 1):
            sums.append(common.perturb(aggregation(steps[-1]), worlds.seeds, self.noise_std, hop))
            steps.append(torch.nn.functional.normalize(sums[-1], dim=2))
        released: dict[str, Any] = {}
        if "posteriors" in self.keep:
            released["posteriors"] = self._classified(company, steps)
        for name, hops in (("aggregates", sums), ("inputs", steps[: self.hops])):
            if name in self.keep:
                released[name] = common.watched_hops(hops, worlds.watch)
        return common.withhold(self, worlds, released)

    def _encoded(self, company: Company) -> Tensor:
        """(runs, nodes, hidden) of length 1."""
        worlds, classes = company.worlds, company.worlds.graph.classes
        shared = self.public_seed is not None and self.unit is not Unit.NODE
        seeds = np.array([self.public_seed], dtype=np.uint64) if shared else worlds.seeds
        wide = (worlds.graph.dim, *[self.hidden] * self.encoder_layers)
        encoder = (*mlp(wide, self.unit), UnitLength())
        network = Network((encoder,), (*activated(self.hidden, self.unit), Linear(self.hidden, classes)), classes)
        parts = draw(network.layers, seeds, "encoder", device=company.device)
        weights = train_stage(self, company, network, parts, [None], "encoder")
        z = through(encoder, weights.numbers[: len(encoder)], company.features("all"))
        return z.transpose(1, 2).expand(worlds.runs, -1, -1)

    def _classified(self, company: Company, steps: list[Tensor]) -> NDArray[np.float32]:
        """(runs, w, classes) log-probabilities."""
        worlds, classes = company.worlds, company.worlds.graph.classes
        base, wide = mlp([self.hidden] * (self.base_layers + 1), self.unit), self.hidden * len(steps)
        trunk = (UnitLength(), *activated(wide, self.unit), Linear(wide, classes))
        network = Network((base,) * len(steps), trunk, classes)
        parts = draw(network.layers, worlds.seeds, "classifier", device=company.device)
        weights = train_stage(self, company, network, parts, steps, "classifier")
        return common.log_probabilities(network, weights, company.rows("watch", steps))


def activated(units: int, unit: Unit) -> tuple[Layer, ...]:
    """SELU, behind a batch norm unless every node must have a gradient of its own."""
    return (Selu(),) if unit is Unit.NODE else (BatchNorm(units), Selu())


def mlp(widths: list[int] | tuple[int, ...], unit: Unit, plain: bool = True) -> tuple[Layer, ...]:
    """Linear layers, each followed by a norm and an activation, except the last where it is to be plain."""
    layers: list[Layer] = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        if plain and i == len(widths) - 2:
            layers.append(Linear(inputs, outputs))
        else:
            layers += [Linear(inputs, outputs, centred=unit is not Unit.NODE), *activated(outputs, unit)]
    return tuple(layers)
