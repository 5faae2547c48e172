"""The exact likelihood ratio of one edge from messages that are noisy rows divided by their length."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...accounting.closed_forms import gauss_legendre
from ...models.base import Release
from ..base import Challenge, Untrained
from ..signals import rows
from .gaussian_ratio import arcs_of, ends, known_sums, noise_std

RANGE = (10.0, 25.0)  # the integral extends this many widths of its peak below and above the peak
POINTS = 64  # of the quadrature


@dataclass(frozen=True)
class DirectionRatio(Untrained):
    """The Neyman-Pearson test of one edge on the messages that party B of VESPER receives in variant s1.

    Message k + 1 of a node is y / |y| with y = m + noise, where m is the node's own message k plus those of its neighbours. The
    transcript contains all messages, so the attacker knows m except for the contribution of the challenge edge. The direction u
    of y has the projected normal density. This density is proportional to e^(-|m|^2 / 2 s^2) times the integral of r^(dim - 1)
    e^(-r^2 / 2 + r <u, m> / s) over r > 0, with s the std of the noise. An edge contributes at both ends and in every message.
    Scores are log-likelihood ratios.
    """

    name: str = "direction-ratio"
    needs: tuple[str, ...] = ("transcript",)
    kinds: tuple[str, ...] = ("edge",)

    def score(self, release: Release, challenge: Challenge) -> NDArray[np.float64]:
        """(runs, c) float64. Raises ValueError for challenge edges that share an end."""
        reached, sent, std = ends(challenge), release["transcript"], noise_std(release)
        inputs, directions = sent[:, :-1], sent[:, 1:]
        seen = rows(release, reached)
        total = np.zeros((len(release), len(challenge)))
        for part, known in known_sums(release, inputs, challenge, reached):
            without = known + inputs[part][:, :, seen]
            for receive, send in arcs_of(challenge):
                at = np.searchsorted(reached, receive)
                u, m = directions[part][:, :, rows(release, receive)], without[:, :, at]
                more = m + inputs[part][:, :, rows(release, send)]
                for run in range(len(u)):  # one run at a time, because the quadrature needs POINTS times the memory
                    total[part.start + run] += (log_density(u[run], more[run], std) - log_density(u[run], m[run], std)).sum(0)
        return total


def log_density(u: NDArray[np.float32], mean: NDArray[np.float32], std: float) -> NDArray[np.float64]:
    """The log-density, up to a constant, of the direction u of a normal vector with this mean and std. (…, dim) -> (…)
    float64.
    """
    u, scaled = u.astype(np.float64), mean.astype(np.float64) / std
    return log_moment((u * scaled).sum(-1), u.shape[-1] - 1) - np.square(scaled).sum(-1) / 2


def log_moment(t: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """ln of the integral of r^power e^(-r^2 / 2 + r t) over r > 0, by Gauss-Legendre quadrature around its peak."""
    peak = (t + np.sqrt(t * t + 4 * power)) / 2 if power else np.maximum(t, 0.0)
    width = 1 / np.sqrt(1 + power / np.maximum(peak, 1e-12) ** 2) if power else np.ones_like(t)
    low, high = np.maximum(peak - RANGE[0] * width, 0.0), peak + RANGE[1] * width
    points, weights = gauss_legendre(POINTS)
    r = low[..., None] + (high - low)[..., None] * (points + 1) / 2
    exponent = (power * np.log(r) if power else 0.0) - r * r / 2 + r * t[..., None]
    top = exponent.max(-1, keepdims=True)
    return np.asarray(np.log((np.exp(exponent - top) * weights).sum(-1) * (high - low) / 2) + top[..., 0])
