"""Checks what the audits assume about a user's model. If an assumption fails, the bounds that need it are withdrawn."""

import dataclasses
from collections.abc import Sequence

from ...accounting.checks.conditions import Condition
from ...accounting.claim import Unit
from ...accounting.lower.bounds import resting
from ...models.base import Model
from ...models.capabilities import effort
from ...reports.results import SkippedRow
from ..case import Case, Outcome
from .contract import EARLIER, SIZES, Check, contract
from .model_file import is_built_in

WITHOUT = {
    Unit.UNDIRECTED_EDGE: "a masked edge is an absent edge",
    Unit.DIRECTED_EDGE: "a masked edge is an absent edge",
    Unit.NODE: "a masked node is an absent node",
}  # unit -> the clause that makes a run with a masked unit equal to a run on the graph without the unit


def checked_first(model: Model) -> tuple[Check, ...]:
    """Checks the clauses of the contract on a user's model that runs in this process.

    Built-in systems are not checked here, because the package's tests check them. Models that declare little `Effort`, such as
    programs, are not checked either. For both the result is ().
    """
    return tuple(contract(model)) if effort(model).thorough and not is_built_in(model) else ()


def clauses(checks: Sequence[Check]) -> list[dict[str, str]]:
    """The clauses as rows of results.json: the name of the clause, its result, and why it fails or does not apply."""
    return [{"clause": c.name, "how": c.how, "detail": c.failure or c.unasked or ""} for c in checks]


def broken(case: Case, checks: Sequence[Check]) -> list[SkippedRow]:
    """One row for each cause of failed clauses, with the names of the clauses and the smallest graph on which they fail."""
    causes: dict[str, list[str]] = {}
    for check in checks:
        if check.failure:
            causes.setdefault(check.failure, []).append(check.name)
    return [case.skipped(f"contract: {', '.join(names)}", f"fails on a graph of {cause}") for cause, names in causes.items()]


def resting_on(case: Case, outcome: Outcome, checks: Sequence[Check], masks: bool) -> Outcome:
    """The outcome of an audit, whose bounds get the clauses of the contract on which they rest as further conditions: that no
    training depends on earlier ones and, if the audit masks units, that masked units are absent. A clause that does not apply is
    no condition.
    """
    needed = (EARLIER, WITHOUT.get(case.claim.unit)) if masks else (EARLIER,)
    sizes = " and ".join(str(nodes) for nodes in SIZES)
    conditions = [
        Condition(c.name, "failed", f"on a graph of {c.failure}")
        if c.failure
        else Condition(c.name, "checked", f"the model contract on graphs of {sizes} nodes")
        for c in checks
        if c.name in needed and not c.unasked
    ]
    return dataclasses.replace(outcome, bounds=tuple(resting(b, b.theorem, *conditions) for b in outcome.bounds))
