"""Node membership from predicted labels alone, from queries with and without neighbours (Conti et al. 2022)."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ..base import AttackDefaults, Challenge, Pilot, learnt, shadows_of
from ..signals import logs


@dataclass(frozen=True, eq=False)
class NeighbourhoodLabels(AttackDefaults):
    """The log odds of membership, given which queries predict the node's label, and which agree with the first query.

    queries: queries about the same node, each with fewer neighbours than the previous one. odds: (patterns,), log odds from
    counts on shadow models, with add-one smoothing.
    """

    queries: tuple[str, ...] = ("posteriors@full", "posteriors@0-hop")
    odds: NDArray[np.float64] | None = None
    name: str = "label-only-neighbours"
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def needs(self) -> tuple[str, ...]:
        return self.queries

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models."""
        pilot = shadows_of(self, pilot)
        pattern = self._patterns(pilot.release, pilot.challenge)
        inside, outside = (np.bincount(pattern[side], minlength=4 ** len(self.queries)) + 1 for side in (pilot.bits, ~pilot.bits))
        return dataclasses.replace(self, odds=np.log(inside / inside.sum()) - np.log(outside / outside.sum()))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = learnt(self, self.odds)[self._patterns(release, challenge)]
        return scores

    def _patterns(self, release: Release, challenge: Challenge) -> NDArray[np.int64]:
        """(runs, c) int64: two bits for each query, which say whether its answer is correct and agrees with the first answer."""
        guesses = [logs(release, challenge.items, query).argmax(-1) for query in self.queries]
        pattern = np.zeros(guesses[0].shape, dtype=np.int64)
        for guess in guesses:
            pattern = 4 * pattern + 2 * (guess == challenge.known.y[challenge.items]) + (guess == guesses[0])
        return pattern
