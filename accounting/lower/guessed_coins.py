"""A lower bound on epsilon from the number of fair coins that were guessed correctly."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..checks.conditions import Condition, checked, proved
from ..checks.independence import APART, FEWEST_RUNS, OF_COINS
from ..claim import Claim
from ..upper.tradeoff import Curve, approximate
from .bounds import Bound, resting, split
from .detection.error_rates import epsilon_of_rates
from .detection.families import Family
from .one_run import COINS, luck


def guessed(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
) -> Bound:
    """A bound with the shape of the ledger, from a rule that was fixed beforehand: guess "world 1" if the score is above 0.

    scores: (trainings, canaries) float. bits: the same shape, True for world 1, independent fair coins. curve: the trade-off
    curve of the ledger. family: for a ledger that is not Gaussian, maps a factor to its curve with all noise divided by the
    factor.

    A guess of a fair coin is correct with probability 1 - (a + b) / 2, where a and b are the two error rates of the rule. For a
    Gaussian mechanism this probability is at most Phi(mu / 2), given the other canaries (Dong et al. 2022). If the canaries of a
    training are independent, given everything that is equal in all trainings, the number of correct guesses is stochastically at
    most binomial with this probability, even if the canaries differ. So one Clopper-Pearson bound uses all of alpha.

    A training violates this condition if it draws a noise scale or a privacy loss once for all of its canaries. Without further
    checks, up to 22 % of such honest models were refuted at alpha = 5 % in simulations. So there are two checks. First, the
    numbers of correct guesses must not vary between trainings more than coins do, tested at 1 %; otherwise, or with fewer than
    ten trainings, the bound is withdrawn. Second, Student's test, which estimates the variance between trainings, gives a second
    bound, and the smaller of the two bounds counts. With one canary in each training neither check is needed. notices and reach
    are infinite, because the attack need not be the best one. Raises ValueError as `split`.
    """
    scores0, scores1 = split(scores, bits)
    trials = len(scores0), len(scores1)
    right = np.atleast_2d((np.asarray(scores, float) > 0) == np.asarray(bits).astype(bool))
    total, count = int(right.sum()), right.size
    shares = right.mean(axis=1)
    least = float(special.betaincinv(total, count - total + 1, alpha)) if total else 0.0
    least = min(least, mean_at_least(shares, alpha)) if right.shape[1] > 1 else least
    # under (epsilon, delta)-DP, the most accurate guess lies at the corner of the error region
    at_corner = float(epsilon_of_rates(1 - least, 1 - least, claim.delta))
    if curve.mu is not None:
        mu, most = max(2 * float(special.ndtri(least)), 0.0), float(special.ndtr(gaussian.mu_of_claim(claim) / 2))
        epsilon = float(gaussian.epsilon_of(mu, claim.delta))
    else:
        members = Family(curve, family)
        epsilon = max(members.epsilon(lambda c: luck(c) < least, claim.delta), at_corner)
        most = min(luck(c) for c in (members.above(claim), approximate(claim.epsilon, claim.delta)) if c)
    p_value = chance_of_so_many(right, most) if total and math.isfinite(claim.epsilon) else 1.0
    against = "claim" if at_corner > claim.epsilon else "ledger"
    refuted, infinite = epsilon > claim.epsilon, (math.inf, math.inf)
    bound = Bound(epsilon, alpha, "ledger", "guessed coins", trials, refuted, p_value, *infinite, against=against)
    theorem = "correct guesses of coins against the total variation of the ledger's curve (Dong et al. 2022), Clopper-Pearson"
    return resting(bound, theorem, COINS, proved("guesses are fixed", "above 0, or not"), together(right))


def chance_of_so_many(right: NDArray[np.bool_], most: float) -> float:
    """The p-value of the hypothesis that each guess is correct with probability at most `most`. right: (trainings, canaries)
    bool.
    """
    total, count = int(right.sum()), right.size
    counted = float(special.betainc(total, count - total + 1, most)) if total else 1.0
    return max(counted, mean_p_value(right.mean(axis=1), most)) if right.shape[1] > 1 else counted


def mean_at_least(shares: NDArray[np.float64], alpha: float) -> float:
    """Student's lower confidence limit, at 1 - alpha, of the mean share of correct guesses over trainings. For one training it is
    the share itself.
    """
    runs = len(shares)
    error = float(shares.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 0.0
    return float(np.clip(shares.mean() - special.stdtrit(max(runs - 1, 1), 1 - alpha) * error, 0.0, 1.0))


def mean_p_value(shares: NDArray[np.float64], most: float) -> float:
    """The p-value of the hypothesis that the mean is at most `most`: the level at which `mean_at_least` equals `most`."""
    runs = len(shares)
    error = float(shares.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 0.0
    excess = float(shares.mean()) - most
    if error == 0:
        return 0.0 if excess > 0 else 1.0
    return float(special.stdtr(runs - 1, -excess / error))


def together(right: NDArray[np.bool_]) -> Condition:
    """Checks that correct guesses are not correlated within trainings: a one-sided chi-squared test against coins of equal
    probability. right: (trainings, canaries).

    If the guesses are right with unequal probabilities, their sums vary less than in this test, so independent guesses pass. If
    the check misses a dependence, the sums usually vary less than twice as much as those of coins, and Student's test allows for
    such a variation.
    """
    runs, canaries = right.shape
    if canaries == 1:
        return proved(APART, "each training has one canary")
    if runs < FEWEST_RUNS:
        are = "training is" if runs == 1 else "trainings are"
        return Condition(APART, "failed", f"{runs} {are} too few for the bound from coins, which needs {FEWEST_RUNS}")
    sums, chance = right.sum(axis=1), float(right.mean())
    spread = canaries * chance * (1 - chance)
    p_value = float(special.chdtrc(runs - 1, float(np.square(sums - sums.mean()).sum()) / spread)) if spread > 0 else 1.0
    return checked(APART, "correct guesses between trainings, chi-squared", p_value, OF_COINS)
