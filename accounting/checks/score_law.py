"""Tests whether scores are continuous and unbounded, whether they are normal, and whether those of separate rounds depend on
one another.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import Condition, assumed, checked, proved
from .patterns import copied, lagged, repeated

Array = NDArray[np.float64]
# largest share of a world's scores that may be equal; normal scores rounded to 1/40 of their standard deviation stay below it
ATOM = 0.01
TIMES = 3  # equal scores count only if there are at least this many, because rounding may make two scores equal
FEWEST = 8  # the distribution of a world is tested if it has at least this many scores
ROUNDS = "rounds are independent, given their bits"
OWN_NOISE = f"if each round drew its own noise, so that {ROUNDS}"  # a verdict quotes it
BY_CHANCE = 1e-3  # scores count as sorted if a random order of them is sorted with a smaller probability
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


def sd_as_stated(scores0: Array, scores1: Array, sd: float, *, limit: bool) -> Condition:
    """Compares a stated sd of the scores with their pooled variance within the worlds, by a two-sided chi-squared test.

    The test detects a difference of about four standard errors, which may be enough to refute a true claim. So if the test finds
    none, the condition is granted: whoever made the rounds states the sd, and the verdict names it. limit: whether sd is an upper
    limit that the audit measured on other noise. Then only a larger spread of the scores fails, and the condition is checked.
    """
    freedom, spread = len(scores0) + len(scores1) - 2, pooled_sd(scores0, scores1)
    squares = freedom * min(spread / sd, 1e150) ** 2
    above, below = (float(tail(freedom, squares)) if freedom else 1.0 for tail in (special.chdtrc, special.chdtr))
    what, test = f"the sd of the scores is {'at most ' if limit else ''}{sd:.4g}", f"pooled sd {spread:.4g}, chi-squared"
    tested = checked(what, test, above if limit else min(1.0, 2 * min(above, below)))
    if limit or tested.how == "failed":
        return tested
    return Condition(f"if {what}", "granted", f"stated by whoever made the rounds; {tested.detail}")


def pooled_sd(scores0: Array, scores1: Array) -> float:
    """The pooled sample standard deviation of two samples whose means may differ; NaN for one score of each world."""
    freedom = len(scores0) + len(scores1) - 2
    with np.errstate(over="ignore", invalid="ignore"):  # the variance of scores near the largest float overflows to infinity
        squares = float(len(scores0) * scores0.var() + len(scores1) * scores1.var())
    return math.sqrt(squares / freedom) if freedom else math.nan


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
    """Tests whether scores, in the order of the rounds, depend on one another. The condition fails, or it is granted.

    No test sees noise that all rounds share: it moves all scores alike, and a common shift is no dependence among them. So
    whoever made the rounds states that each round drew its own noise. The tests find some files for which that is false. Whether
    a score is above the median of its world must not depend on whether the score before it, or at any other fixed distance, is
    above the median of its world. The number of scores above the median must not differ by more than chance between blocks of
    sqrt(rounds) scores. Rows must not be copies of others (see `copied` and `repeated`).

    If the scores of each world are sorted, which chance hardly explains, or fewer than FEWEST, independence is assumed. If no
    score differs from the others of its world, there is nothing to test, and the condition is granted.
    """
    s, b = np.ravel(np.asarray(scores, float)), np.ravel(np.asarray(bits)).astype(bool)
    sides = world_sides(s, b)
    square = float(np.dot(sides, sides)) / max(s.size, 1)
    if s.size < FEWEST:
        return assumed(ROUNDS, "there are too few scores to test their order")
    if square == 0:
        return _own_noise("the scores of a world do not vary, so there is nothing to test")
    if sum(_sorted(s[world]) for world in (~b, b)) < math.log(BY_CHANCE):
        return assumed(ROUNDS, "the scores are sorted, so their order cannot be tested")
    p_values = [*_apart(sides, square), lagged(sides), min(1.0, 2 * min(repeated(s, b), copied(s, b)))]
    tests, p_value = "neighbours, blocks, lags and copied rows", min(1.0, len(p_values) * min(p_values))
    tested = checked(ROUNDS, tests, p_value)
    return tested if tested.how == "failed" else _own_noise(f"no dependence was found by {tested.detail}")


def world_sides(scores: Array, bits: NDArray[np.bool_]) -> Array:
    """For each score 1 if it is above the median of its world, -1 if below, 0 if equal, minus the mean of its world."""
    sides = np.zeros(scores.size)
    for world in (~bits, bits):
        if world.any():
            x, middle = scores[world], np.median(scores[world])
            side = np.sign(x - middle) if np.isfinite(middle) else np.isfinite(x) * 1.0
            sides[world] = side - side.mean()
    return sides


def _own_noise(tested: str) -> Condition:
    return Condition(
        OWN_NOISE, "granted", f"stated by whoever made the rounds, because no score shows noise that all rounds share; {tested}"
    )


def _apart(sides: Array, square: float) -> list[float]:
    """The p-values of neighbours and of blocks of sqrt(rounds) scores. square: the mean square of `sides`. The scale is at least
    the expected one, as in `lagged`: if one score of a hundred is above the median, its neighbours may be of the other world.
    """
    products = sides[:-1] * sides[1:]
    scale = max(math.sqrt(float(np.dot(products, products))), square * math.sqrt(len(products)))
    neighbours = float(2 * special.ndtr(-abs(float(products.sum())) / scale)) if scale > 0 else 1.0
    width = max(2, round(math.sqrt(sides.size)))
    count = sides.size // width
    blocks = sides[: count * width].reshape(count, width).sum(axis=1)
    return [neighbours, float(special.chdtrc(count, float(np.dot(blocks, blocks)) / (width * square)))]


def _sorted(x: Array) -> float:
    """The logarithm of the probability that a random order of x is sorted, up or down; infinity if x is not sorted."""
    with np.errstate(invalid="ignore"):
        steps = np.diff(x)
    if not ((steps >= 0).all() or (steps <= 0).all() or len(x) < 3):
        return math.inf
    counts = np.unique(x, return_counts=True)[1]
    orders = float(special.gammaln(len(x) + 1.0) - special.gammaln(counts + 1.0).sum())
    return min(0.0, math.log(2) - orders)
