"""PATE, the baseline of PrivGNN: teachers of disjoint private parts vote on the label of each query, noise is added to the votes,
and a student learns the labels with the most votes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..base import Release
from ..graph.graph import Graph, Worlds
from ..random.streams import stream
from .public_part import Public, between
from .student import TaughtByVotes
from .teachers import Lesson, taught

if TYPE_CHECKING:
    from dp_accounting import DpEvent

TEACHERS = ("gnn", "mlp")


@dataclass(frozen=True)
class Pate(TaughtByVotes):
    """Papernot et al. 2017 on graphs, as in Olatunji, Funke & Khosla 2023: PATE-G with teacher="gnn", PATE-M with teacher="mlp".

    Every private node joins one of `parts` parts at random. The teacher of a part learns on the subgraph of its nodes, or on
    their features alone, and votes on every query in the public graph. Each class's number of votes gets Laplace noise of scale
    sigma. A node changes only the teacher of its own part, so it changes at most one vote on each query. The student is
    PrivGNN's.

    epochs: training epochs of the teachers; 0 leaves them untrained. The released code of PrivGNN in effect has untrained "gnn"
    teachers, because it resets each teacher after training. mode "paper": `printed` is the data-independent epsilon of the
    paper's tables.

    Releases posteriors of the student, and votes: (K, queries) int64, the labels from which the student learned. Raises
    ValueError for fields out of range.
    """

    teacher: str = "gnn"
    parts: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher not in TEACHERS:
            raise ValueError(f"teacher={self.teacher!r}: must be one of {', '.join(TEACHERS)}.")
        if self.parts < 1 or self.queries < 1 or self.layers < 2:
            numbers = f"parts={self.parts}, queries={self.queries}, layers={self.layers}"
            raise ValueError(f"{numbers}: parts and queries must be at least 1, layers at least 2.")

    @property
    def name(self) -> str:  # type: ignore[override]
        return "pate-" + self.teacher

    @property
    def ledger(self) -> DpEvent:
        from ...accounting import events

        return events.pate(self.sigma, self.queries)

    def printed(self, delta: float) -> float | None:
        from .published import pate_printed

        return pate_printed(1 / self.sigma, self.queries, delta) if self.mode == "paper" and self.sigma else None

    def footprint(self, graph: Graph) -> int:
        """Bytes of the training of the student and of the teachers' answers."""
        return self._footprint(graph, self.parts * graph.classes)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        public = Public.of(worlds)
        queries = public.queries(self.queries, self.selection)
        return self.answered(worlds, queries, self.counts(public, queries, device), device)

    def answered(self, worlds: Worlds, queries: NDArray[np.int64], counts: NDArray[np.int64], device: str = "cpu") -> Release:
        """The release for these counts of votes: the noisy labels, and the posteriors of the student that learns them. `counts`
        do not depend on sigma.
        """
        votes = (counts + self._noise(worlds, queries, counts.shape[2])).argmax(2)
        return self._release(worlds, queries, votes, device)

    def counts(self, public: Public, queries: NDArray[np.int64], device: str = "cpu") -> NDArray[np.int64]:
        """(K, q, classes) int64: how many teachers vote for each class, before noise. queries: (K, q) ids."""
        worlds, graph = public.worlds, public.worlds.graph
        arcs, recipe = between(graph, graph.train), self._recipe(graph, self.epochs)
        if self.teacher == "mlp":
            nothing = sp.csr_array((graph.nodes, graph.nodes), dtype=np.int64)
            public, arcs = dataclasses.replace(public, arcs=nothing), nothing
            recipe = dataclasses.replace(recipe, hidden=(100, 50))
        lessons = []
        for k, (seed, present) in enumerate(zip(worlds.seeds, worlds.trained(), strict=True)):
            part = stream(seed, "parts").integers(self.parts, size=graph.nodes)
            for i in range(self.parts):
                lessons.append(Lesson(k, stream(seed, "teacher", i), np.flatnonzero(present & (part == i)), queries[k]))
        labels = taught(public, arcs, recipe, lessons, device).argmax(2).reshape(len(worlds), self.parts, -1)
        counted: NDArray[np.int64] = (labels[..., None] == np.arange(graph.classes)).sum(1)
        return counted
