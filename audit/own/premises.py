"""Checks what the audits assume about a user's model. If an assumption fails, the bounds that need it are withdrawn."""

import dataclasses
from collections.abc import Sequence

from ...accounting.checks.conditions import Condition
from ...accounting.claim import Unit
from ...accounting.lower.bounds import resting
from ...models.base import Model
from ...models.capabilities import effort
from ...models.graph.graph import Graph
from ...reports.files import grouped
from ...reports.results import SkippedRow
from ...reports.rounding import several
from ..case import Case, Outcome
from .contract import EARLIER, RAISED, UNREPEATED, Check, contract
from .model_file import is_built_in

NAMED = 3  # so many failed clauses are named, and the others are counted
ENDED = "every training ends"
WITHOUT = {
    Unit.UNDIRECTED_EDGE: "a masked edge is an absent edge",
    Unit.DIRECTED_EDGE: "a masked edge is an absent edge",
    Unit.NODE: "a masked node is an absent node",
}  # unit -> the clause that makes a run with a masked unit equal to a run on the graph without the unit


def checked_first(model: Model, graph: Graph) -> tuple[Check, ...]:
    """Checks the clauses of the contract on a user's model that runs in this process. graph: see `contract`.

    Built-in systems are not checked here, because the package's tests check them. Models that declare little `Effort`, such as
    programs, are not checked either. For both the result is ().
    """
    return tuple(contract(model, graph)) if effort(model).thorough and not is_built_in(model) else ()


def clauses(checks: Sequence[Check]) -> list[dict[str, str]]:
    """The clauses as rows of results.json: name, result, and the reason if a clause fails, does not apply or was not tested."""
    return [{"clause": c.name, "how": c.how, "detail": c.failure or c.unasked or ""} for c in checks]


def broken(case: Case, checks: Sequence[Check]) -> list[SkippedRow]:
    """One row for each cause of failed clauses, with the clauses and a graph on which they fail. An error of the model is one
    cause, on whatever graph it occurs.
    """
    return [case.skipped(f"contract: {named(some)}", f"fails on a graph of {some[-1].failure}") for some in alike(checks)]


def alike(checks: Sequence[Check]) -> list[list[Check]]:
    """The failed clauses, grouped by their cause as in `broken`."""
    return list(grouped((c for c in checks if c.failure), lambda c: error(c) or c.failure).values())


def error(check: Check) -> str:
    """The line and the text of the error with which the model answered a failed clause; "" if it failed otherwise."""
    return (check.failure or "").partition(RAISED)[2]


def named(checks: Sequence[Check]) -> str:
    """The names of clauses, or of the first ones and the number of the others."""
    more = len(checks) - NAMED
    return ", ".join(c.name for c in checks[:NAMED]) + (f" and {several(more, 'more clause')}" if more > 0 else "")


def in_words(case: Case, checks: Sequence[Check]) -> str:
    """A line that says how many clauses of the model contract hold, and names those that fail; "" if none was checked."""
    fails = [c for c in checks if c.failure]
    held, idle, untested = (sum(c.how == how for c in checks) for how in ("holds", "does not apply", "not tested"))
    silent = f", {idle} {'does' if idle == 1 else 'do'} not apply" * bool(idle)
    silent += f", {untested} {'was' if untested == 1 else 'were'} not tested" * bool(untested)
    silent += " (listed in the report)" * bool(silent)
    broken = f"; FAILS: {named(fails)} (see `audit contract`)" if fails else ""
    if len(fails) > NAMED and len(errors := {error(c) for c in fails}) == 1 and (text := errors.pop()):
        broken = f"; every other clause fails, because the model raises an error at {text}"
    return f"Contract of {case.model.name}: {held} of {len(checks)} clauses hold{silent}{broken}\n" if checks else ""


def resting_on(case: Case, outcome: Outcome, checks: Sequence[Check], masks: bool) -> Outcome:
    """The outcome of an audit, whose bounds get the clauses of the contract on which they rest as further conditions: that no
    training depends on earlier ones and, if the audit masks units, that masked units are absent. A clause that does not apply
    is no condition, and neither is one that was not tested, unless no training can be repeated.
    """
    needed = (EARLIER, WITHOUT.get(case.claim.unit)) if masks else (EARLIER,)
    conditions = [
        Condition(c.name, "failed", why)
        if (why := f"on a graph of {c.failure}" if c.failure else c.unasked)
        else Condition(c.name, "checked", f"the model contract on graphs of {' and '.join(map(str, c.sizes))} nodes")
        for c in checks
        if c.name in needed and c.unasked in (None, UNREPEATED)
    ]
    return dataclasses.replace(outcome, bounds=tuple(resting(b, b.theorem, *conditions) for b in outcome.bounds))


def after_failures(outcome: Outcome, failures: Sequence[str]) -> Outcome:
    """The outcome of an audit of a model of which some trainings failed. What refutes the claim stays. All other bounds are
    withdrawn, because a failure is an answer too, and no audit has tested what it shows. failures: each with its part of the run.
    """
    if not failures:
        return outcome
    failed = Condition(ENDED, "failed", f"{'; '.join(failures)}; whether a training fails may depend on private data")
    bounds = (b if b.refuted else resting(b, b.theorem, failed) for b in outcome.bounds)
    return dataclasses.replace(outcome, bounds=tuple(bounds))
