"""`audit selftest`: planted faults that must be caught and honest mechanisms that must pass, here and now."""

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
    from ..faults.planted import Fault

ALPHA = 1e-4  # a look; an honest row fails once in ten thousand seeds
ROUNDS = 5


def selftest(
    seed: Annotated[str, typer.Option(help="Word that all coins and noise come from.")] = "selftest",
    data: Annotated[str, typer.Option(help="The graph to plant the faults in.")] = "campus:n=600",
    data_dir: Annotated[str | None, typer.Option(help="Where data sets lie or are downloaded to.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")] = False,
) -> None:
    """Planted privacy faults that must be caught, honest mechanisms that must pass. Exit 1 if the auditor is wrong once.

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
    """One row a planted fault or honest recipe: what was found, by which audit, in how many seconds."""
    from ...models.data.loading import load
    from ...models.facts import Facts
    from ..faults.planted import FAULTS, HONEST
    from ..storage.executor import one_thread

    one_thread()
    graph = load(data, data_dir)
    rows = []
    for planted, faults in ((True, FAULTS), (False, HONEST)):
        for fault in faults:
            started = time.perf_counter()
            model = fault.model(Facts.of(graph))
            refuted, lower, found = looked(fault, model, graph, seed)
            rows.append(
                {
                    "name": fault.name,
                    "planted": planted,
                    "audit": fault.caught_by,
                    "kappa": fault.kappa(model, graph) if fault.kappa else None,
                    "claim": fault.claim.epsilon,
                    "lower": lower,
                    "found": found,
                    "result": verdict(planted, fault.undetectable, refuted),
                    "seconds": round(time.perf_counter() - started, 2),
                }
            )
    return rows


def looked(fault: Fault, model: Any, graph: Graph, seed: str) -> tuple[bool, float, str]:
    """Whether the fault's own audit refuted, the largest epsilon that it proved, and what it says."""
    from ...reports.evidence import judge, lowest
    from ..audits.edge_sums import AUDITS
    from ..case import Case
    from ..key import Key
    from ..ledgers import uppers
    from ..storage.store import Store

    case = Case(model, fault.claim)
    if fault.caught_by == "account":
        ceiling = uppers(case)
        costs = lowest(ceiling)
        told = judge(fault.claim, ceiling, ())
        return told.kind == "exceeds", costs[0] if costs else 0.0, told.sentence
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        key = Key("selftest", seed, fault.name)
        outcome = AUDITS[fault.caught_by].run(case, graph, Store(Path(folder)), key, ROUNDS, ALPHA)
    refuted = any(b.refuted for b in outcome.bounds)
    return refuted, max(b.epsilon for b in outcome.bounds if b.refuted == refuted), outcome.reach


def verdict(planted: bool, undetectable: bool, refuted: bool) -> str:
    if undetectable:
        return "caught" if refuted else "undetectable by sampling"
    if planted:
        return "caught" if refuted else "MISSED"
    return "FALSE ALARM" if refuted else "passed"


def show(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Column, Table

    what, audit, result = Column("planted fault, or honest recipe"), Column("audit", no_wrap=True), Column("result", min_width=12)
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
    told = f"{count['caught']} of {planted - beyond} planted faults caught, {beyond} more that no sample shows"
    Console().print(f"{told}; {count['passed']} of {len(rows) - planted} honest recipes passed.")
