"""The test of `steinke`: which guesses test an epsilon, how many must be right, and which violations this detects."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .. import gaussian
from ..claim import Claim
from .guessing import (
    EDGES,
    Charge,
    Groups,
    fewest_tied,
    groups_against,
    likeliest,
    rates,
    tied_p_value,
    weighted_p_value,
)

Array = NDArray[np.float64]
# Above SIMULATED canaries at delta > 0, `noticed_on_average` counts the canaries of a group of guesses as equally certain, and
# looks at each epsilon alone, although all up to the claim must be rejected. So the computed power must exceed the wanted power
# by this share of the misses: 96 % for 90 %. In simulations the power is then at least the wanted one.
MARGIN = 0.6
SIMULATED = 300  # up to so many canaries the power at delta > 0 is simulated
PLAYED = 1000  # simulated audits; as they are few, their power must exceed the wanted power by PLAYED_MARGIN of the misses
PLAYED_MARGIN = 0.2


@dataclass(frozen=True)
class CoinTest:
    """How `steinke` tests an epsilon.

    coins: how many bits are guessed or left out. alike: the number of tied scores, see `tied`. less: right guesses that are not
    counted, see `uncounted`. The other fields are arguments of `steinke`.
    """

    delta: float
    coins: int
    alpha: float
    apart: bool
    alike: int = 0
    less: int = 1

    def cells(self) -> Iterator[tuple[float, float, Groups, Charge]]:
        """Intervals of epsilon, each with the guesses and the charge that test all epsilons in it."""
        for low, high in pairwise(EDGES):
            yield low, high, *self._against(low)

    def below(self, epsilon: float) -> Iterator[tuple[float, Groups, Charge]]:
        """The largest epsilon of each interval up to `epsilon`, with the guesses and the charge that test it. The largest comes
        first.
        """
        for low, high in reversed(list(pairwise(EDGES))):
            if low <= epsilon:
                yield min(high, epsilon), *self._against(low)

    def _against(self, low: float) -> tuple[Groups, Charge]:
        return groups_against(low, self.delta, self.coins, self.alpha, self.apart)

    def guessed(self, groups: Groups) -> Groups:
        """These groups, or all tied scores in one group if they are at least half as many as the guesses."""
        return groups if self.alike < fewest_tied(groups) else ((1, self.alike),)

    def p_value(self, e: float, groups: Groups, charge: Charge, correct: int) -> float:
        # the scores decide which of the two tests is made, so both charge delta for the likelier change of their results
        fewest = fewest_tied(groups)
        charged = self.delta > 0 and not charge.granted
        change = likeliest(e, ((1, fewest),)) if charged else 0.0
        if self.alike < fewest:
            return weighted_p_value(e, charge, groups, correct - self.less * min(w for w, _ in groups), change)
        change = max(change, likeliest(e, groups)) if charged else 0.0
        return tied_p_value(e, charge, self.alike, correct - self.less, change)

    def rejected(self, e: float, groups: Groups, charge: Charge) -> Callable[[int], bool]:
        """Whether e is rejected, as a function of the sum of weights of right guesses."""
        return lambda correct: self.p_value(e, groups, charge, correct) < self.alpha

    def noticed(self, claim: Claim, trials: tuple[int, int], power: float) -> Callable[[float], bool] | None:
        """Whether the test refutes the claim with probability `power` if the noise is kappa times too small, as a function of
        kappa; None if the test can refute nothing.
        """
        below = self.below(claim.epsilon)
        first = next(below)
        if claim.delta == 0 or self.guessed(first[1]) != first[1] or self.coins > SIMULATED:
            at_claim = self._noticed_on_average(claim, power, *first)
            if claim.delta == 0 or at_claim is None:
                return at_claim
            smaller = cache(lambda: [self._noticed_on_average(claim, power, *each) for each in below])
            return lambda kappa: at_claim(kappa) and all(found is not None and found(kappa) for found in smaller())
        strength, tests = gaussian.mu_of_claim(claim), []
        if math.isinf(strength) or strength <= 0:
            return None
        for e, groups, charge in (first, *below):
            least = _least(groups, self.rejected(e, groups, charge))
            if least > _most(groups):
                return None
            tests.append((groups, least))
        return _noticed_in_play(strength, trials, tuple(tests), power + PLAYED_MARGIN * (1 - power))

    def _noticed_on_average(
        self, claim: Claim, power: float, e: float, groups: Groups, charge: Charge
    ) -> Callable[[float], bool] | None:
        return noticed_on_average(claim, self.coins, self.guessed(groups), self.rejected(e, groups, charge), power)


def noticed_on_average(
    claim: Claim, m: int, groups: Groups, rejected: Callable[[int], bool], power: float
) -> Callable[[float], bool] | None:
    """As `CoinTest.noticed`, for a test of one epsilon. It counts the canaries of a group as equally certain.

    m: how many bits are guessed or left out. rejected: whether a sum of weights of right guesses rejects the claim.
    """
    wanted = power if claim.delta == 0 else power + MARGIN * (1 - power)
    strength, most = claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim), _most(groups)
    least = _least(groups, rejected)
    if math.isinf(strength) or strength <= 0 or least > most or not most:
        return None

    def noticed(kappa: float) -> bool:
        q = rates(groups, m, kappa * strength, claim.delta)
        if len(groups) == 1:
            return bool(special.betainc(least, most - least + 1, q[0]) >= wanted)
        mean = sum(w * n * rate for (w, n), rate in zip(groups, q, strict=True))
        variance = sum(w * w * n * rate * (1 - rate) for (w, n), rate in zip(groups, q, strict=True))
        return bool(mean - least + 0.5 >= special.ndtri(wanted) * math.sqrt(variance))

    return noticed


def _most(groups: Groups) -> int:
    return sum(w * n for w, n in groups)


def _least(groups: Groups, rejected: Callable[[int], bool]) -> int:
    """The smallest sum of weights that `rejected` rejects, at least half of all; one more than all of them if it rejects none."""
    most = _most(groups)
    return bisect_left(range(most + 1), True, lo=most // 2, key=rejected) if most else 1


@lru_cache(maxsize=8)
def _noticed_in_play(
    strength: float, trials: tuple[int, int], tests: tuple[tuple[Groups, int], ...], wanted: float
) -> Callable[[float], bool]:
    """`CoinTest.noticed` by simulation: whether a share `wanted` of PLAYED simulated audits pass all `tests`.

    strength: the mu of the claim. tests: groups of guesses, and the smallest sum of weights that rejects.

    The number of sure guesses varies between audits, and every smaller epsilon must be rejected too. Both matter if there are few
    canaries. The same random numbers are used for every violation.
    """
    m = sum(trials)
    noise, there = np.random.default_rng(m).standard_normal((PLAYED, m)), np.arange(m) < trials[1]
    weights: Array = np.zeros((len(tests), m))
    for row, (groups, _) in zip(weights, tests, strict=True):
        each = np.repeat([w for w, _ in groups], [n // 2 for _, n in groups])
        row[: len(each)], row[m - len(each) :] = -each, each[::-1]
    # right guesses among the lowest scores have bit 0: all of their weights, less those of bits that are 1
    least = np.array([least for _, least in tests]) + np.minimum(weights, 0.0).sum(axis=1)

    @cache
    def noticed(kappa: float) -> bool:
        order = np.argsort(noise + kappa * strength * there, axis=1)
        return bool((there[order] @ weights.T >= least).all(axis=1).mean() >= wanted)

    return noticed
