"""Baselines that score edges without the target model. They measure homophily, not leakage."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ...models.graph.graph import Graph
from ..base import Challenge, Untrained
from ..distances import distance
from .pair_features import reference, rows_of


def own_features(known: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    return rows_of(known.x, nodes)


def without_edges(known: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    return reference(known)[nodes]


@dataclass(frozen=True)
class PublicDistance(Untrained):
    """A baseline: minus the distance of the two ends in public features. read: (graph, nodes (c,)) -> dense rows (c, dim)."""

    name: str
    distance: str
    read: Callable[[Graph, NDArray[np.int64]], NDArray[np.float64]]
    needs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        distance(self.distance)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        a, b = (self.read(challenge.known, challenge.items[:, side]) for side in (0, 1))
        return np.tile(-distance(self.distance)(a, b), (len(release), 1))


FEATURES = PublicDistance("feature-distance", "cosine", own_features)
EDGE_FREE = PublicDistance("edge-free-distance", "correlation", without_edges)  # the part of attack 2 that reads no target
