"""Bounds that hold at any stopping time: a caller may test after every round, stop early, or continue later, and does not divide
alpha.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..checks.conditions import Condition, proved
from ..checks.score_law import PLAYED, normal_law, sd_as_stated
from ..claim import Claim
from .bounds import Bound, resting, split
from .detection import power
from .detection.error_rates import BEFOREHAND, Rule

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve

Array = NDArray[np.float64]
# the mixture is optimal if the true mu is this factor times the claimed mu; other violations need a few more rounds
TUNED = math.sqrt(2)
# shares of the wealth (see `any_shape`) that are bet, relative to the largest share that cannot lose everything
STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7])
STEP, STEPS = 0.02, 1000  # nats: the grid of bounds that `any_shape` can return


def log_e_values(differences: ArrayLike, mu: float, scale: float) -> Array:
    """The log of the e-process after each difference. The tested hypothesis: the differences have mean at most mu. (…, rounds) ->
    (…, rounds).

    differences: independent normal with variance 2, each a score of world 1 minus a score of world 0, both divided by their sd.
    The process is a one-sided normal mixture (Robbins 1970; Howard et al. 2021, Proposition 6). If the hypothesis holds, the
    probability that e ever reaches 1 / alpha is at most alpha. scale: sd of the mixture's prior on the excess of the mean over
    mu.
    """
    x = np.asarray(differences, float)
    t = np.arange(1, x.shape[-1] + 1)
    total = np.cumsum(x, axis=-1) - mu * t  # variance 2t
    spread = scale**2 / (1 + scale**2 * t / 2)
    root = np.sqrt(spread) * total / 2
    return np.asarray(math.log(2) + np.log(spread / scale**2) / 2 + root**2 / 2 + special.log_ndtr(root))


def anytime(
    scores: ArrayLike, bits: ArrayLike, claim: Claim, curve: Curve, alpha: float = 0.05, *, sd: float, rounds: Condition = PLAYED
) -> Bound:
    """The Gaussian likelihood-ratio bound in a form that holds at any stopping time. The rounds must be in the order of play.

    scores: log-likelihood ratios of an exactly Gaussian ledger. sd: their standard deviation in each world, known independently
    of these scores; the bound is withdrawn if they contradict it. The i-th round of one world is paired with the i-th of the
    other; rounds without a partner are not used yet. The bound is the largest that any number of pairs so far proves, and p_value
    is 1 / (the largest e-value against the claim so far). Raises ValueError for a curve that is not Gaussian, sd <= 0, and scores
    or bits that `split` refuses.
    """
    if curve.mu is None or not sd > 0:
        raise ValueError(f"mu={curve.mu}, sd={sd}: needs an exactly Gaussian ledger and the sd of the scores, above 0.")
    scores0, scores1 = split(scores, bits)
    pairs = min(len(scores0), len(scores1))
    differences = (scores1[:pairs] - scores0[:pairs]) / sd
    claimed = gaussian.mu_of_claim(claim)
    scale = (TUNED - 1) * (claimed if 0 < claimed < math.inf else 1.0)
    mu = float(mu_reached(differences, alpha, scale).max(initial=0.0))
    epsilon = float(gaussian.epsilon_of(mu, claim.delta))
    largest = float(log_e_values(differences, claimed, scale).max(initial=0.0)) if math.isfinite(claimed) else 0.0
    reach = _notices(claim, claimed, pairs, alpha, scale)
    trials, refuted = (len(scores0), len(scores1)), epsilon > claim.epsilon
    p_value = math.exp(-largest)
    bound = Bound(epsilon, alpha, "ledger", "Gaussian e-process", trials, refuted, p_value, *reach, against="ledger")
    theorem = "an e-process of a mixture of normal laws (Robbins 1970; Howard et al. 2021)"
    law = normal_law(scores0, scores1), sd_as_stated(scores0, scores1, sd, limit=False)
    return resting(bound, theorem, rounds, *law)


def mu_reached(differences: ArrayLike, alpha: float, scale: float) -> Array:
    """The anytime-valid lower bound on mu after each pair, 0 if nothing is proved yet. (…, rounds) -> (…, rounds)."""
    x = np.asarray(differences, float)
    t = np.arange(1, x.shape[-1] + 1)
    return np.maximum((np.cumsum(x, axis=-1) - excess(t, alpha, scale)) / t, 0.0)


def excess(t: ArrayLike, alpha: float, scale: float) -> Array:
    """The smallest sum of t differences minus t * mu at which the e-process of `log_e_values` reaches 1 / alpha. (…) -> (…)."""
    t = np.asarray(t)
    spread = scale**2 / (1 + scale**2 * t / 2)
    # e(root) = 2 sqrt(spread) / scale exp(root^2/2) Phi(root) equals 1/alpha at one root, which does not depend on mu.
    target = -math.log(2 * alpha) - np.log(spread / scale**2) / 2
    top = np.sqrt(2 * np.maximum(target, 0)) + 3.0
    _, high = gaussian.bisected(np.full(t.shape, -40.0), top, lambda x: x**2 / 2 + special.log_ndtr(x) < target, 60)
    return np.asarray(2 * high / np.sqrt(spread))


def _notices(claim: Claim, claimed: float, pairs: int, alpha: float, scale: float) -> tuple[float, float]:
    """`notices` and `reach` of a Bound: the smallest violation that the last of `pairs` pairs detects with 90 % power. Earlier
    pairs may detect it too, so the power is larger. claimed: the mu of the claim.
    """
    if not 0 < claimed < math.inf or pairs < 1:
        return math.inf, math.inf
    needed = float(excess(pairs, alpha, scale)) + float(special.ndtri(power.POWER)) * math.sqrt(2 * pairs)
    kappa = 1 + needed / (claimed * pairs)
    return power.reached(claim, kappa)


def any_shape(
    scores: ArrayLike, bits: ArrayLike, claim: Claim, rule: Rule, alpha: float = 0.05, *, rounds: Condition = PLAYED
) -> Bound:
    """A bound that holds for any mechanism and at any stopping time, by bets on a threshold rule that was fixed beforehand.

    Under (epsilon, delta)-DP a pair of rounds, one of each world, satisfies E[1{world 1 above} - e^epsilon 1{world 0 above}] <=
    delta. So the wealth of a player who starts with 1 and bets against this inequality is a supermartingale. The same holds with
    the worlds exchanged and "below" for "above". The e-value is the mean wealth over STAKES and both directions. An epsilon is
    rejected if its e-value reached 1 / alpha at some time. The bound is the largest epsilon on a grid of STEP up to 20 that is
    rejected together with all smaller ones. notices and reach are infinite, as in `from_rounds` with a rule. Raises ValueError as
    `split`.
    """
    scores0, scores1 = split(scores, bits)
    pairs = min(len(scores0), len(scores1))
    above = [rule.sign * s[:pairs] > rule.threshold for s in (scores0, scores1)]
    steps = 0
    while steps < STEPS and _largest_wealth(above[0], above[1], STEP * steps, claim.delta) >= -math.log(alpha):
        steps += 1
    epsilon = STEP * max(steps - 1, 0)
    p_value = math.exp(-_largest_wealth(above[0], above[1], claim.epsilon, claim.delta)) if claim.epsilon < 700 else 1.0
    trials, refuted = (len(scores0), len(scores1)), epsilon > claim.epsilon
    unknown = math.inf, math.inf  # the test may detect nothing, if the threshold is far from all scores
    bound = Bound(epsilon, alpha, "any", "betting e-process", trials, refuted, p_value, *unknown)
    fixed = proved("the threshold is fixed", BEFOREHAND)
    return resting(bound, "betting against the error region of (epsilon, delta)", rounds, fixed)


def _largest_wealth(above0: NDArray[np.bool_], above1: NDArray[np.bool_], epsilon: float, delta: float) -> float:
    """The logarithm of the largest mean wealth at any time, at least 0. above0, above1: (pairs,) whether each score is above the
    threshold.
    """
    if not len(above0):
        return 0.0
    price = math.exp(epsilon)
    paths = []
    for won, lost in ((above1, above0), (~above0, ~above1)):
        # a gain is never below -price - delta; if the claim holds, its mean is at most 0
        gain = won - price * lost - delta
        paths += [np.cumsum(np.log1p(stake / (price + delta) * gain)) for stake in STAKES]
    return float(max(special.logsumexp(paths, axis=0).max() - math.log(len(paths)), 0.0))
