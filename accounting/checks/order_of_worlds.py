"""Tests whether the rounds of the two worlds were played in turns, so that nothing that changes with time separates them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .conditions import Condition, checked

ALIKE = "rounds of the two worlds differ in the secret alone"
# Level of the test. It is larger than that of other tests, because a failed test withdraws no bound: it leaves the condition to
# whoever made the file.
IN_TURNS = 0.01


def in_turns(bits: ArrayLike) -> Condition:
    """Checks that the order of the rounds does not separate the worlds.

    The scores of both worlds may change with time: a machine, a library or the data may change. If one world is played later
    than the other, such a change looks like a leak, although epsilon may be 0. If the worlds are played in random order, or
    in turns, it does not. So the bits, in the order of play, must have at least as many changes as a random order, the mean
    positions of the two worlds must not differ, and the shares of ones must not vary between blocks of sqrt(rounds) rounds.
    Otherwise, and with so few rounds that even two blocks pass, the condition is granted: whoever made the rounds states it.
    """
    b = np.ravel(np.asarray(bits)).astype(bool)
    p_value = separated(b)
    if separated(np.sort(b)) >= IN_TURNS:
        why = f"{b.size} rounds are too few to check their order"
    elif p_value < IN_TURNS:
        why = f"their order separates the worlds (p = {p_value:.2g}, level {IN_TURNS:g})"
    else:
        return checked(ALIKE, "the order of the worlds", p_value, IN_TURNS)
    return stated(f"{why}; play the worlds in random order to have it checked")


def stated(why: str) -> Condition:
    """The condition for rounds whose order does not show it. A verdict quotes it after a semicolon."""
    return Condition(f"if {ALIKE}", "granted", f"stated by whoever made the file: nothing else differed; {why}")


def separated(bits: NDArray[np.bool_]) -> float:
    """p-value of the hypothesis that bits are in random order, against orders in which equal bits lie together. 1 if a world is
    missing.
    """
    n, ones = bits.size, int(bits.sum())
    zeros = n - ones
    if not zeros or not ones:
        return 1.0
    # In a random order, the number of groups of consecutive ones has a hypergeometric distribution.
    groups = int(bits[0]) + int(np.count_nonzero(bits[1:] & ~bits[:-1]))
    k = np.arange(1, groups + 1)
    logs = _choices(zeros + 1, k) + _choices(ones - 1, k - 1)
    few = math.exp(min(0.0, float(special.logsumexp(logs)) - float(_choices(n, np.array(ones)))))
    error = math.sqrt(zeros * (n + 1) / (12 * ones))
    apart = float(2 * special.ndtr(-abs(float(np.flatnonzero(bits).mean()) - (n - 1) / 2) / error))
    width = max(2, round(math.sqrt(n)))
    count, share = n // width, ones / n
    blocks = bits[: count * width].reshape(count, width).sum(axis=1) - width * share
    uneven = float(special.chdtrc(count - 1, float(np.dot(blocks, blocks)) / (width * share * (1 - share)))) if count > 1 else 1.0
    return min(1.0, 3 * min(few, apart, uneven))


def _choices(n: int, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithm of the number of ways to choose k of n."""
    inside = special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(np.maximum(n - k, 0) + 1.0)
    return np.where(k <= n, inside, -np.inf)
