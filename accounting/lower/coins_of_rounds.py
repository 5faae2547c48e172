"""A bound for every mechanism from independent rounds. The bits must be fair coins. If they are not, this module draws fair coins
and selects rounds whose bits equal these coins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks.conditions import LEVEL, Condition, assumed, checked, proved
from .bounds import Bound, resting
from .one_run import steinke
from .random_numbers import generator

if TYPE_CHECKING:
    from ..claim import Claim

FAIR = "bits are fair independent coins"
FEWEST = 17  # with fewer bits, no order and no number of ones fails the check
SPARE = 6.0  # spare rounds, in standard deviations of the number of heads; in about two of a billion audits they do not suffice
KEPT = 0.5  # if drawn coins select fewer than this share of the rounds, there is no bound


def coins_of_rounds(
    scores: ArrayLike, bits: ArrayLike, claim: Claim, alpha: float = 0.05, *, rounds: Condition, seed: int = 0
) -> Bound | None:
    """The bound of `steinke` from independent rounds; None if the selection would lose more than half of the rounds, because one
    world has too few.

    scores: (rounds,). bits: the same shape, True for world 1. rounds: the condition that rounds are independent.

    Bits that pass the check in `fair` count as fair coins, and then the bound holds under any dependence between rounds.
    Otherwise, for example with a fixed number of rounds in each world, or with too few rounds for the check, the function draws
    fair coins. For each coin it selects a random round whose bit equals the coin.
    """
    s, b = np.ravel(np.asarray(scores, float)), np.ravel(np.asarray(bits)).astype(bool)
    coins = fair(b)
    if coins.how == "checked":
        return steinke(s, b, claim, alpha, coins=coins, seed=seed)
    chosen = drawn(b, generator(seed, s, "coins"))
    if len(chosen) < KEPT * len(b):
        return None
    told = proved(FAIR, "the tool draws the coins, and selects for each coin a random round with this bit")
    bound = steinke(s[chosen], b[chosen], claim, alpha, coins=told, seed=seed)
    return resting(bound, bound.theorem, rounds)


def fair(bits: NDArray[np.bool_]) -> Condition:
    """Checks how many bits are 1, and how often consecutive bits differ. The check fails if half of the bits are 1, or as nearly
    half as possible, because their number then looks fixed. With fewer than FEWEST bits, the condition is assumed.
    """
    count, ones, changes = len(bits), int(bits.sum()), int(np.count_nonzero(bits[1:] != bits[:-1]))
    if abs(2 * ones - count) <= 1:
        return Condition(FAIR, "failed", f"{ones} are 1 and {count - ones} are 0, as equal as possible: the number looks fixed")
    if count < FEWEST:
        return assumed(FAIR, f"{count} bits are too few to check; {FEWEST} would do")
    p_values = [_both_sides(ones, count), _both_sides(changes, count - 1)]
    return checked(FAIR, "the number of bits that are 1, and how often neighbours differ", min(1.0, 2 * min(p_values)), LEVEL)


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
