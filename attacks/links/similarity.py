"""Link stealing without training, attacks 0 and 2 of He et al. 2021: two nodes with an edge have similar posteriors."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Challenge, OneQuery, Untrained
from ..distances import distance
from ..signals import logs
from .pair_features import reference


@dataclass(frozen=True)
class LinkStealing(Untrained, OneQuery):
    """Minus the distance of the two ends' posteriors: attack 0 of He et al. 2021, "Stealing Links from GNNs".

    Homophily alone gives a high AUC against random pairs, so compare the attack with `model_free.FEATURES`.
    """

    distance: str = "correlation"
    query: str = "posteriors"
    name: str = "link-stealing-0"
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        distance(self.distance)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        u, v = challenge.items.T
        measure = distance(self.distance)
        return -np.stack([measure(p[u], p[v]) for p in probabilities(release, challenge.items, self.query)])


@dataclass(frozen=True)
class ReferenceGap(LinkStealing):
    """Attack 2: the distance of the two ends in a model without edges, minus their distance in the target.

    Both distances are between posteriors.
    """

    name: str = "link-stealing-2"

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        ends = (reference(challenge.known)[nodes] for nodes in challenge.items.T)
        return distance(self.distance)(*ends) + super().score(release, challenge)


def probabilities(release: Release, pairs: NDArray[np.int64], query: str) -> Iterator[NDArray[np.float64]]:
    """For each run, an array of probabilities (ids, classes), indexed by node id. It holds the ends of `pairs`, and NaN for other
    nodes. Raises ValueError for an end that is not watched.
    """
    ends = np.unique(pairs)
    for k in range(len(release)):
        log_p = logs(release.part(slice(k, k + 1)), ends, query)[0]
        p = np.full((int(release.watch.max()) + 1, log_p.shape[1]), np.nan)
        p[ends] = np.exp(log_p)
        yield p
