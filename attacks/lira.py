"""The likelihood-ratio attack of Carlini et al. 2022 on one number for each challenge: nodes or edges, online or offline."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import digamma, polygamma

from .distances import correlation
from .signals import label_logit, logs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.base import Release
    from .base import Challenge, Pilot

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Moments:
    """What the shadow models say of each challenge's signal, (c,) each: its mean and variance with the challenge in and out."""

    mean_in: NDArray[np.float64]
    mean_out: NDArray[np.float64]
    variance_in: NDArray[np.float64]
    variance_out: NDArray[np.float64]

    @staticmethod
    def of(signal: NDArray[np.float64], bits: NDArray[np.bool_], shrinkage: float | None = None) -> Moments:
        """signal, bits: (shadows, c).

        Each variance is drawn towards the one pooled over all challenges, which counts as `shrinkage` degrees of freedom: 0
        is the per-challenge form, infinity the global variance that Carlini et al. advise for few shadows, and None as many
        as the shadows themselves call for. A challenge that no shadow saw in (or out) gets its other mean and the pooled
        shift between the two.
        """
        means: list[NDArray[np.float64]] = []
        variances: list[NDArray[np.float64]] = []
        sizes = [bits.sum(0), (~bits).sum(0)]
        for side, n in zip((bits, ~bits), sizes, strict=True):
            mean = np.where(side, signal, 0).sum(0) / np.maximum(n, 1)
            squares = (np.where(side, signal - mean, 0) ** 2).sum(0)
            pooled = squares.sum() / max(1, (n - 1)[n > 1].sum())
            own = squares / np.maximum(n - 1, 1)
            prior = alike(own[n > 1], (n - 1)[n > 1]) if shrinkage is None else shrinkage
            weight = 1.0 if np.isinf(prior) else prior / np.maximum(n - 1 + prior, TINY)
            means.append(mean)
            variances.append(np.maximum(np.where(n > 1, (1 - weight) * own + weight * pooled, pooled), TINY))
        both = (sizes[0] > 0) & (sizes[1] > 0)
        shift = float((means[0] - means[1])[both].mean()) if both.any() else 0.0
        mean_in = np.where(sizes[0] > 0, means[0], means[1] + shift)
        mean_out = np.where(sizes[1] > 0, means[1], means[0] - shift)
        return Moments(mean_in, mean_out, *variances)


def alike(variances: NDArray[np.float64], freedom: NDArray[np.int64]) -> float:
    """How many degrees of freedom a common prior variance is worth, judging by how alike the sample variances are.

    Smyth 2004, "Linear models and empirical Bayes methods", section 6.2: the logarithms of sample variances scatter by
    trigamma(freedom / 2) around the true ones; what they scatter beyond that is trigamma(prior / 2). Infinity where that is
    nothing. variances, freedom: (c,). Edges far apart call for less than one, nodes for about four.
    """
    if len(variances) < 2:
        return np.inf
    logs_of = np.log(np.maximum(variances, TINY)) - digamma(freedom / 2) + np.log(freedom / 2)
    beyond = float(logs_of.var(ddof=1) - polygamma(1, freedom / 2).mean())
    if beyond <= 0:
        return np.inf
    half = 0.5 + 1 / beyond  # from below, where Newton's steps on 1 / trigamma never overshoot
    for _ in range(20):
        value = float(polygamma(1, half))
        half += value * (1 - value / beyond) / float(polygamma(2, half))
    return 2 * half


@dataclass(frozen=True, eq=False)
class Lira:
    """log N(signal; in) - log N(signal; out), each challenge with Gaussians from shadow models.

    signal: "label", the logit of the node's own label, or "ends", minus the log of the correlation distance between the two
    ends of an edge. online: uses shadows with and without the challenge; offline only those without, and the score is
    how far above them the target stands, in standard deviations. shrinkage: see Moments.of.
    """

    signal: str = "label"
    query: str = "posteriors@0-hop"
    online: bool = True
    shrinkage: float | None = None
    shadows: Moments | None = None

    def __post_init__(self) -> None:
        if self.signal not in SIGNALS:
            raise ValueError(f"signal={self.signal!r}: must be one of {', '.join(SIGNALS)}.")
        if self.shrinkage is not None and not self.shrinkage >= 0:
            raise ValueError(f"shrinkage={self.shrinkage}: must be at least 0; 0 is each challenge's own variance.")

    @property
    def name(self) -> str:
        return ("" if self.signal == "label" else "edge-") + ("lira" if self.online else "lira-offline")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.query,)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("node", "label") if self.signal == "label" else ("edge",)

    def fit(self, pilot: Pilot | None) -> Self:
        """Raises ValueError without shadow models."""
        if pilot is None:
            raise ValueError(f"attack '{self.name}' needs shadow models: fit it on a pilot.")
        signal = SIGNALS[self.signal](pilot.release, pilot.challenge, self.query)
        return dataclasses.replace(self, shadows=Moments.of(signal, pilot.bits, self.shrinkage))

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        if self.shadows is None:
            raise ValueError(f"attack '{self.name}' has not been fitted: call fit with a pilot first.")
        signal, m = SIGNALS[self.signal](release, challenge, self.query), self.shadows
        if not self.online:
            return (signal - m.mean_out) / np.sqrt(m.variance_out)
        likelihood_in = -((signal - m.mean_in) ** 2) / m.variance_in - np.log(m.variance_in)
        likelihood_out = -((signal - m.mean_out) ** 2) / m.variance_out - np.log(m.variance_out)
        return (likelihood_in - likelihood_out) / 2


def ends_logit(release: Release, challenge: Challenge, query: str) -> NDArray[np.float64]:
    """Minus the log of the correlation distance between the posteriors of an edge's two ends, (runs, c)."""
    each = []
    for k in range(len(release)):
        a, b = (np.exp(logs(release.part(slice(k, k + 1)), challenge.items[:, side], query)[0]) for side in (0, 1))
        each.append(-np.log(np.maximum(correlation(a, b), TINY)))
    return np.stack(each)


SIGNALS = {"label": label_logit, "ends": ends_logit}
