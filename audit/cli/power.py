"""`audit power`: computes, before any run, how many rounds an audit needs to detect a given violation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ...reports.files import plain
from ...reports.rounding import several
from .options import Json, nats, print_json

if TYPE_CHECKING:
    from ...accounting.claim import Claim

SPLIT = "a quarter of the rounds, at most 50,000, choose the threshold"
BY_COINS = "any scores with bits of fair coins, against any mechanism: `audit bound`"
SCORES = {
    "likelihood-ratio": "log-likelihood ratios of Gaussian releases: `audit bound --shape gaussian --likelihood-ratio`",
    "likelihood-ratio, noise known": "the same with an sd that residuals show: audits of noisy sums in `audit run`",
    "gate": f"any scores, against the Gaussian curve: `audit bound --shape gaussian`; {SPLIT}",
    "any": f"any scores, against any mechanism, by error rates: `audit bound --pilot`; {SPLIT} and are in the file of --pilot",
    "coins": "guesses of fair coins, against the Gaussian curve: the audit blackbox, 20 per world and training",
}
PURE = f"any scores, against any mechanism: `audit bound`; {SPLIT}"  # the only rule at delta = 0


@dataclass(frozen=True)
class Rule:
    """A rule that computes a bound from scores. scores: which scores it takes, against which mechanisms. most_rounds: with more
    rounds of each world nothing is computed. rounds_needed: from claim, kappa, power and alpha. notices: the smallest violation
    that is detected and its epsilon, from claim, rounds, alpha and power.
    """

    scores: str
    most_rounds: int
    rounds_needed: Callable[[Claim, float, float, float], int | None]
    notices: Callable[[Claim, int, float, float], tuple[float, float]]


def rules(delta: float) -> dict[str, Rule]:
    """The rules that apply to a claim with this delta, by the name of their method."""
    from ...accounting.lower import coins_of_rounds
    from ...accounting.lower.detection import power as lib
    from ...accounting.lower.detection.error_rates import pilot_rounds

    def of(method: str, scores: str) -> Rule:
        def notices(claim: Claim, rounds: int, alpha: float, power: float) -> tuple[float, float]:
            if method not in lib.PILOTED:
                return lib.notices(claim, rounds, rounds, alpha, method, power)
            pilot = pilot_rounds(rounds, rounds)
            rest = rounds - pilot[0], rounds - pilot[1]
            return lib.notices_after_pilot(claim, pilot, rest, alpha, method, power)

        return Rule(scores, lib.MOST_ROUNDS, partial(lib.rounds_needed, method=method), notices)

    if delta == 0:
        return {"any": of("any", PURE)}
    first = Rule(BY_COINS, coins_of_rounds.MOST_GUESSED, coins_of_rounds.rounds_needed, coins_of_rounds.notices)
    return {"bound": first, **{method: of(method, scores) for method, scores in SCORES.items()}}


def power(
    epsilon: Annotated[float, Option(parser=nats, metavar="<float>", help="The claimed epsilon, in nats.")] = 1.0,
    delta: Annotated[float, Option(help="The claimed delta.")] = 1e-5,
    kappa: Annotated[float, Option(help="The violation: the factor by which the noise is too small.")] = math.sqrt(2),
    rounds: Annotated[
        int | None, Option(help="A number of rounds per world: also prints the smallest violation that they detect.")
    ] = None,
    probability: Annotated[float, Option("--power", help="Probability with which the violation must be detected.")] = 0.95,
    alpha: Annotated[float, Option(help="Largest probability of a false alarm of this test.")] = 0.05,
    json: Json = False,
) -> None:
    """Compute how many rounds detect noise that is KAPPA times too small, with the best attack on a Gaussian mechanism.

    Example: audit power --epsilon 4 --delta 1e-5 --kappa 1.5
    """
    from ...accounting.claim import Claim
    from ...accounting.gaussian import epsilon_of, mu_of_claim
    from ...accounting.lower.detection import power as lib

    claim = Claim(epsilon, delta)
    if not 1 < kappa <= lib.MOST_KAPPA:
        raise ValueError(
            f"kappa={kappa:g}: must be above 1, at most {lib.MOST_KAPPA:g}. With 1.5 the noise is 1.5 times too small."
        )
    if rounds is not None and not 1 <= rounds <= lib.MOST_ROUNDS:
        raise ValueError(f"rounds={rounds}: must be at least 1, at most {lib.MOST_ROUNDS:.0e}.")
    if not 0 < claim.epsilon < math.inf:
        raise ValueError(f"epsilon={epsilon:g}: a violation by a factor needs a finite claim above 0, such as --epsilon 1.")
    true = kappa * claim.epsilon if claim.delta == 0 else float(epsilon_of(kappa * mu_of_claim(claim), delta))
    rows: list[dict[str, Any]] = []
    for method, rule in rules(claim.delta).items():
        row: dict[str, Any] = {"method": method, "scores": rule.scores, "most_rounds": rule.most_rounds}
        row["rounds_per_world"] = rule.rounds_needed(claim, kappa, probability, alpha)
        if rounds is not None and rounds <= rule.most_rounds:
            row["notices"], row["reach"] = rule.notices(claim, rounds, alpha, probability)
        rows.append(row)
    if json:
        head = {"epsilon": epsilon, "delta": delta, "kappa": kappa, "true_epsilon": true, "power": probability, "alpha": alpha}
        print_json({**head, "rows": plain(rows)}, indent=None)
        return
    print(f"Claim: epsilon={epsilon:g}, delta={delta:g}. Violation: noise {kappa:.6g} times too small, true epsilon {true:.4g}.")
    print(f"Rounds of each world that detect it with {100 * probability:g} % power at alpha={alpha:g}:")
    for row in rows:
        count = row["rounds_per_world"]
        none = f"none below 1e{math.log10(row['most_rounds']):.0f}"
        line = f"  {none if count is None else count:>15}  {row['scores']}"
        if rounds is not None and "notices" in row:
            detect = f"{several(rounds, 'round')} detect{'s' * (rounds == 1)}"
            line += f"; {detect} a factor of {row['notices']:.3g}, epsilon {row['reach']:.3g}"
        elif rounds is not None:
            line += f"; more than {row['most_rounds']:,} rounds are not computed"
        print(line)
    print("A round here is one scored unit. One training of `audit run` scores up to 1000 of them.")
    print("The report of a run states the smallest violation that it could detect.")
