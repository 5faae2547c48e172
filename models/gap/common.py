"""Code shared by GAP, ProGAP, MLP, EdgeRand and DP-GNN: fields, units, noise, and the choice of released rows."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..base import Release
from ..engine.network import Network, Rows, Weights
from ..engine.run_batches import RunGroup, companies
from ..graph.graph import Graph, Worlds
from ..graph.neighbour_lists import degrees
from ..random import streams, witness

MODES = ("paper", "sound")
ARRAYS = ("posteriors", "aggregates", "inputs")  # what GAP and ProGAP can release


@dataclass(frozen=True, kw_only=True)
class EdgeRecipe:
    """The fields and methods of a recipe that protects edges. A subclass trains in `_fit`.

    sigma: noise std / sensitivity of every noisy step; 0 means no privacy. mode: "paper" (as published) or "sound" (as proved).
    unit: None means the directed edge in mode "paper", and the undirected edge in mode "sound". hidden: width of every layer.
    Raises ValueError for an unknown mode, and for a unit that the mode does not protect.
    """

    sigma: float = 0.0
    mode: str = "sound"
    unit: Unit = None  # type: ignore[assignment]
    hidden: int = 16
    epochs: int = 100
    learning_rate: float = 0.01
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r}: must be 'paper' (as published) or 'sound' (as proved).")
        usual = Unit.DIRECTED_EDGE if self.mode == "paper" else Unit.UNDIRECTED_EDGE
        object.__setattr__(self, "unit", Unit(self.unit) if self.unit else usual)
        if self.unit is Unit.FEATURES:
            way = "Use unit = 'undirected-edge' or 'node'."
            raise ValueError(f"{self.name} protects edges or nodes, not a node's own features. {way}")
        if self.mode == "paper" and self.unit is Unit.UNDIRECTED_EDGE:
            way = "Use unit = 'directed-edge', or mode = 'sound'."
            raise ValueError(f"{self.name} as published counts directed edges. {way}")

    @property
    def releases(self) -> tuple[str, ...]:
        return ("posteriors",)

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma))

    def check(self, graph: Graph) -> None:
        """Raises ValueError for a graph that the ledger does not cover."""
        if self.unit is Unit.UNDIRECTED_EDGE and graph.directed:
            raise ValueError(f"{self.name} counts undirected edges, and {graph.name} is directed. Use unit = 'directed-edge'.")

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains all runs, in groups that fit the processor's caches. Raises ValueError for a graph that the ledger does not
        cover.
        """
        self.check(worlds.graph)
        parts = [self._fit(RunGroup(worlds[runs], device)) for runs in companies(worlds, self.hidden, self._batch)]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in self.releases}
        return Release(arrays, worlds.watch, self._known)

    def _fit(self, group: RunGroup) -> dict[str, NDArray[np.float32]]:
        """The released arrays of some runs, run axis first."""
        raise NotImplementedError

    @property
    def _batch(self) -> int | None:
        """How many rows one step trains on; None means all."""
        return None

    @property
    def _known(self) -> dict[str, float]:
        """The numbers that an adversary knows."""
        return {"sigma": self.sigma}


