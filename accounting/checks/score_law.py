"""Tests whether scores are continuous and unbounded, whether they are normal, and whether consecutive scores are independent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import Condition, assumed, checked, proved

Array = NDArray[np.float64]
# largest share of a world's scores that may be equal; normal scores rounded to 1/40 of their standard deviation stay below it
ATOM = 0.01
TIMES = 3  # equal scores count only if there are at least this many, because rounding may make two scores equal
FEWEST = 8  # the distribution of a world is tested if it has at least this many scores
ROUNDS = "rounds are independent, given their bits"
PLAYED = proved(ROUNDS, "each has separate coins and noise")  # the default condition
NORMAL = "scores are normal, with one spread in both worlds"


def not_continuous(scores0: ArrayLike, scores1: ArrayLike) -> str:
    """The reason why these scores cannot come from a continuous and unbounded distribution, or an empty string.

    If more than a hundredth of a world's scores, and at least three, are equal, the distribution has an atom. If three or more
    scores share the largest or the smallest value, the distribution has a hard limit. Normal noise has neither, even if it was
    written with three digits. Infinite scores are also a reason.
    """
    both = [np.asarray(scores0, float), np.asarray(scores1, float)]
    for world, x in enumerate(both):
        values, counts = np.unique(x, return_counts=True)
        most = int(counts.argmax())
        if counts[most] >= TIMES and counts[most] > ATOM * len(x):
            return f"{counts[most]} of {len(x)} scores of world {world} are {values[most]:g}, and {len(values)} are distinct"
    values, counts = np.unique(np.concatenate(both), return_counts=True)
    for end, name in ((0, "least"), (-1, "largest")):
        if counts[end] >= TIMES:
            return f"{counts[end]} scores are {values[end]:g}, the {name} of all: the scores have a hard limit"
    return "" if np.isfinite(values).all() else "some scores are infinite"


def normal_law(scores0: ArrayLike, scores1: ArrayLike) -> Condition:
    """Checks that the scores of both worlds are normal with one variance, by their distributions, extreme scores and variances.

    The smallest p-value is multiplied by the number of checks. With fewer than FEWEST scores in a world, the condition is
    assumed. The checks cannot detect a distribution that differs from the normal one only beyond the observed scores, and they
    detect little in a few dozen scores.
    """
    both = [np.asarray(scores0, float), np.asarray(scores1, float)]
    if reason := not_continuous(*both):
        return Condition(NORMAL, "failed", reason)
    if min(len(x) for x in both) < FEWEST:
        return assumed(NORMAL, f"fewer than {FEWEST} scores in one of the worlds")
    with np.errstate(over="ignore", invalid="ignore"):  # squares of scores near the largest float overflow
        spreads = [float(x.std(ddof=1)) for x in both]
    if not all(0 < spread < math.inf for spread in spreads):
        return Condition(NORMAL, "failed", "scores of a world do not vary, or lie near the largest number")
    standard = [np.sort((x - x.mean()) / spread) for x, spread in zip(both, spreads, strict=True)]
    p_values = [distance_p_value(z) for z in standard]
    p_values += [p for z in standard for p in (_furthest(z[-1], len(z)), _furthest(-z[0], len(z)))]
    p_values.append(_ratio(spreads[1] ** 2 / spreads[0] ** 2, len(both[1]) - 1, len(both[0]) - 1))
    return checked(NORMAL, "law, tails and variances", min(1.0, len(p_values) * min(p_values)))


def distance_p_value(standard: Array) -> float:
    """p-value of Kolmogorov's distance between sorted, standardised scores and the normal distribution.

    The scores are closer to the fitted normal distribution than to the true one, so the p-value is too large, never too small.
    """
    cdf, n = special.ndtr(standard), len(standard)
    steps = np.arange(n + 1) / n
    distance = max(float((steps[1:] - cdf).max()), float((cdf - steps[:-1]).max()))
    return float(special.kolmogorov(distance * math.sqrt(n)))


def _furthest(largest: float, n: int) -> float:
    """Two-sided p-value of the largest of n standardised normal scores. The scores are standardised by their own mean and sd,
    which makes the p-value slightly too large.
    """
    below = math.exp(n * float(special.log_ndtr(largest)))
    return min(1.0, 2 * min(below, -math.expm1(n * float(special.log_ndtr(largest)))))


def _ratio(variances: float, above: int, below: int) -> float:
    """Two-sided p-value of the quotient `variances` of two sample variances. above, below: their degrees of freedom (Fisher)."""
    tail = float(special.fdtr(above, below, variances))
    return min(1.0, 2 * min(tail, float(special.fdtrc(above, below, variances))))


def in_order(scores: ArrayLike, bits: ArrayLike) -> Condition:
    """Checks that scores, in the order of the rounds, do not depend on the scores before them.

    Whether a score is above the median of its world must not depend on whether the previous score is above the median of its
    world. The number of scores above the median must not differ by more than chance between blocks of sqrt(rounds) scores. If the
    scores of each world are sorted, or fewer than FEWEST, or all equal, their order tells nothing, and independence is assumed.
    """
    s, b = np.ravel(np.asarray(scores, float)), np.ravel(np.asarray(bits)).astype(bool)
    sides = np.zeros(s.size)
    for world in (~b, b):
        if world.any():
            side = np.sign(s[world] - np.median(s[world])) if np.isfinite(np.median(s[world])) else np.isfinite(s[world]) * 1.0
            sides[world] = side - side.mean()
    square = float(np.dot(sides, sides)) / max(s.size, 1)
    if s.size < FEWEST or square == 0:
        return assumed(ROUNDS, "there are too few scores, or too few different ones, to test their order")
    if all(_sorted(s[world]) for world in (~b, b)):
        return assumed(ROUNDS, "the scores are sorted, so their order cannot be tested")
    products = sides[:-1] * sides[1:]
    scale = math.sqrt(float(np.dot(products, products)))
    p_values = [float(2 * special.ndtr(-abs(float(products.sum())) / scale))] if scale > 0 else [1.0]
    width = max(2, round(math.sqrt(s.size)))
    count = s.size // width
    blocks = sides[: count * width].reshape(count, width).sum(axis=1)
    p_values.append(float(special.chdtrc(count, float(np.dot(blocks, blocks)) / (width * square))))
    return checked(ROUNDS, "neighbours and blocks", min(1.0, 2 * min(p_values)))


def _sorted(x: Array) -> bool:
    with np.errstate(invalid="ignore"):
        steps = np.diff(x)
    return len(x) < 3 or bool((steps >= 0).all() or (steps <= 0).all())
