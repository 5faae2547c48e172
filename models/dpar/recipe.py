"""The recipe of DPAR: its fields, and what its ledger charges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import scipy.sparse as sp

from ...accounting.claim import Unit

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ..graph.graph import Graph

KEPT = ("posteriors", "rows", "gradients")


@dataclass(frozen=True)
class DparRecipe:
    """Zhang et al., DPAR: Decoupled Graph Neural Networks with Node-Level Differential Privacy, WWW 2024.

    The pool is every node outside val and test. `sources` nodes of the pool, drawn independently of the data, get a noisy
    PageRank list of `picks` nodes; all others list only themselves. DP-SGD trains a two-layer perceptron without biases on the
    lists. The prediction for a pool node reads its features alone. The adversary is assumed to own the val and test nodes, and
    their predictions are smoothed over the edges among them.

    sigma: noise std of DP-SGD / sensitivity of one step. source_sigma: the noise of the lists divided by sigma, so that
    `with_noise` scales both. The noise of the lists is the Gaussian std / sensitivity of a row, or, for mechanism "gumbel", 1 /
    epsilon of one pick. values: with "gumbel", whether to release the entries of the picks too, at the same epsilon as the picks.

    mode "sound": arcs count in both directions, unless both_ways is False. The rows of a source in neighbouring graphs differ by
    at most sqrt(2) source_clip in L2 norm. A node is in at most `cap` rows, and a row that lists an absent node is empty, so the
    sums of a step differ by at most cap * clip (see `seated`). Each row joins a batch independently with probability batch /
    train_nodes; if batch is 0, every row joins every batch. Nodes are sampled independently, with probability node_rate. The
    ledger composes all mechanisms and then amplifies once. It is public that a source lists itself, so its own entry is neither
    clipped nor released.

    mode "paper", as in the released code: arcs count as they are stored. The sensitivities are source_clip and clip. The node
    sample has a fixed size. The rows are divided into batches once, for all epochs, and the last batch overlaps the one before.
    Dropout acts on the features too. Without noise, the weights of the first layer decay by 1e-4. fixed_noise: whether the noise
    of DP-SGD comes from a public seed.

    Releases posteriors, and if `keep` names them:
    rows: (K, sources, nodes) float32: noisy PageRank rows, or for "gumbel" the weights of the picks; 0 for nodes that cannot be
        listed. "rows" also releases sources: (K, sources) int64, the node of each row, -1 for none.
    gradients: (K, steps, parameters) float32: the noisy sums of clipped gradients, first layer first.

    Raises ValueError for fields out of range.
    """

    sigma: float = 0.0
    source_sigma: float = 1.0
    mechanism: str = "gaussian"
    sources: int = 70
    picks: int = 4
    source_clip: float = 0.01
    values: bool = False
    cap: int = 1
    clip: float = 1.0
    node_rate: float = 1.0
    batch: int = 0
    train_nodes: int = 0
    epochs: int = 100
    learning_rate: float = 0.005
    hidden: int = 32
    dropout: float = 0.1
    teleport: float = 0.25
    threshold: float = 1e-4
    smoothing: int = 2
    both_ways: bool = True
    fixed_noise: bool = False
    keep: tuple[str, ...] = ("posteriors",)
    mode: str = "sound"

    name: ClassVar[str] = "dpar"
    unit: ClassVar[Unit] = Unit.NODE

    def __post_init__(self) -> None:
        if self.mode not in ("paper", "sound"):
            raise ValueError(f"mode={self.mode!r}: must be 'paper' or 'sound'.")
        if self.mechanism not in ("gaussian", "gumbel"):
            raise ValueError(f"mechanism={self.mechanism!r}: must be 'gaussian' or 'gumbel'.")
        if not self.keep or set(self.keep) - set(KEPT):
            raise ValueError(f"keep={self.keep}: must name some of {', '.join(KEPT)}.")
        if not (math.isfinite(self.sigma) and self.sigma >= 0 and self.source_sigma > 0):
            numbers = f"sigma={self.sigma}, source_sigma={self.source_sigma}"
            raise ValueError(f"{numbers}: sigma must be at least 0, source_sigma above 0, and sigma finite.")
        if self.sources < 0 or self.picks < 1 or self.cap < 1:
            numbers = f"sources={self.sources}, picks={self.picks}, cap={self.cap}"
            raise ValueError(f"{numbers}: sources must be at least 0, picks and cap at least 1.")
        if not 0 < self.node_rate <= 1:
            raise ValueError(f"node_rate={self.node_rate}: must be in (0, 1]; 1 keeps all nodes.")
        if self.mode == "paper" and self.batch < 1:
            raise ValueError(f"batch={self.batch}: must be at least 1 in mode 'paper'; the released code takes 60.")
        if self.mode == "sound" and self.batch and not self.batch <= self.train_nodes:
            raise ValueError(
                f"train_nodes={self.train_nodes}: the public number of training nodes must be at least batch={self.batch}. "
                "Set train_nodes, or batch=0 for all rows in every step."
            )
        if self.fixed_noise and self.mode == "sound":
            raise ValueError("fixed_noise=True: only mode 'paper' adds noise from a public seed, which anyone can subtract.")

    @property
    def gaussian_rows(self) -> int:
        """The number of PageRank rows that are released with Gaussian noise."""
        return self.sources if self.mechanism == "gaussian" else 0

    @property
    def declines(self) -> Mapping[str, str]:
        """The capabilities that the recipe's attributes suggest but that the recipe lacks, each with the reason."""
        if self.mode == "paper":
            reason = "its node sample has a fixed size: when a node leaves, another takes its place"
            return dict.fromkeys(("ClippedGradients", "NoisyRows", "RepeatsWithoutNode"), reason)
        if self.node_rate < 1:
            return {
                "ClippedGradients": "when a node leaves its sample another becomes a source, and each gradient depends on "
                "several nodes",
                "NoisyRows": "its node sample is secret: a node that is not drawn changes nothing",
            }
        return {}

    @property
    def releases(self) -> tuple[str, ...]:
        return (*self.keep, "sources") if "rows" in self.keep else self.keep

    @property
    def public(self) -> tuple[str, ...]:
        sampled = ("which nodes were sampled, because the PageRank rows show it",) if self.mode == "paper" else ()
        return (
            "the node ids and the split; a node comes and goes with its features, label and edges",
            "val and test nodes with their features, labels and edges",
            *sampled,
        )

    @property
    def rate(self) -> float:
        """The probability that a row joins a batch, in mode "sound"."""
        return self.batch / self.train_nodes if self.batch else 1.0

    inclusion_chance = rate

    @property
    def steps(self) -> int:
        """The number of steps in mode "sound". In mode "paper" the number of steps depends on the size of the node sample."""
        return self.epochs * (self.train_nodes // self.batch if self.batch else 1)

    @property
    def noise_std(self) -> float:
        """The std of the noise on every entry of a sum of clipped gradients."""
        rows = self.cap if self.mode == "sound" and self.sources else 1
        return self.sigma * rows * self.clip

    @property
    def row_noise(self) -> float:
        """Noise scale of the lists / their sensitivity."""
        return self.sigma * self.source_sigma

    @property
    def ledger(self) -> DpEvent:
        """Charges for adding or removing a node with its features, label and edges.

        mode "paper": the true cost of the mechanisms of the code, which differs from the epsilon that the code prints. A node may
        be in all lists. Each epoch visits every row once, and some rows of the last batch twice. The sample has a fixed size, so
        when a node leaves, another node takes its place. The other node changes as many rows again, but the distance between two
        clipped PageRank rows does not grow. The adversary is assumed to know which nodes were sampled (see `public`), so sampling
        does not amplify privacy.
        """
        from ...accounting import events

        if self.mode == "sound":
            lists = self._lists_event(self.row_noise)
            training = events.dp_sgd(self.sigma, self.rate, self.steps)
            # the gradient of each further row is charged as if it changed by two clipping norms
            if self.sources and self.cap > 1 and self.rate < 1:
                training = events.dp_sgd_capped(self.sigma * self.cap / (2 * self.cap - 1), self.rate, self.cap - 1, self.steps)
            return events.on_sampled_nodes(self.node_rate, lists, training)
        lists = self._lists_event(self.row_noise / (math.sqrt(2) if self.mechanism == "gaussian" else 1))
        changed = (1 + 2 * self.sources) * (2 if self.node_rate < 1 else 1)
        sigma = 0.0 if self.fixed_noise else self.sigma / changed
        return events.composed(lists, events.dp_sgd_fixed(sigma, self.epochs, visits=2))

    def _lists_event(self, noise: float) -> DpEvent:
        from ...accounting import events

        if not self.sources:
            return events.composed()
        if self.mechanism == "gaussian" or not noise:
            # noise std / (sqrt(2) C): two non-negative vectors of norm at most C are at most sqrt(2) C apart
            return events.gaussian_hops(noise, self.sources)
        epsilon = 1 / noise
        return events.page_rank_exponential(epsilon, self.picks, self.sources, self.picks * epsilon if self.values else 0.0)

    def with_noise(self, sigma: float) -> Self:
        return replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        """The sum of the two figures that the code prints. delta is divided between them in the ratio of the code's constants (2
        q M 1e-4 and 1e-3).

        None in mode "sound", and if there is no noise or train_nodes is 0. Raises ValueError if the sample is smaller than a
        batch.
        """
        if self.mode == "sound" or not self.sigma or not self.train_nodes:
            return None
        return sum(epsilon for epsilon, _ in self.printed_parts(delta))

    coded_epsilon = printed  # the paper prints the epsilon that its code computes

    def printed_parts(self, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """(epsilon, delta) of the lists and of DP-SGD as the code prints them in mode "paper"."""
        from . import published as code

        rate, sampled = self.node_rate, math.ceil(self.node_rate * self.train_nodes)
        if sampled < self.batch:
            raise ValueError(f"batch={self.batch}: must be at most the {sampled} nodes that are sampled; set batch or node_rate.")
        share = delta / (2 * rate * self.sources * 1e-4 + 1e-3)
        training = code.dp_sgd_printed(self.sigma, sampled, self.batch, self.epochs, rate, 1e-3 * share)
        if not self.sources:
            return (0.0, 0.0), (training, 1e-3 * share)
        if self.mechanism == "gaussian":
            row = code.gaussian_row_epsilon(self.row_noise * self.source_clip, self.source_clip, 1e-4 * share)
        else:
            row = code.exponential_row_epsilon(1 / self.row_noise, self.picks, 1e-4 * share, -1 if self.values else 0)
        return code.page_rank_printed(row, self.sources, 1e-4 * share, rate), (training, 1e-3 * share)

    def footprint(self, graph: Graph) -> int:
        """Bytes of the hidden activations of all entries, the weights with their gradients and noise, and the released arrays."""
        rows = graph.nodes
        steps = self.steps if self.mode == "sound" else self.epochs * (rows // self.batch + 1)
        weights = (graph.dim + graph.classes) * self.hidden
        features = 12 * graph.x.nnz if sp.issparse(graph.x) else 4 * graph.x.size
        kept = ("rows" in self.keep) * self.sources * graph.nodes + ("gradients" in self.keep) * steps * weights
        return int(4 * (rows * self.hidden * (6 + 3 * self.picks) + 8 * weights + kept) + features)

    def symmetric(self, graph: Graph) -> bool:
        """Whether PageRank uses every arc in both directions."""
        return not graph.directed or (self.mode == "sound" and self.both_ways)
