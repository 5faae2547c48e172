"""DPAR: noisy PageRank rows choose lists of nodes, and DP-SGD trains a network whose outputs are averaged over each list."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from ..base import Release
from ..engine.features import limited
from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from .list_dpsgd import How, Trainer
from .neighbour_selection import draw
from .pagerank import among, smoothed
from .recipe import DparRecipe

WEIGHT_DECAY = 1e-4  # the value of the released code
TOGETHER = 1 << 22  # about how many bytes the hidden activations of all runs that train together take


@dataclass(frozen=True)
class Dpar(DparRecipe):
    """`DparRecipe` with `fit`, which trains many worlds at once."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        rows = int((~(worlds.graph.val | worlds.graph.test)).sum())
        few = max(1, TOGETHER // (4 * self.hidden * max(1, rows))) if self.mode == "sound" else 1
        parts = [worlds[i : i + few] for i in range(0, len(worlds), few)]
        return Release.join([self._fit(part, device) for part in parts])

    def _fit(self, worlds: Worlds, device: str) -> Release:
        """Trains some runs; in mode "paper" a single run, because each run samples other rows."""
        graph, present, trained = worlds.graph, worlds.edge_present(), worlds.trained()
        drawn = [draw(self, graph, graph.edges[:, present[k]], trained[k], s) for k, s in enumerate(worlds.seeds)]
        expected = self.rate * len(drawn[0][0].nodes) if self.mode == "sound" else float(self.batch)
        clip = self.clip if self.sigma else math.inf  # without noise, clipping serves no purpose
        how = How(self.noise_std, clip, max(1.0, expected), self.hidden, self.dropout, self.learning_rate)
        if self.mode == "paper":  # the released code applies weight decay when it adds no noise
            how = replace(how, input_dropout=self.dropout, weight_decay=0.0 if self.sigma else WEIGHT_DECAY)
        trainer = Trainer(graph, [own for own, _, _ in drawn], worlds.seeds, how, device)
        arrays: dict[str, NDArray[np.generic]] = {}
        noises = [stream(0 if self.fixed_noise else s, "gradients") for s in worlds.seeds]
        kept = []
        for batch in self._batches(worlds.seeds, len(drawn[0][0].nodes)):
            noisy = trainer.step(batch, noises)
            if "gradients" in self.keep:
                kept.append(noisy.cpu().numpy())
        first, second = (w.cpu().numpy() for w in (trainer.first, trainer.second))
        if "gradients" in self.keep:
            arrays["gradients"] = np.stack(kept, axis=1)
        if "rows" in self.keep:
            arrays["rows"] = np.stack([rows for _, rows, _ in drawn])
            arrays["sources"] = np.stack([ids for _, _, ids in drawn])
        if "posteriors" in self.keep:
            answers = [self._answers(graph, graph.edges[:, p], w, v) for p, w, v in zip(present, first, second, strict=True)]
            arrays["posteriors"] = np.stack([a[worlds.watch] for a in answers])
        return Release(arrays, worlds.watch, {"noise_std": self.noise_std, "sigma": self.sigma})

    def _batches(self, seeds: NDArray[np.uint64], rows: int) -> list[NDArray[np.bool_]]:
        """For each step, (K, rows) bool: which rows are in the batch."""
        if self.mode == "sound":
            if not self.batch:
                return [np.ones((len(seeds), rows), dtype=bool)] * self.steps
            coins = [stream(s, "batches") for s in seeds]
            return [np.stack([c.random(rows) < self.rate for c in coins]) for _ in range(self.steps)]
        orders = [stream(s, "batches").permutation(rows) for s in seeds]
        size = min(self.batch, rows)
        cuts = [min(first, rows - size) for first in range(0, rows, size)] if size else []
        each = np.zeros((len(cuts), len(seeds), rows), dtype=bool)
        for k, order in enumerate(orders):
            for b, first in enumerate(cuts):
                each[b, k, order[first : first + size]] = True
        return list(each) * self.epochs

    def _answers(
        self, graph: Graph, edges: NDArray[np.int64], first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """(nodes, classes) log-posteriors: each node's own prediction, smoothed by PageRank over the edges among validation and
        test nodes.
        """
        walk = among(edges, graph.val | graph.test, self.symmetric(graph))
        scores = smoothed(np.maximum(limited(graph.x) @ first, 0) @ second, walk, self.teleport, self.smoothing)
        return log_softmax(scores, axis=1).astype(np.float32)
