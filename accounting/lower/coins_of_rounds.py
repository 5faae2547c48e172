"""A bound for every mechanism from independent rounds. The bits must be fair coins. If they do not look like fair coins, this
module draws coins and selects rounds whose bits equal these coins.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks.conditions import LEVEL, Condition, assumed, checked, proved
from ..checks.patterns import lagged
from ..claim import Claim
from .bounds import Bound, resting
from .coin_test import CoinTest
from .detection.power import check_chances, fewest_rounds, reached, smallest
from .one_run import steinke
from .random_numbers import generator

FAIR = "bits are fair independent coins"
FEWEST = 17  # with fewer bits, no order and no number of ones fails the check
SPARE = 6.0  # spare rounds, in standard deviations of the number of heads; in about two of a billion audits they do not suffice
THEOREM = (
    "correct guesses of coins (Steinke et al. 2023, Theorem 5.2), of which each round tells its own with probability delta "
    "(Kairouz, Oh and Viswanath 2015, Theorem 8)"
)
MOST_GUESSED = 10**7  # rounds of each world; with more, the search takes minutes
KEPT = 0.5  # if drawn coins select fewer than this share of the rounds, there is no bound


def coins_of_rounds(
    scores: ArrayLike, bits: ArrayLike, claim: Claim, alpha: float = 0.05, *, rounds: Condition, seed: int = 0
) -> Bound | None:
    """The bound of `steinke` from independent rounds; None if the selection would lose more than half of the rounds, because one
    world has too few.

    scores: (rounds,). bits: the same shape, True for world 1. rounds: the condition that rounds are independent.

    The theorem takes the vector of all scores as one release that is private in each bit. Independent rounds give that: only one
    of them sees a bit. Rounds that share noise do not, because other rounds then tell about this one. So the bound rests on
    `rounds`, whoever drew the coins.

    Bits that pass the tests in `fair` are granted to be fair coins. Otherwise, for example with a fixed number of rounds in each
    world, or with too few rounds for the tests, the function draws fair coins. For each coin it selects a random round whose bit
    equals the coin.
    """
    s, b = np.ravel(np.asarray(scores, float)), np.ravel(np.asarray(bits)).astype(bool)
    coins = fair(b)
    if coins.how != "granted":
        chosen = drawn(b, generator(seed, s, "coins"))
        if len(chosen) < KEPT * len(b):
            return None
        s, b = s[chosen], b[chosen]
        coins = proved(FAIR, "the tool draws the coins, and selects for each coin a random round with this bit")
    bound = steinke(s, b, claim, alpha, coins=coins, apart=True, seed=seed)
    return resting(bound, THEOREM, rounds)


def fair(bits: NDArray[np.bool_]) -> Condition:
    """Tests whether bits look like fair coins. The condition fails, or it is granted: whoever drew the bits states it.

    No test of the bits can show it: bits that were chosen by a design may look random.
    Three tests find other designs: how many bits are 1, how often consecutive bits differ, and whether bits at any other fixed
    distance depend on one another. The condition also fails if half of the bits are 1, or as nearly half as possible, because
    their number then looks fixed. With fewer than FEWEST bits, it is assumed.
    """
    count, ones, changes = len(bits), int(bits.sum()), int(np.count_nonzero(bits[1:] != bits[:-1]))
    if abs(2 * ones - count) <= 1:
        return Condition(FAIR, "failed", f"{ones} are 1 and {count - ones} are 0, as equal as possible: the number looks fixed")
    if count < FEWEST:
        return assumed(FAIR, f"{count} bits are too few to check; {FEWEST} would do")
    p_values = [_both_sides(ones, count), _both_sides(changes, count - 1), lagged(np.where(bits, 1.0, -1.0))]
    tests = "how many bits are 1, and how often two bits at a fixed distance differ"
    tested = checked(FAIR, tests, min(1.0, len(p_values) * min(p_values)), LEVEL)
    if tested.how == "failed":
        return tested
    detail = f"stated by whoever drew them, because bits that somebody chose may look random; tested: {tested.detail}"
    return Condition(f"if {FAIR}", "granted", detail)


def _both_sides(successes: int, trials: int) -> float:
    return min(1.0, 2 * float(special.bdtr(min(successes, trials - successes), trials, 0.5))) if trials else 1.0


def drawn(bits: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.int64]:
    """Draws fair coins and returns, for each coin, the position of a random round whose bit equals the coin. No round occurs
    twice. The world with fewer rounds determines the number of coins. The result is empty if the coins need more rounds of a
    world than there are.
    """
    worlds = [random.permutation(np.flatnonzero(world)) for world in (~bits, bits)]
    fewer = min(len(world) for world in worlds)
    # so that count / 2 + SPARE sqrt(count) / 2 = fewer
    count = max(0, math.floor((math.sqrt(2 * fewer + SPARE**2 / 4) - SPARE / 2) ** 2))
    coins = random.random(count) < 0.5
    if max(int(coins.sum()), int((~coins).sum())) > fewer:
        return np.zeros(0, dtype=np.int64)
    chosen = np.empty(count, dtype=np.int64)
    for world, mine in zip(worlds, (~coins, coins), strict=True):
        chosen[mine] = world[: int(mine.sum())]
    return chosen


def notices(claim: Claim, rounds: int, alpha: float = 0.05, power: float = 0.95) -> tuple[float, float]:
    """(kappa, reach), as `detection.power.notices`, of `coins_of_rounds` with about `rounds` rounds of each world, whose bits are
    fair coins. If the bits of another design need coins that the tool draws, fewer rounds count, and it detects less. Raises
    ValueError for power or alpha outside (0, 1).
    """
    noticed = _noticed(claim, rounds, alpha, power)
    return (math.inf, math.inf) if noticed is None else reached(claim, smallest(noticed))


def rounds_needed(claim: Claim, kappa: float, power: float = 0.95, alpha: float = 0.05) -> int | None:
    """The number of rounds of each world, accurate to 2 %, with which `notices` finds noise `kappa` times too small; None above
    MOST_GUESSED and for an infinite claim. Raises ValueError for power or alpha outside (0, 1).
    """

    def enough(rounds: int) -> bool:
        noticed = _noticed(claim, rounds, alpha, power)
        return noticed is not None and noticed(kappa)

    return fewest_rounds(enough, 50, MOST_GUESSED) if math.isfinite(claim.epsilon) else None


def _noticed(claim: Claim, rounds: int, alpha: float, power: float) -> Callable[[float], bool] | None:
    check_chances(power, alpha)
    return CoinTest(claim.delta, 2 * rounds, alpha, apart=True).noticed(claim, (rounds, rounds), power)
