"""`audit selftest`: planted faults that must be caught and honest mechanisms that must pass, here and now."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

ALPHA = 1e-4  # a look; an honest row fails once in ten thousand seeds


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

        print(encoder.dumps(rows, indent=1))
    else:
        show(rows)
    raise typer.Exit(int(any(r["result"] in ("MISSED", "FALSE ALARM") for r in rows)))


def results(seed: str, data: str, data_dir: str | None) -> list[dict[str, Any]]:
    """One row a planted fault or honest recipe: what was found, by which audit, in how many seconds."""
    from ..models.datasets import load
    from .audits import AUDITS
    from .case import Case
    from .executor import one_thread
    from .faults import FAULTS, HONEST
    from .key import Key
    from .store import Store

    one_thread()
    graph = load(data, data_dir)
    rows = []
    for planted, faults in ((True, FAULTS), (False, HONEST)):
        for fault in faults:
            started = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="audit-") as folder:
                case, key = Case(fault.model(), fault.claim), Key("selftest", seed, fault.name)
                outcome = AUDITS[fault.caught_by].run(case, graph, Store(Path(folder)), key, 5, ALPHA)
            worst = max(outcome.bounds, key=lambda b: (b.refuted, b.epsilon))
            rows.append(
                {
                    "name": fault.name,
                    "planted": planted,
                    "audit": fault.caught_by,
                    "kappa": fault.kappa,
                    "claim": fault.claim.epsilon,
                    "lower": worst.epsilon,
                    "result": verdict(planted, fault.undetectable, worst.refuted),
                    "seconds": round(time.perf_counter() - started, 2),
                }
            )
    return rows


def verdict(planted: bool, undetectable: bool, refuted: bool) -> str:
    if undetectable:
        return "caught" if refuted else "undetectable by sampling"
    if planted:
        return "caught" if refuted else "MISSED"
    return "FALSE ALARM" if refuted else "passed"


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("planted fault, or honest recipe", "audit", "noise too small by", "claim", "at least", "result", "s")
    for row in rows:
        factor = "" if row["kappa"] is None else f"{row['kappa']:.3g}"
        lower = f"{row['lower']:.3g}"
        table.add_row(row["name"], row["audit"], factor, f"{row['claim']:g}", lower, row["result"], f"{row['seconds']:.1f}")
        if row is [r for r in rows if r["planted"]][-1]:
            table.add_section()
    Console().print(table)
