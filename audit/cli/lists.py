"""`audit models`, `audit attacks`, `audit audits` and `audit accountants`: the names that other commands accept."""

from typing import Any

from .options import Json, console, print_json, table


def models(json: Json = False) -> None:
    """List the systems: what each protects, what its adversary sees, and its source.

    Example: audit models --json
    """
    from ...models.systems import SYSTEMS

    rows = [{"name": n, "protects": s.protects, "adversary sees": s.sees, "source": s.source} for n, s in SYSTEMS.items()]
    show("Systems", rows, json)


def attacks(json: Json = False) -> None:
    """List the membership attacks: what each needs to see, and which secrets it infers.

    Example: audit attacks
    """
    from ...attacks.registry import ABOUT, ATTACKS

    rows = []
    for name, make in ATTACKS.items():
        attack = make()
        about = ABOUT.get(name) or (type(attack).__doc__ or "").strip().splitlines()[0]
        rows.append({"name": name, "needs": ", ".join(attack.needs), "secrets": ", ".join(attack.kinds), "about": about})
    show("Attacks", rows, json)


def audits(json: Json = False) -> None:
    """List the audits: which claims each tests, what it needs, and how many statistical tests it makes.

    Example: audit audits
    """
    from ..audits.registry import AUDITS

    rows = [
        {
            "name": a.name,
            "claims about": ", ".join(a.units),
            "tests": a.tests,
            "needs": (a.declines.__doc__ or "").split("\n")[0],
        }
        for a in AUDITS.values()
    ]
    show("Audits", rows, json)


def accountants(json: Json = False) -> None:
    """List the accountants that cross-check every ledger, and say which give upper bounds.

    Example: audit accountants
    """
    from ...accounting.upper.accountants import ACCOUNTANTS

    rows = [
        {"name": name, "upper bound": "yes" if one.is_upper_bound else "no, an approximation", "may differ, as": one.differs}
        for name, one in ACCOUNTANTS.items()
    ]
    show("Accountants", rows, json)


def show(title: str, rows: list[dict[str, Any]], json: bool) -> None:
    """Prints rows with equal keys, as a table or as a JSON list."""
    if json:
        print_json(rows)
        return
    shown = table(*(rows[0] if rows else ()), title=title)
    for row in rows:
        shown.add_row(*(str(v) for v in row.values()))
    console().print(shown)
