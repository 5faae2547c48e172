"""The recipe of VESPER: its fields, what it sends, and what its ledger charges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from ...accounting.claim import Unit

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from ..graph.graph import Graph

ARRAYS = ("posteriors", "aggregates", "inputs", "transcript")
VARIANTS = {"sound": ("s1", "s2", "s3", "gap-resampled"), "paper": ("pmp", "gap-resampled")}


@dataclass(frozen=True)
class VesperRecipe:
    """VESPER and a baseline (Wu et al. 2023). sigma: noise std / sensitivity of one noisy layer to one undirected edge; 0 means
    no privacy.

    variant, in mode "sound": "s1" (the default) trains the encoder without edges and releases the noisy sums of every layer once;
    "s2" adds noise before it multiplies by the weights, and makes `refreshes` noisy passes; "s3" makes a noisy pass at every step
    and perturbs the backward pass too.
    variant, in mode "paper": "pmp" (the default).
    variant, in both modes: "gap-resampled", the "corrected GAP" that the paper compares with: sums without weights over sampled
    neighbourhoods, with new noise for every batch, whereas GAP adds noise to each hop once. Its encoder is trained without edges.
    aggregator: "gin", "gcn-floor", "mean-floor", and as published "gcn-min-degree", "gcn-truncated". floor: their minimum degree.
    layers: 0 gives an MLP that reads no edges. decoder: "concat" or "gru". hidden: width of every layer.
    epochs: steps of the optimiser on all training rows, 100 by default; for variants that train in batches, the number of passes
    over the training set, 10 by default.
    edge_sampling (s2): the probability with which each noisy pass keeps every edge, in secret.
    fan_out, batch_size (for variants that train in batches): the number of neighbours sampled for each node, and the number of
    nodes in a batch. n_train: the public number of training nodes, for variants that train in batches and for s3. keep: the
    arrays to compute and release.

    Raises ValueError for fields out of range.
    """

    mode: str = "sound"
    variant: str = ""
    sigma: float = 1.0
    aggregator: str = "gin"
    floor: int = 10
    layers: int = 2
    decoder: str = "concat"
    hidden: int = 16
    epochs: int = 0
    refreshes: int = 4
    edge_sampling: float = 1.0
    fan_out: int = 10
    batch_size: int = 64
    n_train: int = 0
    learning_rate: float = 0.01
    keep: tuple[str, ...] = ("posteriors",)

    unit: ClassVar[Unit] = Unit.UNDIRECTED_EDGE

    def __post_init__(self) -> None:
        from .aggregators import PROVED, PUBLISHED
        from .networks import DECODERS

        if self.mode not in VARIANTS:
            raise ValueError(f"mode={self.mode!r}: must be paper (as published) or sound (as proved).")
        object.__setattr__(self, "variant", self.variant or VARIANTS[self.mode][0])
        object.__setattr__(self, "epochs", self.epochs or (10 if self.batched else 100))
        rules = ("gin",) if self.variant == "gap-resampled" else PROVED
        choices = {
            "variant": VARIANTS[self.mode],
            "aggregator": (*PUBLISHED, "gcn-floor") if self.variant == "pmp" else rules,
            "decoder": DECODERS,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                where = f"in mode {self.mode}" if name == "variant" else f"in variant {self.variant}"
                raise ValueError(f"{name}={getattr(self, name)!r}: must be one of {', '.join(allowed)} {where}.")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma={self.sigma}: must be a finite number of at least 0; 0 means no privacy.")
        if not 0 < self.edge_sampling <= 1:
            raise ValueError(f"edge_sampling={self.edge_sampling}: must be in (0, 1]; 1 keeps every edge.")
        if self.edge_sampling < 1 and self.variant != "s2":
            raise ValueError(f"edge_sampling={self.edge_sampling}: only variant s2 samples edges in secret; leave it at 1.")
        if self.variant == "s2" and not 1 <= self.refreshes <= self.epochs:
            raise ValueError(f"refreshes={self.refreshes}: must be in 1 … epochs={self.epochs}.")
        if self.variant == "s3" and self.aggregator == "mean-floor":
            raise ValueError("aggregator='mean-floor': s3 sends gradients through the transposed matrix; use gin or gcn-floor.")
        least = dict.fromkeys(("floor", "hidden", "epochs", "fan_out", "batch_size"), 1)
        least |= {"n_train": int(self.batched or self.variant == "s3"), "layers": int(self.batched)}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {bound} in variant {self.variant}.")

    @property
    def name(self) -> str:
        return self.variant if self.variant == "gap-resampled" else "vesper"

    @property
    def batched(self) -> bool:
        """Whether the variant trains in batches, each with its own noisy pass. Such a variant trains one run at a time."""
        return self.variant in ("pmp", "gap-resampled")

    @property
    def offers(self) -> tuple[str, ...]:
        """The arrays that this variant can release. "aggregates" must be plain sums of "inputs", so sums with coefficients are
        left out.
        """
        plain = not self.batched and self.aggregator == "gin" and self.layers > 0
        return ARRAYS if plain else ("posteriors", "transcript")

    @property
    def noisy_messages(self) -> bool:
        """Whether every message is a plain sum over neighbours with noise, scaled to length one."""
        return not self.declines

    @property
    def declines(self) -> Mapping[str, str]:
        """The capabilities that the recipe's attributes suggest but that the recipe lacks, each with the reason."""
        if self.batched:
            reason = "party A's weights, which its messages go through, are trained on the private edges without noise"
        elif self.variant != "s1":
            reason = f"in variant {self.variant} messages go through weights of party A; their noisy sums are in the game on sums"
        elif self.aggregator != "gin":
            reason = f"{self.aggregator} divides by degrees, which an edge changes too"
        else:
            return {}
        return {"NoisyMessages": reason}

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(n for n in self.offers if n in self.keep)

    @property
    def public(self) -> tuple[str, ...]:
        """What the recipe assumes to be public, and what the guarantee does not cover, one sentence each."""
        sentences: tuple[str, ...] = (
            "Features, labels, the node set, the split and the ids of every batch are public.",
            "One undirected edge is the unit; a node's row is computed whether it has edges or not.",
        )
        if self.variant == "pmp":
            sentences += (
                "Party A's weights are trained through the private adjacency without noise, so no finite bound is known: the "
                "ledger promises nothing at any noise level.",
            )
        if self.variant == "gap-resampled":
            sentences += ("The ledger assumes that party B draws its batches at random, and not by what it has received.",)
        if self.mode == "paper":
            sentences += (
                "The published accounting assumes that batches are secret, although party B draws them and knows their ids.",
                "The published accounting leaves out the rows released for evaluation.",
            )
        return sentences

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on every entry of a noisy layer."""
        from .aggregators import sensitivity

        return float(self.sigma * sensitivity(self.aggregator, self.floor))

    @property
    def passes(self) -> int:
        """The number of noisy passes during training. s1: one. s2: `refreshes`. s3: one for each step. Variants that train in
        batches: one for each batch.
        """
        if self.batched:
            return self.epochs * -(-self.n_train // self.batch_size)
        return {"s1": 1, "s2": self.refreshes, "s3": self.epochs}[self.variant]

    @property
    def rate(self) -> float:
        """The probability that an edge is in the sampled neighbourhood of a batch."""
        from ...accounting import events  # not at the top: training needs no ledger, and dp_accounting takes a second to import

        return events.inclusion(self.n_train, min(self.batch_size, self.n_train), self.fan_out, self.layers)

    @property
    def answers(self) -> dict[str, int]:
        """For each request of party B that costs privacy, how many answers B gets."""
        evaluation = {"EVAL_REQ": 1} if self.variant == "gap-resampled" else {}
        return {"BATCH" if self.batched else "REFRESH": self.passes} | evaluation

    @property
    def prices(self) -> dict[str, tuple[DpEvent, int]]:
        """The event of one answer to each request in `answers`, and the number of answers.

        s3: there are as many backward sums as forward sums. With sampled edges, the secret edge is in a pass with probability
        `edge_sampling`. For every choice of the other edges, the pass is then a mixture with this weight, and a sampled
        composition of `layers` Gaussians dominates this mixture. gap-resampled: party B knows the batches. The noise multiplier
        is halved: at a node with more than fan_out neighbours, the secret edge replaces another edge in the sample, so that two
        rows change by 2 each. The evaluation is one more pass.
        """
        from ...accounting import events

        if self.variant == "pmp":
            price = {"BATCH": events.gaussian(0.0)}
        elif self.variant == "gap-resampled":
            batch = events.message_passing_seen(self.sigma / 2, self.layers, self.rate, 1)
            price = {"BATCH": batch, "EVAL_REQ": events.message_passing(self.sigma / 2, self.layers)}
        elif self.edge_sampling < 1 and self.layers:
            price = {"REFRESH": events.message_passing_secret_edges(self.sigma, self.layers, self.edge_sampling, 1)}
        else:
            price = {"REFRESH": events.gaussian_hops(float(self.sigma), self.layers * (2 if self.variant == "s3" else 1))}
        return {kind: (event, self.answers[kind]) for kind, event in price.items()}

    @property
    def ledger(self) -> DpEvent:
        """All answers that `prices` allows, composed. For pmp the ledger has no finite epsilon: see `public`."""
        from ...accounting import events

        return events.composed(*(events.repeated(event, count) for event, count in self.prices.values()))

    def with_noise(self, sigma: float) -> Self:
        return replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        """The epsilon of theorem 2.1, by RDP; None in mode "sound". The theorem treats every batch as a secret sample without
        replacement. At orders where the bound without amplification is smaller, that bound is used.
        """
        if self.mode == "sound":
            return None
        from .published import vesper_epsilon

        if not self.sigma:
            return math.inf
        return vesper_epsilon(self.sigma, self.layers, self.rate, self.passes, delta)

    def theorem_epsilon(self, delta: float) -> float | None:
        """The epsilon of theorem 2.1 for "pmp"; None for other variants, for which the paper states no theorem."""
        return self.printed(delta) if self.variant == "pmp" else None

    def footprint(self, graph: Graph) -> int:
        """Bytes of the rows of every layer, their gradients, the encoder's weights, and the released arrays of all nodes."""
        row = 4 * graph.nodes * self.hidden
        working = row * (6 * self.layers + 12) + 20 * graph.dim * self.hidden
        messages = (self.passes + 1) * (self.layers + 1)
        released = {"posteriors": 8 * graph.nodes * graph.classes, "transcript": 2 * messages * row}
        sums = 2 * self.passes * self.layers * row
        return int(working + sum(released.get(n, sums) for n in self.releases))
