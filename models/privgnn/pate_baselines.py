"""The other baselines of PrivGNN: networks that learn true labels, and a student that learns noisy true labels (B1 to B4)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from ...accounting.claim import Unit
from ..base import Release
from ..random.streams import stream
from .graphsage_recipe import Recipe
from .public_part import Public, between
from .student import MODES, PUBLIC, learn
from .teachers import Lesson, taught

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from numpy.typing import NDArray

    from ..graph.graph import Graph, Worlds

KINDS = ("private", "public", "both", "noisy-labels")


@dataclass(frozen=True)
class PrivGnnBaseline:
    """The baselines of Olatunji, Funke & Khosla 2023, with PrivGNN's network; all are queried in the public graph.

    private (B1): learns all private nodes' labels on the private graph. public (B2): learns the validation nodes' labels on
    the public graph. both (B3): learns both, on the private graph and the one between validation nodes. noisy-labels (B4): a
    student learns `queries` true labels of validation nodes, each as a one-hot vector plus Laplace noise of scale sigma, cut
    at zero and scaled to add up to one. That protects each label by itself, at 2 / sigma; it involves no private node.
    """

    kind: str = "private"
    sigma: float = 0.0
    mode: str = "paper"
    queries: int = 100
    hidden: int = 64
    layers: int = 2
    epochs: int = 100
    learning_rate: float = 0.01
    dropout: float = 0.5

    releases: ClassVar[tuple[str, ...]] = ("posteriors",)
    public: ClassVar[tuple[str, ...]] = PUBLIC

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r}: must be one of {', '.join(KINDS)}.")
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r}: must be 'paper' (as published) or 'sound' (as proved).")
        if self.sigma and self.kind != "noisy-labels":
            raise ValueError(f"sigma={self.sigma}: {self.name} has no noise to scale; audit it at epsilon = inf.")

    @property
    def name(self) -> str:
        return "privgnn-" + self.kind

    @property
    def unit(self) -> Unit:
        return Unit.FEATURES if self.kind == "noisy-labels" else Unit.NODE

    @property
    def ledger(self) -> DpEvent:
        import dp_accounting as dp

        return dp.LaplaceDpEvent(self.sigma / 2) if self.sigma else dp.NonPrivateDpEvent()

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma))

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        """Counts what one training stores."""
        stored = int(graph.x.nnz if hasattr(graph.x, "nnz") else graph.x.size)
        return 40 * self.hidden * (graph.nodes + 2 * graph.dim) + 60 * stored

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        public, graph = Public.of(worlds), worlds.graph
        recipe = Recipe((self.hidden,) * (self.layers - 1), graph.classes, self.epochs, self.learning_rate, self.dropout)
        if self.kind in ("private", "both"):
            posteriors = self._taught(public, recipe, device)
        else:
            noisy = self.kind == "noisy-labels"
            queries = public.queries(self.queries if noisy else graph.nodes, "random")
            answers = np.eye(graph.classes, dtype=np.float32)[graph.y[queries]]
            posteriors = learn(public, recipe, queries, self._noised(worlds, answers) if noisy else answers, device)
        return Release({"posteriors": posteriors}, worlds.watch)

    def _taught(self, public: Public, recipe: Recipe, device: str) -> NDArray[np.float32]:
        worlds, graph = public.worlds, public.worlds.graph
        open_too = graph.val if self.kind == "both" else np.zeros_like(graph.val)
        arcs = between(graph, graph.train | open_too)
        members = worlds.trained() | open_too
        lessons = [
            Lesson(k, stream(seed, "network"), np.flatnonzero(members[k]), worlds.watch) for k, seed in enumerate(worlds.seeds)
        ]
        return taught(public, arcs, recipe, lessons, device)

    def _noised(self, worlds: Worlds, answers: NDArray[np.float32]) -> NDArray[np.float32]:
        noise = np.stack([stream(seed, "labels").laplace(size=answers.shape[1:]) for seed in worlds.seeds])
        noised = np.maximum(0, answers + self.sigma * noise)
        total = noised.sum(2, keepdims=True)
        shares = np.where(total > 0, noised / np.where(total > 0, total, 1), 1 / answers.shape[2])
        return shares.astype(np.float32)
