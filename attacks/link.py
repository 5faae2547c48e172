"""Link stealing without any training: two nodes with an edge are predicted alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse as sp

from .distances import distance
from .signals import logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Release
    from .base import Challenge, Pilot


@dataclass(frozen=True)
class LinkStealing:
    """Minus the distance of the two ends' posteriors: attack 0 of He et al. 2021, "Stealing Links from GNNs".

    Homophily alone scores high against random pairs: print `FeatureDistance` beside it.
    """

    distance: str = "correlation"
    query: str = "posteriors"
    name: str = "link-stealing-0"
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        distance(self.distance)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        measure = distance(self.distance)
        ends = challenge.items
        one_run = [release.part(slice(k, k + 1)) for k in range(len(release))]
        each = [measure(*np.exp([logs(r, ends[:, 0], self.query)[0], logs(r, ends[:, 1], self.query)[0]])) for r in one_run]
        return -np.stack(each)


@dataclass(frozen=True)
class FeatureDistance:
    """Minus the distance of the two ends' public features: what is known of an edge without any model. The baseline."""

    distance: str = "cosine"
    name: str = "feature-distance"
    needs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("edge",)

    def __post_init__(self) -> None:
        distance(self.distance)

    def fit(self, pilot: Pilot | None) -> Self:
        return self

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        x = challenge.known.x
        ends = [x[challenge.items[:, side]] for side in (0, 1)]
        a, b = (np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64) for rows in ends)
        return np.tile(-distance(self.distance)(a, b), (len(release), 1))
