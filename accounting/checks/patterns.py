"""Tests whether a sequence repeats itself: at a distance, with a period, because its rows were copied, or in another file."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from .conditions import Condition

Array = NDArray[np.float64]
FEWEST = 8  # products at a lag; with fewer, no normal approximation rejects
ALIKE = 5  # `copied` tests a count k only if at least so many values occur k times
MOST_COPIES = 64  # `copied` finds rows that were written up to this often; `repeated` finds more copies in any case
MANY = 5  # `of_other_rounds` finds a pilot with more than so many scores of the tested rounds
SURE = 1e-6  # `copied` spends this on the limit of an odds ratio


def lagged(x: Array) -> float:
    """p-value of the hypothesis that no two numbers at any fixed distance are correlated: the smallest of all distances, times
    their number. x: a sequence of mean 0. 1 for short or constant sequences.

    At each distance the sum of products is divided by the root of the sum of their squares, or of its expectation if that is
    larger. So neither a few products nor a stretch without the rarer of two values rejects.
    """
    n, square = x.size, float(np.dot(x, x)) / max(x.size, 1)
    if n <= FEWEST or square == 0:
        return 1.0
    lags = np.arange(1, n - FEWEST + 1)
    scale = np.maximum(_products(x * x)[lags], square**2 * (n - lags))
    largest = float(np.max(np.abs(_products(x)[lags]) / np.sqrt(scale)))
    return min(1.0, 2 * len(lags) * float(special.ndtr(-largest)))


def _products(x: Array) -> Array:
    """For each lag the sum of x[i] * x[i + lag]. (n,) -> (n,)."""
    size = fft.next_fast_len(2 * x.size, real=True)
    return np.asarray(fft.irfft(np.abs(fft.rfft(x, size)) ** 2, size)[: x.size])


def periodic(x: Array) -> float:
    """p-value of the hypothesis that no period stands out, by the largest share of the variance at one frequency (Fisher 1929).

    x: a sequence of mean 0, in random order under the hypothesis. 1 for short or constant sequences.
    """
    power = np.abs(fft.rfft(x)[1 : (x.size + 1) // 2]) ** 2  # without the mean, and without the highest frequency, which is real
    if len(power) < 2 or not power.sum() > 0:
        return 1.0
    share = float(power.max() / power.sum())
    return float(min(1.0, len(power) * math.exp((len(power) - 1) * math.log1p(-min(share, 1 - 1e-15)))))


def repeated(scores: Array, bits: NDArray[np.bool_]) -> float:
    """p-value of the hypothesis that the file does not repeat its first rounds. Under it, a score equals that of one period
    before as often as two random scores of its world are equal. 1 if the rounds have no period.
    """
    n, periods = scores.size, [k for k in range(1, math.isqrt(scores.size) + 1) if scores.size % k == 0]
    alike = [_equal(scores[bits == world]) for world in (False, True)]
    found = 1.0
    for period in sorted({k for d in periods for k in (d, n // d)} - {n}):
        if (bits[period:] == bits[:-period]).all() and (scores[period:] == scores[:-period]).all():
            ones = int(bits[period:].sum())
            found = min(found, 2 * len(periods) * alike[0] ** (n - period - ones) * alike[1] ** ones)
    return found


def _equal(x: Array) -> float:
    """The probability that two draws with replacement are equal."""
    shares = np.unique(x, return_counts=True)[1] / max(x.size, 1)
    return float(np.dot(shares, shares))


def copied(scores: Array, bits: NDArray[np.bool_]) -> float:
    """p-value of the hypothesis that no rows (score, bit) were copied, whatever the distributions of the scores.

    Let P(k) be the probability that a value occurs k times. Then P(k)^2 is at most (k + 1) / k * P(k - 1) * P(k + 1), up to a
    factor for the length. So, by Cauchy and Schwarz, the expected numbers of values that occur k - 1, k and k + 1 times satisfy
    the same inequality: among independent scores, of which many occur twice, some occur three times. A file whose rows were
    written twice has none. Each k with at least ALIKE values is tested.
    """
    worlds = [scores[bits == world] for world in (False, True)]
    each = np.concatenate([np.unique(x, return_counts=True)[1] for x in worlds])
    times, n = np.bincount(each, minlength=MOST_COPIES + 2), min(x.size for x in worlds if x.size)
    tested = [k for k in range(2, min(MOST_COPIES, n - 1) + 1) if times[k] >= ALIKE]
    p_values = []
    for k in tested:
        fewer, equal, more = (int(times[j]) for j in (k - 1, k, k + 1))
        least = float(special.betaincinv(equal, fewer + 1, SURE))  # the share of `equal` among the two
        odds = least / (1 - least) * k / (k + 1) * (n - k) / (n - k + 1)
        p_values.append(SURE + float(special.bdtr(more, equal + more, odds / (1 + odds))))
    return min(1.0, len(tested) * min(p_values)) if p_values else 1.0


def of_other_rounds(pilot: Array, scores: Array) -> Condition:
    """Tests whether the rounds of a pilot are among the tested rounds, in any order. The condition fails if more than MANY of its
    scores are, and hardly any two tested scores are equal; otherwise it is granted: whoever made the pilot states it.
    """
    same = int(np.isin(np.unique(pilot), scores).sum())
    if same > MANY and np.unique(scores).size > 0.9 * scores.size:
        return Condition("the threshold is fixed", "failed", f"{same} scores of the pilot are among the tested ones")
    return Condition("if the pilot has other rounds than those tested", "granted", "stated by whoever made the pilot")
