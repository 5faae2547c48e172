"""Tests whether the canaries of a run behave like independent trials. Only then may a bound count canaries as rounds. And tests
whether runs depend on one another.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import LEVEL, Condition, checked
from .patterns import lagged
from .score_law import distance_p_value, world_sides

SEPARATE = "every channel of every unit in every run draws its own numbers"
APART = "canaries of a run are independent, given their bits"
SEPARATE_RUNS = "runs are independent, given their bits"
FEWEST_RUNS = 10  # tests of sums or of shares need at least this many runs
# level of the check of correct guesses; it is higher than that of other checks, because there are few trainings and the second
# bound of `guessed` needs no independence
OF_COINS = 0.01
FEWEST = 30  # the normal approximations below need at least this many scores
MANY = 1000  # from this many sums on, `_sums` treats their mean square as normal, whatever the distribution of one sum is


@dataclass(frozen=True)
class Independence:
    """The result of `independence`. ok: the tests could run, and neither p-value is below LEVEL. dispersion_p: p-value of the
    hypothesis that runs differ no more than independent draws do and, if this was tested, that the scores are normal.
    correlation_p: p-value of the hypothesis that a canary's score is not correlated with its neighbours' scores or bits. reason:
    why `ok` is true or false, for the report.
    """

    ok: bool
    dispersion_p: float
    correlation_p: float
    reason: str

    @property
    def condition(self) -> Condition:
        """The result as a condition of a bound: it failed if a test rejected independence, or if the tests could not run."""
        if not self.ok:
            return Condition(APART, "failed", self.reason)
        return checked(APART, "dispersion and correlation", min(self.dispersion_p, self.correlation_p))


def independence(scores: ArrayLike, bits: ArrayLike, *, normal: bool = True) -> Independence:
    """Tests whether canaries are independent, given their bits. scores: (runs, canaries) float, or (canaries,) for one run. bits:
    the same shape, True if the canary was in the graph.

    A residual is a score minus the mean of all scores with the same bit. Dispersion: the mean and the mean square of the
    residuals must not vary more between runs than within them. With normal=True the residuals must also be normal; use this
    option for log-likelihood ratios. The test of normality detects a privacy loss that all canaries of a run share, even in a
    single run. With normal=False a single run is not enough. Correlation: a residual must not be correlated with the next
    residual, with the bits of the neighbouring canaries, or with the number of other canaries in the run whose bit is 1.
    Neighbours are consecutive in the given order, so place canaries that might disturb one another side by side. The smallest
    p-value of each of the two groups is multiplied by the number of tests in the group. Raises ValueError for unequal shapes.
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
    links = [uncorrelated(e[:, :-1], e[:, 1:]), uncorrelated(e[:, :-1], signs[:, 1:]), uncorrelated(e[:, 1:], signs[:, :-1])]
    if len(e) > 1:
        others = signs.sum(axis=1, keepdims=True) - signs
        links.append(uncorrelated(e, others - others.mean()))
    dispersion, correlation = (min(1.0, len(p) * min(p)) if p else 1.0 for p in (spreads, links))
    if dispersion < LEVEL:
        reason = f"scores are dispersed unlike independent draws (p = {dispersion:.1e}, level {LEVEL:g})"
    elif correlation < LEVEL:
        reason = f"canaries are correlated with their neighbours (p = {correlation:.1e}, level {LEVEL:g})"
    else:
        reason = "no sign of dependence"
    return Independence(min(dispersion, correlation) >= LEVEL, float(dispersion), float(correlation), reason)


def separate_trials(guessed: ArrayLike, bits: ArrayLike, what: str) -> Condition:
    """`separate_draws` for guesses that are right with a different chance in each world. guessed, bits: (runs, units) bool, the
    guess and the true bit. what: the condition in words. From each guess the mean of its world is subtracted.
    """
    g, b = np.asarray(guessed, float), np.asarray(bits).astype(bool)
    means = [g[b == world].mean() if (b == world).any() else 0.0 for world in (False, True)]
    return separate_draws((g - np.where(b, means[1], means[0]))[..., None], what)


