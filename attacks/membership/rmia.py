"""RMIA and BASE: the probability of a node's label in the target, relative to its probability in other models."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ...models.base import Release
from ..base import Challenge, OneQuery, Pilot, learnt, shadows_of
from ..signals import logs


@dataclass(frozen=True, eq=False)
class Relative(OneQuery):
    """BASE (Lassila et al. 2025): log p(y | target) - alpha * log of the mean of p(y | shadow).

    With `gamma` the attack is RMIA (Zarifzadeh et al. 2024): the log odds of the share of challenges whose ratio, times gamma, is
    at most the node's ratio. At gamma = 1 both attacks rank the nodes of a run in the same order. online: whether the mean is
    over all shadows. If not, only shadows without the node are used, and the mean over all shadows is estimated as ((1 + guess) *
    mean_out + 1 - guess) / 2, where mean_out is the mean over these shadows (RMIA, equation 4).
    """

    alpha: float = 1.0
    gamma: float | None = None
    online: bool = True
    guess: float = 0.3
    query: str = "posteriors@0-hop"
    usual: NDArray[np.float64] | None = None  # (c,) the log of the mean probability over the shadow models
    kinds: tuple[str, ...] = ("node", "label")

    @property
    def name(self) -> str:
        return ("base" if self.gamma is None else "rmia") + ("" if self.online else "-offline")

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models; offline also if all of them hold a challenge."""
        pilot = shadows_of(self, pilot)
        log_p = own_label(pilot.release, pilot.challenge, self.query)
        if self.online:
            return dataclasses.replace(self, usual=logsumexp(log_p, axis=0) - np.log(len(log_p)))
        p, out = np.exp(log_p), (~pilot.bits).sum(0)
        if not out.all():
            raise ValueError(f"{int((out == 0).sum())} challenges are in all {len(p)} shadow models: use more shadows.")
        mean_out = np.where(pilot.bits, 0, p).sum(0) / out
        return dataclasses.replace(self, usual=np.log(((1 + self.guess) * mean_out + 1 - self.guess) / 2))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        usual = learnt(self, self.usual)
        ratio = own_label(release, challenge, self.query) - self.alpha * usual
        if self.gamma is None:
            return ratio
        below = np.stack([np.searchsorted(np.sort(r), r - np.log(self.gamma), side="right") for r in ratio])
        share = (below + 0.5) / (ratio.shape[1] + 1)
        return np.log(share) - np.log1p(-share)


def own_label(release: Release, challenge: Challenge, query: str) -> NDArray[np.float64]:
    """(runs, c) float64: the log-probability of every challenge node's own label."""
    log_p = logs(release, challenge.items, query)
    return log_p[:, np.arange(len(challenge)), challenge.known.y[challenge.items]]
