"""Lower bounds from many canaries in one run, with and without independence between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..checks.conditions import Condition, proved
from ..checks.independence import Independence, independence
from ..claim import Claim
from .bounds import Bound, from_rounds, resting, unknown
from .coin_test import SIMULATED, CoinTest, noticed_on_average
from .detection.families import Family
from .detection.power import POWER, reached, smallest
from .guessing import (
    Charge,
    Groups,
    accuracy,
    by_score,
    gaussian_beta,
    largest_mu,
    rejects,
    weight_of_correct,
)
from .rank_test import ranked

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve

Array = NDArray[np.float64]
SPARED = 0.1  # share of alpha in `canaries` for `mahloujifar`
RANKED = 0.2  # share of alpha in `canaries` for the rank gate, if the exact test has a share too
SURE = 0.25  # `guesses_beyond` chooses so many guesses that, if all are right, the ledger is rejected at this share of alpha
GUESSES = proved("the number of guesses is fixed", "the tested epsilon and ties of scores determine it, not the bits")
COINS = proved("bits are fair independent coins", "drawn by the audit")
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)  # shares of the canaries that are guessed


def canaries(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
    shown: Callable[[float], Curve] | None = None,
    decoys: ArrayLike | None = None,
    sd: float | None = None,
    normal: bool = True,
    seed: int = 0,
) -> tuple[Bound, Independence]:
    """Of three bounds the first whose conditions hold: the exact test of two normal samples, the rank gate, `mahloujifar`.

    The exact test needs an exactly Gaussian ledger, scores that pass the test of normality with one sd, and canaries that pass
    the test of independence. The rank gate needs independent canaries only, and `mahloujifar` needs neither. The choice depends
    on the scores, so each of the three spends a share of alpha that is fixed beforehand, and a union bound covers the choice. The
    first two bounds are tight. On dependent canaries they would be wrong in up to 45 % of all audits, so the checks are needed.

    scores: (rounds, canaries) log-likelihood ratios. bits: the same shape, True if the canary was in the graph, independent fair
    coins. family: as in `ranked` and `mahloujifar`. shown: as in `ranked`. normal: whether scores of a Gaussian ledger are linear
    in its noise; if not, the rank gate also gets the share of the exact test. decoys: any shape, scores of units that have no
    coin and are in no graph; they count as further trials of world 0. sd: an upper limit of the scores' sd, from other noise.
    Returns the bound and the result of the test of independence.
    """
    exact = normal and curve.mu is not None
    apart = independence(scores, bits, normal=exact)
    named: dict[str, Any] = {"family": family, "seed": seed}
    left_out = np.ravel(decoys) if decoys is not None else np.zeros(0)
    every = np.concatenate([np.ravel(scores), left_out])
    there = np.concatenate([np.ravel(bits).astype(bool), np.zeros(left_out.size, dtype=bool)])
    found: Bound | None = None
    if apart.ok and exact:
        options: dict[str, Any] = {"shape": "ledger", "ledger_curve": curve, "likelihood_ratio": True}
        options |= {"sd": sd, "sd_is_limit": True}
        found = from_rounds(every, there, claim, alpha=(1 - SPARED - RANKED) * alpha, rounds=apart.condition, **options, **named)
    if apart.ok and (found is None or found.withdrawn is not None):
        share = RANKED if exact else 1 - SPARED
        found = ranked(every, there, claim, curve, share * alpha, shown=shown, rounds=apart.condition, **named)
    if found is None or found.withdrawn is not None:
        guesses = guesses_beyond(curve, claim.delta, np.asarray(bits).size, SPARED * alpha)
        found = mahloujifar(scores, bits, claim, curve, SPARED * alpha, guesses=guesses, **named)
        found = found if shown is None else unknown(found)
    return dataclasses.replace(found, alpha=alpha), apart


def steinke(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    alpha: float = 0.05,
    *,
    coins: Condition = COINS,
    apart: bool = False,
    seed: int = 0,
) -> Bound:
    """A bound for every mechanism, under any dependence between canaries (Steinke et al. 2023, Theorem 5.2 and Appendix D).

    scores, bits: any equal shape. The bits must be independent fair coins; `coins` is this condition with its status. The highest
    scores are guessed as members and equally many of the lowest as non-members; the others are not guessed. Surer guesses have
    larger weights. The number of guesses and their weights depend on the tested epsilon, never on the claim or the bits. Several
    scores may be tied for the highest and for the lowest. If there are at least half as many tied scores (see `tied`) as guesses,
    the function guesses the bits of exactly these scores. The bound is the largest epsilon that is rejected together with all
    smaller ones. Unless `coins` is proved, one right guess is not counted, see `uncounted`. apart: the scores come from rounds of
    their own, which are independent (see `Charge`).
    """
    m = np.asarray(bits).size
    alike = tied(np.ravel(np.asarray(scores, float)))
    test = CoinTest(claim.delta, m, alpha, apart, alike, uncounted(coins))
    ordered = by_score(scores, bits, seed)

    @cache
    def right(groups: Groups) -> int:
        return weight_of_correct(ordered, groups)

    def level(e: float, groups: Groups, charge: Charge) -> float:
        return test.p_value(e, groups, charge, right(test.guessed(groups)))

    epsilon = 0.0
    for low, high, groups, charge in test.cells():
        if level(low, groups, charge) >= alpha:
            break
        epsilon = _largest(partial(level, groups=groups, charge=charge), alpha, low, high)
        if epsilon < high:
            break
    p_value, reach = 1.0, (math.inf, math.inf)
    if not math.isinf(claim.epsilon):
        p_value = max(level(*each) for each in test.below(claim.epsilon))
        reach = _detectable(test, claim, _trials(bits) if m <= SIMULATED else (m, 0))
    refuted = epsilon > claim.epsilon
    bound = Bound(epsilon, alpha, "any", "Steinke et al. 2023", _trials(bits), refuted, p_value, *reach)
    return resting(bound, "correct guesses of coins in one run (Steinke et al. 2023, Theorem 5.2)", coins, GUESSES)


def uncounted(coins: Condition) -> int:
    """The number of right guesses that are not counted: one, if the audit did not draw the coins itself.

    If their number of ones was fixed instead, the number of right guesses varies as that of fair coins does, but it may be even
    only, or odd only. So it may reach a limit that it just misses with fair coins. One guess makes up for this.
    """
    return 0 if coins.how == "proved" else 1


def tied(scores: Array) -> int:
    """The largest even number of guesses on scores that are tied for the highest and, equally many, on scores that are tied for
    the lowest.
    """
    if not len(scores) or scores.min() == scores.max():
        return 0
    return 2 * int(min(np.count_nonzero(scores == scores.min()), np.count_nonzero(scores == scores.max())))


def mahloujifar(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
    guesses: int | None = None,
    coins: Condition = COINS,
    seed: int = 0,
) -> Bound:
    """Tests the trade-off curve of the ledger under any dependence between canaries (Mahloujifar et al. 2024, Algorithm 1).

    scores, bits, coins: as in `steinke`. curve: the trade-off curve of the ledger. By default, `guesses` is the best number for
    the ledger under the optimal attack. For a ledger that is not Gaussian, `family` maps a factor to the curve of the ledger with
    all noise divided by the factor. Raises ValueError for NaN, unequal shapes, and guesses that are not between 1 and the number
    of canaries.
    """
    m = np.asarray(bits).size
    r = _even(guesses if guesses is not None else best_guesses(like(curve, claim.delta), m, alpha), m)
    less = uncounted(coins)
    v = max(weight_of_correct(by_score(scores, bits, seed), ((1, r),)) - less, 0)
    if curve.mu is not None:
        epsilon = float(gaussian.epsilon_of(largest_mu(m, r, v, alpha), claim.delta))
        tested: Callable[[Array], Array] | None = gaussian_beta(gaussian.mu_of_claim(claim))
    else:
        members = Family(curve, family)
        epsilon = members.epsilon(lambda c: bool(rejects(c.beta, m, r, v, np.array([alpha]))[0]), claim.delta)
        above = members.above(claim)
        tested = above.beta if above is not None else None
    p_value, reach = 1.0, (math.inf, math.inf)
    if tested is not None and not math.isinf(claim.epsilon):
        beta = tested
        levels = np.geomspace(1e-12, 1.0, 481)
        yes = rejects(beta, m, r, v, levels)
        p_value = float(levels[np.argmax(yes)]) if yes.any() else 1.0

        def rejected(v: int) -> bool:
            return bool(rejects(beta, m, r, max(v - less, 0), np.array([alpha]))[0])

        reach = _reach(claim, noticed_on_average(claim, m, ((1, r),), rejected, POWER))
    refuted = epsilon > claim.epsilon
    method = "Mahloujifar et al. 2024"
    bound = Bound(epsilon, alpha, "ledger", method, _trials(bits), refuted, p_value, *reach, against="ledger")
    return resting(bound, "correct guesses of coins in one run (Mahloujifar et al. 2024, Algorithm 1)", coins, GUESSES)


def like(curve: Curve, delta: float) -> Claim:
    """The claim of the Gaussian mechanism whose coins are guessed as often as those of this curve. At delta = 0, epsilon is the
    mu of that mechanism.
    """
    mu = curve.mu if curve.mu is not None else 2 * float(special.ndtri(min(luck(curve), 1 - 1e-12)))
    epsilon = mu if delta == 0 else float(gaussian.epsilon_of(mu, delta))
    return Claim(epsilon, delta)


def luck(curve: Curve) -> float:
    """The largest probability of guessing a fair coin correctly under this curve: (1 + total variation) / 2."""
    return (1 + float(curve.delta(0.0))) / 2


def guesses_beyond(curve: Curve, delta: float, m: int, alpha: float) -> int:
    """The number of guesses for `mahloujifar` on m canaries, large enough that the test can reject the ledger.

    With the number of `best_guesses`, the test may be unable to reject the ledger even if all guesses are right.
    """
    r = best_guesses(like(curve, delta), m, alpha)
    more = (_even(round(share * m), m) for share in reversed(SHARES) if share * m > r)
    return next((k for k in (r, *more) if rejects(curve.beta, m, k, k, np.array([SURE * alpha]))[0]), m)


def _largest(level: Callable[[float], float], alpha: float, low: float, high: float) -> float:
    """The largest epsilon in [low, high] whose p-value `level(epsilon)` is below alpha. The p-value must increase with epsilon,
    and be below alpha at `low`.
    """
    if level(high) < alpha:
        return high
    step = 1.0
    while low + step < high and level(low + step) < alpha:
        low, step = low + step, 2 * step
    high = min(high, low + step)
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if level(middle) < alpha else (low, middle)
    return low


def _reach(claim: Claim, noticed: Callable[[float], bool] | None) -> tuple[float, float]:
    """`notices` and `reach` of a Bound, from the function that says which violations are detected."""
    return (math.inf, math.inf) if noticed is None else reached(claim, smallest(noticed))


@lru_cache(maxsize=256)
def _detectable(test: CoinTest, claim: Claim, trials: tuple[int, int]) -> tuple[float, float]:
    """`_reach` of the test of `steinke`. trials: how many bits are 0 and 1, which matters for up to SIMULATED bits only."""
    return _reach(claim, test.noticed(claim, trials, POWER))


def _trials(bits: ArrayLike) -> tuple[int, int]:
    b = np.asarray(bits).astype(bool)
    return int((~b).sum()), int(b.sum())


@lru_cache(maxsize=1024)
def best_guesses(claim: Claim, m: int, alpha: float) -> int:
    """The number of guesses with which `mahloujifar` proves the largest epsilon, if the claim is exactly true and the attack is
    optimal.
    """
    if math.isinf(claim.epsilon):
        return m
    strength = claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim)

    def proved_by(r: int) -> float:
        return largest_mu(m, r, int(r * accuracy(r / m, strength, claim.delta)), alpha)

    counts = {_even(max(2, round(s * m)), m) for s in SHARES if s * m >= 2} or {m}
    return max(counts, key=lambda r: (proved_by(r), r))


def _even(guesses: int, m: int) -> int:
    if not 1 <= guesses <= m:
        raise ValueError(f"guesses={guesses}: must be between 1 and the number of canaries, here {m}.")
    return max(guesses - guesses % 2, 2) if m > 1 else 0
