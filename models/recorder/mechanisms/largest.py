"""The probabilities of which of several noisy numbers is the largest, as in report-noisy-max and in votes with noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(16)  # on pieces of at most one unit, between which the densities have corners
LOWEST = {"laplace": 600.0, "normal": 45.0}  # a score that is farther below the largest one counts as so far below: below 1e-200
BEYOND = {"laplace": 45.0, "normal": 12.0}  # the noise lies farther out with a probability that rounding hides
PART = 4096  # points at which all densities are computed at once


def chances_of_largest(law: str, scores: Floats) -> Floats:
    """The probability of each of several scores to be the largest after noise. scores: (..., scores), in units of the noise.
    law: of the independent noise of all scores, "laplace" or "normal".

    Score k is the largest with probability ∫ f(x - k) ∏ F(x - j) dx over all other scores j, with the density f and the
    distribution function F. The integral is computed by Gauss-Legendre quadrature, to about 1e-10 of each probability.
    """
    found = np.empty(scores.shape)
    for at in np.ndindex(scores.shape[:-1]):
        found[at] = _of_one(law, scores[at])
    return found


def _of_one(law: str, scores: Floats) -> Floats:
    """As `chances_of_largest`, for one row of scores."""
    below = np.maximum(scores - scores.max(), -LOWEST[law])
    ends = np.array([below.min() - BEYOND[law], BEYOND[law]])
    cuts = np.unique(np.concatenate([np.arange(*ends), below, ends]))
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    x, weights = (middle[:, None] + half[:, None] * POINTS).ravel(), (half[:, None] * WEIGHTS).ravel()
    chances = np.zeros(scores.size)
    for start in range(0, x.size, PART):
        gaps = x[start : start + PART, None] - below
        densities, shares = _logarithms(law, gaps)
        chances += weights[start : start + PART] @ np.exp(densities - shares + shares.sum(1, keepdims=True))
    return chances / chances.sum()


def _logarithms(law: str, gaps: Floats) -> tuple[Floats, Floats]:
    """The logarithms of the density and of the distribution function of a law at scale 1."""
    if law == "laplace":
        below = np.minimum(gaps, 0.0) - math.log(2)
        return -np.abs(gaps) - math.log(2), np.where(gaps < 0, below, np.log1p(-np.exp(-np.maximum(gaps, 0.0)) / 2))
    from scipy.special import log_ndtr  # programs in which the recorder runs may lack SciPy; they compute no probability

    return -np.square(gaps) / 2 - math.log(2 * math.pi) / 2, log_ndtr(gaps)
