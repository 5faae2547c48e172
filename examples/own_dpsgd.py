"""A model of your own that trains by DP-SGD at node level, in NumPy, and declares the capability `ClippedGradients`.

    audit run --model examples/own_dpsgd.py:SoftmaxDpSgd --unit node --attacks none --epsilon 8

The model declares `clip`, the largest norm of one node's gradient, and `inclusion_chance`, the probability that a node joins a
batch. With three functions of `witness` it reports each sample, each sum before noise, and each noisy sum. The audit `gradients`
then plants nodes, decides at random in which rounds they exist, and tests the noisy sums against the ledger.
"""

import dataclasses
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np

from gnnaudit import Release, Unit, witness


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@dataclass(frozen=True)
class SoftmaxDpSgd:
    """Softmax regression on the nodes' own features, without edges. sigma: noise std / clip."""

    sigma: float = 1.0
    batch: float = 20.0  # expected size of a batch
    train_nodes: int = 200  # a public number
    steps: int = 20
    clip: float = 1.0
    learning_rate: float = 0.5
    name = "softmax-dpsgd"
    mode = "sound"
    unit = Unit.NODE
    releases = ("posteriors",)
    public = ("The number of training nodes is public.", "A node's answer is computed from its own features, which it knows.")

    @property
    def inclusion_chance(self):
        return self.batch / self.train_nodes

    @property
    def ledger(self):
        if not self.sigma:
            return dp.NonPrivateDpEvent()
        step = dp.PoissonSampledDpEvent(self.inclusion_chance, dp.GaussianDpEvent(self.sigma))
        return dp.SelfComposedDpEvent(step, self.steps)

    def with_noise(self, sigma):
        return dataclasses.replace(self, sigma=float(sigma))

    def printed(self, delta):
        return None

    def footprint(self, graph):
        return 32 * graph.nodes * (graph.dim + graph.classes)

    def fit(self, worlds, device="cpu"):
        graph, runs = worlds.graph, []
        x = np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, dtype=np.float64)
        for seed, trained in zip(worlds.seeds, worlds.trained(), strict=True):
            weights = self.train(x[trained], graph.y[trained], graph.classes, np.random.default_rng(int(seed)))
            scores = x[worlds.watch] @ weights.T
            runs.append(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        return Release({"posteriors": np.stack(runs).astype(np.float32)}, worlds.watch)

    def train(self, x, y, classes, random):
        weights = np.zeros((classes, x.shape[1]))
        for _ in range(self.steps):
            joined = random.random((1, len(x))) < self.inclusion_chance
            witness.sampled("step", joined)  # an audit may make its own nodes join
            rows = joined[0]
            error = softmax(x[rows] @ weights.T) - np.eye(classes)[y[rows]]
            norms = np.linalg.norm(error, axis=1) * np.linalg.norm(x[rows], axis=1)
            total = (error * np.minimum(1, self.clip / np.maximum(norms, 1e-12))[:, None]).T @ x[rows]
            gradient = total[None]  # the first axis counts runs
            witness.clean("step", gradient)
            gradient += self.sigma * self.clip * random.standard_normal(gradient.shape)
            witness.released("step", gradient, scale=self.sigma * self.clip)
            weights -= self.learning_rate / self.batch * gradient[0]
        return weights
