"""`audit account`: the epsilon of each model's ledger by every accountant, beside the epsilon that its paper prints."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ...reports.terminal import simple
from ..planning.ledgers import accounted, is_document
from ..planning.limits import MOST
from .options import DataDir, Delta, Json, Param, Trust, Words, console, print_json

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..planning.plan import Plan

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
CLAIM = itemgetter("model", "mode", "unit", "epsilon")  # identifies the claim of a row
HEAD = ("model", "unit", "claimed", "delta", "noise", "printed", "theorem", "as coded", "true", *COLUMNS.values())
USUAL = {"epsilon": (1.0, 8.0)}  # nats; the claim that a model of one's own states replaces it
FORMATS = ("table", "markdown", "latex")


def account(
    models: Annotated[Words, Option(help="Systems, comma-separated, or all. Default: all. See `audit models`.")] = None,
    model: Annotated[Words, Option(help="A model of your own, by the ledger that it declares: FILE.py:Name.")] = None,
    mode: Annotated[Words, Option(help="paper (as published), sound (as it can be proved) or both. Default: both.")] = None,
    epsilon: Annotated[
        Words,
        Option(help="Claimed epsilons in nats, comma-separated; inf for no noise. Default: the claim of --model, else 1,8."),
    ] = None,
    delta: Delta = None,
    data: Annotated[str, Option(help="Data set whose public sizes the ledgers use. See `audit data list`.")] = "campus",
    data_dir: DataDir = None,
    trust: Trust = False,
    param: Param = None,
    tuned_over: Annotated[
        int,
        Option(
            min=1, max=MOST, help="Number of trainings on private data from which the released one was chosen; adds their cost."
        ),
    ] = 1,
    style: Annotated[str, Option("--format", help="table, markdown or latex.")] = "table",
    json: Json = False,
) -> None:
    """Compare the epsilon that a paper prints, and that its code computes, with the bounds of every accountant. Trains nothing.

    With --model, the ledger is the one that your model declares, and --models adds systems to compare it with.

    Example: audit account --models gap,progap --mode both --epsilon 1,8 --param hops=3
    """
    from ...models.data.loading import load
    from ..planning.plan import read

    if style not in FORMATS:
        raise ValueError(f"format={style!r}: must be one of {', '.join(FORMATS)}.")
    if json and style != "table":
        raise ValueError(f"--format {style}: has no effect with --json. Leave one of them out.")
    systems = model is None or models is not None  # a model of one's own alone has one mode
    options: dict[str, Any] = {"models": (models or "all") if systems else None, "mode": mode or ("both" if systems else None)}
    options |= {"model": model, "epsilon": epsilon, "delta": delta, "data": data, "data_dir": data_dir, "param": param}
    plan = read(None, options, USUAL)
    graph = load(plan.data, plan.data_dir, trust=trust)
    document = stored_or_new(plan, graph, tuned_over)
    if json:
        print_json({"schema": 1, **document})
    else:
        show(document, style)


def stored_or_new(plan: Plan, graph: Graph, tuned_over: int) -> dict[str, Any]:
    """The result of `accounted`. For the built-in systems it is computed once and then read from the cache.

    Their ledgers depend only on public facts and on this package. A model of one's own may depend on any file, so its ledger is
    computed every time.
    """
    if plan.model is not None:
        return accounted(plan, graph, tuned_over)
    from ...accounting.cache import remembered, sources
    from ...models.facts import Facts

    here = Path(__file__).parents[1]
    code = [sources(folder) for folder in (here, here.parent / "models")]
    wanted = (plan.models, plan.modes, plan.epsilon, plan.delta, plan.param, Facts.of(graph), tuned_over, code)
    return remembered(lambda: accounted(plan, graph, tuned_over), "account", wanted, holds=is_document)


def show(document: dict[str, Any], style: str = "table") -> None:
    """Prints a line for each model, mode and budget, then why values differ or are missing, the warnings and the skipped rows."""
    accounts = [row for row in document["rows"] if row["kind"] == "account"]
    lines = [cells(list(rows)) for _, rows in groupby(accounts, CLAIM)]
    if style == "table":
        tables(lines)
    else:
        print(markdown(lines) if style == "markdown" else latex(lines))
    notes = [
        "epsilon in nats, rounded up. printed: by the accounting that sets the noise in mode paper. theorem: by the formula in",
        "the paper. as coded: by the paper's code. true: the tightest upper bound. *: central limit, not an upper bound.",
    ]
    if own := dict.fromkeys(row["model"] for row in accounts if row["own"] and row["value"] is not None):
        notes.append(f"The ledger of {', '.join(own)} is what its author declares; `audit run` tests it.")
    reasons = dict.fromkeys((row["accountant"], _reason(row)) for row in accounts if _reason(row))
    notes += [f"  {COLUMNS.get(name, name)}: {reason}" for name, reason in reasons]
    below(notes, style)
    if tuning := [row for row in document["rows"] if row["kind"] == "tuning"]:
        show_tuning(tuning, lines, style)
    warned = [f"Warning. {sentence}" for sentence in dict.fromkeys(document["warnings"])]
    below(warned + [f"Skipped: {row['what']}: {row['reason']}" for row in document["rows"] if row["kind"] == "skipped"], style)


def below(notes: list[str], style: str) -> None:
    """Prints lines below a table. In Markdown an empty line separates them from the table; in LaTeX they are comments."""
    if style == "markdown" and notes:
        print()
    for note in notes:
        print(f"% {note}" if style == "latex" else note)
    if style == "markdown" and notes:
        print()


def show_tuning(rows: list[dict[str, Any]], lines: list[tuple[str, ...]], style: str) -> None:
    """Prints a line for each model, mode and budget: the epsilon of one training, and of the best of several trainings."""
    from ...reports.rounding import up

    ways = list(dict.fromkeys(row["selection"] for row in rows))
    head = ("model", "unit", "claimed", "one training", *ways)
    body = []
    for line, same in zip(lines, groupby(rows, CLAIM), strict=True):
        values = [row["value"] for row in same[1]]
        body.append((*line[:3], line[HEAD.index("true")], *("-" if v is None else up(float(v)) for v in values)))
    over = rows[0]["tuned_over"]
    if style == "table":
        out = console() if console().is_terminal else console(width=200)
        shown = simple(*head, title=f"Best of {over} trainings on private data")
        for line in body:
            shown.add_row(*line)
        out.print(shown)
    else:
        print(markdown(body, head) if style == "markdown" else latex(body, head))
    notes = [
        f"fixed: exactly {over} trainings; all count. logarithmic, geometric, poisson: a random number with mean {over} that",
        "nobody sees (Papernot and Steinke 2022). Valid if the choice uses only releases that the ledger charges for.",
    ]
    reasons = dict.fromkeys(f"{row['selection']}: {row['unsupported']}" for row in rows if row["unsupported"])
    below([*notes, *(f"  {reason}" for reason in reasons)], style)


def tables(lines: list[tuple[str, ...]]) -> None:
    """Prints a table for each unit; several for each unit if the terminal is too narrow for all columns."""
    out = console() if console().is_terminal else console(width=200)
    for unit in dict.fromkeys(line[UNIT] for line in lines):
        alike = [line for line in lines if line[UNIT] == unit]
        out.print(f"[bold]Unit: {unit}[/]")
        for columns in fitting(alike, out.width):
            shown = simple()
            for i in columns:
                shown.add_column(HEAD[i], justify="left" if i == MODEL else "right", no_wrap=True)
            for line in alike:
                shown.add_row(*(line[i] for i in columns))
            out.print(shown)


def fitting(lines: list[tuple[str, ...]], width: int) -> list[list[int]]:
    """Splits the columns of HEAD into tables of at most `width` characters. Returns the indices of HEAD in each table.

    Each table repeats the columns model and claimed. No table has the column unit, because `tables` prints the unit above.
    """
    needs = [3 + max(len(row[i]) for row in (HEAD, *lines)) for i in range(len(HEAD))]  # three characters between two columns
    cut: list[list[int]] = [[MODEL, CLAIMED]]
    for i in range(CLAIMED + 1, len(HEAD)):
        if sum(needs[c] for c in (*cut[-1], i)) > width and len(cut[-1]) > 2:
            cut.append([MODEL, CLAIMED])
        cut[-1].append(i)
    return cut


def cells(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """The cells of one line, in the order of HEAD, from all rows of one ledger; "-" for a missing value."""
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
    """Why the value of an accountant differs or is missing; "" for the published value.

    A note may begin with the difference in per cent and a colon. This part is left out, because the table shows both values.
    """
    if row["accountant"] == "published":
        return ""
    return row["unsupported"] or row["note"].partition(": ")[2] or row["note"]


def markdown(lines: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> str:
    """The lines as a Markdown table."""
    rows = [head, tuple("---" if i < 2 else "---:" for i in range(len(head))), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def latex(lines: list[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> str:
    """The lines as a LaTeX table, which needs the package booktabs."""
    rows = [" & ".join(row).replace("_", r"\_").replace("%", r"\%") + r" \\" for row in (head, *lines)]
    form = "ll" + "r" * (len(head) - 2)
    body = "\n".join([rows[0], r"\midrule", *rows[1:]])
    return rf"\begin{{tabular}}{{{form}}}" + "\n\\toprule\n" + body + "\n\\bottomrule\n\\end{tabular}"
