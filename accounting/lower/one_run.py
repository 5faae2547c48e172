"""Lower bounds from many canaries in one run, with and without independence between them."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..checks.conditions import Condition, proved
from ..checks.independence import Independence, independence
from ..claim import Claim
from .bounds import Bound, from_rounds, resting, unknown
from .detection.families import Family
from .detection.power import POWER, reached, smallest
from .guessing import (
    EDGES,
    Charge,
    Groups,
    accuracy,
    by_score,
    correct_guesses,
    fewest_tied,
    gaussian_beta,
    groups_against,
    largest_mu,
    likeliest,
    rates,
    rejects,
    tied_p_value,
    weight_of_correct,
    weighted_p_value,
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
# At delta > 0 and above SIMULATED canaries, `_notices` computes with this power. It counts the canaries of a group of guesses as
# equally certain, and leaves out that every smaller epsilon must be rejected too, with other guesses. In simulations the power is
# then at least POWER.
NOMINAL = 0.96
SIMULATED = 300  # up to so many canaries the power at delta > 0 is simulated
PLAYED = 1000  # simulated audits
PLAYED_POWER = 0.92  # required share of PLAYED; above POWER, as those are few
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
    less, ordered = uncounted(coins), by_score(scores, bits, seed)

    @cache
    def right(groups: Groups) -> int:
        return weight_of_correct(ordered, groups)

    def level(e: float, groups: Groups, charge: Charge, correct: int | None = None) -> float:
        # the scores decide which of the two tests is made, so both charge delta for the likelier change of their results
        fewest = fewest_tied(groups)
        change = likeliest(e, ((1, fewest),)) if claim.delta > 0 else 0.0
        if alike < fewest:
            correct = right(groups) if correct is None else correct
            return weighted_p_value(e, charge, groups, correct - less * min(w for w, _ in groups), change)
        correct = right(((1, alike),)) if correct is None else correct
        change = max(change, likeliest(e, groups)) if claim.delta > 0 else 0.0
        return tied_p_value(e, charge, alike, correct - less, change)

    def rejects_at(e: float, groups: Groups, charge: Charge, correct: int) -> bool:
        return level(e, groups, charge, correct) < alpha

    def cells() -> Iterator[tuple[float, float, Groups, Charge]]:
        for low, high in pairwise(EDGES):
            yield low, high, groups_against(low, claim.delta, m, alpha, apart), Charge(claim.delta, m, apart, low)

    epsilon = 0.0
    for low, high, groups, charge in cells():
        if level(low, groups, charge) >= alpha:
            break
        epsilon = _largest(partial(level, groups=groups, charge=charge), alpha, low, high)
        if epsilon < high:
            break
    p_value, reach = 1.0, (math.inf, math.inf)
    if not math.isinf(claim.epsilon):
        tested = takewhile(lambda cell: cell[0] <= claim.epsilon, cells())
        below = [(min(high, claim.epsilon), groups, charge) for _, high, groups, charge in tested]
        p_value = max(level(*test) for test in below)
        _, last, charge = below[-1]
        guessed = last if 2 * alike < sum(n for _, n in last) else ((1, alike),)
        if claim.delta > 0 and guessed == last and m <= SIMULATED:
            tests = tuple((g, _least(g, partial(rejects_at, e, g, c))) for e, g, c in below)
            reach = _notices_played(claim, _trials(bits), tests)
        else:
            reach = _notices(claim, m, guessed, partial(rejects_at, claim.epsilon, last, charge))
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
    v = max(correct_guesses(scores, bits, r, seed) - less, 0)
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
        reach = _notices(claim, m, ((1, r),), lambda v: bool(rejects(beta, m, r, max(v - less, 0), np.array([alpha]))[0]))
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


def _least(groups: Groups, rejected: Callable[[int], bool]) -> int:
    """The smallest sum of weights that `rejected` rejects, at least half of all; one more than all of them if it rejects none."""
    most = sum(w * n for w, n in groups)
    return bisect_left(range(most + 1), True, lo=most // 2, key=rejected) if most else 1


@lru_cache(maxsize=1024)
def _notices_played(claim: Claim, trials: tuple[int, int], tests: tuple[tuple[Groups, int], ...]) -> tuple[float, float]:
    """`notices` and `reach` of a Bound, by simulation: the smallest violation of a Gaussian mechanism at which PLAYED_POWER of
    PLAYED simulated audits pass all `tests`. tests: groups of guesses, and the smallest sum of weights that rejects.

    The number of sure guesses varies between audits, and every smaller epsilon must be rejected too. Both matter if there are few
    canaries. The same random numbers are used for every violation.
    """
    strength, m = gaussian.mu_of_claim(claim), sum(trials)
    if math.isinf(strength) or strength <= 0 or any(least > sum(w * n for w, n in groups) for groups, least in tests):
        return math.inf, math.inf
    noise, there = np.random.default_rng(m).standard_normal((PLAYED, m)), np.arange(m) < trials[1]
    weights: Array = np.zeros((len(tests), m))
    for row, (groups, _) in zip(weights, tests, strict=True):
        each = np.repeat([w for w, _ in groups], [n // 2 for _, n in groups])
        row[: len(each)], row[m - len(each) :] = -each, each[::-1]
    # right guesses among the lowest scores have bit 0: all of their weights, less those of bits that are 1
    least = np.array([least for _, least in tests]) + np.minimum(weights, 0.0).sum(axis=1)

    def noticed(kappa: float) -> bool:
        order = np.argsort(noise + kappa * strength * there, axis=1)
        return bool((there[order] @ weights.T >= least).all(axis=1).mean() >= PLAYED_POWER)

    return reached(claim, smallest(noticed))


def _notices(claim: Claim, m: int, groups: Groups, rejected: Callable[[int], bool]) -> tuple[float, float]:
    """`notices` and `reach` of a Bound: the smallest violation at which 90 % of the audits get a sum of weights that `rejected`
    rejects.
    """
    wanted = POWER if claim.delta == 0 else NOMINAL
    strength, most = claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim), sum(w * n for w, n in groups)
    high = _least(groups, rejected)
    if math.isinf(strength) or strength <= 0 or high > most or not most:
        return math.inf, math.inf

    def noticed(kappa: float) -> bool:
        q = rates(groups, m, kappa * strength, claim.delta)
        if len(groups) == 1:
            return bool(special.betainc(high, most - high + 1, q[0]) >= wanted)
        mean = sum(w * n * rate for (w, n), rate in zip(groups, q, strict=True))
        variance = sum(w * w * n * rate * (1 - rate) for (w, n), rate in zip(groups, q, strict=True))
        return bool(mean - high + 0.5 >= special.ndtri(wanted) * math.sqrt(variance))

    return reached(claim, smallest(noticed))


def _even(guesses: int, m: int) -> int:
    if not 1 <= guesses <= m:
        raise ValueError(f"guesses={guesses}: must be between 1 and the number of canaries, here {m}.")
    return max(guesses - guesses % 2, 2) if m > 1 else 0
