"""`audit account`: ledgers only. What each accountant makes of a model's ledger, beside what its paper printed."""

from __future__ import annotations

import json as encoder
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from ..ledgers import accounted

Option = typer.Option
COLUMNS = {
    "dp_accounting-pld": "PLD",
    "dp_accounting-rdp": "RDP",
    "autodp-rdp": "autodp RDP",
    "opacus-rdp": "Opacus RDP",
    "opacus-prv": "Opacus PRV",
    "opacus-gdp": "Opacus GDP*",
    "exact": "exact",
}
MODEL, UNIT, CLAIMED = 0, 1, 2
HEAD = ("model", "unit", "claimed", "delta", "noise", "printed", "theorem", "as coded", "true", *COLUMNS.values())
FORMATS = ("table", "markdown", "latex")


def account(
    models: Annotated[str, Option(help="Systems, by comma, or all. See `audit models`.")] = "all",
    mode: Annotated[str, Option(help="paper (as published), sound (as it can be proved) or both.")] = "both",
    epsilon: Annotated[str, Option(help="Budgets, by comma; inf for none.")] = "1,8",
    delta: Annotated[float | None, Option(help="Default: public, per unit.")] = None,
    data: Annotated[str, Option(help="The data set whose public facts the ledgers need. See `audit data list`.")] = "campus",
    data_dir: Annotated[str | None, Option(help="Where data sets lie or are downloaded to.")] = None,
    param: Annotated[list[str] | None, Option(help="A field of the models: NAME=VALUE, or MODEL.NAME=VALUE. Repeatable.")] = None,
    style: Annotated[str, Option("--format", help="table, markdown or latex.")] = "table",
    json: Annotated[bool, Option("--json", help="Print one JSON document on stdout and nothing else.")] = False,
) -> None:
    """What every accountant makes of what each model runs, what its paper printed, and why they differ. Trains nothing.

    Example: audit account --models gap,progap --mode both --epsilon 1,8 --param hops=3
    """
    from ...accounting.cache import remembered, sources
    from ...models.data.loading import load
    from ...models.facts import Facts
    from ..plan import read

    if style not in FORMATS:
        raise ValueError(f"format={style!r}: must be one of {', '.join(FORMATS)}.")
    asked: dict[str, Any] = {
        "models": models,
        "mode": mode,
        "epsilon": epsilon,
        "delta": delta,
        "data": data,
        "data_dir": data_dir,
    }
    asked["param"] = param
    plan = read(None, asked)
    graph = load(plan.data, plan.data_dir)
    # Ledgers depend on the facts alone, so the whole answer can be kept, and asked for again without loading a model.
    here = Path(__file__).parents[1]
    code = [sources(folder) for folder in (here, here.parent / "models")]
    wanted = (plan.models, plan.modes, plan.epsilon, plan.delta, plan.param, Facts.of(graph), code)
    document = remembered(lambda: accounted(plan, graph), "account", wanted)
    if json:
        print(encoder.dumps({"schema": 1, **document}, indent=1))
    else:
        show(document, style)


def show(document: dict[str, Any], style: str = "table") -> None:
    """Prints one line for each model, mode and budget, then why figures differ, warnings, and what was left out."""
    accounts = [row for row in document["rows"] if row["kind"] == "account"]
    lines = [cells(list(rows)) for _, rows in groupby(accounts, lambda r: (r["model"], r["mode"], r["unit"], r["epsilon"]))]
    if style == "table":
        tables(lines)
    else:
        print(markdown(lines) if style == "markdown" else latex(lines))
    print("epsilon in nats, rounded up. printed: by the accounting that sets the noise in mode paper. theorem: by the formula in")
    print("the paper. as coded: by its code. true: the tightest upper bound of what is run. *: central limit, no upper bound.")
    for name, reason in dict.fromkeys((row["accountant"], _reason(row)) for row in accounts if _reason(row)):
        print(f"  {name}: {reason}")
    for sentence in dict.fromkeys(document["warnings"]):
        print(f"Warning. {sentence}")
    for row in document["rows"]:
        if row["kind"] == "skipped":
            print(f"Left out: {row['what']}: {row['reason']}")


def tables(lines: list[tuple[str, ...]]) -> None:
    """A table for each unit, or several where the terminal is too narrow for all columns side by side."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console() if Console().is_terminal else Console(width=200)
    for unit in dict.fromkeys(line[UNIT] for line in lines):
        alike = [line for line in lines if line[UNIT] == unit]
        console.print(f"[bold]Unit: {unit}[/]")
        for columns in fitting(alike, console.width):
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for i in columns:
                table.add_column(HEAD[i], justify="left" if i == MODEL else "right", no_wrap=True)
            for line in alike:
                table.add_row(*(line[i] for i in columns))
            console.print(table)


def fitting(lines: list[tuple[str, ...]], width: int) -> list[list[int]]:
    """Columns of HEAD cut into tables of at most `width` characters; each repeats model and claim, and unit stands above."""
    needs = [3 + max(len(row[i]) for row in (HEAD, *lines)) for i in range(len(HEAD))]  # three between two columns
    cut: list[list[int]] = [[MODEL, CLAIMED]]
    for i in range(CLAIMED + 1, len(HEAD)):
        if sum(needs[c] for c in (*cut[-1], i)) > width and len(cut[-1]) > 2:
            cut.append([MODEL, CLAIMED])
        cut[-1].append(i)
    return cut


def cells(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """One line of the table, in the order of HEAD, from all rows of one ledger; "-" where nobody can tell."""
    from ...reports.rounding import up

    by_name = {row["accountant"]: row for row in rows}
    values = {name: None if row["value"] is None else float(row["value"]) for name, row in by_name.items()}
    bounds = [v for n, v in values.items() if v is not None and by_name[n]["is_upper_bound"]]
    published = by_name.get("published", {})
    figures = [
        values.get("published"),
        published.get("theorem"),
        published.get("as_coded"),
        min(bounds, default=None),
        *(values.get(n) for n in COLUMNS),
    ]
    first = rows[0]
    return (
        f"{first['model']} ({first['mode']})",
        first["unit"],
        f"{float(first['epsilon']):g}",
        f"{first['delta']:g}",
        "-" if first["sigma"] is None else f"{first['sigma']:.5g}",
        *("-" if v is None else up(float(v)) for v in figures),
    )


def _reason(row: dict[str, Any]) -> str:
    """Why an accountant differs or declines; the percentage can be read off the table."""
    if row["accountant"] == "published":
        return ""
    return row["unsupported"] or row["note"].partition(": ")[2] or row["note"]


def markdown(lines: list[tuple[str, ...]]) -> str:
    """A table for a README or an issue."""
    rows = [HEAD, tuple("---" if i < 2 else "---:" for i in range(len(HEAD))), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def latex(lines: list[tuple[str, ...]]) -> str:
    """A booktabs table for a paper."""
    rows = [" & ".join(row).replace("_", r"\_").replace("%", r"\%") + r" \\" for row in (HEAD, *lines)]
    form = "ll" + "r" * (len(HEAD) - 2)
    body = "\n".join([rows[0], r"\midrule", *rows[1:]])
    return rf"\begin{{tabular}}{{{form}}}" + "\n\\toprule\n" + body + "\n\\bottomrule\n\\end{tabular}"
