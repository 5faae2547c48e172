"""The lower bound from scores and bits that somebody else has collected: `audit bound` and `gnnaudit.lower`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ..arguments import check_alpha, check_seed
from ..checks.order_of_worlds import in_turns
from ..checks.score_law import in_order
from ..claim import Claim, check_claim
from .bounds import Bound, from_rounds, resting, split, unknown
from .coins_of_rounds import coins_of_rounds
from .detection.error_rates import Rule

if TYPE_CHECKING:
    from ..upper.tradeoff import Curve


def lower(
    scores: ArrayLike,
    bits: ArrayLike,
    claim: Claim,
    *,
    shape: str = "any",
    ledger_curve: Curve | None = None,
    family: Callable[[float], Curve] | None = None,
    alpha: float = 0.05,
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    rule: Rule | None = None,
    likelihood_ratio: bool = False,
    sd: float | None = None,
    seed: int = 0,
) -> Bound:
    """A lower bound on epsilon, in nats, that holds with probability 1 - alpha: what `audit bound` computes from a file.

    scores: any shape, float, one for each round; infinities allowed. bits: the same shape, True where the secret was present.
    Whatever its method, the bound needs independent rounds: each must have drawn its own noise. That is granted, because scores
    do not show noise that all rounds share. Pass the rounds in the order in which they were played: the order is tested, and a
    failed test withdraws the bound (see `in_order`). Rounds of the two worlds must differ in the secret alone. If the order does
    not look random, this condition is granted, not checked (see `in_turns`).

    With shape "any", the bound comes from guesses of fair coins (see `coins_of_rounds`) if delta is above 0. With `rule`,
    `pilot`, another shape, or too few rounds of one world, it comes from error rates; `bounds.from_rounds` explains the
    arguments. seed: of the coins that the tool draws, and of the split that chooses a threshold.

    Raises ValueError for NaN, bits other than 0 and 1, unequal shapes, a missing world, and arguments that do not belong
    together.
    """
    split(scores, bits)
    check_claim(claim)
    check_alpha(alpha)
    check_seed(seed)
    rounds = in_order(scores, bits)
    error_rates: dict[str, Any] = {"ledger_curve": ledger_curve, "family": family, "pilot": pilot, "rule": rule, "sd": sd}
    plain = shape == "any" and not likelihood_ratio and all(value is None for value in error_rates.values())
    coins = plain and claim.delta > 0
    found = coins_of_rounds(scores, bits, claim, alpha, rounds=rounds, seed=seed) if coins else None
    if found is None:
        options = {**error_rates, "shape": shape, "likelihood_ratio": likelihood_ratio}
        found = from_rounds(scores, bits, claim, alpha=alpha, rounds=rounds, seed=seed, **options)
    found = replace(resting(found, found.theorem, in_turns(bits)), claim=claim)
    return unknown(found) if found.assumed else found  # a bound with an assumption refutes nothing, so it detects no violation