def separate_draws(right: ArrayLike, what: str = SEPARATE) -> Condition:
    """Tests whether every channel of every unit in every run draws its own random numbers, from guesses of fair coins.

    right: (runs, units, channels) float, 1 for a right guess, -1 for a wrong guess, 0 for no guess. what: the condition in words.
    A residual is an entry minus
    the mean of its channel, divided by the channel's sd. Residuals are summed over runs, over units, and over channels. Each of
    the three kinds of sums must vary as sums of independent draws do, neither more nor less. Neighbours along each of the three
    axes must not be correlated. Sums over runs detect draws that several runs share, and units whose channels differ from those
    of other units. Sums over units detect draws that the units of a run share. Sums over channels detect draws that the channels
    of a unit share. The smallest of the six p-values is multiplied by six. Channels whose entries are all equal are left out, for
    example if all guesses are right.
    """
    r = np.asarray(right, float)
    spread = r.std(axis=(0, 1))
    if not spread.any():
        return Condition(what, "checked", "no channel varies")
    e = ((r - r.mean(axis=(0, 1))) / np.where(spread > 0, spread, 1.0))[..., spread > 0]
    lost = (e.shape[2], e.shape[2], 0)  # degrees of freedom that are lost, because the mean of each channel is subtracted
    found = [_sums(e, axis, fixed) for axis, fixed in enumerate(lost)]
    for axis in range(3):
        along = np.moveaxis(e, axis, 0)
        found.append(uncorrelated(along[:-1], along[1:]))
    return checked(what, "sums and neighbours", min(1.0, 6 * min(found)))


def separate_runs(scores: ArrayLike, bits: ArrayLike, run: ArrayLike) -> Condition | None:
    """Tests whether runs depend on one another. The condition fails, or it is granted; None if there is one run only.

    A bound from one run allows any dependence between its canaries, because one training is private in each bit. Several
    trainings are together as private only if each drew its own noise. That is granted, because no test sees it: a canary with the
    same noise in all runs looks merely unusual. Two tests find other dependence. The numbers of scores above the median of their
    world must not be correlated between runs, at any distance in the order of the file. No run may be a copy of another, score by
    score and bit by bit, if fair coins make that improbable. scores, bits, run: (rows,).
    """
    s, b = np.ravel(np.asarray(scores, float)), np.ravel(np.asarray(bits)).astype(bool)
    _, first, of = np.unique(np.ravel(np.asarray(run)), return_index=True, return_inverse=True)
    runs, order = len(first), np.argsort(np.ravel(of), kind="stable")
    if runs < 2:
        return None
    sizes = np.bincount(np.ravel(of))
    parts = np.split(order, np.cumsum(sizes)[:-1])
    seen: dict[bytes, int] = {}
    for part in parts:
        key = s[part].tobytes() + b[part].tobytes()
        if key in seen and runs**2 * 0.5 ** (len(part) + 1) < LEVEL:
            return Condition(SEPARATE_RUNS, "failed", f"two runs have the same scores and bits in all of their {len(part)} rows")
        seen[key] = len(part)
    sides = world_sides(s, b)
    sums = (np.bincount(np.ravel(of), weights=sides) / np.sqrt(sizes))[np.argsort(first)]
    tested = "the runs are too few to test"
    if runs >= FEWEST_RUNS and sums.std() > 0:
        found = checked(SEPARATE_RUNS, "sums of neighbouring and other runs", lagged(sums - sums.mean()))
        if found.how == "failed":
            return found
        tested = f"no dependence was found by {found.detail}"
    detail = f"stated by whoever made the runs, because no score shows noise that all runs share; {tested}"
    return Condition(f"if each run drew its own noise, so that {SEPARATE_RUNS}", "granted", detail)


def _sums(e: NDArray[np.float64], axis: int, fixed: int) -> float:
    """Two-sided p-value of the hypothesis that the sums of e over an axis vary as sums of independent draws of variance 1. fixed:
    the degrees of freedom that are lost.
    """
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
    """One-sided p-value of a chi-squared test that the runs' means of x (runs, canaries) differ no more than chance allows. 1 for
    fewer than ten canaries.
    """
    runs, canaries = x.shape
    within = x.var(axis=1, ddof=1).mean() if canaries > 1 else x.var()
    if canaries < 10 or within == 0:
        return 1.0
    between = canaries * ((x.mean(axis=1) - x.mean()) ** 2).sum() / within
    return float(special.chdtrc(runs - 1, between))


def uncorrelated(x: NDArray[np.float64], y: NDArray[np.float64], fewest: int = FEWEST) -> float:
    """Two-sided p-value that x and y are uncorrelated, by a normal approximation. 1 for fewer than `fewest` pairs."""
    products = (x * y).ravel()
    return sum_of_zero(float(products.sum()), float((products**2).sum())) if products.size >= fewest else 1.0


def sum_of_zero(total: float, variance: float) -> float:
    """Two-sided p-value that a normal sum with this variance has mean 0; 1 for variance 0."""
    return float(2 * special.ndtr(-abs(total) / math.sqrt(variance))) if variance > 0 else 1.0


def not_normal(x: NDArray[np.float64]) -> float:
    """p-value of Kolmogorov's distance between x and the normal distribution with the mean and sd of x."""
    return distance_p_value(np.sort((x - x.mean()) / x.std()) if x.std() > 0 else np.zeros_like(x))
