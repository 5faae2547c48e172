"""LPGNN: users perturb their features and labels, and the server trains a graph network on the noisy reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...accounting.claim import Unit
from ..base import Release
from ..engine.dropout import Dropout
from ..engine.features import clipped
from ..engine.gnn_layers import KINDS, Values, WithMean, glorot, stacked
from ..engine.subnormal import subnormals_are_zero
from ..graph.graph import Graph, Worlds, dense
from ..kernels.compiler import compiled
from ..random.streams import stream
from ..sparse.attention import NUMBERS
from ..sparse.block_diagonal import Operator, features
from ..sparse.normalised_sums import Weighted, Whole
from ..sparse.propagated import Propagated
from . import compiled_training, drop, ldp, training
from .published import bits_best, bits_printed, lpgnn_epsilon

if TYPE_CHECKING:
    from dp_accounting import DpEvent

BACKBONES = ("sage", "gcn", "gat")
HEADS = 4  # attention heads of the first GAT layer, each of width `hidden`
# up to this number of features, propagating the features once costs less than propagating the first layer in every epoch
NARROW = 128
CACHE = 1 << 20  # most bytes of the first layer's output in all runs that train together; more is slower
ENCODERS = ("multi-bit", *ldp.DENSE)


@dataclass(frozen=True)
class Lpgnn:
    """Sajadmanesh & Gatica-Perez, Locally Private Graph Neural Networks, CCS 2021.

    The noise of a local mechanism follows from its budget, so the recipe has budgets in nats instead of a sigma. At budget
    infinity a user sends the true value; at budget 0 the sent value is independent of it. `with_noise(sigma)` sets the sum of
    both budgets to 1 / sigma, of which the share `feature_share` is for the features.

    Every user reports once in a run. The reports depend only on the features, the labels and the run's seed. So another training
    of the same run, with other steps, rates or backbones, reads the same reports and spends no further budget. The released code
    of the paper draws new reports for each training.

    mode "paper": each feature is first scaled by its extremes over all users, constant features are dropped, and the number of
    sampled features is the paper's. mode "sound": `low` and `high` are public, values outside are clipped, and the number of
    sampled features is the integer with the smallest variance.

    Releases posteriors, and the reports of the watched users:
    reports: multi-bit: (K, w, bits, 2) int32, a feature's index and its sign -1 or +1; otherwise (K, w, dim) float32.
    label_reports: (K, w) int64, the label as sent; -1 for users who send none (those outside train and val).

    Raises ValueError for fields out of range.
    """

    feature_budget: float = math.inf
    label_budget: float = math.inf
    feature_share: float = 0.5
    encoder: str = "multi-bit"
    backbone: str = "sage"
    feature_steps: int = 4
    label_steps: int = 4
    forward_correction: bool = True
    hidden: int = 16
    epochs: int = 500
    learning_rate: float = 0.01
    weight_decay: float = 0.001
    dropout: float = 0.5
    low: float = 0.0
    high: float = 1.0
    mode: str = "sound"

    name: ClassVar[str] = "lpgnn"
    unit: ClassVar[Unit] = Unit.FEATURES
    releases: ClassVar[tuple[str, ...]] = ("posteriors", "reports", "label_reports")

    def __post_init__(self) -> None:
        for name, allowed in (("encoder", ENCODERS), ("backbone", BACKBONES), ("mode", ("paper", "sound"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r}: must be one of {', '.join(allowed)}.")
        for name in ("feature_budget", "label_budget"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 0 nats; inf sends the true value.")
        if self.encoder in ("laplace", "gaussian") and self.feature_budget == 0:
            raise ValueError(
                f"feature_budget=0: the {self.encoder} encoder needs more than 0. The encoder multi-bit accepts "
                "0 and sends fair coins."
            )
        if self.epochs < 1:
            raise ValueError(f"epochs={self.epochs}: must be at least 1.")
        if not self.low < self.high:
            raise ValueError(f"low={self.low}: must be below high={self.high}. Give the public range of the features.")

    @property
    def public(self) -> tuple[str, ...]:
        ranges = (
            f"every feature lies in [{self.low:g}, {self.high:g}]"
            if self.mode == "sound"
            else "the smallest and largest value of every feature over all users (the code computes them from private data)"
        )
        return ("the nodes, the edges and the split", ranges)

    @property
    def ledger(self) -> DpEvent:
        """Charges for replacing one user's features and label by other values: a pure epsilon for each, or Gaussian noise for the
        features with the Gaussian encoder.

        The ledger cannot depend on the graph's number of classes. So it charges for a label with two classes, the worst case.
        """
        from ...accounting import events

        if self.encoder == "gaussian" and math.isfinite(self.feature_budget):
            reports = events.gaussian(ldp.gaussian_sigma(self.feature_budget))
        else:
            reports = events.multi_bit(self.feature_budget)
        return events.composed(reports, events.randomised_response(self.label_budget))

    def with_noise(self, sigma: float) -> Self:
        total = 1 / sigma if sigma > 0 else math.inf
        feature, label = (total * share if share else 0.0 for share in (self.feature_share, 1 - self.feature_share))
        return replace(self, feature_budget=float(feature), label_budget=float(label))

    def printed(self, delta: float) -> float | None:
        """The paper's theorem: the sum of the two budgets, for every delta."""
        return lpgnn_epsilon(self.feature_budget, self.label_budget) if self.mode == "paper" else None

    theorem_epsilon = coded_epsilon = printed

    def channels(self, dim: int, classes: int) -> tuple[tuple[NDArray[np.float64], int], ...]:
        """The finite channels of one report of the multi-bit encoder, computed with the functions that draw the report.

        Each channel is (inputs, outputs) probabilities, with the number of independent copies in a report. The first channel is
        that of the sampled features. Its inputs are both ends of their range, and two values outside the range. The second
        channel is that of the label. Empty if features or label are sent without noise, or if the encoder is another one.
        """
        if self.encoder != "multi-bit" or math.isinf(self.feature_budget + self.label_budget):
            return ()
        bits, wide = self._bits(dim), self.high - self.low
        ends = np.array([self.low, self.high, self.low - wide, self.high + wide], dtype=np.float32)
        one = ldp.one_probability(ends, self.feature_budget / bits, self.low, self.high)
        keep = ldp.keep_probability(self.label_budget, classes)
        labels = np.full((classes, classes), (1 - keep) / max(classes - 1, 1))
        np.fill_diagonal(labels, keep)
        return (np.stack([1 - one, one], axis=1), bits), (labels, 1)

    def ends(self, graph: Graph) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The lowest and the highest value of every feature, (dim,) each: the public range, or in mode "paper" the extremes over
        all users.
        """
        if self.mode == "sound":
            return np.full(graph.dim, self.low), np.full(graph.dim, self.high)
        low, high = (dense(v).ravel() for v in (graph.x.min(0), graph.x.max(0)))
        return low, high

    def footprint(self, graph: Graph) -> int:
        """An estimate: bytes of twelve arrays of the first layer's width, dense reports if the encoder sends them, narrow
        features after propagation, and for a directed graph the lists of reversed arcs.
        """
        width = 2 * self.hidden if self.backbone != "gat" else 8 * self.hidden
        dense = 0 if self.encoder == "multi-bit" and math.isfinite(self.feature_budget) else 4 * graph.nodes * graph.dim
        if math.isinf(self.feature_budget) and sp.issparse(graph.x):
            dense = 16 * graph.x.nnz
        attention = 48 * NUMBERS if self.backbone == "gat" else 0  # memory for a dozen arrays of one block of arcs
        lists = 4 * graph.arc_count if graph.directed else 0
        whole = 16 * graph.nodes * graph.dim if graph.dim <= NARROW else 0
        return whole + lists + 4 * graph.nodes * (12 * width + 8 * graph.classes) + 2 * dense + attention + 16 * graph.dim * width

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        width = 2 * self.hidden if self.backbone != "gat" else HEADS * self.hidden
        together = max(1, CACHE // (4 * width * max(1, worlds.graph.nodes)))
        step = 1 if compiled_training.expressible(self.backbone, device) else together
        return Release.join([self._release(worlds[first : first + step], device) for first in range(0, len(worlds), step)])

    def _release(self, worlds: Worlds, device: str) -> Release:
        stored, offset, reports = self._received(worlds, device)
        labels, sent = self._labels(worlds)
        with subnormals_are_zero():
            posteriors = self._train(worlds, stored, offset, labels, device)
        arrays = {"posteriors": posteriors, "reports": reports, "label_reports": np.where(sent, labels, -1)[:, worlds.watch]}
        return Release(arrays, worlds.watch, {"feature_budget": self.feature_budget, "label_budget": self.label_budget})

    def _received(self, worlds: Worlds, device: str) -> tuple[Operator | Tensor, float, NDArray[Any]]:
        """The server's estimate of the features of all runs, the number to add to every entry of it, and the reports of the
        watched users.
        """
        x, low, high = worlds.graph.x, self.low, self.high
        if self.mode == "paper":
            x, low, high = ldp.scaled(x), 0.0, 1.0
        (nodes, dim), watch, offset = x.shape, worlds.watch, 0.0
        stored: Operator | Tensor
        if math.isinf(self.feature_budget):
            x = clipped(x, low, high)
            stored = features(x, [np.arange(nodes)] * len(worlds), device)
            reports = np.repeat(dense(x[watch])[None], len(worlds), axis=0)
        elif self.encoder == "multi-bit":
            bits = self._bits(dim)
            sent = [ldp.multi_bit(x, self.feature_budget, bits, low, high, stream(s, "reports")) for s in worlds.seeds]
            reports = np.stack([np.stack([index[watch], sign[watch]], axis=2) for index, sign in sent])
            parts = [ldp.rectify(index, sign, self.feature_budget, dim, low, high) for index, sign in sent]
            stored, offset = Operator.of(sp.csr_array(sp.block_diag(parts, format="csr")), device), (low + high) / 2
        else:
            encode = ldp.DENSE[self.encoder]
            noisy = np.stack([encode(x, self.feature_budget, low, high, stream(s, "reports")) for s in worlds.seeds])
            stored, reports = torch.from_numpy(noisy).to(device), noisy[:, watch]
        return stored, offset, reports

    def _bits(self, dim: int) -> int:
        if not self.feature_budget:
            return 1
        return (bits_best if self.mode == "sound" else bits_printed)(self.feature_budget, dim)

    def _labels(self, worlds: Worlds) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(K, nodes) int64, the randomised labels, and (K, nodes) bool, which users send their label: the trained and the
        validation nodes.
        """
        graph = worlds.graph
        sent = worlds.trained() | graph.val
        if math.isinf(self.label_budget):
            return np.repeat(graph.y[None], len(worlds), axis=0), sent
        randoms = [stream(s, "labels") for s in worlds.seeds]
        return np.stack([ldp.randomise_labels(graph.y, self.label_budget, graph.classes, r) for r in randoms]), sent

    def _train(
        self, worlds: Worlds, stored: Operator | Tensor, offset: float, labels: NDArray[np.int64], device: str
    ) -> NDArray[np.float32]:
        """Trains on the labels that users sent (see drop.py), and returns the log-posteriors of the chosen epoch, (K, w,
        classes).
        """
        graph, classes = worlds.graph, worlds.graph.classes
        blocks = Whole.of(worlds, device)
        hop = blocks.normalised
        x: Any = Propagated(len(worlds), stored, hop, self.feature_steps, offset)  # has the interface of an Operator
        trained = torch.from_numpy(worlds.trained()).to(device)
        val = torch.from_numpy(np.repeat(graph.val[None], len(worlds), axis=0)).to(device)
        y = torch.from_numpy(labels).to(device)
        target = self._targets(y, trained | val, hop, classes)
        dim = stored.shape[2] if isinstance(stored, Tensor) else stored.matrix.shape[1] // len(worlds)
        first, second = self._start(worlds, dim, classes, device)
        if dim <= NARROW:  # the sum over neighbours is computed once, and not in every epoch
            x = x @ torch.eye(dim, device=device).expand(len(worlds), dim, dim)
            x = WithMean.of(x, blocks) if self.backbone == "sage" else x
        dropout = Dropout.of(self.dropout, worlds.seeds, [blocks.size] * len(worlds), "dropout", device)
        keep = ldp.keep_probability(self.label_budget, classes)
        choice = drop.Choice(100 * keep, torch.empty(len(worlds), worlds.watch.size, classes, device=device))
        watch = torch.from_numpy(worlds.watch).to(device)
        corrected = keep if self.forward_correction else 1.0
        how = (self.label_steps, watch, self.epochs, self.learning_rate, self.weight_decay)
        task = training.Task(self.backbone, blocks, hop, y, target, trained, val, corrected, *how)
        expressible = compiled_training.expressible(self.backbone, device)
        if not expressible:
            why = "on an accelerator" if device != "cpu" else "no compiled loop has it"
            compiled.in_torch(f"backbone {self.backbone}: {why}")
        train = compiled_training.train if expressible else training.train
        train(task, x, first, second, dropout, choice)
        return choice.best.cpu().numpy()

    def _start(self, worlds: Worlds, dim: int, classes: int, device: str) -> tuple[Values, Values]:
        """The initial parameters of the first and of the second layer, (K, …) each."""
        start, wide = KINDS[self.backbone].start, self.hidden * (HEADS if self.backbone == "gat" else 1)
        firsts, seconds = [], []
        for random in (stream(s, "start") for s in worlds.seeds):
            first = start(random, dim, wide, False)
            if self.backbone == "gat":
                first |= {side: glorot(random, HEADS, self.hidden) for side in ("to", "from")}
            firsts.append(first)
            seconds.append(start(random, wide, classes, True))
        return stacked(firsts, device), stacked(seconds, device)

    def _targets(self, y: Tensor, sent: Tensor, hop: Weighted, classes: int) -> Tensor:
        """(K, nodes) int64: the labels to learn, after propagation. If propagation carries no label to a node, the node learns
        class 0 in mode "paper", and the label that it sent in mode "sound".
        """
        if not self.label_steps:
            return y
        favoured, reached = drop.targets(y, sent, hop, self.label_steps, classes)
        return favoured if self.mode == "paper" else torch.where(reached, favoured, y)
