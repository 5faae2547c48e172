"""Link stealing with a classifier: attacks 1 and 3 to 7 of He et al. 2021."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ...models.graph.graph import Graph
from ...models.random.streams import stream
from ..base import Challenge, OneQuery, Pilot, learnt
from ..perceptrons import perceptrons
from .pair_features import of_model, of_public, reference
from .similarity import probabilities

SHADOW, PARTIAL = (1, 4, 5, 7), (3, 4, 6, 7)  # attacks that train on a pilot, and attacks that train on known edges of the target
REFERENCE = (2, 5, 6, 7)


@dataclass(frozen=True, eq=False)
class LinkClassifier(OneQuery):
    """Attacks 1 and 3 to 7: a perceptron on distances of the two ends' posteriors, and for some attacks of their features.

    attack: attacks 1 and 5 train on a pilot, which may be of another graph with other classes; 3 and 6 on the edges in
    `challenge.known` and equally many random pairs; 4 and 7 on both sources. Attacks 5 to 7 also use the public features and a
    reference model without edges. The perceptron is that of the paper, without dropout. limit: the largest number of training
    pairs from each source. The attack reads only watched nodes. Raises ValueError for another number.
    """

    attack: int = 3
    query: str = "posteriors"
    limit: int = 20_000
    seed: int = 0
    examples: tuple[NDArray[np.float64], NDArray[np.bool_]] | None = None  # from the pilot: rows (1, n, …) and bits (1, n)
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        if self.attack not in SHADOW + PARTIAL:
            raise ValueError(f"attack={self.attack}: must be 1 or 3 to 7; 0 is LinkStealing and 2 is ReferenceGap.")

    @property
    def name(self) -> str:
        return f"link-stealing-{self.attack}"

    def fit(self, pilot: Pilot | None) -> Self:
        """The attack with training pairs from the pilot, if it uses them. Raises ValueError if it does and the pilot is None."""
        if self.attack not in SHADOW:
            return self
        if pilot is None:
            raise ValueError(f"attack '{self.name}' needs shadow data: fit it on a pilot.")
        rows = self._features(pilot.release, pilot.challenge.known, pilot.challenge.items)
        chosen = stream(self.seed, "examples").permutation(pilot.bits.size)[: self.limit]
        return dataclasses.replace(
            self, examples=(np.concatenate(list(rows))[None, chosen], pilot.bits.reshape(1, -1)[:, chosen])
        )

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c) float64. Raises ValueError without a fit, if the attack needs one, and if `known_pairs` does."""
        lessons = [learnt(self, self.examples)] if self.attack in SHADOW else []
        if self.attack in PARTIAL:
            pairs, bits = known_pairs(challenge, release.watch, self.limit, self.seed)
            lessons.append((np.stack(list(self._features(release, challenge.known, pairs))), bits[None]))
        runs = max(len(rows) for rows, _ in lessons)
        rows = np.concatenate([np.broadcast_to(r, (runs, *r.shape[1:])) for r, _ in lessons], axis=1)
        bits = np.concatenate([np.broadcast_to(b, (runs, b.shape[1])) for _, b in lessons], axis=1)
        trained = perceptrons(rows, bits, (32, 32), rate=0.001, epochs=50, batch=128, seed=self.seed)
        return trained.decisions(np.stack(list(self._features(release, challenge.known, challenge.items))))

    def _features(self, release: Release, known: Graph, pairs: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
        """For each run, the features of every pair, (pairs, …) float64."""
        guess = reference(known) if self.attack in REFERENCE else None
        public = [of_public(known, guess, pairs)] if guess is not None else []
        for run in probabilities(release, pairs, self.query):
            yield np.concatenate([of_model(self.attack, run, guess, pairs), *public], axis=-1)


def known_pairs(
    challenge: Challenge, watch: NDArray[np.int64], limit: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """m known edges between watched nodes, and m random pairs of watched nodes that are neither known edges nor challenges: (2m,
    2) int64, and (2m,) bool, True for an edge.

    2m is at most `limit`, but at least 2. Raises ValueError if there is no such edge or no such pair.
    """
    edges, random = challenge.known.edges.T, stream(seed, "negatives")
    edges = edges[np.isin(edges, watch).all(1)]
    if not len(edges):
        raise ValueError("the known graph has no edges between watched nodes: use attack 0, 1, 2 or 5.")
    chosen = edges if 2 * len(edges) <= limit else edges[np.sort(random.permutation(len(edges))[: max(1, limit // 2)])]
    taken = unordered(np.concatenate([challenge.known.edges.T, challenge.items]), challenge.known.nodes)
    within = np.isin(taken // challenge.known.nodes, watch) & np.isin(taken % challenge.known.nodes, watch)
    if len(np.unique(taken[within])) >= len(watch) * (len(watch) - 1) // 2:
        raise ValueError("all pairs of watched nodes are known or challenged edges: use attack 0, 1, 2 or 5.")
    found = np.zeros((0, 2), dtype=np.int64)
    while len(found) < len(chosen):
        pairs = random.choice(watch, size=(2 * len(chosen), 2))
        free = (pairs[:, 0] != pairs[:, 1]) & ~np.isin(unordered(pairs, challenge.known.nodes), taken)
        found = np.concatenate([found, pairs[free]])
    return np.concatenate([chosen, found[: len(chosen)]]), np.arange(2 * len(chosen)) < len(chosen)


def unordered(pairs: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """(c, 2) -> (c,) int64: one number for each pair, the same in both directions."""
    return pairs.min(1) * nodes + pairs.max(1)
