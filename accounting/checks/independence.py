"""Tests whether the canaries of a run behave like independent trials. Only then may a bound count canaries as rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import LEVEL, Condition, checked
from .score_law import distance_p_value

APART = "canaries of a run are independent, given their bits"
FEWEST = 30  # the normal approximations below need at least this many scores
MANY = 1000  # for this many sums or more, their mean square is treated as normal, for every distribution of a single sum


@dataclass(frozen=True)
class Independence:
    """The result of `independence`. dispersion_p: p-value of the hypothesis that runs differ no more than independent draws do,
    and that the scores are normal if this was tested. correlation_p: p-value of the hypothesis that a canary's score is not
    correlated with its neighbours' scores or bits. ok: neither p-value is below LEVEL. reason: one sentence.
    """

    ok: bool
    dispersion_p: float
    correlation_p: float
    reason: str

    @property
    def condition(self) -> Condition:
        """The result as a condition of a bound: it fails if a test rejects independence, or if there are too few scores for a
        test.
        """
        if not self.ok:
            return Condition(APART, "failed", self.reason)
        return checked(APART, "dispersion and correlation", min(self.dispersion_p, self.correlation_p))


def independence(scores: ArrayLike, bits: ArrayLike, *, normal: bool = True) -> Independence:
    """Tests the independence of canaries given their bits. scores, bits: (rounds, canaries), or (canaries,) for one run.

    Dispersion: the mean and the mean square of the residuals must vary between runs no more than within them. With normal=True
    the residuals must also be normal; use this for log-likelihood ratios. The test of normality detects a privacy loss that all
    canaries of a run share, even in a single run. With normal=False a single run is not enough. Correlation: a residual must not
    be correlated with the next residual in the given order, with the bits of its neighbours in this order, or with the number of
    bits that are 1. So canaries that might disturb one another should be neighbours. The smallest p-value of each group is
    multiplied by the size of the group.
    """
    s, b = np.atleast_2d(np.asarray(scores, float)), np.atleast_2d(np.asarray(bits).astype(bool))
    if s.shape != b.shape:
        raise ValueError(f"scores have shape {s.shape}, bits {b.shape}: the shapes must be equal.")
    if not np.isfinite(s).all():
        return Independence(False, 0.0, 1.0, "scores are not all finite")
    if min(b.sum(), (~b).sum()) < FEWEST:
        return Independence(False, 1.0, 1.0, f"fewer than {FEWEST} canaries in one of the worlds: too few to tell")
    if len(s) == 1 and not normal:
        return Independence(False, 1.0, 1.0, "in a single run the test cannot see what all canaries share")
    residuals = np.where(b, s - s[b].mean(), s - s[~b].mean())
    spread = math.sqrt(float((residuals**2).sum()) / (s.size - 2))
    if spread == 0:
        return Independence(False, 0.0, 1.0, "scores do not vary within a world")
    e = residuals / spread
    spreads = [_between_runs(e), _between_runs(e**2)] if len(e) > 1 else []
    if normal:
        spreads += [not_normal(e[b]), not_normal(e[~b])]
    signs = np.where(b, 1.0, -1.0)
    links = [_correlation(e[:, :-1], e[:, 1:]), _correlation(e[:, :-1], signs[:, 1:]), _correlation(e[:, 1:], signs[:, :-1])]
    if len(e) > 1:
        others = signs.sum(axis=1, keepdims=True) - signs
        links.append(_correlation(e, others - others.mean()))
    dispersion, correlation = (min(1.0, len(p) * min(p)) if p else 1.0 for p in (spreads, links))
    if dispersion < LEVEL:
        reason = f"scores are dispersed unlike independent draws (p = {dispersion:.1e})"
    elif correlation < LEVEL:
        reason = f"canaries are correlated with their neighbours (p = {correlation:.1e})"
    else:
        reason = "no sign of dependence"
    return Independence(min(dispersion, correlation) >= LEVEL, float(dispersion), float(correlation), reason)


def separate_draws(right: ArrayLike) -> Condition:
    """Tests whether every channel of every unit in every run draws its own random numbers. The test uses guesses of fair coins.

    right: (runs, units, channels) float, 1 where a guess was right, -1 where it was wrong, 0 where none was made. The residuals
    of each channel are summed over runs, over units, and over channels. Each of the three kinds of sums must vary as sums of
    independent draws do, neither more nor less, and neighbours along each of the three axes must not be correlated. Sums over
    runs detect draws that several runs share, and units whose channels differ from those of other units. Sums over units detect
    draws that the units of a run share. Sums over channels detect draws that the channels of a unit share. The smallest of the
    six p-values is multiplied by six. Channels whose guesses are always right are left out.
    """
    r = np.asarray(right, float)
    spread = r.std(axis=(0, 1))
    e = ((r - r.mean(axis=(0, 1))) / np.where(spread > 0, spread, 1.0))[..., spread > 0]
    lost = (e.shape[2], e.shape[2], 0)  # each channel has its own mean, which fixes some of the sums
    found = [_sums(e, axis, fixed) for axis, fixed in enumerate(lost)]
    for axis in range(3):
        along = np.moveaxis(e, axis, 0)
        found.append(_correlation(along[:-1], along[1:]))
    return checked(
        "every channel of every unit in every run draws its own numbers", "sums and neighbours", min(1.0, 6 * min(found))
    )


def _sums(e: NDArray[np.float64], axis: int, fixed: int) -> float:
    """Two-sided p-value of the hypothesis that the sums of e over an axis vary as sums of independent draws of variance 1."""
    if e.shape[axis] == 1:
        return 1.0
    squares = (e.sum(axis=axis) ** 2 / e.shape[axis]).ravel()
    if squares.size - fixed < 1:
        return 1.0
    if squares.size < MANY:
        tail = float(special.chdtrc(squares.size - fixed, squares.sum()))
        return 2 * min(tail, 1 - tail)
    error = squares.std() / math.sqrt(squares.size)
    return float(2 * special.ndtr(-abs(squares.mean() - 1) / error)) if error > 0 else 0.0


def _between_runs(x: NDArray[np.float64]) -> float:
    """One-sided p-value of a chi-squared test that the runs' means of x (runs, canaries) differ no more than chance allows; 1 for
    fewer than ten canaries.
    """
    runs, canaries = x.shape
    within = x.var(axis=1, ddof=1).mean() if canaries > 1 else x.var()
    if canaries < 10 or within == 0:
        return 1.0
    between = canaries * ((x.mean(axis=1) - x.mean()) ** 2).sum() / within
    return float(special.chdtrc(runs - 1, between))


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Two-sided p-value of the hypothesis that x and y are uncorrelated, by a normal approximation."""
    products = (x * y).ravel()
    scale = math.sqrt(float((products**2).sum())) if products.size >= FEWEST else 0.0
    return float(2 * special.ndtr(-abs(products.sum() / scale))) if scale > 0 else 1.0


def not_normal(x: NDArray[np.float64]) -> float:
    """p-value of Kolmogorov's distance between x and the normal law with the mean and sd of x."""
    return distance_p_value(np.sort((x - x.mean()) / x.std()) if x.std() > 0 else np.zeros_like(x))
