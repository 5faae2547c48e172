"""Tests whether the noise of the mechanisms within a run follows the law that the recorder found."""

import numpy as np
from scipy import stats

from ....accounting.checks.conditions import Condition, checked
from ....models.recorder.mechanisms.mechanism import REPORT, TWO_SIDED, Mechanism
from ...recorded.study import History

MOST = 100_000  # largest number of values of a mechanism in the test of its law
ROUNDED = 1e-2  # in units of the scale: if noisy values are rounded more coarsely, `distance` tests the drawn numbers instead
REPORTED = 1e-6  # largest rounding error of a reported value
CELLS = 25.0  # smallest variance of a count for which `frequencies` uses the normal approximation
# the recorder's name of a law -> its distribution at scale 1; that of whole numbers has about the tails of Laplace numbers
DISTRIBUTIONS = {"normal": stats.norm, "laplace": stats.laplace, TWO_SIDED: stats.laplace}
# the same, with the laws of numbers from which programs compute noise
DRAWN = {**DISTRIBUTIONS, "uniform": stats.uniform, "exponential": stats.expon}


def law_of(run: History) -> Condition:
    """The condition that noisy minus clean values follow the recorded law and scale, with the p-value of its test."""
    p_values = [frequencies(m) if m.law == REPORT else distance(m) for m in run.mechanisms]
    tests = "Kolmogorov-Smirnov; reports: how often each value was reported"
    return checked("noisy minus clean values follow the recorded law and scale", tests, min(1.0, len(p_values) * min(p_values)))


def distance(mechanism: Mechanism) -> float:
    """The p-value of a Kolmogorov-Smirnov test of the noise of a mechanism, in units of its scale, against the recorded law."""
    if mechanism.law == TWO_SIDED:
        return whole_distance(mechanism)
    drawn = coarse(mechanism)
    left = mechanism.draw.units.ravel() if drawn else mechanism.units[mechanism.own]
    law = DRAWN[mechanism.draw.law if drawn else mechanism.law]
    return float(stats.kstest(left[:: max(1, left.size // MOST)], law.cdf).pvalue)


def whole_distance(mechanism: Mechanism) -> float:
    """As `distance`, for whole noise. Each number k becomes a random number between the probabilities of less than k and of at
    most k, which is uniform if the law holds.
    """
    law, numbers = stats.dlaplace(1 / mechanism.scale), np.rint(mechanism.noisy - mechanism.clean).ravel()
    numbers = numbers[:: max(1, numbers.size // MOST)]
    between = np.random.default_rng(0).random(numbers.size)
    return float(stats.kstest(law.cdf(numbers - 1) + between * law.pmf(numbers), "uniform").pvalue)


def coarse(mechanism: Mechanism) -> bool:
    """Whether noisy values are rounded so coarsely that the noise cannot be computed from them."""
    steps = np.spacing(np.abs(mechanism.noisy[mechanism.covered]))
    scales = np.broadcast_to(mechanism.scale, mechanism.noisy.shape)[mechanism.covered]
    return bool(np.median(steps) > ROUNDED * np.median(scales))


def frequencies(report: Mechanism) -> float:
    """The Bonferroni p-value of "each value is reported as often as its probabilities say", by the normal approximation.

    Values with a variance below CELLS are not tested; the p-value is 1 if none is left.
    """
    values, chances = np.asarray(report.noisy, dtype=np.float64).ravel(), report.chances.reshape(-1, len(report.values))
    spread = np.sqrt((chances * (1 - chances)).sum(0))
    known = spread**2 >= CELLS
    gaps = [(np.abs(values - value) < REPORTED).sum() - chances[:, k].sum() for k, value in enumerate(report.values)]
    p_values = 2 * stats.norm.sf(np.abs(np.array(gaps)[known]) / spread[known])
    return min(1.0, len(p_values) * float(p_values.min())) if known.any() else 1.0
