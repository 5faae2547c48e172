"""LiRA (Carlini et al. 2022), online or offline, on one number for each challenge, which is a node or an edge."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...models.base import Release
from ..base import Challenge, OneQuery, Pilot, learnt, shadows_of
from ..distances import correlation
from ..signals import label_logit, logs
from .shrinkage import TINY, prior_freedom, shrunk


@dataclass(frozen=True, eq=False)
class Moments:
    """The mean and variance of each challenge's signal over shadow models that contain the challenge ("in") and over those that
    do not ("out"), (c,) float64 each.
    """

    mean_in: NDArray[np.float64]
    mean_out: NDArray[np.float64]
    variance_in: NDArray[np.float64]
    variance_out: NDArray[np.float64]

    @staticmethod
    def of(signal: NDArray[np.float64], bits: NDArray[np.bool_], shrinkage: float | None = None, online: bool = True) -> Moments:
        """The moments of `signal`, estimated with shrinkage. signal, bits: (shadows, c).

        Each variance is shrunk towards the variance pooled over all challenges, which counts as `shrinkage` degrees of freedom. 0
        uses the variance of each challenge; infinity uses the pooled variance, as Carlini et al. advise for few shadows; None
        uses an empirical-Bayes estimate of the degrees of freedom. With None the means are shrunk too, and their uncertainty adds
        to the variances. If a challenge has no shadows on one side, its mean there is its mean on the other side, plus the
        average difference between the two sides. online: whether the means of both sides are shrunk together; if not, only the
        mean of "out" is shrunk.
        """
        sides = [moments(signal, side, shrinkage) for side in (bits, ~bits)]
        mean, variance, n = (np.stack(parts, axis=1) for parts in zip(*sides, strict=True))
        seen = n > 0
        both = seen.all(1)
        shift = float((mean[both, 0] - mean[both, 1]).mean()) if both.any() else 0.0
        mean = np.where(seen, mean, mean[:, ::-1] + np.array([shift, -shift]))
        if shrinkage is None:
            drawn = slice(0, 2) if online else slice(1, 2)
            precision = np.eye(2)[drawn, drawn] * (n / variance)[:, drawn, None]
            mean[:, drawn], unsure = shrunk(mean[:, drawn], precision)
            variance[:, drawn] += np.diagonal(unsure, axis1=1, axis2=2)
        return Moments(*mean.T, *variance.T)


def moments(
    signal: NDArray[np.float64], side: NDArray[np.bool_], shrinkage: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """The mean, the shrunk variance and the number of each challenge's shadows on one side, (c,) each. side: (shadows, c)
    bool.
    """
    n = side.sum(0)
    mean = np.where(side, signal, 0).sum(0) / np.maximum(n, 1)
    squares = (np.where(side, signal - mean, 0) ** 2).sum(0)
    pooled = squares.sum() / max(1, (n - 1)[n > 1].sum())
    own = squares / np.maximum(n - 1, 1)
    prior = prior_freedom(own[n > 1], (n - 1)[n > 1]) if shrinkage is None else shrinkage
    weight = 1.0 if np.isinf(prior) else prior / np.maximum(n - 1 + prior, TINY)
    return mean, np.maximum(np.where(n > 1, (1 - weight) * own + weight * pooled, pooled), TINY), n


@dataclass(frozen=True, eq=False)
class Lira(OneQuery):
    """log N(signal; in) - log N(signal; out), with the Gaussians of each challenge fitted on shadow models.

    signal: "label" for the logit of the node's own label, or "ends" for minus the log of the correlation distance between the two
    ends of an edge. online: whether the attack uses shadow models with and without the challenge. If not, it uses only those
    without the challenge, and the score is (signal of the target - mean of out) / standard deviation of out. shrinkage: see
    Moments.of. Raises ValueError for an unknown signal or a negative shrinkage.
    """

    signal: str = "label"
    query: str = "posteriors@0-hop"
    online: bool = True
    shrinkage: float | None = None
    shadows: Moments | None = None
    of_each_unit = True

    def __post_init__(self) -> None:
        if self.signal not in SIGNALS:
            raise ValueError(f"signal={self.signal!r}: must be one of {', '.join(SIGNALS)}.")
        if self.shrinkage is not None and not self.shrinkage >= 0:
            raise ValueError(f"shrinkage={self.shrinkage}: must be at least 0; 0 uses each challenge's own variance.")

    @property
    def name(self) -> str:
        return ("" if self.signal == "label" else "edge-") + ("lira" if self.online else "lira-offline")

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("node", "label") if self.signal == "label" else ("edge",)

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models."""
        pilot = shadows_of(self, pilot)
        signal = SIGNALS[self.signal](pilot.release, pilot.challenge, self.query)
        return dataclasses.replace(self, shadows=Moments.of(signal, pilot.bits, self.shrinkage, self.online))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        m, signal = learnt(self, self.shadows), SIGNALS[self.signal](release, challenge, self.query)
        if not self.online:
            return (signal - m.mean_out) / np.sqrt(m.variance_out)
        likelihood_in = -((signal - m.mean_in) ** 2) / m.variance_in - np.log(m.variance_in)
        likelihood_out = -((signal - m.mean_out) ** 2) / m.variance_out - np.log(m.variance_out)
        return (likelihood_in - likelihood_out) / 2


def ends_logit(release: Release, challenge: Challenge, query: str) -> NDArray[np.float64]:
    """(runs, c): minus the log of the correlation distance between the posteriors of an edge's two ends.

    Distances below 1e-12 count as 1e-12, because they are rounding errors of two equal posteriors.
    """
    each = []
    for k in range(len(release)):
        a, b = (np.exp(logs(release.part(slice(k, k + 1)), challenge.items[:, side], query)[0]) for side in (0, 1))
        each.append(-np.log(np.maximum(correlation(a, b), TINY)))
    return np.stack(each)


SIGNALS = {"label": label_logit, "ends": ends_logit}
