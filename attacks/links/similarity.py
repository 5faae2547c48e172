"""Link stealing without training: two nodes with an edge have similar posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..distances import distance
from ..signals import logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Release
    from ..base import Challenge, Pilot


@dataclass(frozen=True)
class LinkStealing:
    """Minus the distance of the two ends' posteriors: attack 0 of He et al. 2021, "Stealing Links from GNNs".

    Homophily alone gives a high AUC against random pairs: compare with `model_free.FEATURES`.
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
