"""The claim that a model of one's own states, where the command and the plan state none."""

import math
from typing import Any

from ...accounting.arguments import shown
from ...accounting.claim import Claim
from ...models.base import Model
from ...models.capabilities import StatesClaim


def check_tested(claim: Claim) -> None:
    """Raises ValueError for a claim that the audits do not test: an infinite epsilon, another relation, or the best of several
    trainings.
    """
    if math.isinf(claim.epsilon):
        raise ValueError("epsilon=inf: claims nothing, so there is nothing to test. State a finite epsilon.")
    if claim.relation is not claim.unit.relation:
        way = f"the audits of a claim about {claim.unit} test {claim.unit.relation}. Leave `relation` out."
        raise ValueError(f"relation={claim.relation}: {way}")
    if claim.tuned_over > 1:
        way = "Audit one training, and charge for the choice with upper(ledger, claim)."
        raise ValueError(f"tuned_over={claim.tuned_over}: must be 1, because the audits test one training. {way}")


def claim_of(model: Model) -> Claim | None:
    """The claim that the model states; None if it states none."""
    return model.claim if isinstance(model, StatesClaim) else None


def stated(model: Model, where: str) -> dict[str, Any]:
    """The options `epsilon`, `delta` and `unit` of a plan, as the model's own claim gives them; empty if the model states none.

    Raises ValueError, which begins with `where`, for a claim that is no `Claim` or that the audits do not test.
    """
    claim = claim_of(model)
    if claim is None:
        return {}
    if not isinstance(claim, Claim):
        raise ValueError(f"{where}: claim={shown(claim)}: must be a gnnaudit.Claim, such as Claim(epsilon=1.0, delta=1e-5).")
    try:
        check_tested(claim)
    except ValueError as fault:
        raise ValueError(f"{where}: claim: {fault}") from None
    return {"epsilon": (claim.epsilon,), "delta": claim.delta, "unit": str(claim.unit)}
