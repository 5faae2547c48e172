"""Plain graph networks without privacy, trained as in the literature, for K runs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..base import Release
from ..engine.dropout import Dropout
from ..engine.gnn_layers import HEADS, KINDS, Values, stacked
from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from ..sparse.block_diagonal import Blocks, Operator, features

if TYPE_CHECKING:
    from dp_accounting import DpEvent

CACHE = 6 << 20  # most bytes of one hidden layer's activations in all runs that train together; more is slower


@dataclass(frozen=True)
class Gnn:
    """A graph network with ReLU and dropout between its layers, trained full batch by Adam on the cross-entropy.

    The defaults are those of MIA-audit-GNN (Lassila et al. 2025) on Cora: two layers, 64 hidden units. With `kind="gcn",
    hidden=16, input_dropout=0.5, learning_rate=0.01, weight_decay=5e-4` this is the GCN of Kipf and Welling.

    `kind="gat", hidden=256, heads=4, last_heads=2` is the GAT of MIA-audit-GNN without its dropout of attention weights.

    kind: gcn, sage, gat or gin. hidden: the width of the inner layers; in a GAT, of all heads together. heads, last_heads: the
    number of attention heads in the inner layers and in the last layer of a GAT; those of the last layer are averaged. dropout,
    input_dropout: the probabilities that a hidden unit and a feature are set to zero. Raises ValueError for fields out of range.
    """

    kind: str = "gcn"
    hidden: int = 64
    layers: int = 2
    heads: int = HEADS[0]
    last_heads: int = HEADS[1]
    dropout: float = 0.5
    input_dropout: float = 0.0
    epochs: int = 200
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    mode: str = "paper"

    unit: ClassVar[Unit] = Unit.NODE
    releases: ClassVar[tuple[str, ...]] = ("posteriors", "posteriors@0-hop", "posteriors@half", "posteriors@full")
    public: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: must be one of {', '.join(KINDS)}.")
        for name in ("hidden", "layers", "heads", "last_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1.")
        if self.kind != "gat" and (self.heads, self.last_heads) != HEADS:
            raise ValueError(f"heads={self.heads}, last_heads={self.last_heads}: {self.kind} has no heads. Use kind='gat'.")
        for name in ("dropout", "input_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be in [0, 1).")

    @property
    def name(self) -> str:
        return self.kind

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import NonPrivateDpEvent

        return NonPrivateDpEvent()

    def with_noise(self, sigma: float) -> Self:
        if sigma:
            raise ValueError(
                f"{self.kind} has no noise to scale, so no finite epsilon can be reached; audit it at epsilon = inf."
            )
        return self

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        """Bytes of the weights, their gradients and Adam's two moments, a few activations of every layer, the features, and four
        releases.
        """
        weights = (graph.dim + self.layers * self.hidden) * self.hidden
        stored = int(graph.x.nnz if hasattr(graph.x, "nnz") else graph.x.size)
        return 20 * weights + 8 * self.layers * self._activation(graph) + 32 * graph.nodes * graph.classes + 32 * stored

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains every run on its own world and queries it in four ways, which treat members and other nodes alike.

        posteriors: on the run's own graph, where an absent node has no edges. posteriors@0-hop: without edges. posteriors@half:
        without edges, with half of each feature. posteriors@full: on the whole graph.
        """
        step = max(1, CACHE // max(1, self._activation(worlds.graph)))
        parts = [worlds[first : first + step] for first in range(0, len(worlds), step)]
        return Release.join([self._release(part, self.train(part, device), device) for part in parts])

    def _activation(self, graph: Graph) -> int:
        """Bytes of one hidden layer's activations in one run. Attention also holds a row for every arc."""
        rows = graph.nodes + (graph.arcs.shape[1] if self.kind == "gat" else 0)
        return 4 * self.hidden * rows

    def train(self, worlds: Worlds, device: str = "cpu") -> list[Values]:
        """The trained parameters of every layer, each (K, …). A run trains on its own graph, which absent nodes are not in."""
        graph, trained = worlds.graph, worlds.trained()
        alive = worlds.nodes.dense(graph.nodes) if worlds.nodes is not None else np.ones_like(trained)
        members = [np.flatnonzero(row) for row in alive]
        blocks, x = Blocks.of(graph, members, worlds.edge_present(), device), features(graph.x, members, device)
        label, weight = loss_weights(graph.y, trained, members, blocks.size, device)
        values = self._start(worlds, device)
        flat = [v for layer in values for v in layer.values()]
        optimiser = torch.optim.Adam(flat, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)
        rows = [len(m) for m in members]
        hidden = [Dropout.of(self.dropout, worlds.seeds, rows, f"dropout {i}", device) for i in range(1, self.layers)]
        inputs = Dropout.of(self.input_dropout, worlds.seeds, rows, "input dropout", device)
        for _ in range(self.epochs):
            optimiser.zero_grad(set_to_none=True)
            logits = self.forward(values, inputs.features(x), blocks, hidden)
            # softmax with the nodes in the last dimension is 20 times faster than with the classes there
            right = logits.transpose(1, 2).log_softmax(1).gather(1, label)[:, 0]
            (right * weight).sum().backward()
            optimiser.step()
        return [{n: v.detach() for n, v in layer.items()} for layer in values]

    def deployed(self, worlds: Worlds, device: str = "cpu") -> Callable[[Any], NDArray[np.float32]]:
        """Trains every run and returns a function that answers queries on each run's own graph.

        The function takes features of all nodes, (nodes, dim), and returns log-probabilities (K, nodes, classes) float32.
        """
        values = self.train(worlds, device)
        everyone = [np.arange(worlds.graph.nodes)] * len(worlds)
        blocks = Blocks.of(worlds.graph, everyone, worlds.edge_present(), device)
        return lambda x: self.posteriors(values, features(x, everyone, device), blocks)

    def anywhere(self, worlds: Worlds, device: str = "cpu") -> Callable[[Graph], NDArray[np.float32]]:
        """Trains every run and returns a function that takes any graph and returns log-probabilities (K, nodes of that graph,
        classes) float32.
        """
        values = self.train(worlds, device)

        def answer(graph: Graph) -> NDArray[np.float32]:
            everyone, every = [np.arange(graph.nodes)], np.ones((1, graph.edges.shape[1]), dtype=bool)
            blocks, x = Blocks.of(graph, everyone, every, device), features(graph.x, everyone, device)
            runs = [[{n: v[k : k + 1] for n, v in layer.items()} for layer in values] for k in range(len(worlds))]
            return np.concatenate([self.posteriors(run, x, blocks) for run in runs])

        return answer

    def forward(self, values: list[Values], x: Operator | Tensor, blocks: Blocks, dropout: list[Dropout] | None = None) -> Tensor:
        """Logits (K, size, classes)."""
        *inner, last = values
        for i, layer in enumerate(inner):
            x = KINDS[self.kind].forward(layer, x, blocks)
            x = torch.relu_(x) if dropout is None else dropout[i].relu(x)
        return KINDS[self.kind].forward(last, x, blocks)

    def _start(self, worlds: Worlds, device: str) -> list[Values]:
        sizes = [worlds.graph.dim, *[self.hidden] * (self.layers - 1), worlds.graph.classes]
        randoms = [stream(seed, "start") for seed in worlds.seeds]
        start: Callable[..., dict[str, NDArray[np.float64]]] = KINDS[self.kind].start
        start = partial(start, heads=(self.heads, self.last_heads)) if self.kind == "gat" else start
        return [
            stacked([start(random, sizes[i], sizes[i + 1], i + 1 == self.layers) for random in randoms], device)
            for i in range(self.layers)
        ]

    def _release(self, worlds: Worlds, values: list[Values], device: str) -> Release:
        graph, present = worlds.graph, worlds.edge_present()
        everyone = [np.arange(graph.nodes)] * len(worlds)
        own, alone, union = (Blocks.of(graph, everyone, edges, device) for edges in (present, present & False, present | True))
        x, half = (features(rows, everyone, device) for rows in (graph.x, 0.5 * graph.x))
        queries = {
            "posteriors": (x, own),
            "posteriors@0-hop": (x, alone),
            "posteriors@half": (half, alone),
            "posteriors@full": (x, union),
        }
        arrays = {name: self.posteriors(values, *query)[:, worlds.watch] for name, query in queries.items()}
        return Release(arrays, worlds.watch)

    def posteriors(self, values: list[Values], x: Operator | Tensor, blocks: Blocks) -> NDArray[np.float32]:
        """Log-probabilities (K, size, classes) float32 of trained runs. x, blocks: any features and graphs, one for each run."""
        with torch.no_grad():
            answer: NDArray[np.float32] = self.forward(values, x, blocks).log_softmax(2).cpu().numpy()
        return answer


def loss_weights(
    y: NDArray[np.int64], trained: NDArray[np.bool_], members: list[NDArray[np.int64]], size: int, device: str
) -> tuple[Tensor, Tensor]:
    """The labels, (K, 1, size) int64, and the weight of each row's log-likelihood in the loss, (K, size) float32: -1 / (number of
    trained rows) for a trained row, else 0.
    """
    label = np.zeros((len(members), 1, size), dtype=np.int64)
    weight = np.zeros((len(members), size), dtype=np.float32)
    for k, rows in enumerate(members):
        label[k, 0, : len(rows)] = y[rows]
        weight[k, : len(rows)] = trained[k, rows] / -max(1.0, trained[k].sum())
    return torch.from_numpy(label).to(device), torch.from_numpy(weight).to(device)
