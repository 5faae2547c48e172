"""Link stealing with a reference or a classifier: attacks 2 to 7, and 1, of He et al. 2021."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..models.noise import stream
from .distances import distance
from .link_features import features, reference
from .shadow import decision, perceptron
from .signals import logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Release
    from ..models.graph import Graph
    from .base import Challenge, Pilot

SHADOW, PARTIAL = (1, 4, 5, 7), (3, 4, 6, 7)  # which learn from a pilot, and which from the known edges of the target itself
REFERENCE = (2, 5, 6, 7)


@dataclass(frozen=True)
class ReferenceGap:
    """Attack 2: how much closer two ends are in the target's posteriors than in those of a model without edges."""

    distance: str = "correlation"
    query: str = "posteriors"
    name: str = "link-stealing-2"
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        distance(self.distance)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        u, v = challenge.items.T
        measure, guess = distance(self.distance), reference(challenge.known)
        p = probabilities(release, challenge.known, self.query)
        return np.stack([measure(guess[u], guess[v]) - measure(run[u], run[v]) for run in p])


@dataclass(frozen=True, eq=False)
class LinkClassifier:
    """Attacks 1 and 3 to 7: a perceptron on what two ends' posteriors, and sometimes features, have in common.

    attack: 1 and 5 learn from a pilot, which may be another graph with classes of its own; 3 and 6 from the edges of the
    target that `challenge.known` holds, against as many random pairs; 4 and 7 from both. 5 to 7 also read the public
    features and a reference model without edges. Every node must be watched.
    """

    attack: int = 3
    query: str = "posteriors"
    seed: int = 0
    examples: tuple[NDArray[np.float64], NDArray[np.bool_]] | None = None  # from the pilot
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        if self.attack not in SHADOW + PARTIAL:
            raise ValueError(f"attack={self.attack}: must be 1 or 3 to 7; 0 is LinkStealing and 2 is ReferenceGap.")

    @property
    def name(self) -> str:
        return f"link-stealing-{self.attack}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError where the attack needs shadow data and there is none."""
        if self.attack not in SHADOW:
            return self
        if pilot is None:
            raise ValueError(f"attack '{self.name}' needs shadow data: fit it on a pilot.")
        rows = self._features(pilot.release, pilot.challenge.known, pilot.challenge.items)
        return dataclasses.replace(self, examples=(np.concatenate(rows), pilot.bits.ravel()))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """Raises ValueError where the known graph has no edge to learn from."""
        asked = self._features(release, challenge.known, challenge.items)
        if self.attack not in PARTIAL:
            trained = self._train([])
            return np.stack([decision(trained, rows) for rows in asked])
        pairs, bits = known_pairs(challenge, self.seed)
        known = self._features(release, challenge.known, pairs)
        return np.stack([decision(self._train([(k, bits)]), rows) for k, rows in zip(known, asked, strict=True)])

    def _train(self, more: list[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> Any:
        found = more + ([self.examples] if self.examples is not None else [])
        if not found:
            raise ValueError(f"attack '{self.name}' has not been fitted: call fit with a pilot first.")
        rows, bits = (np.concatenate([part[i] for part in found]) for i in (0, 1))
        return perceptron(rows, bits, (32, 32), rate=0.001, epochs=50, batch=128, seed=self.seed)

    def _features(self, release: Release, known: Graph, pairs: NDArray[np.int64]) -> list[NDArray[np.float64]]:
        guess = reference(known) if self.attack in REFERENCE else None
        return [features(self.attack, run, guess, known, pairs) for run in probabilities(release, known, self.query)]


def probabilities(release: Release, known: Graph, query: str) -> NDArray[np.float64]:
    """(runs, nodes, classes). Raises ValueError for a node that is not watched."""
    return np.exp(logs(release, np.arange(known.nodes), query))


def known_pairs(challenge: Challenge, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The known edges and as many random pairs that are neither known edges nor asked for: pairs (2m, 2), bits (2m,)."""
    edges = challenge.known.edges.T
    if not len(edges):
        raise ValueError("the known graph has no edges: this attack learns from some; use attack 0, 1, 2 or 5.")
    n = challenge.known.nodes
    taken = {frozenset(pair) for pair in np.concatenate([edges, challenge.items]).tolist()}
    random = stream(seed, "negatives")
    found: list[list[int]] = []
    while len(found) < len(edges):
        pairs = random.integers(n, size=(len(edges), 2)).tolist()
        found += [pair for pair in pairs if pair[0] != pair[1] and frozenset(pair) not in taken]
    negatives = np.array(found[: len(edges)])
    return np.concatenate([edges, negatives]), np.arange(2 * len(edges)) < len(edges)
