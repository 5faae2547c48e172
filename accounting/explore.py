"""Estimates of epsilon for plots. They carry no frequentist guarantee, hence are no `Bound` and never decide a verdict."""

from __future__ import annotations

import numpy as np
from scipy import special

from .rates import epsilon_of_rates

DRAWS = 200_000
LABEL = "explored, no guarantee"  # stands beside every number from this file


def jeffreys(false_positives: int, n0: int, false_negatives: int, n1: int, delta: float, alpha: float = 0.05) -> float:
    """The lower bound of `lower` with Jeffreys' intervals in place of Clopper and Pearson's; too large too often near 0 and 1."""
    a = special.betainccinv(false_positives + 0.5, n0 - false_positives + 0.5, alpha / 2)
    b = special.betainccinv(false_negatives + 0.5, n1 - false_negatives + 0.5, alpha / 2)
    return float(epsilon_of_rates(a, b, delta))


def bayesian(
    false_positives: int,
    n0: int,
    false_negatives: int,
    n1: int,
    delta: float,
    alpha: float = 0.05,
    seed: int = 0,
    draws: int = 200_000,
) -> float:
    """The alpha-quantile of epsilon when both rates have independent Beta(1/2, 1/2) priors (Zanella-Béguelin et al. 2023).

    Sampled: the double integral of the paper's own tool misses the posterior's peak beyond 50,000 trials.
    """
    draw = np.random.default_rng(seed)
    a = draw.beta(false_positives + 0.5, n0 - false_positives + 0.5, DRAWS)
    b = draw.beta(false_negatives + 0.5, n1 - false_negatives + 0.5, DRAWS)
    return float(np.quantile(np.maximum(epsilon_of_rates(a, b, delta), epsilon_of_rates(1 - a, 1 - b, delta)), alpha))
