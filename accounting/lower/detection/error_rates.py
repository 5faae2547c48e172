"""Exact binomial bounds from the counted errors of a threshold, and the choice of the threshold on pilot runs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ...arguments import is_number, shown

Array = NDArray[np.float64]
BEFOREHAND = "given beforehand"  # a threshold that a caller gave, of which nobody knows how much it detects
CANDIDATES = 512  # number of thresholds that are tried on the pilot
PILOT_SHARE = 0.25  # share of the rounds that choose the threshold if neither rule nor pilot is given
PILOT_MOST = 100_000
PILOT_LEAST = 2  # rounds of each world in the pilot, if the world has twice as many


@dataclass(frozen=True)
class Rule:
    """The rule that guesses "world 1" if sign * score > threshold. Raises ValueError for a NaN threshold or a sign other than 1
    and -1.
    """

    threshold: float
    sign: int

    def __post_init__(self) -> None:
        if not is_number(self.threshold) or self.threshold != self.threshold:
            raise ValueError(f"threshold={shown(self.threshold)}: must be a number; infinity is allowed.")
        if self.sign not in (1, -1):
            raise ValueError(f"sign={shown(self.sign)}: must be 1 if higher scores mean world 1, or -1.")

    def errors(self, scores0: Array, scores1: Array) -> tuple[int, int]:
        """(false positives among the scores of world 0, false negatives among the scores of world 1)."""
        return (
            int(np.count_nonzero(self.sign * scores0 > self.threshold)),
            int(len(scores1) - np.count_nonzero(self.sign * scores1 > self.threshold)),
        )


def rate_at_most(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> Array:
    """With probability 1 - alpha a rate is at most this (Clopper and Pearson 1934, one side). Broadcasts."""
    k, n = np.asarray(successes, float), np.asarray(trials, float)
    inside = special.betainccinv(k + 1, np.maximum(n - k, 1e-9), alpha)
    return np.where(k >= n, 1.0, inside)


def epsilon_of_rates(false_positive: ArrayLike, false_negative: ArrayLike, delta: ArrayLike) -> Array:
    """The smallest epsilon >= 0 (nats) whose error region with delta allows both rates (Kairouz et al. 2015). Broadcasts."""
    a, b, d = np.asarray(false_positive, float), np.asarray(false_negative, float), np.asarray(delta, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(1 - d - b, 0.0)) - np.log(a)
        other = np.log(np.maximum(1 - d - a, 0.0)) - np.log(b)
    return np.fmax(np.fmax(one, other), 0.0)


def mu_of_rates(false_positive: ArrayLike, false_negative: ArrayLike) -> Array:
    """The smallest mu whose Gaussian trade-off curve allows both rates (Dong et al. 2022). Broadcasts; may be negative."""
    return np.asarray(-special.ndtri(false_positive) - special.ndtri(false_negative))


def smallest_level(rejects: Callable[[float], bool]) -> float:
    """The p-value of a test: the smallest level (at least 1e-300) for which `rejects` is true; 1 if none is. Larger levels must
    reject too.
    """
    low, high = -300.0, 0.0  # powers of ten
    if not rejects(0.999):
        return 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(10.0**middle) else (middle, high)
    return float(10.0**high)


def pilot_rounds(rounds0: int, rounds1: int) -> tuple[int, int]:
    """The numbers of rounds of world 0 and of world 1 that choose the threshold: the same share of both, but at least PILOT_LEAST
    of each or half of them.
    """
    share = min(PILOT_SHARE, PILOT_MOST / (rounds0 + rounds1))
    least = [min(PILOT_LEAST, rounds // 2) for rounds in (rounds0, rounds1)]
    return max(round(share * rounds0), least[0]), max(round(share * rounds1), least[1])


def weighed(pilot: tuple[int, int], test: tuple[int, int]) -> tuple[float, float]:
    """The numbers of runs for which `choose` compares thresholds, if they test a curve: at most half of those of the pilot.

    On a curve many thresholds are about equally good, but a pilot estimates rare errors badly. With the numbers of the test runs,
    a threshold far in a tail would often look best by chance. A test of the error region of (epsilon, delta) needs the tails.
    """
    return min(test[0], pilot[0] / 2), min(test[1], pilot[1] / 2)


def choose(
    false_positives: Array,
    false_negatives: Array,
    pilot: tuple[int, int],
    test: tuple[float, float],
    alpha: float,
    gain: Callable[[Array, Array], Array],
) -> NDArray[np.intp]:
    """The index of the candidate threshold with the largest expected bound on the test runs, estimated from its errors on the
    pilot runs. A threshold at which all pilot runs get the same guess is not chosen, unless there is no other.

    false_positives, false_negatives: (..., thresholds) counts on the pilot. pilot, test: the numbers of runs of world 0 and of
    world 1, of a curve see `weighed`. gain: maps the upper limits of both rates to the bound, elementwise. Returns (...) indices.
    """
    # Laplace's rule of succession: the estimated rate is above 0 even without an error
    a = (false_positives + 1) / (pilot[0] + 2)
    b = (false_negatives + 1) / (pilot[1] + 2)
    worth = gain(_about(a, test[0], alpha / 2), _about(b, test[1], alpha / 2))
    ones = false_positives + pilot[1] - false_negatives  # guesses of world 1
    return np.argmax(np.where(np.isnan(worth) | (ones == 0) | (ones == sum(pilot)), -np.inf, worth), axis=-1)


def _about(rate: Array, trials: float, alpha: float) -> Array:
    """Wilson's upper confidence limit for an observed rate. For a comparison of thresholds it is close enough to `rate_at_most`,
    and much faster.
    """
    z, n = -special.ndtri(alpha), np.maximum(trials, 1)
    return np.asarray((rate + z * z / (2 * n) + z * np.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2)) / (1 + z * z / n))


def rule_from_pilot(
    scores0: Array, scores1: Array, test: tuple[float, float], alpha: float, gain: Callable[[Array, Array], Array]
) -> Rule | None:
    """The best threshold and direction for pilot scores of world 0 and world 1; None if a world has no pilot runs."""
    if not len(scores0) or not len(scores1):
        return None
    both = np.sort(np.concatenate([scores0, scores1]))
    spread = np.linspace(0, len(both) - 1, CANDIDATES).round().astype(int)
    # the 32 lowest and the 32 highest scores are all tried, because one kind of error is rare there
    tails = np.minimum(np.arange(32), len(both) - 1)
    candidates = np.unique(both[np.concatenate([spread, tails, len(both) - 1 - tails])])
    (up_to0, below0), (up_to1, below1) = (
        [np.searchsorted(np.sort(s), candidates, side=side) for side in ("right", "left")] for s in (scores0, scores1)
    )
    false_positives = np.concatenate([len(scores0) - up_to0, below0])
    false_negatives = np.concatenate([up_to1, len(scores1) - below1])
    best = int(choose(false_positives, false_negatives, (len(scores0), len(scores1)), test, alpha, gain))
    if best < len(candidates):
        return Rule(float(candidates[best]), 1)
    return Rule(float(-candidates[best - len(candidates)]), -1)
