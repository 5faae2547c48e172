"""Tests whether the rounds of the two worlds were played in random order, so that nothing else that changes separates them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import Condition, checked
from .patterns import lagged, periodic

ALIKE = "rounds of the two worlds differ in the secret alone"
# Level of the test. It is larger than that of other tests, because a failed test withdraws no bound: it leaves the condition to
# whoever made the file.
IN_TURNS = 0.01


def in_turns(bits: ArrayLike) -> Condition:
    """Tests whether the bits, in the order of play, look like a random order. Only then is the condition checked.

    The scores of both worlds may change with time: a machine, a library or the data may change, and rounds may take turns on
    several machines. In a random order such a change moves both worlds alike. In an order of blocks, or one that alternates or
    has any other period, it may look like a leak, although epsilon may be 0. So the bits must have as many changes as a random
    order, neither fewer nor more, and the mean positions of the two worlds must not differ. The shares of ones must vary between
    blocks of sqrt(rounds) rounds as chance lets them. Bits must not depend on earlier bits, and no period may stand out.
    Otherwise, and with so few rounds that even two blocks or strict turns pass, the condition is granted: whoever made the rounds
    states it.
    """
    b = np.ravel(np.asarray(bits)).astype(bool)
    p_value = not_random(b)
    # the two worlds in blocks, and every other round of the same world as long as there are enough of both
    extremes = np.sort(b), _turns(b)
    if max(not_random(extreme) for extreme in extremes) >= IN_TURNS:
        why = f"{b.size} rounds are too few to check their order"
    elif p_value < IN_TURNS:
        why = f"their order does not look random (p = {p_value:.2g}, level {IN_TURNS:g})"
    else:
        return checked(ALIKE, "the order of the worlds", p_value, IN_TURNS)
    return stated(f"{why}; play the worlds in random order to have it checked")


def _turns(bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """As many ones as `bits` has, spread evenly over as many rounds."""
    n, ones = bits.size, int(bits.sum())
    return np.diff(np.arange(n + 1) * ones // max(n, 1)) > 0


def stated(why: str) -> Condition:
    """The condition for rounds whose order does not show it. A verdict quotes it after a semicolon."""
    return Condition(f"if {ALIKE}", "granted", f"stated by whoever made the file: nothing else differed; {why}")


def not_random(bits: NDArray[np.bool_]) -> float:
    """p-value of the hypothesis that bits are in random order: the smallest of five, times five. 1 if a world is missing."""
    n, ones = bits.size, int(bits.sum())
    zeros = n - ones
    if not zeros or not ones:
        return 1.0
    # In a random order, the number of groups of consecutive ones has a hypergeometric distribution.
    groups = int(bits[0]) + int(np.count_nonzero(bits[1:] & ~bits[:-1]))
    k = np.arange(1, min(ones, zeros + 1) + 1)
    law = np.exp(_choices(zeros + 1, k) + _choices(ones - 1, k - 1) - float(_choices(n, np.array(ones))))
    changes = 2 * min(float(law[k <= groups].sum()), float(law[k >= groups].sum()))
    error = math.sqrt(zeros * (n + 1) / (12 * ones))
    apart = float(2 * special.ndtr(-abs(float(np.flatnonzero(bits).mean()) - (n - 1) / 2) / error))
    width = max(2, round(math.sqrt(n)))
    count, share = n // width, ones / n
    blocks = bits[: count * width].reshape(count, width).sum(axis=1) - width * share
    spread = float(np.dot(blocks, blocks)) / (width * share * (1 - share))
    uneven = 2 * min(float(special.chdtrc(count - 1, spread)), float(special.chdtr(count - 1, spread))) if count > 2 else 1.0
    signs = np.where(bits, 1 - share, -share)
    return min(1.0, 5 * min(changes, apart, uneven, lagged(signs), periodic(signs)))


def _choices(n: int, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithm of the number of ways to choose k of n."""
    inside = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(np.maximum(n - k, 0) + 1.0)
    return np.where(k <= n, inside, -np.inf)
