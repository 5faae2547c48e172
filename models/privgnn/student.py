"""The student of PrivGNN and PATE, which learns the teachers' noisy labels on the public graph.

Training nodes are private. Validation and test nodes, their features and the edges between them are public. The queries to the
teachers are validation nodes. No training reads an edge between a private and a public node.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ..base import Release
from ..engine.adam import Adam
from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from .graphsage_recipe import Recipe
from .public_part import Public
from .small_graphs import Columns, Graphs, arcs_within
from .teachers import learned

CACHE = 6 << 20  # most bytes of one hidden layer's activations in all students that train together
ARRAYS = ("posteriors", "votes")
MODES = ("paper", "sound")
SELECTIONS = ("random", "pagerank", "clusters")


@dataclass(frozen=True)
class TaughtByVotes:
    """What the recipes of PrivGNN and PATE share: the noise on the votes, and the student.

    hidden, layers, learning_rate, dropout: of the teachers and of the student. epochs: of the teachers. Raises ValueError for an
    unknown mode, array or selection.
    """

    sigma: float = 0.0
    mode: str = "sound"
    queries: int = 100
    hidden: int = 64
    layers: int = 2
    epochs: int = 100
    student_epochs: int = 100
    learning_rate: float = 0.01
    dropout: float = 0.5
    selection: str = "random"
    keep: tuple[str, ...] = ARRAYS

    name: ClassVar[str]
    unit: ClassVar[Unit] = Unit.NODE
    public: ClassVar[tuple[str, ...]] = (
        "The validation and test nodes, their features and the edges between them are public; only training nodes are protected.",
        "The choice of validation nodes for the queries is public.",
    )

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r}: must be 'paper' (as published) or 'sound' (as proved).")
        if not self.keep or set(self.keep) - set(ARRAYS):
            raise ValueError(f"keep={self.keep}: {self.name} can release {', '.join(ARRAYS)}.")
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection={self.selection!r}: must be one of {', '.join(SELECTIONS)}.")

    @property
    def releases(self) -> tuple[str, ...]:
        return self.keep

    def with_noise(self, sigma: float) -> Self:
        return dataclasses.replace(self, sigma=float(sigma))

    def _footprint(self, graph: Graph, answers: int) -> int:
        """Bytes of the training of the student, and of `answers` numbers for each query."""
        stored = int(graph.x.nnz if hasattr(graph.x, "nnz") else graph.x.size)
        return 8 * self.queries * answers + 40 * self.hidden * (graph.nodes + 2 * graph.dim) + 60 * stored

    def _noise(self, worlds: Worlds, queries: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
        """(K, q, classes): the Laplace noise on the votes."""
        shape = (queries.shape[1], classes)
        return self.sigma * np.stack([stream(seed, "label").laplace(size=shape) for seed in worlds.seeds])

    def _recipe(self, graph: Graph, epochs: int) -> Recipe:
        return Recipe((self.hidden,) * (self.layers - 1), graph.classes, epochs, self.learning_rate, self.dropout)

    def _release(
        self, worlds: Worlds, queries: NDArray[np.int64], votes: NDArray[np.int64], device: str, moments: list[Adam] | None = None
    ) -> Release:
        """The release for these labels, (K, q): the labels, and the posteriors of the student that learns them. moments: the
        optimisers of the teachers, if the student continues with their moments.
        """
        arrays: dict[str, NDArray[Any]] = {"votes": votes}
        if "posteriors" in self.keep:
            recipe, answers = self._recipe(worlds.graph, self.student_epochs), np.eye(worlds.graph.classes, dtype=np.float32)
            arrays["posteriors"] = learn(Public.of(worlds), recipe, queries, answers[votes], device, moments)
        return Release({n: arrays[n] for n in self.keep}, worlds.watch, {"noise_scale": self.sigma})


def learn(
    public: Public,
    recipe: Recipe,
    queries: NDArray[np.int64],
    answers: NDArray[np.float32],
    device: str = "cpu",
    going_on: list[Adam] | None = None,
) -> NDArray[np.float32]:
    """Trains a student for each run on the public graph, and returns its log-probabilities for the watched nodes, (K, w, classes)
    float32.

    queries: (K, q) ids. answers: (K, q, classes), the distribution to learn for each query. going_on: the optimisers of the
    teachers, if the student continues with a copy of their moments. A prediction for a private node reads its features alone,
    whether the run has the node or not.
    """
    step = max(1, CACHE // (4 * max(recipe.hidden) * public.nodes.size)) if going_on is None else len(queries)
    found = []
    for first in range(0, len(queries), step):
        runs = np.arange(first, min(first + step, len(queries)))
        graphs, randoms = graphs_of(public, runs), [stream(public.worlds.seeds[k], "student") for k in runs]
        columns = Columns.read(*graphs) if going_on is None else Columns.every(graphs[0])
        target = soft_target(public, queries[runs], answers[runs])
        found.append(watched(public, learned(recipe, graphs, columns, target, randoms, device, going_on)[0]))
    return np.concatenate(found)


def graphs_of(public: Public, runs: NDArray[np.int64]) -> tuple[Graphs, Graphs]:
    """For each run, the public graph to learn on, and the same graph followed by the watched private nodes without edges."""
    watch = public.worlds.watch
    strangers = np.setdiff1d(watch, public.nodes)
    graphs = []
    for rows in (public.nodes, np.concatenate([public.nodes, strangers])):
        members = [rows] * len(runs)
        graphs.append(Graphs.induced(public.x, members, arcs_within(public.arcs, members, public.usable(runs))))
    return graphs[0], graphs[1]


def watched(public: Public, answers: NDArray[np.float32]) -> NDArray[np.float32]:
    """The answers for the watched nodes, in the order of `watch`. answers: for all nodes of the second graph of `graphs_of`."""
    watch = public.worlds.watch
    place = np.full(public.worlds.graph.nodes, -1)
    rows = np.concatenate([public.nodes, np.setdiff1d(watch, public.nodes)])
    place[rows] = np.arange(rows.size)
    return answers[:, place[watch]]


def soft_target(public: Public, queries: NDArray[np.int64], answers: NDArray[np.float32]) -> NDArray[np.float32]:
    """(runs, classes, public nodes) float32: for a query, its answer divided by the number of queries; 0 for all other nodes.
    With this target, `train` minimises the mean over the queries of -sum(answer * log p).
    """
    runs, count, classes = answers.shape
    target = np.zeros((runs, public.nodes.size, classes), dtype=np.float32)
    target[np.arange(runs)[:, None], np.searchsorted(public.nodes, queries)] = answers / max(1, count)
    return np.ascontiguousarray(target.transpose(0, 2, 1))
