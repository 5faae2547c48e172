"""`audit selftest`: runs the audits on planted faults, which they must catch, and on honest models, which must pass."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..faults.fault import Fault

ALPHA = 1e-4  # per row: an honest model fails once in ten thousand seeds
ROUNDS = 5


def selftest(
    seed: Annotated[str, typer.Option(help="Any word. All random numbers derive from it.")] = "selftest",
    data: Annotated[str, typer.Option(help="The graph that the models run on.")] = "campus:n=600",
    data_dir: Annotated[str | None, typer.Option(help="Folder of data sets; missing ones are downloaded to it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")] = False,
) -> None:
    """Test the auditor: it must catch every planted privacy fault and pass every honest model. Exit code 1 if it fails once.

    Example: audit selftest --seed today
    """
    rows = results(seed, data, data_dir)
    if json:
        import json as encoder

        from ...reports.files import plain

        print(encoder.dumps(plain(rows), indent=1))
    else:
        show(rows)
    raise typer.Exit(int(any(r["result"] in ("MISSED", "FALSE ALARM") for r in rows)))


def results(seed: str, data: str, data_dir: str | None) -> list[dict[str, Any]]:
    """One row per planted fault or honest model: the audit, what it found, and the seconds it took."""
    from ...models.data.loading import load
    from ...models.systems import Facts
    from ..faults.honest_models import HONEST
    from ..faults.planted import FAULTS
    from ..storage.executor import one_thread

    one_thread()
    graph = load(data, data_dir)
    rows = []
    for planted, faults in ((True, FAULTS), (False, HONEST)):
        for fault in faults:
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


def audited(fault: Fault, model: Any, graph: Graph, seed: str) -> tuple[bool, float, str]:
    """Runs the audit of a fault: whether it refuted the claim, its largest bound on epsilon, and its result in words."""
    from ...reports.evidence import judge, lowest
    from ..audits.edge_sums import AUDITS
    from ..case import Case
    from ..key import Key
    from ..ledgers import uppers
    from ..storage.store import Store

    case = Case(model, fault.claim)
    if fault.audit == "account":
        ceiling = uppers(case)
        costs = lowest(ceiling)
        judged = judge(fault.claim, ceiling, ())
        return judged.kind == "exceeds", costs[0] if costs else 0.0, judged.sentence
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        key = Key("selftest", seed, fault.name)
        outcome = AUDITS[fault.audit].run(case, graph, Store(Path(folder)), key, ROUNDS, ALPHA)
    refuted = any(b.refuted for b in outcome.bounds)
    return refuted, max(b.epsilon for b in outcome.bounds if b.refuted == refuted), outcome.reach


def verdict(planted: bool, undetectable: bool, refuted: bool) -> str:
    """The result of one row, in words."""
    if undetectable:
        return "caught" if refuted else "undetectable by sampling"
    if planted:
        return "caught" if refuted else "MISSED"
    return "FALSE ALARM" if refuted else "passed"


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the rows as a table, and the totals."""
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table

    what, audit, result = Column("planted fault or honest model"), Column("audit", no_wrap=True), Column("result", min_width=12)
    table = Table(what, audit, "too small by", "claim", "at least", result, "s", box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for row in rows:
        factor = "" if row["kappa"] is None else "∞" if row["kappa"] == math.inf else f"{row['kappa']:.3g}"
        lower = "" if row["lower"] == 0 else f"{row['lower']:.3g}"
        table.add_row(row["name"], row["audit"], factor, f"{row['claim']:g}", lower, row["result"], f"{row['seconds']:.1f}")
        if row is [r for r in rows if r["planted"]][-1]:
            table.add_section()
    Console().print(table)
    planted, count = sum(r["planted"] for r in rows), Counter(r["result"] for r in rows)
    beyond = count["undetectable by sampling"]
    caught = f"{count['caught']} of {planted - beyond} planted faults caught, {beyond} more that no sampling can show"
    Console().print(f"{caught}; {count['passed']} of {len(rows) - planted} honest models passed.")
