"""The smallest violation that an audit detects, and the number of rounds that it needs to detect a given one."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ... import gaussian
from ...arguments import check_alpha
from ...checks import score_law
from ...checks.independence import FEWEST_RUNS, OF_COINS
from ...claim import Claim
from ...noncentral_t import critical_value, tail
from .error_rates import choose, epsilon_of_rates, mu_of_rates, pilot_rounds, rate_at_most, weighed

Array = NDArray[np.float64]
METHODS = ("likelihood-ratio, noise known", "likelihood-ratio", "gate", "any", "coins")
PILOTED = ("gate", "any")  # methods with a threshold, which a pilot chooses
MOST_ROUNDS = 10**9  # SciPy's binomial functions lose their precision with more
MOST_KAPPA = 1e3
POWER = 0.9  # power at the smallest detectable violation
CANARIES = 40  # coins of one training of the method "coins"
PILOTS = 192
MARGIN = 0.3  # the pilots are few, so their mean power must exceed the wanted power by this share of the misses: 93 % for 90 %
EDGES = 400  # thresholds that a simulated pilot may choose
EXACT = 1000  # up to so many rounds of world 0 the power is a sum over all numbers of false positives, else over QUANTILES
RARE = 1e-20  # numbers of false positives that are less probable than this change no power in double precision
QUANTILES = (np.arange(24) + 0.5) / 24  # of the number of false positives, and of the variance between trainings


def rounds_needed(claim: Claim, kappa: float, power: float = 0.95, alpha: float = 0.05, method: str = "gate") -> int | None:
    """The number of rounds per world that detects noise `kappa` times too small with probability `power`; None above MOST_ROUNDS
    and for an infinite claim.

    The number is accurate to 0.2 %, with a pilot to 3 %. The violation is an optimally attacked Gaussian mechanism whose mu is
    kappa times the mu of the claim. At delta = 0 it is randomised response with kappa times the claimed epsilon. method: the
    test. "likelihood-ratio" is `lower` with likelihood_ratio=True, and "likelihood-ratio, noise known" also has sd. "gate" is
    `lower` with shape="ledger". "any" is `lower` with shape="any" at delta = 0; above, it also needs `pilot`. Both numbers
    include the rounds of the pilot, see `pilot_rounds`. "coins" is `guessed` with CANARIES coins in each training.
    Raises ValueError for kappa <= 1, an unknown method, and power or alpha outside (0, 1).
    """
    _check(power, alpha, method)
    if not kappa > 1:
        raise ValueError(f"kappa={kappa}: must be above 1. It is the factor by which the noise is too small.")
    if math.isinf(claim.epsilon):
        return None

    def enough(n: int) -> bool:
        if _power(claim, kappa, n, n, alpha, method) < power:
            return False
        pilot = pilot_rounds(n, n)
        trials = n - pilot[0], n - pilot[1]
        return method not in PILOTED or _power_after_pilot(claim, kappa, pilot, trials, alpha, method) >= _nominal(power)

    return fewest_rounds(enough, 500)


def fewest_rounds(enough: Callable[[int], bool], share: int, most: int = MOST_ROUNDS) -> int | None:
    """A number of rounds that is enough, larger than the smallest one by at most 1 / share of it; None above `most`."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > max(1, low // share):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def notices(claim: Claim, n0: int, n1: int, alpha: float = 0.05, method: str = "gate", power: float = 0.9) -> tuple[float, float]:
    """(kappa, reach): the smallest violation that n0 rounds of world 0 and n1 of world 1 detect with probability `power`.

    kappa: factor by which the noise is too small, infinity if no factor up to 1000 is detected. reach: the true epsilon (nats) of
    such a mechanism at the claim's delta. Both assume the optimal attack on this mechanism. method: as in `rounds_needed`, but
    "gate" and "any" have the best threshold; for that of a pilot use `notices_after_pilot`.
    """
    _check(power, alpha, method)
    if math.isinf(claim.epsilon) or min(n0, n1) < 1 or _mu(claim) <= 0:
        return math.inf, math.inf
    return reached(claim, smallest(lambda kappa: _power(claim, kappa, n0, n1, alpha, method) >= power))


