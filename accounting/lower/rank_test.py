"""The gate that needs no pilot: how few scores of world 1 may rank below a high score of world 0, if a ledger's curve holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks.conditions import Condition, proved
from ..checks.score_law import PLAYED
from ..upper import tradeoff
from .bounds import Bound, resting, split
from .families import KAPPAS, Family

if TYPE_CHECKING:
    from ..claim import Claim
    from ..upper.tradeoff import Curve

Array = NDArray[np.float64]
Beta = Callable[[Array], Array]  # a trade-off curve: false-positive rates to the least false-negative ones
POWER = 0.9  # of the smallest violation that is said to be noticed
CELLS = np.linspace(-9.0, 9.0, 901)  # of the normal scale on which a rate is integrated over


def ranked(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
    shown: Callable[[float], Curve] | None = None,
    rounds: Condition = PLAYED,
    seed: int = 0,
    attack: str = "",
    audit: str = "",
) -> Bound:
    """Tests the trade-off curve of the ledger by ranks alone. Exact for any number of independent rounds.

    scores: any shape, float, higher means world 1; ties are broken by coins. bits: the same shape, True for world 1. family: the
    curve of the ledger with all noise divided by its argument; a Gaussian curve has its own. shown: the same for what this
    attack can tell apart, if that is less; its reach follows from it.

    The threshold is the score of a fixed place in world 0, counted from the highest: its false-positive rate is a draw from a
    Beta distribution whatever the scores are. The false-negative rate is then at least what the curve says there, so that
    the misses are at least a binomial draw of that rate, and the chance of so few is one integral. No rate has a
    confidence interval of its own, and no round is spent on a pilot. The place comes from the curve, not from the scores.
    Raises ValueError for NaN, unequal shapes, a missing world.
    """
    scores0, scores1 = split(scores, bits)
    trials = len(scores0), len(scores1)
    if family is None and curve.mu is not None:
        family = gaussian_family(curve.mu)
    members = Family(curve, family)
    place = best_place(curve.beta, trials[0])
    missed = misses(scores0, scores1, place, np.random.default_rng(seed))

    def level(member: Curve) -> float:
        return chance_of_so_few(missed, place, trials, member.beta)

    rejected = members.last(lambda member: level(member) <= alpha)
    epsilon = float(rejected.epsilon(claim.delta)) if rejected is not None else 0.0
    claimed = None if math.isinf(claim.epsilon) else members.above(claim)
    p_value = level(claimed) if claimed is not None else 1.0
    notices, reach = seen_from(members, shown or members.member, claim, claimed, place, trials, alpha)
    refuted = epsilon > claim.epsilon
    bound = Bound(epsilon, alpha, "ledger", "rank gate", trials, refuted, p_value, notices, reach, attack, audit)
    theorem = "the trade-off curve of the ledger at a fixed rank of world 0 (Dong et al. 2022; a rank's rate is Beta-distributed)"
    fixed = proved("the rank is fixed", "by the ledger's curve")
    return resting(dataclasses.replace(bound, against="ledger"), theorem, rounds, fixed)


def misses(scores0: Array, scores1: Array, place: int, random: np.random.Generator) -> int:
    """How many scores of world 1 rank below the place-th highest of world 0; equal scores are put in random order."""
    threshold = np.partition(scores0, len(scores0) - place)[len(scores0) - place]
    above = int(np.count_nonzero(scores0 > threshold))
    equal = int(np.count_nonzero(scores0 == threshold))
    # The place-th of all is then the (place - above)-th highest coin of those that are equal.
    coin = np.sort(random.random(equal))[equal - (place - above)]
    ties = random.random(int(np.count_nonzero(scores1 == threshold)))
    return int(np.count_nonzero(scores1 < threshold) + np.count_nonzero(ties < coin))


def chance_of_so_few(missed: int, place: int, trials: tuple[int, int], beta: Beta) -> float:
    """At most so likely are `missed` misses or fewer, in world 1, of a threshold at this place of world 0, if the curve holds.

    The integral of P(Binomial(trials[1], beta(a)) <= missed) over a ~ Beta(place, trials[0] - place + 1); in each cell it is
    rounded up, which it is at the right end: beta falls, and fewer misses become likelier.
    """
    rates, weights = cells(place, trials[0])
    each = special.bdtr(missed, trials[1], np.clip(beta(rates), 0.0, 1.0))
    return float(min(1.0, (each * weights).sum() + 2 * special.ndtr(CELLS[0])))


@lru_cache(maxsize=256)
def cells(place: int, trials: int) -> tuple[Array, Array]:
    """The right ends of small cells of the false-positive rate at the place-th highest of so many, and their chances."""
    low, high = special.ndtr(CELLS), special.ndtr(-CELLS)
    other = trials - place + 1
    rates = np.where(CELLS < 0, special.betaincinv(place, other, low), special.betainccinv(place, other, high))
    weights = np.where(CELLS[1:] < 0, np.diff(low), -np.diff(high))
    return rates[1:], weights


def best_place(beta: Beta, trials: int) -> int:
    """The place in world 0 at which the ledger's curve leaves most room: where the two rates add up to the least."""
    rates = np.arange(1, 201) / 400  # a half at most: the curve is symmetric
    return max(1, round(float(rates[np.argmin(rates + beta(rates))]) * trials))


def seen_from(
    members: Family,
    shown: Callable[[float], Curve] | None,
    claim: Claim,
    claimed: Curve | None,
    place: int,
    trials: tuple[int, int],
    alpha: float,
) -> tuple[float, float]:
    """(kappa, reach): how much too small the noise, and how large the true epsilon, that nine audits in ten notice.

    shown: what is told apart at each kappa. Infinity where no member of the family is noticed.
    """
    if claimed is None or shown is None or members.member is None or chance_of_so_few(0, place, trials, claimed.beta) > alpha:
        return math.inf, math.inf
    few, many = 0, trials[1]
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if chance_of_so_few(middle, place, trials, claimed.beta) <= alpha else (few, middle)
    unseen = Family(members.ledger, shown).holding(lambda seen: chance_of_so_few(few, place, trials, seen.beta) < POWER)
    if unseen == len(KAPPAS):
        return math.inf, math.inf
    kept = members.holding(lambda member: member.epsilon(claim.delta) <= claim.epsilon)
    return KAPPAS[unseen] / KAPPAS[max(kept - 1, 0)], float(members.member(KAPPAS[unseen]).epsilon(claim.delta))


def gaussian_family(mu: float) -> Callable[[float], Curve]:
    """Gaussian curves of kappa times this mu."""
    return lambda kappa: tradeoff.gaussian(kappa * mu)
