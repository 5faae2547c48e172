"""What one adversary sees of a user's model: some of its released arrays alone, or its answers to queries.

Whoever sees the whole release can leave out some arrays, so a bound for these arrays is one for the release. Answers to queries
come from a training of their own, which `deployed` or `anywhere` starts. They are examined as the release of this training.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...models.base import Model, Release
from ...models.capabilities import ANSWERS, AnswersOtherGraphs, Effort, RunsElsewhere, effort, has
from ...models.fitted import apart
from ...models.graph.graph import Features, Graph, Worlds, stored_as
from ..own.model_file import is_built_in
from .playing import Play
from .study import History

STEP = (5**0.5 - 1) / 2  # the fractional parts of its multiples are spread evenly between 0 and 1
RING = 7  # nodes of the graph of a query: fewer than any audited graph has, so that no row counts as that of an absent node


@dataclass(frozen=True)
class Alone:
    """The model, which releases the arrays `releases` alone, and no public number."""

    model: Model
    releases: tuple[str, ...]

    @property
    def max_degree(self) -> int:
        """The model's public bound on a node's degree; 0 if it declares none."""
        return getattr(self.model, "max_degree", 0)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def mode(self) -> str:
        return self.model.mode

    @property
    def unit(self) -> Unit:
        return self.model.unit

    @property
    def public(self) -> tuple[str, ...]:
        return self.model.public

    @property
    def ledger(self) -> DpEvent:
        return self.model.ledger

    @property
    def effort(self) -> Effort:
        return effort(self.model)

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, model=self.model.with_noise(sigma))

    def printed(self, delta: float) -> float | None:
        return self.model.printed(delta)

    def footprint(self, graph: Graph) -> int:
        return self.model.footprint(graph)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return self.left(self.model.fit(worlds, device=device))

    def left(self, release: Release) -> Release:
        """What is left of a release of the whole model."""
        return dataclasses.replace(release.only(self.releases), public={})


@dataclass(frozen=True)
class Answering(Alone):
    """The model, which releases its answers to two queries alone, the same two in every world. releases: one of ANSWERS."""

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Trains the model, and returns its answers about the released nodes, or about all nodes of the graph of a query, those
        to the second query in further columns.

        Raises ValueError for answers of another shape, and if the training changes its graph in place.
        """
        about, graph = self.releases[0], worlds.graph
        elsewhere = ANSWERS[about] is AnswersOtherGraphs
        method = getattr(self.model, "anywhere" if elsewhere else "deployed")
        answer, changed = apart(method, worlds, device)
        if changed:
            raise ValueError(changed)
        nodes, rows = (RING, np.arange(RING)) if elsewhere else (graph.nodes, worlds.watch)
        asked = [stored_as(graph.x, x) for x in np.split(features(2 * nodes, graph.dim), 2)]
        answers = [np.asarray(answer(ring(x, graph.classes) if elsewhere else x)) for x in asked]
        if wrong := next((a.shape for a in answers if a.ndim != 3 or a.shape[:2] != (len(worlds), nodes)), None):
            shape = f"(K, nodes, classes) = ({len(worlds)}, {nodes}, {graph.classes})"
            raise ValueError(f"{method.__name__}: the function that it returns gave an array of shape {wrong}, not {shape}.")
        return Release({about: np.concatenate(answers, axis=2)[:, rows]}, worlds.watch)


def features(nodes: int, dim: int) -> NDArray[np.float32]:
    """The features of a query, (nodes, dim) float32 between 0 and 1. No draw is made, because it would be recorded."""
    return np.modf(STEP * np.arange(1, nodes * dim + 1))[0].reshape(nodes, dim).astype(np.float32)


def ring(x: Features, classes: int) -> Graph:
    """The graph of a query: a ring of three nodes or more with the features `x`, which are all test nodes."""
    at = np.arange(x.shape[0])
    edges = np.stack([np.append(at[:-1], 0), np.append(at[1:], at[-1])])
    none, every = np.zeros(len(at), dtype=bool), np.ones(len(at), dtype=bool)
    return Graph(x, at % classes, edges, none, none, every, name="a ring", classes=classes)


def queries(model: Model) -> tuple[str, ...]:
    """The kinds of queries that a user's model answers, which an audit examines; none for a built-in model."""
    return () if is_built_in(model) else tuple(kind for kind, capability in ANSWERS.items() if has(model, capability))


@dataclass(frozen=True)
class AloneElsewhere(Alone):
    """As `Alone`, for a model whose trainings run outside this process."""

    @property
    def record(self) -> bool:
        assert isinstance(self.model, RunsElsewhere)
        return self.model.record

    def recorded(self, world: Worlds, request: Any) -> tuple[Release, Any]:
        assert isinstance(self.model, RunsElsewhere)
        release, recording = self.model.recorded(world, request)
        return self.left(release), recording

    def held(self, world: Worlds) -> int | None:
        assert isinstance(self.model, RunsElsewhere)
        return self.model.held(world)


def only(first: History, arrays: Sequence[str]) -> History:
    """The run and its study, of which the adversary sees the released `arrays` alone. No training takes place."""
    made = first.study
    model = (AloneElsewhere if isinstance(made.model, RunsElsewhere) else Alone)(made.model, tuple(arrays))

    def seen(play: Play) -> Play:
        kept = {cell: numbers for cell, numbers in play.cells.items() if not cell.public and cell.array in arrays}
        return dataclasses.replace(play, cells=kept)

    histories = tuple((worlds, seen(play), mechanisms) for worlds, play, mechanisms in made.histories)
    left = dataclasses.replace(made, model=model, base=seen(made.base), histories=histories)
    return dataclasses.replace(first, study=left, play=seen(first.play))
