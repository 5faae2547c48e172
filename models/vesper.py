"""VESPER: message passing with noisy rows, trained by a party with the graph and a party with the labels (Wu et al. 2023).

Mode "paper" is what was published. Mode "sound" has three variants whose party A learns from released values only; see `refresh`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from ..accounting import events
from ..accounting.claim import Unit
from .base import Release
from .noise import fold

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from .channel import Recorder
    from .graph import Graph, Worlds

ARRAYS = ("posteriors", "aggregates", "inputs", "transcript")


@dataclass(frozen=True)
class Vesper:
    """The recipe. sigma: noise std / sensitivity of one layer to one undirected edge; 0 means no privacy.

    variant (sound): "s1" trains the encoder without edges and releases every layer once; "s2" puts noise before the weights and
    refreshes all rows `refreshes` times; "s3" refreshes at every step and perturbs the backward pass too.
    aggregator: "gin", "gcn-floor", "mean-floor", and as published "gcn-min-degree", "gcn-truncated"; floor: their minimum degree.
    layers: 0 is an MLP that reads no edge. decoder: "concat" or "gru". hidden: width of every layer.
    epochs: steps of the optimiser on all training rows; in mode "paper", passes over the training set in batches.
    edge_sampling (s2): each refresh keeps every edge with this probability, in secret.
    fan_out, batch_size, n_train (paper): neighbours sampled a node, roots of a batch, and the public number of training nodes,
    which s3 needs too. keep: the arrays to compute and release.
    """

    mode: str = "sound"
    variant: str = "s1"
    sigma: float = 1.0
    aggregator: str = "gin"
    floor: int = 10
    layers: int = 2
    decoder: str = "concat"
    hidden: int = 16
    epochs: int = 100
    refreshes: int = 4
    edge_sampling: float = 1.0
    fan_out: int = 10
    batch_size: int = 64
    n_train: int = 0
    learning_rate: float = 0.01
    keep: tuple[str, ...] = ARRAYS

    def __post_init__(self) -> None:
        from .decoders import DECODERS
        from .message_passing import PROVED, PUBLISHED

        sound = self.mode == "sound"
        choices = {
            "mode": ("paper", "sound"),
            "variant": ("s1", "s2", "s3"),
            "aggregator": PROVED if sound else (*PUBLISHED, "gcn-floor"),
            "decoder": DECODERS,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r}: must be one of {', '.join(allowed)} in mode {self.mode}.")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma={self.sigma}: must be a finite number of at least 0; 0 means no privacy.")
        if not 0 < self.edge_sampling <= 1:
            raise ValueError(f"edge_sampling={self.edge_sampling}: must be in (0, 1]; 1 keeps every edge.")
        if self.edge_sampling < 1 and not (sound and self.variant == "s2"):
            raise ValueError(f"edge_sampling={self.edge_sampling}: only variant s2 in mode sound samples edges; leave it at 1.")
        if sound and self.variant == "s2" and not 1 <= self.refreshes <= self.epochs:
            raise ValueError(f"refreshes={self.refreshes}: must be in 1 … epochs={self.epochs}.")
        if sound and self.variant == "s3" and self.aggregator == "mean-floor":
            raise ValueError("aggregator='mean-floor': s3 sends gradients through the transposed matrix; use gin or gcn-floor.")
        if (not sound or self.variant == "s3") and self.n_train < 1:
            raise ValueError(f"n_train={self.n_train}: must be the public number of training nodes, at least 1.")
        if self.layers < (0 if sound else 1):
            raise ValueError(f"layers={self.layers}: must be at least {0 if sound else 1}.")
        if self.floor < 1:
            raise ValueError(f"floor={self.floor}: must be at least 1.")

    @property
    def name(self) -> str:
        return "vesper"

    @property
    def unit(self) -> Unit:
        return Unit.UNDIRECTED_EDGE

    @property
    def offers(self) -> tuple[str, ...]:
        """What this variant can release. Sums with coefficients are left out: `aggregates` are plain sums of `inputs`."""
        plain = self.mode == "sound" and self.aggregator == "gin" and self.layers > 0
        return ARRAYS if plain else ("posteriors", "transcript")

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(n for n in self.offers if n in self.keep)

    @property
    def public(self) -> tuple[str, ...]:
        """What the guarantee does not cover, one sentence each."""
        shared = (
            "Features, labels, the node set, the split and the ids of every batch are public.",
            "One undirected edge is the unit; a node's row is computed whether it has edges or not.",
        )
        if self.mode == "sound":
            return shared
        return (
            *shared,
            "The published accounting treats batches as secret; party B draws them and knows their ids.",
            "Party A's weights are trained through the private adjacency without noise, so that no finite bound is known: "
            "the ledger promises nothing, whatever the noise.",
            "Rows released for evaluation are not accounted for.",
        )

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in every coordinate of a row."""
        from .message_passing import sensitivity

        return float(self.sigma * sensitivity(self.aggregator, self.floor))

    @property
    def passes(self) -> int:
        """How many noisy passes party B gets: one, `refreshes`, one a step, or one a batch."""
        if self.mode == "paper":
            return self.epochs * -(-self.n_train // self.batch_size)
        return {"s1": 1, "s2": self.refreshes, "s3": self.epochs}[self.variant]

    @property
    def step(self) -> DpEvent:
        """The event of one pass.

        s3: as many backward sums as forward ones. Sampled edges: whatever the other edges are, the pass with this one is a
        mixture, with weight `edge_sampling`, of a composition of Gaussians that dominates all `layers` at once.
        """
        if self.mode == "paper":
            return events.gaussian(0.0)
        if self.edge_sampling < 1 and self.layers:
            return events.message_passing_secret_edges(self.sigma, self.layers, self.edge_sampling, 1)
        return events.gaussian_hops(float(self.sigma), self.layers * (2 if self.variant == "s3" else 1))

    @property
    def ledger(self) -> DpEvent:
        """What was run. Mode "paper" has none that promises anything: see `public`."""
        return events.repeated(self.step, self.passes)

    def with_noise(self, sigma: float) -> Self:
        return replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        """Theorem 2.1: every batch a secret sample without replacement, by RDP, where no amplification is better without."""
        if self.mode == "sound":
            return None
        from ..accounting.rdp import epsilon

        rate = events.inclusion(self.n_train, min(self.batch_size, self.n_train), self.fan_out, self.layers)
        return epsilon(events.message_passing_as_published(self.sigma, self.layers, rate, self.passes), delta)

    def footprint(self, graph: Graph) -> int:
        """Bytes for one run: rows of every layer, their gradients, the encoder's weights, and what is released of all nodes."""
        row = 4 * graph.nodes * self.hidden
        working = row * (6 * self.layers + 12) + 20 * graph.dim * self.hidden
        messages = self.passes * self.layers if self.mode == "paper" else (self.passes + 1) * (self.layers + 1)
        released = {"posteriors": 8 * graph.nodes * graph.classes, "transcript": 2 * messages * row}
        sums = 2 * self.passes * self.layers * row
        return int(working + sum(released.get(n, sums) for n in self.releases))

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains all runs at once in mode "sound", one after the other in mode "paper", over a channel in this process.

        transcript: (K, messages, w, hidden) float32, what B sees of the watched nodes, in the order sent. Sound: layer 0 …
        layers of every pass (s2, s3), then of the final rows; the rows sent while learning in between are functions of
        the released sums, of layer 0 and of B's own gradients. Paper: layer 1 … layers of every batch, zero
        where the node is no root, then of the evaluation. aggregates, inputs: (K, passes * layers, w, hidden).
        """
        if worlds.graph.directed:
            raise ValueError("a directed graph: VESPER protects undirected edges; load the graph undirected.")
        if self.mode == "sound":
            return self._fit(worlds, device)
        return Release.join([self._fit(worlds[k : k + 1], device) for k in range(worlds.runs)])

    def _fit(self, worlds: Worlds, device: str) -> Release:
        from .channel import Recorder, in_one_process
        from .parties import party_a, party_b, train
        from .refresh import Refresh

        graph = worlds.graph
        own = [[fold(int(s), "party", p) for s in worlds.seeds] for p in ("A", "B")]
        a = party_a(self, graph.x, graph.edges, worlds.edge_present(), own[0], worlds.watch, device=device)
        b = party_b(self, graph.y, graph.classes, worlds.trained(), own[1], device)
        channel = Recorder(in_one_process(a.answer), ("EVAL", "BATCH", "FWD") if self.mode == "paper" else ("EVAL",))
        decoded = {"posteriors", "transcript"} & set(self.releases)
        train(self, b, channel, own[1], worlds.watch, decode=bool(decoded) or self.variant != "s1")
        arrays = {}
        if decoded:
            arrays["posteriors"] = b.posteriors(channel, worlds.watch)
        if "transcript" in self.releases:
            arrays["transcript"] = self._transcript(channel, worlds.watch)
        if isinstance(a.sender, Refresh) and "inputs" in self.releases:
            for i, name in enumerate(("inputs", "aggregates")):
                rows = np.stack([pair[i].cpu().numpy() for pair in a.sender.watched], axis=1)
                arrays[name] = np.ascontiguousarray(rows.swapaxes(2, 3))
        return Release({n: arrays[n] for n in self.releases}, worlds.watch, {"noise_std": self.noise_std})

    def _transcript(self, channel: Recorder, watch: NDArray[np.int64]) -> NDArray[np.float32]:
        """Messages about the watched nodes, rows before dimensions."""
        if self.mode == "sound":
            first = 1 if self.variant == "s1" else 0  # s1 begins with the training rows of the only pass
            rows = np.concatenate([payload for _, payload in channel.seen[first:]], axis=1)
            return np.ascontiguousarray(rows.swapaxes(2, 3))
        *steps, last = channel.seen
        rows = np.zeros((1, self.passes + 1, self.layers, watch.size, self.hidden), dtype=np.float32)
        for step, ((_, roots), (_, sent)) in enumerate(zip(steps[::2], steps[1::2], strict=True)):
            _, at, seen = np.intersect1d(roots, watch, assume_unique=True, return_indices=True)
            rows[:, step, :, seen] = sent[:, :, :, at].transpose(3, 0, 1, 2)
        rows[:, -1] = last[1].swapaxes(2, 3)
        return rows.reshape(1, -1, watch.size, self.hidden)
