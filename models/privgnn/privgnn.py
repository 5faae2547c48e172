"""PrivGNN: for each public query, a new teacher is trained on a secret sample of private nodes, and its noisy answer is the
label.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..base import Release
from ..engine.adam import Adam
from ..graph.graph import Graph, Worlds, dense
from ..random import witness
from ..random.streams import stream
from .public_part import Public, between
from .student import TaughtByVotes
from .teachers import Lesson, taught, taught_in_turn

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, eq=False)
class Taught:
    """The answers of the teachers of some worlds, before noise is added.

    queries: (K, q) ids. answers: (K, q, classes) float32, log-probabilities. moments: the optimisers of the teachers, if the
    student continues with their moments; else None.
    """

    queries: NDArray[np.int64]
    answers: NDArray[np.float32]
    moments: list[Adam] | None = None


@dataclass(frozen=True)
class PrivGnn(TaughtByVotes):
    """Olatunji, Funke & Khosla, Releasing Graph Neural Networks with Differential Privacy Guarantees, TMLR 2023, algorithm 1.

    Training nodes are private. The queries are validation nodes. For each query, a secret sample takes every private node with
    probability `rate`. A teacher is trained on the subgraph of the `neighbours` sampled nodes whose features are nearest to those
    of the query. The teacher then predicts the query in the public graph. The released label is the argmax of the predicted
    probabilities plus Laplace noise. A student learns these labels on the public graph. Training reads no edge between a private
    and a public node.

    sigma: the scale of the Laplace noise (beta, one over the paper's lambda); 0 means no privacy. classes: the public number of
    classes; 0 charges for the number of classes at which the cost is highest. queries: their number; if there are fewer
    validation nodes, all are queried. neighbours: 0 trains on the whole sample (the ablation KNNRem). single: one sample and one
    teacher for all queries (SingleGNN). selection: how queries are chosen, from public data alone: "random", "pagerank" or
    "clusters". The paper's own values: queries 1000, rate 0.3 (0.1 on large graphs), neighbours 750 to 3000, epochs 200.

    mode "sound": the ledger charges by the exact privacy profile of a noisy argmax. mode "paper": the same labels with the
    epsilon of theorem 8. as_coded: follows the released code. It adds noise to LOGARITHMS of probabilities, draws samples of
    fixed size, and resets its optimiser neither between the teachers nor before the student; `printed` is then the epsilon of the
    paper's tables. This version has no finite epsilon, because logarithms have no bounded range.

    Releases posteriors of the student, and votes: (K, queries) int64, the labels from which the student learned. `asked` gives
    the ids of the queries. The posterior of a private node is computed from its features alone, whether the run has the node or
    not. Raises ValueError for fields out of range.
    """

    as_coded: bool = False
    rate: float = 0.3
    neighbours: int = 50
    single: bool = False
    classes: int = 0
    epochs: int = 50

    name: ClassVar[str] = "privgnn"
    share: ClassVar[float] = 1.0  # a node in a sample may change the whole answer of the teacher that learns from the sample

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_coded and (self.mode != "paper" or self.single):
            raise ValueError("as_coded=True: needs mode='paper' and single=False, as in the released code.")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate={self.rate}: must be in (0, 1], the chance that a private node is in a sample.")
        for name, least in (("queries", 1), ("layers", 2), ("neighbours", 0), ("hidden", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}.")

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import NonPrivateDpEvent

        from ...accounting import events

        if self.as_coded or not self.sigma:
            return NonPrivateDpEvent()
        if not self.single:
            return events.noisy_argmax(self.classes, self.sigma, self.rate, self.queries)
        return events.on_sampled_nodes(self.rate, events.noisy_argmax(self.classes, self.sigma, 1.0, self.queries))

    def printed(self, delta: float) -> float | None:
        """The epsilon of theorem 8, also for `single`. With as_coded, that of the formula that produced the paper's tables, at
        ten times delta. None in mode "sound" and without noise.
        """
        from .published import PRINTED_DELTA_FACTOR, privgnn_epsilon

        if self.mode == "sound" or not self.sigma:
            return None
        if self.as_coded:
            return privgnn_epsilon(1 / self.sigma, self.rate, self.queries, PRINTED_DELTA_FACTOR * delta, factor=1.0)
        return privgnn_epsilon(1 / self.sigma, self.rate, self.queries, delta, factor=3.0)

    def theorem_epsilon(self, delta: float) -> float | None:
        """The epsilon of theorem 8; None with as_coded, because the theorem does not cover noise on logarithms."""
        return None if self.as_coded else self.printed(delta)

    def coded_epsilon(self, delta: float) -> float | None:
        """The epsilon that the released code computes for the same noise; None in mode "sound", and with `single`, which the code
        does not offer.
        """
        none = self.single or self.mode == "sound"
        return None if none else dataclasses.replace(self, as_coded=True).printed(delta)

    def footprint(self, graph: Graph) -> int:
        """Bytes of the order of the nodes around each query, and of the training of the student."""
        return self._footprint(graph, graph.nodes)

    def asked(self, worlds: Worlds) -> NDArray[np.int64]:
        """(K, queries) int64: the ids of the nodes that the votes of each run label."""
        return Public.of(worlds).queries(self.queries, self.selection)

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        return self.answered(worlds, self.teachers(worlds, device), device)

    def teachers(self, worlds: Worlds, device: str = "cpu") -> Taught:
        """Trains the teachers of every run. They do not depend on sigma, so one call serves `answered` at every sigma.

        Raises ValueError if `classes` is neither 0 nor the graph's number of classes.
        """
        if self.classes not in (0, worlds.graph.classes):
            raise ValueError(f"classes={self.classes}: {worlds.graph.name} has {worlds.graph.classes}. Use that, or 0 for any.")
        public = Public.of(worlds)
        queries = public.queries(self.queries, self.selection)
        arcs = between(worlds.graph, worlds.graph.train)
        recipe, members = self._recipe(worlds.graph, self.epochs), worlds.trained()
        if self.single:
            random = [stream(seed, "sample") for seed in worlds.seeds]
            lessons = [Lesson(k, r, self._sample(members[k], r), queries[k]) for k, r in enumerate(random)]
            return Taught(queries, taught(public, arcs, recipe, lessons, device))
        order = nearest_first(public.x, queries) if self.neighbours else None
        lessons = [self._lesson(worlds, k, q, members[k], order) for k, row in enumerate(queries) for q in row]
        if not self.as_coded:
            answers = taught(public, arcs, recipe, lessons, device)
            return Taught(queries, answers.reshape(*queries.shape, recipe.classes))
        turns = [lessons[i :: queries.shape[1]] for i in range(queries.shape[1])]
        return Taught(queries, *taught_in_turn(public, arcs, recipe, turns, device))

    @property
    def vote_noise(self) -> float | None:
        """The scale of the Laplace noise on probabilities; None with as_coded, where the noise is added to logarithms."""
        return None if self.as_coded else self.sigma

    @property
    def declines(self) -> Mapping[str, str]:
        """The capabilities that the recipe's attributes suggest but that the recipe lacks, each with the reason."""
        reason = (
            "as coded, noise is added to logarithms, whose differences are unbounded, so the influence of a node is unbounded"
        )
        return {"NoisyVotes": reason} if self.as_coded else {}

    def labels(self, worlds: Worlds, queries: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """(K, q) int64: the noisy labels of teachers that answer with these shares, (K, q, classes). queries: (K, q) ids."""
        with np.errstate(divide="ignore"):
            return self.votes(worlds, Taught(queries, np.log(shares)))

    def votes(self, worlds: Worlds, taught: Taught) -> NDArray[np.int64]:
        """(K, q) int64: the labels with the largest answers after noise."""
        answers = taught.answers if self.as_coded else np.exp(taught.answers)
        noise = self._noise(worlds, taught.queries, answers.shape[2])
        witness.clean("queries", answers)
        noisy = answers + noise
        witness.released("queries", noisy, scale=self.sigma, events=answers.shape[1], order=1)
        labels: NDArray[np.int64] = noisy.argmax(2)
        return labels

    def answered(self, worlds: Worlds, taught: Taught, device: str = "cpu") -> Release:
        """The release for these teachers: their noisy labels, and the posteriors of the student that learns them."""
        return self._release(worlds, taught.queries, self.votes(worlds, taught), device, taught.moments)

    def _lesson(self, worlds: Worlds, run: int, query: int, members: NDArray[np.bool_], order: Order | None) -> Lesson:
        random = stream(worlds.seeds[run], "teacher", int(query))
        sample = self._sample(members, random)
        if order is not None:
            inside = np.zeros(worlds.graph.nodes, dtype=bool)
            inside[sample] = True
            near = order[int(query)]
            sample = near[inside[near]][: self.neighbours]
        return Lesson(run, random, sample, np.array([query]))

    def _sample(self, members: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.int64]:
        """The ids of the sampled private nodes. members: (nodes,) bool.

        One number is drawn for every node of the graph, so an absent node does not change the numbers of the others.
        """
        draws, present = random.random(members.size)[members], np.flatnonzero(members)
        if self.as_coded:
            return np.sort(present[np.argsort(draws)[: int(self.rate * present.size)]])
        joined = draws < self.rate
        witness.sampled("nodes" if self.single else "queries", joined[None])
        return present[joined]


Order = dict[int, "NDArray[np.int64]"]


def nearest_first(x: Any, queries: NDArray[np.int64]) -> Order:
    """For each query, all nodes in increasing Euclidean distance of their features from those of the query, then by id."""
    asked = np.unique(queries)
    square = x.power(2).sum(1) if sp.issparse(x) else np.square(x).sum(1)
    product = dense(x[asked] @ x.T)
    order = np.argsort(square - 2 * product, axis=1, kind="stable").astype(np.int32)
    return dict(zip(asked.tolist(), order, strict=True))
