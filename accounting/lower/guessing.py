"""Guesses of the bits of many canaries in one run: counts, p-values, and the accuracy of the best attack."""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

from .. import gaussian
from ..claim import Claim
from .random_numbers import generator

Array = NDArray[np.float64]
LARGEST = 700.0  # nats: e^LARGEST still fits a float64
Groups = tuple[tuple[int, int], ...]  # (weight, even number of guesses) of each group, the most certain guesses first
LEVELS = 16  # largest weight of a guess
# the weight of a guess grows with its log-odds minus epsilon, up to this share of the largest such difference; all surer guesses
# have the largest weight
CAPPED = 0.5
EDGES = (0.0, *(2.0 ** (k / 4) for k in range(-12, 17)), LARGEST)  # nats: all epsilons between two edges use the same weights
TRUTHS = tuple(2.0 ** (k / 4) for k in range(-14, 27))  # nats: epsilons of the Gaussian mechanisms for which weights are tried
FADED = 50.0  # waves smaller than e^-FADED are left out of a Fourier transform
GRANTED = 0.1  # share of the level in `granted_p_value`
ROUNDED = 1e-11  # added to a p-value for the rounding of its Fourier transform
CUTS, SECTIONS = 33, 9  # for `exceeded_by`: 32^9 parts of an interval are smaller than the rounding of its ends
FINE = 64  # number of weight levels in `most_provable`, enough levels to approximate arbitrary weights


def accuracy(share: ArrayLike, strength: float, delta: float) -> Array:
    """The accuracy of the most certain `share` of the guesses under the best attack on one canary.

    share: shares in (0, 1], any shape. strength: mu of a Gaussian mechanism; for delta = 0 the epsilon (nats) of randomised
    response, where all guesses are equally certain.
    """
    share = np.asarray(share, float)
    if delta == 0 or strength <= 0:
        return np.full(share.shape, 1 / (1 + math.exp(-strength)))
    return np.minimum(special.ndtr(strength / 2 - exceeded_by(share, strength) / strength) / share, 1.0)


def by_score(scores: ArrayLike, bits: ArrayLike, seed: int = 0) -> NDArray[np.bool_]:
    """The bits in the order of their scores, the lowest first. Seeded random numbers break ties. Raises ValueError for NaN and
    unequal shapes.
    """
    s, b = np.asarray(scores, float).ravel(), np.asarray(bits).astype(bool).ravel()
    if s.shape != b.shape:
        raise ValueError(f"scores have shape {np.shape(scores)}, bits {np.shape(bits)}: the shapes must be equal.")
    if np.isnan(s).any():
        raise ValueError(f"scores hold {int(np.isnan(s).sum())} NaN in {s.size}: drop those canaries or give them numbers.")
    return np.asarray(b[np.lexsort((generator(seed, s, "ties").random(len(s)), s))])