@lru_cache(maxsize=1024)
def notices_after_pilot(
    claim: Claim, pilot: tuple[int, int], trials: tuple[int, int], alpha: float, method: str, power: float = POWER
) -> tuple[float, float]:
    """`notices` for a threshold that a pilot chooses. pilot, trials: rounds of world 0 and of world 1 that choose the threshold,
    and that count.

    The power is the mean over simulated pilots. power: as in `notices`.
    """
    least, _ = notices(claim, *trials, alpha, method, _nominal(power))
    if math.isinf(least):
        return math.inf, math.inf

    def noticed(more: float) -> bool:
        return _power_after_pilot(claim, least * more, pilot, trials, alpha, method) >= _nominal(power)

    return reached(claim, least * smallest(noticed, near=1.01))


def _nominal(power: float) -> float:
    """The mean power over PILOTS pilots at which a violation counts as detected with probability `power`."""
    return power + MARGIN * (1 - power)


def _power_after_pilot(
    claim: Claim, kappa: float, pilot: tuple[int, int], trials: tuple[int, int], alpha: float, method: str
) -> float:
    """The mean power of the threshold test over PILOTS pilots, each of which chooses its threshold and direction."""
    if min(pilot) < 1:
        return 0.0
    mu, random = kappa * _mu(claim), np.random.default_rng(PILOTS)
    if claim.delta == 0:  # randomised response has one threshold
        above0, above1 = np.array([special.expit(-mu)]), np.array([special.expit(mu)])
    else:
        near = np.linspace(-6.0, 6.0, EDGES // 2)
        thresholds = np.sort(np.concatenate([near, mu + near]))
        above0, above1 = special.ndtr(-thresholds), special.ndtr(mu - thresholds)
    seen = []
    for count, above in zip(pilot, (above0, above1), strict=True):
        cells = np.maximum(-np.diff(above, prepend=1.0, append=0.0), 0.0)
        drawn = random.multinomial(count, cells / cells.sum(), size=PILOTS)
        seen.append(np.cumsum(drawn[:, ::-1], axis=1)[:, -2::-1])
    wrong0, wrong1 = (np.concatenate([x, n - x], axis=1) for x, n in zip(seen, pilot, strict=True))

    def gain(a: Array, b: Array) -> Array:
        return epsilon_of_rates(a, b, claim.delta) if method == "any" else mu_of_rates(a, b)

    test = trials if method == "any" else weighed(pilot, trials)
    best, times = np.unique(choose(wrong0, pilot[1] - wrong1, pilot, test, alpha, gain), return_counts=True)
    a, b = np.concatenate([above0, 1 - above0])[best], np.concatenate([1 - above1, above1])[best]
    limit = (lambda x: _region(claim, x)) if method == "any" or claim.delta == 0 else (lambda x: gaussian.tradeoff(_mu(claim), x))
    return float(np.average(_power_of_gate(a, b, limit, trials[0], trials[1], alpha), weights=times))


def notices_along(
    claim: Claim, rates: Callable[[float], tuple[Array, Array]], n0: int, n1: int, alpha: float = 0.05, power: float = 0.9
) -> float:
    """The smallest kappa >= 1 that `lower` with shape "any" detects with probability `power`; infinity if it detects none up to
    1000.

    rates: maps kappa to two (thresholds,) arrays, the true false-positive and false-negative rates of each threshold under noise
    that is kappa times too small.
    """
    _check(power, alpha, "any")
    if math.isinf(claim.epsilon) or min(n0, n1) < 1:
        return math.inf

    def noticed(kappa: float) -> bool:
        a, b = rates(kappa)
        return float(_power_of_gate(a, b, lambda x: _region(claim, x), n0, n1, alpha).max()) >= power

    return smallest(noticed)


def smallest(noticed: Callable[[float], bool], low: float = 1.0, near: float = 1.005, most: float = MOST_KAPPA) -> float:
    """The smallest factor above `low` for which `noticed` is true, rounded up by at most the ratio `near`; infinity if no factor
    up to `most` is found.
    """
    high = 2 * low
    while not noticed(high):
        low, high = high, high * 2
        if high > most:
            return math.inf
    while high / low > near:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if noticed(middle) else (middle, high)
    return high


def reached(claim: Claim, kappa: float) -> tuple[float, float]:
    """`notices` and `reach` of a Bound that detects noise kappa times too small: kappa, and the true epsilon (nats) of a Gaussian
    mechanism, at delta = 0 of randomised response. Both are infinite for kappa above MOST_KAPPA.
    """
    if kappa > MOST_KAPPA:
        return math.inf, math.inf
    return kappa, kappa * claim.epsilon if claim.delta == 0 else float(gaussian.epsilon_of(kappa * _mu(claim), claim.delta))


def _region(claim: Claim, a: Array) -> Array:
    """The smallest false-negative rate that the claim allows at each false-positive rate a."""
    e, d = claim.epsilon, claim.delta
    return np.maximum(np.maximum(1 - d - np.exp(e) * a, np.exp(-e) * (1 - d - a)), 0.0)


def _check(power: float, alpha: float, method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method={method!r}: must be one of {', '.join(METHODS)}.")
    check_chances(power, alpha)


def check_chances(power: float, alpha: float) -> None:
    """Raises ValueError unless power and alpha are numbers between 0 and 1, both excluded."""
    check_alpha(alpha)
    if not 0 < power < 1:
        raise ValueError(f"power={power}: must be between 0 and 1, both excluded. 0.95 is a common choice.")


def _mu(claim: Claim) -> float:
    """The parameter of the claim that kappa multiplies: mu, or epsilon itself for delta = 0."""
    return claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim)


def _power(claim: Claim, kappa: float, n0: int, n1: int, alpha: float, method: str) -> float:
    mu = _mu(claim)
    if method.startswith("likelihood-ratio") and min(n0, n1) < score_law.FEWEST:
        return 0.0  # with so few scores their normality is assumed, and the bound refutes nothing
    if method == "likelihood-ratio":
        return _power_of_t(mu, kappa * mu, n0, n1, alpha)
    if method == "likelihood-ratio, noise known":
        return float(special.ndtr((kappa - 1) * mu / math.sqrt(1 / n0 + 1 / n1) + special.ndtri(alpha)))

    if method == "coins":
        limit, chance = (float(special.expit(m)) if claim.delta == 0 else float(special.ndtr(m / 2)) for m in (mu, kappa * mu))
        return power_of_coins(limit, chance, n0 + n1, alpha, (n0 + n1) // CANARIES)
    if claim.delta == 0:  # the error rates of randomised response are the corner of its region
        corner = np.array([special.expit(-kappa * claim.epsilon)])
        return float(np.max(_power_of_gate(corner, corner, lambda a: _region(claim, a), n0, n1, alpha)))
    a, seen, most = _limits(claim, n0, n1, alpha, method)
    return float(np.max(_rejects(seen, most, gaussian.tradeoff(kappa * mu, a), n1)))


@lru_cache(maxsize=256)
def _limits(claim: Claim, n0: int, n1: int, alpha: float, method: str) -> tuple[Array, Array, Array]:
    """Thresholds, given by their false-positive rates (26,), and the results of `_false_positives` and `_most` for them. None of
    them depends on the violation.
    """
    mu = _mu(claim)
    a = np.concatenate([np.geomspace(min(0.2 / n0, 0.1), 0.3, 18), np.linspace(0.36, 0.98, 8)])
    claimed = (lambda x: _region(claim, x)) if method == "any" else (lambda x: gaussian.tradeoff(mu, x))
    counts, chances = _false_positives(a, n0)
    return a, chances, _most(counts, claimed, n0, n1, alpha)


def power_of_coins(limit: float, chance: float, coins: int, alpha: float, trainings: int | None = None) -> float:
    """The probability that `coins` guesses, each right with probability `chance`, prove that this probability exceeds `limit`.

    trainings: how many trainings the coins are in; None for one coin in each, which Clopper-Pearson alone decides. Else Student's
    limit must prove it too, and the guesses must pass the check of `guessed`. The shares of right guesses are treated as normal.
    """
    if not 0 < limit < 1 or coins < 1 or (trainings is not None and trainings < FEWEST_RUNS):
        return 0.0
    # the smallest number of right guesses that proves a chance above `limit`
    least = bisect_left(range(coins + 1), True, lo=1, key=lambda right: special.betainc(right, coins - right + 1, limit) < alpha)
    if least > coins:
        return 0.0
    if trainings is None or chance == 1:
        return float(special.betainc(least, coins - least + 1, chance))
    error = math.sqrt(chance * (1 - chance) / coins)
    spreads = error * np.sqrt(special.chdtri(trainings - 1, QUANTILES) / (trainings - 1))
    margins = np.maximum((least - 0.5) / coins - limit, special.stdtrit(trainings - 1, 1 - alpha) * spreads)
    return float((1 - OF_COINS) * special.ndtr((chance - limit - margins) / error).mean())


def coins_detect(limit: float, seen: float, coins: int, alpha: float, trainings: int | None = None) -> float:
    """The smallest kappa that `coins` guesses detect with probability POWER, if the noise is kappa times smaller than it is
    now; infinity if they detect no kappa up to 1000.

    limit: the largest probability of a right guess under the claim. seen: the probability of a right guess with the present
    noise. trainings: as in `power_of_coins`. The effect of the coin is treated as Gaussian; then its mu grows in proportion to
    kappa.
    """
    strength = 2 * float(special.ndtri(seen))
    if not 0 < strength < math.inf:
        return math.inf

    def noticed(kappa: float) -> bool:
        return power_of_coins(limit, float(special.ndtr(kappa * strength / 2)), coins, alpha, trainings) >= POWER

    return smallest(noticed)


def _power_of_t(mu: float, true: float, n0: int, n1: int, alpha: float) -> float:
    freedom, error = n0 + n1 - 2, math.sqrt(1 / n0 + 1 / n1)
    if freedom < 1:
        return 0.0
    return float(tail(critical_value(alpha, freedom, mu / error), freedom, true / error))


def _power_of_gate(a: Array, b: Array, claimed: Callable[[Array], Array], n0: int, n1: int, alpha: float) -> Array:
    """The probability that the threshold test rejects `claimed` at each threshold with true error rates a and b. (thresholds,) ->
    (thresholds,).
    """
    counts, chances = _false_positives(a, n0)
    return _rejects(chances, _most(counts, claimed, n0, n1, alpha), b, n1)


def _false_positives(a: Array, n0: int) -> tuple[Array, Array]:
    """Numbers of false positives in n0 rounds at true rates a, and their probabilities. Up to EXACT rounds they are all numbers,
    (n0 + 1,) and (thresholds, n0 + 1); above that QUANTILES, (thresholds, 24) and (24,).
    """
    if n0 > EXACT:
        return np.clip(np.ceil(special.bdtrik(QUANTILES, n0, a[:, None])), 0, n0), np.full(len(QUANTILES), 1 / len(QUANTILES))
    counts = np.arange(n0 + 1.0)
    ways = special.gammaln(n0 + 1.0) - special.gammaln(counts + 1) - special.gammaln(n0 - counts + 1)
    rates = a[:, None]
    return counts, np.exp(ways + special.xlogy(counts, rates) + special.xlog1py(n0 - counts, -rates))


def _most(counts: Array, claimed: Callable[[Array], Array], n0: int, n1: int, alpha: float) -> Array:
    """The largest number of misses in n1 rounds of world 1 at which the threshold test rejects `claimed`, for each number of
    false positives in n0 rounds; negative where no number is small enough.
    """
    limit = claimed(rate_at_most(counts, n0, alpha / 2))
    most = special.bdtrik(alpha / 2, n1, limit)  # fewer misses prove a rate below the limit
    return np.where(np.exp(n1 * np.log1p(-np.minimum(limit, 1 - 1e-16))) < alpha / 2, np.ceil(most) - 1, -1)


def _rejects(chances: Array, most: Array, b: Array, n1: int) -> Array:
    """The probability of at most `most` misses in n1 rounds at true rates b, averaged over the numbers of false positives, which
    have these chances. -> (thresholds,).
    """
    shape = (len(b), most.shape[-1])
    k, rates, weights = (np.broadcast_to(values, shape) for values in (most, b[:, None], chances))
    counts = (k >= 0) & (weights > RARE)
    below = special.betaincc(k[counts] + 1, np.maximum(n1 - k[counts], 1e-9), rates[counts])
    each = np.zeros(shape)
    each[counts] = weights[counts] * below
    return np.asarray(each.sum(axis=1))
