"""A complete model in one file: each node gets noisy counts of its neighbours in each class.

audit contract examples/own_model.py:Votes
audit run --model examples/own_model.py:Votes --epsilon 1,8
"""

from dataclasses import dataclass, replace

import dp_accounting as dp
import numpy as np

from gnnaudit import Release, Unit, normal


@dataclass(frozen=True)
class Votes:
    """Counts training neighbours by class and adds Gaussian noise. An edge changes two counts by 1, so sensitivity is sqrt(2)."""

    sigma: float = 1.0  # noise std / sensitivity
    keep: tuple[str, ...] = ("posteriors",)

    name = "votes"
    mode = "sound"
    unit = Unit.UNDIRECTED_EDGE
    offers = ("posteriors", "aggregates", "inputs")
    public = ("features, labels, the node set and the split",)

    @property
    def releases(self):
        return self.keep

    @property
    def ledger(self):
        return dp.GaussianDpEvent(float(self.sigma)) if self.sigma else dp.NonPrivateDpEvent()

    def with_noise(self, sigma):
        return replace(self, sigma=float(sigma))

    def printed(self, delta):
        return None

    def footprint(self, graph):
        return 32 * graph.nodes * graph.classes

    def fit(self, worlds, device="cpu"):
        graph, std = worlds.graph, 2**0.5 * self.sigma
        inputs = np.eye(graph.classes)[graph.y] * worlds.trained()[..., None]  # (K, nodes, classes), rows of length 1 or 0
        present = worlds.edge_present()
        clean = np.stack([replace(graph, edges=graph.edges[:, p]).adjacency() @ x for p, x in zip(present, inputs, strict=True)])
        noisy = clean + std * normal(worlds.seeds, (graph.nodes, graph.classes), "votes")
        logs = noisy - np.logaddexp.reduce(noisy, axis=-1, keepdims=True)
        everything = {"posteriors": logs, "aggregates": noisy[:, None], "inputs": inputs[:, None]}
        watched = {name: np.take(everything[name], worlds.watch, axis=-2).astype(np.float32) for name in self.keep}
        return Release(watched, worlds.watch, {"noise_std": std})