def weight_of_correct(bits: NDArray[np.bool_], groups: Groups) -> int:
    """The sum of the weights of correct guesses. bits: in the order of their scores."""
    total, done = 0, 0
    for weight, count in groups:
        low, high = bits[done : done + count // 2], bits[len(bits) - done - count // 2 : len(bits) - done]
        total += weight * int(np.count_nonzero(high) + len(low) - np.count_nonzero(low))
        done += count // 2
    return total


@dataclass(frozen=True)
class Charge:
    """What delta adds to a p-value, for every tested epsilon that is at least `epsilon`.

    canaries: of one run, under any dependence. In the mean delta then makes at most 2 delta guesses right for each canary
    (Steinke et al. 2023, Theorem 5.2). apart: each comes from a round of its own, and the rounds are independent. Then each round
    is a function of one bit's randomised response, which tells the bit with probability delta (Kairouz, Oh and Viswanath 2015,
    Theorem 8). So the number of told bits is binomial. granted: only for rounds of their own: told bits count as right guesses,
    see `granted_p_value`, and nothing is added.
    """

    delta: float
    canaries: int
    apart: bool = False
    epsilon: float = 0.0
    granted: bool = False

    def p_value(self, alone: float, most: float) -> float:
        """An upper bound on the probability of a rejection, whose probability is at most `alone` if delta is 0. most: the largest
        probability that one more right guess causes it.

        Consider independent rounds of which D tell their bits. If the D guesses were coins like the others, all D would be right
        with probability q^D, q = 1 / (1 + e^-epsilon), whatever the others are. So a rejection has at most the probability
        `alone` / q^D. It also has at most the probability `alone` + D `most`.
        """
        if self.delta == 0 or not self.apart:
            return min(1.0, alone + 2 * self.delta * self.canaries * most)
        told, chance, rest = _told(self.delta, self.canaries)
        as_coins = alone * np.exp(np.minimum(told * math.log1p(math.exp(-self.epsilon)), LARGEST))
        return min(1.0, float(chance @ np.minimum(np.minimum(as_coins, alone + told * most), 1.0)) + rest)


FREE = Charge(0.0, 0)


@lru_cache(maxsize=16)
def _told(delta: float, rounds: int) -> tuple[Array, Array, float]:
    """The numbers of told bits near the mean, their probabilities, and the probability of all other numbers."""
    mean = delta * rounds
    wide = 12 * math.sqrt(mean) + 20
    first, last = max(0, math.floor(mean - wide)), min(rounds, math.ceil(mean + wide))
    told = np.arange(last + 1.0)
    steps = np.log((rounds - told[:-1]) / told[1:] * delta / (1 - delta))  # log-ratios of successive probabilities
    chance = np.exp(rounds * math.log1p(-delta) + np.append(0.0, np.cumsum(steps)))
    rest = float(special.bdtrc(last, rounds, delta)) + (float(special.bdtr(first - 1, rounds, delta)) if first else 0.0)
    return told[first:], chance[first:] / chance[first:].sum(), rest


def steinke_p_value(epsilon: float, charge: Charge, guesses: int, correct: int, most: float = 0.0) -> float:
    """An upper bound on the probability that at least `correct` of `guesses` are right (Steinke et al. 2023, Appendix D).

    most: as in `weighted_p_value`.
    """
    if correct <= 0:
        return 1.0
    q = 1 / (1 + math.exp(-min(epsilon, LARGEST)))
    tail = float(special.betainc(correct, guesses - correct + 1, q))
    if charge.delta == 0:
        return tail
    # The mean of a unimodal mass function over a window that ends at `correct` is largest for a window of at most this width.
    width = 3 * abs(correct - guesses * q) + 20 * math.sqrt(guesses * q * (1 - q)) + 20
    i = np.arange(1, min(correct, math.ceil(width)) + 1)
    below = np.where(i < correct, special.bdtr(np.maximum(correct - i - 1, 0), guesses, q), 0.0)
    most = max(most, float(np.max((special.bdtr(correct - 1, guesses, q) - below) / i)))
    return charge.p_value(tail, most)


def weighted_p_value(epsilon: float, charge: Charge, groups: Groups, correct: int, most: float = 0.0) -> float:
    """An upper bound on the probability that the weights of correct guesses add up to `correct` or more.

    Steinke et al. 2023, Theorem 5.2, for guesses of unequal weight. At delta = 0 the sum is stochastically at most the weighted
    sum of independent coins of probability 1 / (1 + e^-epsilon). The guesses that delta makes right may have the largest weight.
    most: at least this probability is charged for each of them, see `tied_p_value`.
    """
    if charge.granted:
        return granted_p_value(epsilon, charge, groups, correct)
    if len(groups) == 1:
        weight, count = groups[0]
        return steinke_p_value(epsilon, charge, count, -(-correct // weight), most)
    start, mass = _law(groups, 1 / (1 + math.exp(-min(epsilon, LARGEST))))
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)

    def at_least(v: NDArray[np.int64] | int) -> Array:
        return np.asarray(above[np.clip(np.asarray(v) - start, 0, len(mass))])

    tail = float(at_least(correct))
    if charge.delta > 0 and correct > 0:
        some = np.arange(1, min(-(-correct // groups[0][0]), len(mass) // groups[0][0] + 2) + 1)
        most = max(most, float(np.max((at_least(np.maximum(correct - some * groups[0][0], 0)) - tail) / some)))
    return charge.p_value(tail + ROUNDED, most)


def tied_p_value(epsilon: float, charge: Charge, guesses: int, correct: int, most: float) -> float:
    """`steinke_p_value` if the scores decide the number of guesses, or whether this test or another one is made.

    The term that delta adds is bounded by `most` for all these numbers and tests at once. A term for the actual number of guesses
    alone would be too small: a mechanism could spend delta in exactly those runs whose number of guesses makes this term small.
    """
    if charge.granted:
        return granted_p_value(epsilon, charge, ((1, guesses),), correct)
    return charge.p_value(steinke_p_value(epsilon, FREE, guesses, correct), most)


def granted_p_value(epsilon: float, charge: Charge, groups: Groups, correct: int) -> float:
    """The smallest level at which this rule rejects. A share GRANTED of the level is for the event that more than D bits are
    told, with the smallest D for which it is enough. The D guesses of the largest weights count as right for certain, and the
    others are coins of probability 1 / (1 + e^-epsilon). The other share of the level is for the sum of weights.

    Given all scores, and that they tell at most D bits, the probability of a rejection is largest if the D guesses of the largest
    weights are told. So the scores may also decide which guesses are made, and how many.
    """
    top = sum(count for _, count in groups)

    def more_told(told: int) -> float:
        return float(special.bdtrc(told, charge.canaries, charge.delta)) / GRANTED

    def others(told: int) -> tuple[Groups, int]:
        left, rest = correct, []
        for weight, count in groups:
            told, out = told - min(told, count), min(told, count)
            left -= weight * out
            rest += [(weight, count - out)] if count > out else []
        return tuple(rest), left

    @cache
    def reached(told: int) -> float:
        rest, left = others(told)
        return (weighted_p_value(epsilon, FREE, rest, left) if left > 0 and rest else float(left <= 0)) / (1 - GRANTED)

    def nearly_enough(told: int) -> bool:
        rest, left = others(told)
        q, spread = 1 / (1 + math.exp(-min(epsilon, LARGEST))), sum(w * w * n for w, n in rest)
        above = (q * sum(w * n for w, n in rest) - left) / math.sqrt(max(q * (1 - q) * spread, 1e-300))
        return more_told(told) <= float(special.ndtr(above)) / (1 - GRANTED)

    near = bisect_left(range(top), True, key=nearly_enough)
    first = first_near(lambda told: more_told(told) <= reached(told), near, top)
    return min(1.0, reached(first), more_told(first - 1) if first else 1.0)


def first_near(holds: Callable[[int], bool], guess: int, top: int) -> int:
    """The smallest number that `holds`, or `top` if none below it does. All larger ones hold too. guess: where the search begins;
    its steps double from there.
    """
    low, high, step = guess, guess, 1
    while high < top and not holds(high):
        low, high, step = high + 1, min(high + step, top), 2 * step
    while low == high > 0 and holds(max(low - step, 0)):
        low, high, step = max(low - step, 0), max(low - step, 0), 2 * step
    low = max(low - step, 0) if low == high else low
    return low + bisect_left(range(low, high), True, key=holds)


def fewest_tied(groups: Groups) -> int:
    """The smallest number of guesses on tied scores with which `steinke` tests these scores instead of the groups."""
    return -(-sum(count for _, count in groups) // 2)


def likeliest(epsilon: float, groups: Groups) -> float:
    """The largest probability that one more right guess of the largest weight changes whether the sum of weights reaches a limit,
    over all limits. For one group of guesses, it is the largest probability of one count.
    """
    q = 1 / (1 + math.exp(-min(epsilon, LARGEST)))
    if len(groups) > 1:
        up_to = np.append(0.0, np.cumsum(_law(groups, q)[1]))
        return float(np.max(up_to[groups[0][0] :] - up_to[: -groups[0][0]])) + ROUNDED
    count = sum(n for _, n in groups)
    around = np.clip(math.floor((count + 1) * q) + np.arange(-1, 2), 0, count)
    return float(
        np.max(special.bdtr(around, count, q) - np.where(around > 0, special.bdtr(np.maximum(around - 1, 0), count, q), 0.0))
    )


def _law(groups: Groups, q: float) -> tuple[int, Array]:
    """The distribution of the weighted sum of coins of probability q, within 12 standard deviations of its mean. Returns the
    smallest value and the probabilities of this value and the following ones.
    """
    mean, top = sum(w * n for w, n in groups) * q, sum(w * n for w, n in groups)
    wide = 12 * math.sqrt(sum(w * w * n for w, n in groups) * q * (1 - q)) + 8 * LEVELS
    start = max(0, math.floor(mean - wide))
    size = fft.next_fast_len(min(top - start, math.ceil(2 * wide)) + 2)
    turn = 2 * np.pi * np.arange(size // 2 + 1) / size  # the other half of the waves are the conjugates of these
    kept, faded = np.arange(len(turn)), np.zeros(len(turn))  # almost all waves are negligible; the largest groups show it
    for weight, count in sorted(groups, key=lambda group: -group[1]):
        faded = faded + count * q * (1 - q) * (1 - np.cos(weight * turn[kept]))
        kept, faded = kept[faded < FADED], faded[faded < FADED]
    waves = np.zeros(len(turn), dtype=complex)
    waves[kept] = np.exp(sum(n * np.log1p(q * np.expm1(1j * w * turn[kept])) for w, n in groups))
    return start, np.maximum(np.roll(fft.hfft(waves, size) / size, -(start % size)), 0.0)


@lru_cache(maxsize=4096)
def weights(canaries: int, mu: float, epsilon: float, levels: int = LEVELS, capped: float = CAPPED) -> Groups:
    """Groups of guesses for a test of `epsilon` that is strong if the mechanism is Gaussian with this mu.

    The best weight of a guess is its log-odds minus epsilon. Here weights are rounded to `levels` levels and limited as CAPPED
    says. Empty if no guess has log-odds above epsilon.
    """
    surest = _surest(canaries, mu)
    if surest <= epsilon:
        return ()
    middles = epsilon + capped * (surest - epsilon) * (np.arange(levels, 0, -1) - 0.5) / levels
    counts = 2 * np.round(canaries * share_above(middles, mu) / 2).astype(int)
    counts = np.minimum(counts, canaries - canaries % 2)
    new = np.diff(counts, prepend=0)
    return tuple((levels - k, int(n)) for k, n in enumerate(new) if n)


def share_above(certainty: Array, mu: float) -> Array:
    """The expected share of canaries whose absolute log-likelihood ratio exceeds `certainty`, for a Gaussian mechanism of this
    mu.
    """
    return np.asarray(special.ndtr(mu / 2 - certainty / mu) + special.ndtr(-mu / 2 - certainty / mu))


def exceeded_by(share: Array, mu: float) -> Array:
    """The inverse of `share_above`: the certainty that this share of the canaries is expected to exceed.

    Each step computes CUTS values between two limits at once, because a call of NumPy takes longer than the numbers of one call.
    """
    low, high = np.zeros_like(share), np.full_like(share, mu * mu / 2 + 40 * mu)
    parts = np.linspace(0, 1, CUTS).reshape(-1, *(1,) * share.ndim)
    for _ in range(SECTIONS):
        at = low + (high - low) * parts
        above = np.maximum((share_above(at, mu) > share).sum(axis=0), 1)
        low, high = (np.take_along_axis(at, np.minimum(i, CUTS - 1)[None], axis=0)[0] for i in (above - 1, above))
    return low


@lru_cache(maxsize=4096)
def _surest(canaries: int, mu: float) -> float:
    """Approximately the largest absolute log-likelihood ratio among the canaries: the value that 1/2 canary is expected to
    exceed.
    """
    return float(exceeded_by(np.array(0.5 / canaries), mu))


def rates(groups: Groups, canaries: int, strength: float, delta: float) -> list[float]:
    """The accuracy of the guesses of each group under the best attack; arguments as in `accuracy`."""
    ends = np.cumsum([0] + [n for _, n in groups]) / canaries
    right = np.append(0.0, ends[1:] * accuracy(ends[1:], strength, delta))
    return [float((right[k + 1] - right[k]) / (ends[k + 1] - ends[k])) for k in range(len(groups))]


def expected(groups: Groups, canaries: int, strength: float, delta: float) -> int:
    """The expected sum of the weights of correct guesses under the best attack, rounded down."""
    each = zip(groups, rates(groups, canaries, strength, delta), strict=True)
    return int(sum(weight * count * rate for (weight, count), rate in each))


@lru_cache(maxsize=4096)
def groups_against(epsilon: float, delta: float, canaries: int, alpha: float, apart: bool = False) -> tuple[Groups, Charge]:
    """The guesses and weights with which this epsilon (nats) is tested, and what delta adds. They depend on neither claim nor
    scores. apart: as in `Charge`.

    Consider the Gaussian mechanisms under which the test usually rejects the tested epsilon. The guesses and weights are the best
    ones for the one of them with the smallest true epsilon, which is found by halving TRUTHS. At delta = 0 all canaries are
    guessed with the same weight, which is best for randomised response. For rounds of their own, told bits are granted if that
    rejects the tested epsilon under a mechanism with a smaller true epsilon.

    The charge for delta of `steinke` grows with epsilon and shrinks with the number of guesses. So there are enough guesses to
    reject the largest epsilon that these groups test; otherwise no larger epsilon would be tested.
    """
    low, high = next((a, b) for a, b in pairwise(EDGES) if a <= epsilon < b or b == LARGEST)
    middle = math.sqrt(low * high) if low else high / 2
    truths = [t for t in TRUTHS if t > middle and delta > 0]

    @cache
    def rejecting(truth: float, charge: Charge) -> Groups:
        mu = gaussian.mu_of_claim(Claim(truth, delta))
        groups = weights(canaries, mu, middle)
        if not groups:
            return ()
        change = likeliest(high if high < LARGEST else middle, ((1, fewest_tied(groups)),))
        rejects = weighted_p_value(middle, charge, groups, expected(groups, canaries, mu, delta), change) < alpha
        return groups if rejects else ()

    def smallest(charge: Charge) -> int:
        return bisect_left(truths, True, key=lambda truth: rejecting(truth, charge) != ())

    charges = [Charge(delta, canaries, apart, low, granted) for granted in ((False, True) if apart and delta > 0 else (False,))]
    charge = min(charges, key=smallest)
    if (found := smallest(charge)) < len(truths):
        return rejecting(truths[found], charge), charge
    return ((1, max(canaries - canaries % 2, 2) if canaries > 1 else 0),), charge


@lru_cache(maxsize=64)
def most_provable(epsilon: float, delta: float, trials: int, alpha: float) -> float:
    """The largest epsilon (nats) that a rule valid for every mechanism can prove with probability one half from `trials`
    independent fair coins, if the true mechanism is Gaussian and attains `epsilon`.

    To prove more than x, such a rule must reject a mechanism whose scores are distributed as those of the Gaussian one, but under
    which every guess is right with probability 1 / (1 + e^-x). The most powerful test against this mechanism is that of Neyman
    and Pearson, whose weights are the log-odds minus x.
    """
    mu = gaussian.mu_of_claim(Claim(epsilon, delta)) if delta > 0 else 0.0
    if mu <= 0 or math.isinf(mu):
        return 0.0
    low, high = 0.0, epsilon
    for _ in range(20):
        middle = (low + high) / 2
        groups = weights(trials, mu, middle, FINE, 1.0)
        found = bool(groups) and weighted_p_value(middle, FREE, groups, expected(groups, trials, mu, delta)) < alpha
        low, high = (middle, high) if found else (low, middle)
    return low


def rejects(beta: Callable[[Array], Array], canaries: int, guesses: int, correct: int, level: Array) -> NDArray[np.bool_]:
    """Whether `correct` right guesses of `guesses` reject a trade-off curve, at each level (Mahloujifar et al. 2024, Algorithm
    1). beta: the curve, for arrays of the shape of `level`.
    """
    level = np.asarray(level, float)
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        larger = np.maximum(h, beta(1 - r))  # for a symmetric curve f the inverse of 1 - f is f(1 - x)
        if np.array_equal(larger, h):
            break  # from here on neither r nor h changes
        r = r + i / (guesses - i) * (larger - h)
        h = larger
        r = np.minimum(r, 1.0)
    return np.asarray(r + h > guesses / canaries)


def gaussian_beta(mu: ArrayLike) -> Callable[[Array], Array]:
    return lambda a: gaussian.tradeoff(mu, a)


def largest_mu(m: int, r: int, v: int, alpha: float) -> float:
    """The largest mu whose Gaussian curve `rejects` rejects at level alpha. m: canaries. r: guesses. v: right guesses."""
    low, high = 0.0, 2.0
    level = np.full(65, alpha)
    while high < 100 and rejects(gaussian_beta(np.full(1, high)), m, r, v, level[:1])[0]:
        low, high = high, 2 * high
    for _ in range(5):
        grid = np.linspace(low, high, 65)
        yes = rejects(gaussian_beta(grid), m, r, v, level)
        last = int(np.argmin(yes)) - 1 if not yes.all() else 64
        if last < 0:
            return 0.0
        low, high = float(grid[last]), float(grid[min(last + 1, 64)])
    return low
