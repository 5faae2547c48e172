"""The rules by which other public tools compute an epsilon from scores, reimplemented from their formulas to count false alarms.

Each function takes the scores of many audits, and returns in which audits the rule's bound exceeds the true epsilon, at nominal
5 %.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from gnnaudit.accounting.lower.detection.error_rates import epsilon_of_rates, mu_of_rates, rate_at_most

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def counts(scores0: Array, scores1: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of false positives and false negatives at every threshold. (audits, n) twice -> (audits, 2n + 1) twice."""
    n = scores0.shape[1]
    order = np.argsort(-np.concatenate([scores0, scores1], axis=1), axis=1)
    ones = np.cumsum(order >= n, axis=1)
    zeros = np.arange(1, 2 * n + 1) - ones
    edge = np.zeros((len(scores0), 1), int)
    return np.hstack([edge, zeros]), n - np.hstack([edge, ones])


def best_threshold(scores0: Array, scores1: Array, epsilon: float, delta: float, alpha: float = 0.05) -> Flags:
    """Clopper-Pearson with alpha / 2 for each error rate, at the threshold and in the direction with the largest bound on the
    same scores.

    This is eps_cp of PrivacyGuard, cp of bb-audit-dpsgd, and audit_2020 of TensorFlow Privacy without a threshold.
    """
    fp, fn = counts(scores0, scores1)
    n = scores0.shape[1]
    upper = rate_at_most(np.arange(n + 1), n, alpha / 2)
    worth = np.maximum(epsilon_of_rates(upper[fp], upper[fn], delta), epsilon_of_rates(upper[n - fp], upper[n - fn], delta))
    return np.asarray(worth.max(axis=1) > epsilon)


def best_gaussian_threshold(scores0: Array, scores1: Array, mu: float, alpha: float = 0.05) -> Flags:
    """The largest mu of any threshold, from Clopper-Pearson limits with alpha for each error rate: gdp of bb-audit-dpsgd."""
    fp, fn = counts(scores0, scores1)
    n = scores0.shape[1]
    upper = rate_at_most(np.arange(n + 1), n, alpha)
    return np.asarray(mu_of_rates(upper[fp], upper[fn]).max(axis=1) > mu)


def hull_bonferroni(scores0: Array, scores1: Array, epsilon: float, delta: float, alpha: float = 0.05) -> Flags:
    """Clopper-Pearson with alpha / corners at each corner of the ROC hull: jax_privacy's default, which has no proof."""
    fp, fn = counts(scores0, scores1)
    n = scores0.shape[1]
    found = np.zeros(len(fp), bool)
    for i, (x, y) in enumerate(zip(fp, n - fn, strict=True)):
        corners = _hull(x, y)
        upper = rate_at_most(np.arange(n + 1), n, alpha / len(corners) / 2)
        a, b = upper[x[corners]], upper[n - y[corners]]
        found[i] = np.log(np.maximum(1 - b - delta, 1e-300) / a).max() > epsilon
    return found


def hull_gaussian(scores0: Array, scores1: Array, mu: float, delta: float = 1e-5, alpha: float = 0.05) -> Flags:
    """The largest |mu| from Clopper-Pearson limits over the corners of the ROC hull: epsilon_from_gdp of jax_privacy 2.0.0."""
    fp, fn = counts(scores0, scores1)
    n = scores0.shape[1]
    found = np.zeros(len(fp), bool)
    for i, (x, y) in enumerate(zip(fp, n - fn, strict=True)):
        corners = _hull(x, y)
        upper = rate_at_most(np.arange(n + 1), n, alpha / len(corners) / 2)
        a, b = upper[x[corners]], upper[n - y[corners]]
        found[i] = np.abs(mu_of_rates(a, b))[np.maximum(a, b) < 1 - delta].max(initial=0.0) > mu
    return found


def _hull(x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.intp]:
    """The indices of the corners of the upper concave hull of a ROC curve. x, y: its points."""
    keep: list[int] = []
    for k in range(len(x)):
        while len(keep) > 1 and (y[k] - y[keep[-2]]) * (x[keep[-1]] - x[keep[-2]]) >= (y[keep[-1]] - y[keep[-2]]) * (
            x[k] - x[keep[-2]]
        ):
            keep.pop()
        keep.append(k)
    return np.array(keep)


def best_guess_grid(scores: Array, bits: Flags, epsilon: float, alpha: float = 0.05, steps: int = 20) -> Flags:
    """Steinke's bound at the best numbers of guesses for the scores, as in ML Privacy Meter. scores, bits: (audits, m)."""
    m = scores.shape[1]
    sorted_bits = np.take_along_axis(bits, np.argsort(scores, axis=1), axis=1)
    zeros = np.hstack([np.zeros((len(bits), 1), int), np.cumsum(~sorted_bits, axis=1)])
    ones = np.hstack([np.zeros((len(bits), 1), int), np.cumsum(sorted_bits[:, ::-1], axis=1)])
    q = 1 / (1 + math.exp(-epsilon))
    found = np.zeros(len(bits), bool)
    grid = sorted({round(m * k / steps) for k in range(steps + 1)})
    for low in grid:
        for high in grid:
            if 0 < low + high <= m:
                right = zeros[:, low] + ones[:, high]
                found |= np.where(right > 0, special.betainc(np.maximum(right, 1), low + high - right + 1, q), 1.0) < alpha
    return found


def product_null(wrong: NDArray[np.int64], m: int, mu: float, alpha: float = 0.05) -> Flags:
    """A test that treats the errors of all m canaries as independent, at the least rate of mu-GDP: Xiang et al. 2025, r = m."""
    return np.asarray(special.bdtr(wrong, m, float(special.ndtr(-mu / 2))) < alpha)
