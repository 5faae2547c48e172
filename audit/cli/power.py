"""How many rounds an audit needs to notice a violation by a given factor, before anything is run."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

Option = typer.Option
WORDS = {
    "likelihood-ratio, noise known": "log-likelihood ratios of Gaussian releases, their sd known from residuals",
    "likelihood-ratio": "log-likelihood ratios of Gaussian releases",
    "gate": "any scores, against the Gaussian ledger's curve",
    "any": "any scores, against any mechanism",
}


def power(
    epsilon: Annotated[float, Option(help="The epsilon that is claimed.")] = 1.0,
    delta: Annotated[float, Option(help="The delta that is claimed.")] = 1e-5,
    kappa: Annotated[float, Option(help="The violation: how many times too small the noise is.")] = math.sqrt(2),
    rounds: Annotated[int | None, Option(help="Rounds per world that you can afford: prints what they would notice.")] = None,
    probability: Annotated[float, Option("--power", help="How surely it must be noticed.")] = 0.95,
    alpha: Annotated[float, Option(help="Chance of a false alarm of this look.")] = 0.05,
    json: Annotated[bool, Option("--json", help="Print one JSON document on stdout and nothing else.")] = False,
) -> None:
    """Rounds needed to notice noise that is KAPPA times too small, by the best attack on a Gaussian mechanism.

    Example: audit power --epsilon 4 --delta 1e-5 --kappa 1.5
    """
    from ...accounting.claim import Claim
    from ...accounting.gaussian import epsilon_of, mu_of_claim
    from ...accounting.lower import power as lib

    claim = Claim(epsilon, delta)
    if math.isinf(claim.epsilon) or claim.epsilon == 0 == claim.delta:
        raise ValueError(f"epsilon={epsilon}, delta={delta}: nothing finite is claimed that a factor could be measured against.")
    true = kappa * claim.epsilon if claim.delta == 0 else float(epsilon_of(kappa * mu_of_claim(claim), delta))
    methods = ("any",) if claim.delta == 0 else lib.METHODS
    rows: list[dict[str, Any]] = []
    for method in methods:
        row: dict[str, Any] = {"method": method, "scores": WORDS[method]}
        row["rounds_per_world"] = lib.rounds_needed(claim, kappa, probability, alpha, method)
        if rounds is not None:
            row["notices"], row["reach"] = lib.notices(claim, rounds, rounds, alpha, method, probability)
        rows.append(row)
    if json:
        import json as encoder

        head = {"epsilon": epsilon, "delta": delta, "kappa": kappa, "true_epsilon": true, "power": probability, "alpha": alpha}
        clean = [{k: "inf" if v == math.inf else v for k, v in row.items()} for row in rows]
        print(encoder.dumps({**head, "rows": clean}))
        return
    print(f"Claim: epsilon={epsilon:g}, delta={delta:g}. Violation: noise {kappa:.3g} times too small, true epsilon {true:.2f}.")
    print(f"Noticed with {100 * probability:g} % power at alpha={alpha:g} by this many rounds of each world:")
    for row in rows:
        count = row["rounds_per_world"]
        line = f"  {count if count is not None else 'none below 1e12':>15}  {row['scores']}"
        if rounds is not None:
            line += f"; {rounds} rounds notice a factor {row['notices']:.3g}, epsilon {row['reach']:.3g}"
        print(line)
    print("A round of `audit run` plays up to 1000 of these at once, and its report says what it would have noticed.")