@dataclass(frozen=True, kw_only=True)
class NodeRecipe(EdgeRecipe):
    """A recipe that also has a node-level version, which DP-SGD trains.

    train_nodes: the public number N of training nodes. batch: each node joins a batch with probability batch / N, and every
    network trains for epochs x floor(N / batch) steps. clip: the norm to which the gradient of one node is clipped. Raises
    ValueError at node level unless 0 < batch <= train_nodes.
    """

    batch: int = 256
    train_nodes: int = 0
    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit is Unit.NODE and not 0 < self.batch <= self.train_nodes:
            raise ValueError(
                f"train_nodes={self.train_nodes}: {self.name} at node level draws batches of about {self.batch} out of a public "
                f"number of training nodes, so it must be at least {self.batch}. Set train_nodes, or a smaller batch."
            )

    @property
    def inclusion_chance(self) -> float | None:
        """The probability that a node joins a batch; None at edge level, where training samples no nodes."""
        return self.batch / self.train_nodes if self.unit is Unit.NODE else None

    @property
    def public(self) -> tuple[str, ...]:
        """What the ledger assumes to be public or does not charge for, one sentence each."""
        common = ("The set of nodes, the split and the number of classes are public.",)
        if self.unit is not Unit.NODE:
            return (
                *common,
                "Features and labels are public: a computation that reads no edge costs no privacy.",
                "The best epoch is chosen by public labels, on noisy sums that the ledger charges for.",
            )
        if self.mode == "paper":
            return (
                *common,
                "The number of training nodes is public.",
                "The best epoch is chosen by the labels of the validation nodes, and the ledger does not charge for that.",
                "Degrees are cut at random; when a node leaves, other lists can change, and the ledger assumes that they do not.",
                "A node's own prediction is released, and the ledger does not cover it.",
            )
        return (
            *common,
            "The number of training nodes is public.",
            "The public promise is that no node has more than max_degree neighbours; the model refuses other graphs.",
            "A training node comes or goes with all its edges. The model releases no prediction for it. It releases predictions "
            "for validation and test nodes only, which are not protected.",
            "The last epoch is kept: nothing is chosen by private labels.",
        )

    @property
    def _batch(self) -> int | None:
        return self.batch if self.unit is Unit.NODE else None


@dataclass(frozen=True, kw_only=True)
class DegreeRecipe(NodeRecipe):
    """A recipe whose noise at node level depends on `max_degree`, the bound on out-degrees. Mode "paper" removes random arcs of
    larger out-degrees, as the published code does; in mode "sound" the bound is a public promise.
    """

    max_degree: int = 100

    @property
    def noise_std(self) -> float:
        """The std of the noise on every entry of a noisy sum."""
        raise NotImplementedError

    def check(self, graph: Graph) -> None:
        super().check(graph)
        if self.unit is Unit.NODE and self.mode == "sound":
            sent = int(degrees(graph.edges[::-1], graph.nodes, graph.directed).max())
            if sent > self.max_degree:
                raise ValueError(
                    f"max_degree={self.max_degree}: a node of {graph.name} has degree {sent}. In mode 'sound' the bound is a "
                    f"public promise, as no way to cut degrees is stable when a node leaves. Use max_degree = {sent} or more."
                )

    @property
    def _known(self) -> dict[str, float]:
        return {"noise_std": self.noise_std, "sigma": self.sigma}


