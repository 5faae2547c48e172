"""What there is to choose from: systems, attacks and accountants."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


def models(json: Json = False) -> None:
    """The systems under audit: whom each protects, what its adversary sees, its source.

    Example: audit models --json
    """
    from ...models.systems import SYSTEMS

    rows = [{"name": n, "protects": s.protects, "adversary sees": s.sees, "source": s.source} for n, s in SYSTEMS.items()]
    show("Systems", rows, json)


def attacks(json: Json = False) -> None:
    """The membership attacks: what each needs to see, and which secrets it asks about.

    Example: audit attacks
    """
    from ...attacks.registry import ABOUT, ATTACKS

    rows = []
    for name, make in ATTACKS.items():
        attack = make()
        about = ABOUT.get(name) or (type(attack).__doc__ or "").strip().splitlines()[0]
        rows.append({"name": name, "needs": ", ".join(attack.needs), "secrets": ", ".join(attack.kinds), "about": about})
    show("Attacks", rows, json)


def accountants(json: Json = False) -> None:
    """The accountants that cross-check every ledger, and which of them give true upper bounds.

    Example: audit accountants
    """
    from ...accounting.upper.accountants import ACCOUNTANTS

    rows = [
        {"name": name, "upper bound": "yes" if one.is_upper_bound else "no, an approximation", "may differ, as": one.differs}
        for name, one in ACCOUNTANTS.items()
    ]
    show("Accountants", rows, json)


def show(title: str, rows: list[dict[str, Any]], json: bool) -> None:
    """Rows with equal keys, as a table for people or a JSON list for programs."""
    if json:
        import json as encoder

        print(encoder.dumps(rows, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*(rows[0] if rows else ()), title=title)
    for row in rows:
        table.add_row(*(str(v) for v in row.values()))
    Console().print(table)
