"""`audit selftest`: runs the audits on planted privacy faults and on honest mechanisms."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...reports.terminal import simple
from .options import DataDir, Json, Trust, console, print_json

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..case import Outcome
    from ..faults.fault import Fault

WRONG = ("MISSED", "FALSE ALARM")  # results that mean that the tool is wrong
ALPHA = 1e-4  # level of each statistical test: a test refutes an honest model with at most one seed in ten thousand


def selftest(
    seed: Annotated[str, typer.Option(help="Any word. All randomness, noise included, is derived from it.")] = "selftest",
    data: Annotated[str, typer.Option(help="The data set on which the faulty models run.")] = "campus:n=600",
    data_dir: DataDir = None,
    strangers: Annotated[
        bool, typer.Option("--strangers", help="Run each model as a user's own, through all of `audit run`.")
    ] = False,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Audit models with planted privacy faults, which must be refuted, and honest models, which must pass.

    With --strangers the audits do not know which system the model is. A faulty model may then also be inconclusive.

    Exit codes: 0 all faulty models are refuted and all honest models pass; 1 otherwise; 2 wrong use.

    Example: audit selftest --seed today
    """
    from ...models.data.loading import load
    from ..storage.executor import one_thread

    one_thread()
    graph = load(data, data_dir, trust=trust)
    rows = as_strangers(seed, graph) if strangers else results(seed, graph)
    if json:
        from ...reports.files import plain

        print_json(plain(rows))
    else:
        show(rows)
    raise typer.Exit(int(any(r["result"] in WRONG for r in rows)))


def results(seed: str, graph: Graph) -> list[dict[str, Any]]:
    """One row for each planted fault and each honest model: the audit, its result, and the seconds that it took."""
    from ...models.facts import Facts
    from ..faults.planted import FAULTS, HONEST
    from ..progress import announced

    rows = []
    todo = [*((True, fault) for fault in FAULTS), *((False, fault) for fault in HONEST)]
    for (planted, fault), _ in announced(todo, lambda _: 1, console(stderr=True), lambda item: item[1].name):
        started = time.perf_counter()
        model = fault.model(Facts.of(graph))
        refuted, lower, found = audited(fault, model, graph, seed)
        rows.append(
            {
                "name": fault.name,
                "planted": planted,
                "audit": fault.audit,
                "kappa": fault.shortfall(model, graph) if fault.shortfall else None,
                "claim": fault.claim.epsilon,
                "lower": lower,
                "found": found,
                "result": verdict(planted, fault.undetectable, refuted),
                "seconds": round(time.perf_counter() - started, 2),
            }
        )
    return rows


def as_strangers(seed: str, graph: Graph) -> list[dict[str, Any]]:
    """One row, as in `results`, for each model, which runs as a user's own model. The column "audit" holds "run"."""
    from ...models.errors import one_line
    from ...models.facts import Facts
    from ..faults.as_strangers import everything, whole_run
    from ..progress import announced

    rows = []
    todo = list(everything(Facts.of(graph)))
    for (name, planted, claim, make), _ in announced(todo, lambda _: 1, console(stderr=True), lambda item: item[0]):
        started = time.perf_counter()
        try:
            right, found = whole_run(name, planted, claim, make, graph, seed)
        except Exception as fault:  # a fault of one model must not lose the results of the others
            right, found = False, f"the run failed ({type(fault).__name__}: {one_line(fault)})"
        result = verdict(planted, undetectable=False, refuted=right == planted)
        row = {"name": name, "planted": planted, "audit": "run", "kappa": None, "claim": claim.epsilon, "lower": 0.0}
        rows.append({**row, "found": found, "result": result, "seconds": round(time.perf_counter() - started, 2)})
    return rows


def audited(fault: Fault, model: Any, graph: Graph, seed: str) -> tuple[bool, float, str]:
    """Whether the audit that must catch the fault refutes the claim, its largest lower bound (nats), and its explanation."""
    from ...reports.evidence import judge, lowest
    from ..case import Case
    from ..planning.ledgers import uppers

    if fault.audit == "account":
        ceiling = uppers(Case(model, fault.claim))
        costs = lowest(ceiling)
        judged = judge(fault.claim, ceiling, ())
        return judged.kind == "exceeds", costs[0] if costs else 0.0, judged.sentence
    outcome = outcome_of(fault, model, graph, seed)
    refuted = any(b.refuted for b in outcome.bounds)
    return refuted, max(b.epsilon for b in outcome.bounds if b.refuted == refuted), outcome.reach


def outcome_of(fault: Fault, model: Any, graph: Graph, seed: str) -> Outcome:
    """The outcome of the audit that must catch the fault, at level ALPHA."""
    from ..audits.registry import AUDITS
    from ..case import Case, Setting
    from ..key import Key
    from ..storage.store import Store

    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        key = Key("selftest", seed, fault.name)
        setting = Setting(Case(model, fault.claim), graph, Store(Path(folder)), key, fault.rounds, ALPHA)
        return AUDITS[fault.audit].run(setting)


def verdict(planted: bool, undetectable: bool, refuted: bool) -> str:
    """The word in the column "result"."""
    if undetectable:
        return "caught" if refuted else "undetectable by sampling"
    if planted:
        return "caught" if refuted else "MISSED"
    return "FALSE ALARM" if refuted else "passed"


def show(rows: list[dict[str, Any]]) -> None:
    from rich.table import Column

    what, audit, result = Column("planted fault, or honest recipe"), Column("audit", no_wrap=True), Column("result", min_width=12)
    shown = simple(what, audit, "too small by", "claim", "at least", result, "s", padding=0)
    for row in rows:
        factor = "" if row["kappa"] is None else "∞" if row["kappa"] == math.inf else f"{row['kappa']:.3g}"
        lower = "" if row["lower"] == 0 else f"{row['lower']:.3g}"
        shown.add_row(row["name"], row["audit"], factor, f"{row['claim']:g}", lower, row["result"], f"{row['seconds']:.1f}")
        if row is [r for r in rows if r["planted"]][-1]:
            shown.add_section()
    console().print(shown)
    for row in rows:
        if row["result"] in WRONG:
            console().print(f"{row['name']}: {row['result']}; {row['found']}", markup=False)
    planted, count = sum(r["planted"] for r in rows), Counter(r["result"] for r in rows)
    undetectable = count["undetectable by sampling"]
    caught = f"{count['caught']} of {planted - undetectable} planted faults caught; {undetectable} cannot be detected by sampling"
    console().print(f"{caught}; {count['passed']} of {len(rows) - planted} honest models passed.")
