"""The rank gate, a test of the ledger's curve without pilot rounds: it counts the scores of world 1 that rank below a high score
of world 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..checks.conditions import Condition, proved
from ..checks.score_law import PLAYED
from ..claim import Claim
from .bounds import Bound, resting, split
from .detection.families import KAPPAS, Family
from .detection.power import POWER
from .random_numbers import generator

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve

Array = NDArray[np.float64]
Beta = Callable[[Array], Array]  # a trade-off curve: false-positive rates -> smallest false-negative rates
CELLS = np.linspace(-9.0, 9.0, 901)  # ends of the cells, on the normal scale, of the integral over the false-positive rate


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
) -> Bound:
    """Tests the trade-off curve of the ledger by ranks alone. The test is exact for any number of independent rounds.

    scores: any shape, float, higher means world 1; random numbers break ties. bits: the same shape, True for world 1. family:
    maps a factor to the curve of the ledger with all noise divided by the factor; not needed for a Gaussian curve. shown: if the
    attack is weaker than the best one, maps a factor to the curve of the attack's scores with all noise divided by the factor;
    `notices` and `reach` are computed from it.

    The threshold is the score at a fixed rank of world 0, counted from the highest. Its false-positive rate has a Beta
    distribution for any continuous scores. The false-negative rate is then at least the curve's value at this rate, so the number
    of misses is stochastically at least binomial with this value. One integral gives the probability of so few misses. The test
    needs neither a separate confidence interval for each rate nor pilot rounds. The rank follows from the curve, not from the
    scores. Raises ValueError as `split`.
    """
    scores0, scores1 = split(scores, bits)
    trials = len(scores0), len(scores1)
    if family is None and curve.mu is not None:
        family = gaussian_family(curve.mu)
    members = Family(curve, family)
    place = best_place(curve.beta, trials[0])
    missed = misses(scores0, scores1, place, generator(seed, scores, "ties"))

    def level(member: Curve) -> float:
        return chance_of_so_few(missed, place, trials, member.beta)

    epsilon = members.epsilon(lambda member: level(member) <= alpha, claim.delta)
    claimed = None if math.isinf(claim.epsilon) else members.above(claim)
    p_value = level(claimed) if claimed is not None else 1.0
    notices, reach = seen_from(members, shown or members.member, claim, claimed, place, trials, alpha)
    refuted = epsilon > claim.epsilon
    bound = Bound(epsilon, alpha, "ledger", "rank gate", trials, refuted, p_value, notices, reach, against="ledger")
    theorem = (
        "the trade-off curve of the ledger at a fixed rank of world 0 (Dong et al. 2022; the false-positive rate at a "
        "fixed rank has a Beta distribution)"
    )
    return resting(bound, theorem, rounds, proved("the rank is fixed", "by the ledger's curve"))


def misses(scores0: Array, scores1: Array, place: int, random: np.random.Generator) -> int:
    """The number of scores of world 1 that rank below the place-th highest of world 0. Equal scores are put in random order."""
    threshold = np.partition(scores0, len(scores0) - place)[len(scores0) - place]
    above = int(np.count_nonzero(scores0 > threshold))
    equal = int(np.count_nonzero(scores0 == threshold))
    # Random numbers order the equal scores. The score with the (place - above)-th highest number then has rank `place`.
    coin = np.sort(random.random(equal))[equal - (place - above)]
    ties = random.random(int(np.count_nonzero(scores1 == threshold)))
    return int(np.count_nonzero(scores1 < threshold) + np.count_nonzero(ties < coin))


def chance_of_so_few(missed: int, place: int, trials: tuple[int, int], beta: Beta) -> float:
    """An upper bound on the probability of at most `missed` misses in world 1 if the curve `beta` holds, for a threshold at this
    rank of world 0.

    It is the mean of P(Binomial(trials[1], beta(a)) <= missed) over a ~ Beta(place, trials[0] - place + 1). In each cell of a,
    this probability is replaced by its value at the right end, which is larger, because beta decreases.
    """
    rates, weights = cells(place, trials[0])
    each = special.bdtr(missed, trials[1], np.clip(beta(rates), 0.0, 1.0))
    return float(min(1.0, (each * weights).sum() + 2 * special.ndtr(CELLS[0])))


@lru_cache(maxsize=256)
def cells(place: int, trials: int) -> tuple[Array, Array]:
    """The distribution of the false-positive rate at the place-th highest of `trials` scores, in 900 cells. Returns the right end
    and the probability of each cell.
    """
    low, high = special.ndtr(CELLS), special.ndtr(-CELLS)
    other = trials - place + 1
    rates = np.where(CELLS < 0, special.betaincinv(place, other, low), special.betainccinv(place, other, high))
    weights = np.where(CELLS[1:] < 0, np.diff(low), -np.diff(high))
    return rates[1:], weights


def best_place(beta: Beta, trials: int) -> int:
    """The rank in world 0 at which the two error rates of the ledger's curve have the smallest sum."""
    rates = np.arange(1, 201) / 400  # at most 1/2, because the curve is symmetric
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
    """`notices` and `reach` of a Bound: the smallest violation that 90 % of the audits detect, as the factor by which the noise
    is too small and as the true epsilon. Both are infinite if the test detects no member of the family. shown: maps kappa to the
    curve of the attack's scores. claimed: the member with the most noise that violates the claim.
    """
    if claimed is None or shown is None or members.member is None or chance_of_so_few(0, place, trials, claimed.beta) > alpha:
        return math.inf, math.inf
    likely = bisect_left(range(trials[1]), True, key=lambda below: chance_of_so_few(below, place, trials, claimed.beta) > alpha)
    few = likely - 1
    unseen = Family(members.ledger, shown).holding(lambda seen: chance_of_so_few(few, place, trials, seen.beta) < POWER)
    if unseen == len(KAPPAS):
        return math.inf, math.inf
    kept = members.holding(lambda member: member.epsilon(claim.delta) <= claim.epsilon)
    return KAPPAS[unseen] / KAPPAS[max(kept - 1, 0)], float(members.member(KAPPAS[unseen]).epsilon(claim.delta))


def gaussian_family(mu: float) -> Callable[[float], Curve]:
    """The family of a Gaussian ledger: maps kappa to the Gaussian curve of kappa * mu."""
    from ..upper import tradeoff

    return lambda kappa: tradeoff.gaussian(kappa * mu)
