"""Empirical-Bayes shrinkage of the means and variances of many challenges, each estimated from few shadow models."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Numbers = NDArray[np.float64]

TINY = 1e-12


def prior_freedom(variances: Numbers, freedom: NDArray[np.int64]) -> float:
    """The degrees of freedom of the prior on the true variances, estimated from the scatter of the sample variances.

    The logarithm of a sample variance has variance trigamma(freedom / 2) around the true logarithm. Any further scatter is
    trigamma(prior / 2) (Smyth 2004, "Linear models and empirical Bayes methods", section 6.2). Returns infinity if there is no
    further scatter, or fewer than two variances. variances, freedom: (c,). Typical results: below 1 for edges, about 4 for nodes.
    """
    if len(variances) < 2:
        return np.inf
    logs_of = np.log(np.maximum(variances, TINY)) - digamma(freedom / 2) + np.log(freedom / 2)
    beyond = float(logs_of.var(ddof=1) - polygamma(1, freedom / 2).mean())
    if beyond <= 0:
        return np.inf
    half = 0.5 + 1 / beyond  # below the solution, from where Newton steps on 1 / trigamma do not overshoot
    for _ in range(20):
        value = float(polygamma(1, half))
        half += value * (1 - value / beyond) / float(polygamma(2, half))
    return 2 * half


def shrunk(means: Numbers, precision: Numbers, groups: NDArray[np.int64] | None = None) -> tuple[Numbers, Numbers]:
    """The posterior mean (c, d) and covariance (c, d, d) of each challenge's true means, given the sample means of all
    challenges.

    The prior is normal around the centre of the group. Its covariance is estimated as the covariance of the sample means around
    the centres, minus the covariance of the errors of the sample means (Efron and Morris 1972, "Empirical Bayes on vector
    observations").

    means: (c, d) sample means. precision: (c, d, d), the inverse covariance of their errors; the row and column of a mean
    without samples are zero. groups: (c,); None means one group. If too few challenges have samples for all means, the scatter
    cannot be estimated, and the sample means are returned unchanged.
    """
    groups = np.zeros(len(means), dtype=np.int64) if groups is None else groups
    whole = np.diagonal(precision, axis1=1, axis2=2).all(1)
    freedom = int(whole.sum()) - len(np.unique(groups[whole]))
    if freedom < 1:
        return means, np.asarray(np.linalg.pinv(precision), dtype=np.float64)
    centre = np.empty_like(means)
    for group in np.unique(groups):
        some = whole & (groups == group)
        centre[groups == group] = means[some if some.any() else whole].mean(0)
    apart = means - centre
    scatter = apart[whole].T @ apart[whole] / freedom
    sizes, axes = np.linalg.eigh(scatter - np.linalg.inv(precision[whole]).mean(0))
    spread = (axes * np.maximum(sizes, 0)) @ axes.T
    covariance = np.linalg.solve(np.eye(len(spread)) + spread @ precision, np.broadcast_to(spread, precision.shape))
    return centre + np.einsum("cij,cjk,ck->ci", covariance, precision, apart, optimize=True), covariance