@dataclass(frozen=True, kw_only=True)
class NoisySums(DegreeRecipe):
    """A recipe that sums rows of length 1 over neighbours, adds noise to the sums and learns from them.

    base_layers: the number of linear layers of the network that reads one hop's rows.
    keep: which of "posteriors", "aggregates" (the noisy sums) and "inputs" (the rows that were summed) a release holds; without
    "posteriors" the last network is not trained.
    public_seed: if set, at edge level, all runs with the same training nodes share the network that reads no edges, which is
    trained once from this seed. An adversary may know this network, because it reads public data only. The results of an audit
    then hold for this one network only.
    """

    base_layers: int = 1
    keep: tuple[str, ...] = ("posteriors",)
    public_seed: int | None = None
    offers: ClassVar[tuple[str, ...]] = ARRAYS

    @property
    def releases(self) -> tuple[str, ...]:
        return self.keep

    @property
    def noise_std(self) -> float:
        """The std of the noise on every entry of a sum of unit rows."""
        return self.sigma * sensitivity(self.unit, self.max_degree)

    def printed(self, delta: float) -> float | None:
        raise NotImplementedError

    def coded_epsilon(self, delta: float) -> float | None:
        """The same as `printed`, because the papers print the epsilon that their code computes."""
        return self.printed(delta)

    def _watched(self, worlds: Worlds, **sums: list[Tensor]) -> dict[str, NDArray[np.float32]]:
        """The watched rows of those arrays that a release holds: for each, the rows of every hop, (runs, nodes, dim) -> (runs,
        hops, w, dim) float32.
        """
        rows = torch.from_numpy(worlds.watch)
        kept = {name: hops for name, hops in sums.items() if name in self.keep}
        return {n: torch.stack([h.index_select(1, rows.to(h.device)) for h in hops], 1).cpu().numpy() for n, hops in kept.items()}

    @property
    def _cut(self) -> int | None:
        """The bound to which random removal of arcs reduces out-degrees before the sums; None if no arc is removed."""
        return self.max_degree if self.unit is Unit.NODE and self.mode == "paper" else None

    def _first_seeds(self, worlds: Worlds) -> NDArray[np.uint64]:
        """The seeds of the networks that read no edges: one for each run, or a single one if all runs have the same network.

        At edge level such a network depends on its seed and the training nodes alone, and all runs of a group have the same
        training nodes.
        """
        if self.unit is Unit.NODE:
            return worlds.seeds
        if self.public_seed is not None:
            return np.array([self.public_seed], dtype=np.uint64)
        return worlds.seeds[:1] if (worlds.seeds == worlds.seeds[0]).all() else worlds.seeds


def sensitivity(unit: Unit, max_degree: int) -> float:
    """The L2 sensitivity of the sums of one hop, over rows of length 1 at most.

    A directed edge changes one row of the sums by 1 (GAP, Lemma 1), an undirected edge two rows. A node that sends to at most
    max_degree others changes that many rows of others (GAP, Lemma 2). The sensitivity does not count the node's own row, so that
    row must not be released.
    """
    return math.sqrt({Unit.DIRECTED_EDGE: 1, Unit.UNDIRECTED_EDGE: 2}.get(unit, max_degree))


def perturb(sums: Tensor, seeds: NDArray[np.uint64], std: float, hop: int) -> Tensor:
    """Adds Gaussian noise to every entry, in place. sums: (runs, nodes, dim). hop: the number of the hop, from 1, which is a part
    of the stream's name.
    """
    if std:
        witness.clean("aggregate", sums)
        streams.add_normal(sums, seeds, std, "aggregate", hop)
        witness.released("aggregate", sums, scale=std)
    return sums


def check_kept(name: str, keep: tuple[str, ...], hops: int) -> None:
    """Raises ValueError unless the model can release the arrays `keep`. hops: its number of noisy sums."""
    if not hops and set(keep) != {"posteriors"}:
        raise ValueError(f"{name} without hops has no sums to release. Use at least one hop, or the model mlp.")
    if not keep or set(keep) - set(ARRAYS):
        raise ValueError(f"keep={keep}: {name} releases one or more of 'posteriors', 'aggregates' and 'inputs'.")


def log_probabilities(network: Network, weights: Weights, rows: Rows) -> NDArray[np.float32]:
    """(runs, nodes, classes) float32: natural logarithms of the class probabilities of these rows."""
    logits, _ = network.forward(weights.numbers, rows.inputs)
    return torch.log_softmax(logits, 1).transpose(1, 2).contiguous().cpu().numpy()


def withhold(model: NodeRecipe, worlds: Worlds, arrays: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Replaces the rows that are not released by constants, in place: uniform posteriors, zeros in other arrays.

    A node's own prediction depends on its own data. So at node level, in mode "sound", only nodes of the public validation and
    test sets get a prediction, and the claim protects only training nodes.
    """
    if model.unit is Unit.NODE and model.mode == "sound":
        hidden = ~(worlds.graph.val | worlds.graph.test)[worlds.watch]
        for name, array in arrays.items():
            array[..., hidden, :] = -math.log(worlds.graph.classes) if name == "posteriors" else 0.0
    return arrays
