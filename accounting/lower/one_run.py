"""Lower bounds from many canaries in one run, with and without independence between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian
from ..claim import Claim
from .bounds import Bound, lower
from .families import Family
from .guessing import LARGEST, accuracy, correct_guesses, gaussian_beta, largest_mu, rejects, steinke_p_value
from .independence import Independence, independence
from .power import MOST_KAPPA
from .rank_test import ranked

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve

__all__ = ["Independence", "best_guesses", "canaries", "independence", "mahloujifar", "steinke"]

Array = NDArray[np.float64]
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)  # of the canaries that are guessed


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
    attack: str = "",
    audit: str = "",
) -> tuple[Bound, Independence]:
    """The bound of independent trials if the canaries pass for independent, else the bound of `mahloujifar`.

    scores: (rounds, canaries) log-likelihood ratios; for an exactly Gaussian ledger the exact test of `lower` is used, else the
    gate on ranks with `family` and `shown`. normal: whether scores of a Gaussian ledger are linear in its noise; if not, it is
    the gate. decoys: any shape, scores of units without a coin that were never there; independent if canaries are.
    Independent trials are the tight reading; on dependent canaries it would reject the truth in up to 45 % of all audits,
    hence the check.
    """
    exact = normal and curve.mu is not None
    apart = independence(scores, bits, normal=exact)
    named: dict[str, Any] = {"family": family, "seed": seed, "attack": attack, "audit": audit}
    if not apart.ok:
        bound = mahloujifar(scores, bits, claim, curve, alpha, **named)
        return (bound if shown is None else dataclasses.replace(bound, notices=math.inf, reach=math.inf)), apart
    left_out = np.ravel(decoys) if decoys is not None else np.zeros(0)
    every = np.concatenate([np.ravel(scores), left_out])
    there = np.concatenate([np.ravel(bits).astype(bool), np.zeros(left_out.size, dtype=bool)])
    if not exact:
        return ranked(every, there, claim, curve, alpha, shown=shown, **named), apart
    bound = lower(every, there, claim, shape="ledger", ledger_curve=curve, alpha=alpha, likelihood_ratio=True, sd=sd, **named)
    return bound, apart


def steinke(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    alpha: float = 0.05,
    *,
    guesses: int | None = None,
    seed: int = 0,
    attack: str = "",
    audit: str = "",
) -> Bound:
    """Valid for any mechanism and any dependence between canaries (Steinke et al. 2023, Theorem 5.2 and Appendix D).

    The bits must be independent fair coins. The `guesses` / 2 highest scores are guessed in, as many lowest out, the rest not;
    their number is fixed beforehand: by the caller, or by what the claim itself, attacked optimally, would make best.
    """
    m = np.asarray(bits).size
    r = _even(guesses if guesses is not None else best_guesses(claim, m, alpha, "steinke"), m)
    v = correct_guesses(scores, bits, r, seed)
    epsilon = _largest(lambda e: steinke_p_value(e, claim.delta, m, r, v) < alpha)
    p_value = 1.0 if math.isinf(claim.epsilon) else steinke_p_value(claim.epsilon, claim.delta, m, r, v)
    reach = _notices(claim, m, r, lambda v: steinke_p_value(claim.epsilon, claim.delta, m, r, v) < alpha)
    return Bound(
        epsilon, alpha, "any", "Steinke et al. 2023", _trials(bits), epsilon > claim.epsilon, p_value, *reach, attack, audit
    )


def mahloujifar(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    curve: Curve,
    alpha: float = 0.05,
    *,
    family: Callable[[float], Curve] | None = None,
    guesses: int | None = None,
    seed: int = 0,
    attack: str = "",
    audit: str = "",
) -> Bound:
    """Tests the trade-off curve of the ledger under any dependence between canaries (Mahloujifar et al. 2024, Algorithm 1).

    Bits and guesses as in `steinke`. For a ledger that is not Gaussian `family` gives the curve of the ledger with all noise
    divided by its argument.
    """
    m = np.asarray(bits).size
    r = _even(guesses if guesses is not None else best_guesses(claim, m, alpha, "mahloujifar"), m)
    v = correct_guesses(scores, bits, r, seed)
    if curve.mu is not None:
        epsilon = float(gaussian.epsilon_of(largest_mu(m, r, v, alpha), claim.delta))
        tested: Callable[[Array], Array] | None = gaussian_beta(gaussian.mu_of_claim(claim))
    else:
        members = Family(curve, family)
        rejected = members.last(lambda c: bool(rejects(c.beta, m, r, v, np.array([alpha]))[0]))
        epsilon = float(rejected.epsilon(claim.delta)) if rejected is not None else 0.0
        above = members.above(claim)
        tested = above.beta if above is not None else None
    p_value, reach = 1.0, (math.inf, math.inf)
    if tested is not None and not math.isinf(claim.epsilon):
        beta = tested
        levels = np.geomspace(1e-12, 1.0, 481)
        yes = rejects(beta, m, r, v, levels)
        p_value = float(levels[np.argmax(yes)]) if yes.any() else 1.0
        reach = _notices(claim, m, r, lambda v: bool(rejects(beta, m, r, v, np.array([alpha]))[0]))
    refuted = epsilon > claim.epsilon
    return Bound(epsilon, alpha, "ledger", "Mahloujifar et al. 2024", _trials(bits), refuted, p_value, *reach, attack, audit)


def _largest(rejected: Callable[[float], bool]) -> float:
    """The largest epsilon up to LARGEST that is rejected, given that smaller ones are rejected too; 0 if none is."""
    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high) and high < LARGEST:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def _trials(bits: ArrayLike) -> tuple[int, int]:
    b = np.asarray(bits).astype(bool)
    return int((~b).sum()), int(b.sum())


@lru_cache(maxsize=1024)
def best_guesses(claim: Claim, m: int, alpha: float, method: str) -> int:
    """The number of guesses that, were the claim exactly true and the attack optimal, would give the largest bound."""
    mu = claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim)
    if math.isinf(mu):
        return m
    found = []
    for r in sorted({_even(max(2, round(s * m)), m) for s in SHARES if s * m >= 2} or {m}):
        v = int(r * accuracy(r / m, mu, claim.delta))
        if method == "steinke":
            found.append((_largest(lambda e, r=r, v=v: steinke_p_value(e, claim.delta, m, r, v) < alpha), r))  # type: ignore[misc]
        else:
            found.append((largest_mu(m, r, v, alpha), r))
    return max(found)[1]


def _notices(claim: Claim, m: int, r: int, rejected: Callable[[int], bool]) -> tuple[float, float]:
    """(kappa, reach) of Bound: where 90 % of the audits reach the smallest count that is rejected."""
    strength = claim.epsilon if claim.delta == 0 else gaussian.mu_of_claim(claim)
    if math.isinf(strength) or strength <= 0 or not r or not rejected(r):
        return math.inf, math.inf
    low, high = r // 2 - 1, r
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rejected(middle) else (middle, high)

    def noticed(kappa: float) -> bool:
        q = float(accuracy(r / m, kappa * strength, claim.delta))
        return bool(special.betainc(high, r - high + 1, q) >= 0.9)

    small, large = 1.0, 2.0
    while not noticed(large):
        small, large = large, 2 * large
        if large > MOST_KAPPA:
            return math.inf, math.inf
    while large / small > 1.005:
        middle_kappa = math.sqrt(small * large)
        small, large = (small, middle_kappa) if noticed(middle_kappa) else (middle_kappa, large)
    return large, large * strength if claim.delta == 0 else float(gaussian.epsilon_of(large * strength, claim.delta))


def _even(guesses: int, m: int) -> int:
    if not 1 <= guesses <= m:
        raise ValueError(f"guesses={guesses}: must be between 1 and the number of canaries, here {m}.")
    return max(guesses - guesses % 2, 2) if m > 1 else 0
