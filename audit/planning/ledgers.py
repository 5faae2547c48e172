"""The epsilon of a case by every accountant, and the epsilons that its paper prints, proves and implements in code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...accounting.claim import Unit
from ...models.facts import Facts

if TYPE_CHECKING:
    from ...accounting.upper.accountants import Upper
    from ...models.graph.graph import Graph
    from ..case import Case
    from .plan import Plan


def accounted(plan: Plan, graph: Graph, tuned_over: int = 1) -> dict[str, Any]:
    """The epsilon of every case of a plan by every accountant, as {"rows": [...], "warnings": [...]}.

    rows: of kind "account", "tuning" and "skipped", as in results.json. warnings: sentences about problems that no accountant
    reports. tuned_over: the number of trainings from which the released one was chosen; with 1 there are no rows of kind
    "tuning".
    """
    from ...reports.files import plain
    from .planned_cases import cases, recipes

    plan, makes = recipes(plan)
    found, skips = cases(plan, graph, makes)
    rows = [row for case in found for row in account_rows(case, uppers(case))]
    rows += [row for case in found for row in tuning_rows(case, tuned_over)]
    caveats = [sentence for case in found for sentence in warnings(case, Facts.of(graph))]
    return {"rows": rows + [plain(skip.model_dump()) for skip in skips], "warnings": caveats}


def is_document(stored: dict[str, Any]) -> bool:
    """Whether a stored value looks like a result of `accounted` with at least one row. Some other values raise an exception."""
    from ...reports.results import AccountRow, Row, SkippedRow, TuningRow

    kinds: dict[str, type[Row]] = {"account": AccountRow, "tuning": TuningRow, "skipped": SkippedRow}
    rows = [kinds[row["kind"]].model_validate(row) for row in stored["rows"]]
    return bool(rows) and all(isinstance(sentence, str) for sentence in stored["warnings"])


def uppers(case: Case) -> tuple[Upper, ...]:
    """The epsilon of a case by every accountant; last the epsilon that the paper prints, if it prints one."""
    from ...accounting.upper.accountants import Upper, upper

    found = upper(case.model.ledger, case.claim, stored=False)
    if reason := case.other_unit:
        found = tuple(dataclasses.replace(u, epsilon=None, unsupported=reason) for u in found)
    printed = case.model.printed(case.claim.delta)
    if printed is None:
        return found
    note = f"what the paper's own accounting prints; its unit is {case.model.unit}"
    return (*found, Upper("published", float(printed), False, None, 0.0, note))


def account_rows(case: Case, ceiling: Iterable[Upper]) -> list[dict[str, Any]]:
    """Rows of kind "account" as in results.json, with the noise multiplier and the seconds of each computation."""
    from ...reports.files import plain
    from ..own.model_file import is_built_in

    rows = []
    for u in ceiling:
        row = {"kind": "account", **case.where, "accountant": u.accountant, "value": u.epsilon}
        row |= {"unsupported": u.unsupported, "is_upper_bound": u.is_upper_bound, "note": u.note}
        row |= {"seconds": round(u.seconds, 4), "sigma": getattr(case.model, "sigma", None)}
        row |= {"own": not is_built_in(case.model), "from_ledger": case.follows_from_ledger}
        if u.accountant == "published":
            row |= {"theorem": theorem(case), "as_coded": as_coded(case)}
        rows.append(plain(row))
    return rows


def tuning_rows(case: Case, over: int) -> list[dict[str, Any]]:
    """Rows of kind "tuning": the epsilon of the best of `over` trainings of a case by each selection; empty if `over` is 1."""
    from ...accounting.upper.accountants import tightest, upper
    from ...accounting.upper.tuning import SELECTIONS, tuned
    from ...reports.files import plain
    from ...reports.results import TuningRow

    rows = []
    for selection in SELECTIONS if over > 1 else ():
        found: dict[str, Any] = {"unsupported": case.other_unit}
        if not case.other_unit:
            ceiling = upper(tuned(case.model.ledger, over, selection), case.claim)
            best = tightest(ceiling)
            why = next((u.unsupported for u in ceiling if u.accountant == "dp_accounting-rdp"), None)
            found = {"value": best.epsilon, "accountant": best.accountant} if best else {"unsupported": why}
        rows.append(plain(TuningRow(**case.where, tuned_over=over, selection=selection, **found).model_dump()))
    return rows


def theorem(case: Case) -> float | None:
    """The epsilon that the paper's theorem gives for this noise; None in mode "sound", or if the model states no theorem."""
    from ...models.capabilities import StatesTheorem

    model = case.model
    return model.theorem_epsilon(case.claim.delta) if model.mode == "paper" and isinstance(model, StatesTheorem) else None


def as_coded(case: Case) -> float | None:
    """The epsilon that the paper's code computes for this noise; None in mode "sound", or if no code was published."""
    from ...models.capabilities import HasReleasedCode

    model = case.model
    return model.coded_epsilon(case.claim.delta) if model.mode == "paper" and isinstance(model, HasReleasedCode) else None


def warnings(case: Case, facts: Facts) -> list[str]:
    """The warnings of `caveats.doubts` about the ledger and claim of a case, each with the name of the case."""
    from ...accounting.upper.caveats import doubts

    edges = facts.arcs if facts.directed or case.claim.unit is Unit.DIRECTED_EDGE else facts.arcs // 2
    units = facts.nodes if case.claim.unit in (Unit.NODE, Unit.FEATURES) else edges
    return [f"{case}: {sentence}" for sentence in doubts(case.model.ledger, case.claim, units)]
