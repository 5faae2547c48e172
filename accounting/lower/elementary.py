"""Exact tests of the elementary channels of a mechanism, which randomise one bit, label or vote each, and of the sum of their
epsilons.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from .detection.power import POWER, smallest

SIDES = {(0, 1): 0.8, (0,): 0.05, (1,): 0.05}  # shares of alpha for guesses on both outputs, on 0 only, on 1 only
SHARE = sum(SIDES.values())  # share of alpha for these tests; the rest is for whole releases, whose test assumes no independence
# counts within this many standard deviations of their mean are summed; the mass outside, below 1e-18, is added to each
# probability
REACH = 9.0
# number of ways to divide a sum of epsilons between two kinds of channel; the search is then refined near the largest p-value
SPLITS = 17


@dataclass(frozen=True)
class Kind:
    """The counts for one kind of channel. A fair coin of its own is the input of each channel; channels that share a coin must
    not be counted. The audit guesses the coin from the output, or makes no guess.

    guesses: the number of guesses. right: the number of correct ones. copies: the number of independent channels of this kind
    about one person. declared: the epsilon (nats) of one channel by the ledger.
    """

    right: int
    guesses: int
    copies: int
    declared: float

    @property
    def weight(self) -> float:
        """The increase in the estimate of copies * epsilon for one more correct guess, near the declared epsilon."""
        return self.copies / (self.guesses * float(special.expit(self.declared) * special.expit(-self.declared)))


def guesses(
    bits: NDArray[np.bool_], sent: NDArray[np.int64], random: np.random.Generator, sides: tuple[int, ...] = (0, 1)
) -> tuple[int, int]:
    """Guesses each bit from the output of its channel. Returns (number of right guesses, number of guesses).

    bits: (..., channels), independent fair coins, the inputs. sent: the same shape, the outputs. sides: the outputs on which a
    guess is made; the guess is the output itself. Each output of each channel is guessed equally often: of the more frequent
    ones, randomly chosen guesses are left out. Guesses on one output prove more if this output leaks more than the other.

    Given all outputs, the coins of separate channels are independent, and each guess is right with probability 1 / (1 + e^-x),
    where x is the log-likelihood ratio of the output, which is at most the channel's epsilon. This probability is concave in x.
    So, with equally many guesses on every output of every channel, the share of right guesses does not overstate the mean of x
    over the channels, even if outputs and channels leak differently. A channel that never has one of these outputs leaves no
    guess. If channels shared a coin, their guesses on one output would be right or wrong together, and the count would vary more
    than a binomial.
    """
    channels = [(bits[..., k], sent[..., k]) for k in range(sent.shape[-1])]
    each = [coins[values == side] == bool(side) for coins, values in channels for side in sides]
    fewer = min(len(right) for right in each)
    return sum(int(random.choice(right, fewer, replace=False).sum()) for right in each), len(each) * fewer


def chance(kinds: Sequence[Kind], epsilons: Sequence[float], least: float) -> float:
    """The probability that the weighted number of right guesses is at least `least`, for channels of these epsilons (nats)."""
    rates = [float(special.expit(e)) for e in epsilons]
    *others, (last, rate) = sorted(zip(kinds, rates, strict=True), key=lambda pair: pair[0].guesses)
    left, mass = np.full(1, least), np.ones(1)
    for kind, q in others:
        middle, wide = kind.guesses * q, REACH * math.sqrt(kind.guesses * q * (1 - q)) + REACH
        counts = np.arange(max(0, math.floor(middle - wide)), min(kind.guesses, math.ceil(middle + wide)) + 1)
        left = (left[:, None] - kind.weight * counts).ravel()
        mass = (mass[:, None] * stats.binom.pmf(counts, kind.guesses, q)).ravel()
    need = np.clip(np.ceil(left / last.weight - 1e-9), 0, last.guesses + 1)
    inside = special.betainc(np.maximum(need, 1), np.maximum(last.guesses - need + 1, 1e-9), rate)
    tail = np.where(need <= 0, 1.0, np.where(need > last.guesses, 0.0, inside))
    return min(1.0, float(mass @ tail) + 1e-18 * len(others))


def p_value(kinds: Sequence[Kind], total: float, least: float | None = None) -> float:
    """The largest probability of at least this number of right guesses, over all channels whose epsilons add up to `total`
    (nats).

    least: the weighted number of right guesses, by default the counted number. The declared epsilons fix the weights. For two
    kinds, the probability is the exact convolution of two binomials and depends on how `total` is divided between the kinds. A
    search on a grid, followed by a finer search, finds the largest probability. 1 if there is no guess about a kind. Raises
    ValueError unless there are one or two kinds.
    """
    if not all(kind.guesses for kind in kinds):
        return 1.0
    least = sum(kind.weight * kind.right for kind in kinds) if least is None else least
    if len(kinds) == 1:
        return chance(kinds, [total / kinds[0].copies], least)
    if len(kinds) != 2:
        raise ValueError(f"{len(kinds)} kinds of channel: this test adds up one or two.")
    one, other = kinds

    def at(share: float) -> float:
        return chance(kinds, (share * total / one.copies, (1 - share) * total / other.copies), least)

    values = [at(k / (SPLITS - 1)) for k in range(SPLITS)]
    found = max(values)
    for best in np.argsort(values)[-2:]:  # the probability may have two peaks
        around = (max(best - 1, 0) / (SPLITS - 1), min(best + 1, SPLITS - 1) / (SPLITS - 1))
        refined = optimize.minimize_scalar(lambda share: -at(share), bounds=around, method="bounded", options={"xatol": 1e-4})
        found = max(found, -float(refined.fun))
    return found


def sum_at_least(kinds: Sequence[Kind], alpha: float) -> float:
    """With probability 1 - alpha, the epsilons of all copies of all kinds add up to at least this (nats)."""
    if any(kind.guesses == 0 for kind in kinds) or p_value(kinds, 0.0) >= alpha:
        return 0.0
    high = 1.0
    while p_value(kinds, high) < alpha:
        high *= 2
    root = optimize.brentq(
        lambda total: math.log(max(p_value(kinds, total), 1e-300) / alpha), high / 2 if high > 1 else 0.0, high, xtol=1e-7
    )
    return max(float(root) - 1e-6, 0.0)


def least_rejected(kinds: Sequence[Kind], total: float, alpha: float) -> float:
    """The smallest weighted number of right guesses whose p-value is below alpha if the epsilons add up to `total` (nats),
    rounded up by at most a quarter of a guess; infinity if no number does.
    """
    low, high = 0.0, sum(kind.weight * kind.guesses for kind in kinds)
    if p_value(kinds, total, high) >= alpha:
        return math.inf
    while high - low > min(kind.weight for kind in kinds) / 4:
        middle = (low + high) / 2
        low, high = (low, middle) if p_value(kinds, total, middle) < alpha else (middle, high)
    return high


def detectable(kinds: Sequence[Kind], total: float, alpha: float) -> float:
    """The smallest factor on all declared epsilons at which 90 % of the audits reject `total` (nats); infinity if no factor up to
    1000 suffices.
    """
    least = least_rejected(kinds, total, alpha) if all(kind.guesses for kind in kinds) else math.inf
    if math.isinf(least):
        return math.inf

    def noticed(kappa: float) -> bool:
        return chance(kinds, [kappa * kind.declared for kind in kinds], least) >= POWER

    return smallest(noticed, low=1e-3, near=1.0005)
