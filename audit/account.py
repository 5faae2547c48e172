"""`audit account`: ledgers only. What each accountant makes of a model's ledger, beside what its paper printed."""

from __future__ import annotations

import ast
import dataclasses
import json as encoder
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..accounting.upper import Upper
    from .case import Case, Skip
    from .catalogue import Facts

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
HEAD = ("model", "unit", "claimed", "delta", "noise", "printed", "as coded", "true", *COLUMNS.values())
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
    from ..models.datasets import load
    from .case import cases, recipes
    from .catalogue import Facts
    from .plan import read

    if style not in FORMATS:
        raise ValueError(f"format={style!r}: must be one of {', '.join(FORMATS)}.")
    asked = {"models": models, "mode": mode, "epsilon": epsilon, "delta": delta, "data": data, "data_dir": data_dir}
    plan = read(None, asked)
    graph = load(plan.data, plan.data_dir)
    found, skips = cases(plan, graph, tuned(recipes(plan), param or []))
    documents = [(case, looks(case)) for case in found]
    warned = [sentence for case in found for sentence in warnings(case, Facts.of(graph))]
    if json:
        rows = [row for case, uppers in documents for row in account_rows(case, uppers)]
        rows += [_skipped(skip) for skip in skips]
        print(encoder.dumps({"schema": 1, "rows": rows, "warnings": warned}, indent=1))
        return
    show(documents, skips, warned, style)


def looks(case: Case) -> tuple[Upper, ...]:
    """What every accountant makes of a case's ledger, and last, in mode "paper", what the paper's own accounting prints."""
    from ..accounting.upper import Upper, upper

    found = upper(case.model.ledger, case.claim)
    if case.claim.unit is not case.model.unit:
        reason = f"the ledger counts one {case.model.unit}, the claim one {case.claim.unit}"
        found = tuple(dataclasses.replace(u, epsilon=None, unsupported=reason) for u in found)
    printed = case.model.printed(case.claim.delta)
    if printed is None:
        return found
    note = f"what the paper's own accounting prints, per {case.model.unit}"
    return (*found, Upper("published", float(printed), False, None, 0.0, note))


def account_rows(case: Case, uppers: Iterable[Upper]) -> list[dict[str, Any]]:
    """Rows of kind "account" as in results.json, with the noise multiplier and the seconds that each figure cost."""
    from ..reports.files import plain

    rows = []
    for u in uppers:
        row = {"kind": "account", **case.where, "accountant": u.accountant, "value": u.epsilon}
        row |= {"unsupported": u.unsupported, "is_upper_bound": u.is_upper_bound, "note": u.note}
        row |= {"seconds": round(u.seconds, 4), "sigma": getattr(case.model, "sigma", None)}
        if u.accountant == "published":
            row["as_coded"] = as_coded(case)
        rows.append(plain(row))
    return rows


def as_coded(case: Case) -> float | None:
    """What the code of the paper computes, where the model knows it to differ from what the paper prints."""
    coded = getattr(case.model, "as_coded", None)
    return None if coded is None else coded(case.claim.delta)


def warnings(case: Case, facts: Facts) -> list[str]:
    """Everything about this ledger and claim that an accountant cannot see, one sentence each."""
    from ..accounting.claim import Unit
    from ..accounting.guards import doubts

    edges = facts.arcs if facts.directed or case.claim.unit is Unit.DIRECTED_EDGE else facts.arcs // 2
    units = facts.nodes if case.claim.unit in (Unit.NODE, Unit.FEATURES) else edges
    return [f"{case}: {sentence}" for sentence in doubts(case.model.ledger, case.claim, units)]


def tuned(makes: Mapping[str, Callable[..., Any]], params: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """The same factories with fields set from "NAME=VALUE" (every model that has it) or "MODEL.NAME=VALUE".

    Raises ValueError for a malformed pair, for the noise itself, and for a field that no chosen model has.
    """
    pairs = [_pair(p) for p in params]
    for path, _ in pairs:
        if path.rpartition(".")[2] == "sigma":
            raise ValueError("sigma: the noise is what --epsilon calibrates; give --epsilon instead.")
    known: dict[str, set[str]] = {path: set() for path, _ in pairs}

    def with_fields(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(mode: str, facts: Facts) -> Any:
            model = make(mode, facts)
            fields = {f.name for f in dataclasses.fields(model)}
            chosen = {}
            for path, value in pairs:
                owner, _, field = path.rpartition(".")
                if field in fields and owner in ("", name):
                    known[path].add(name)
                    chosen[field] = value
                elif owner == name:
                    raise ValueError(f"{path}: {name} has no such field; it has {', '.join(sorted(fields))}.")
            return dataclasses.replace(model, **chosen) if chosen else model

        return made

    return {name: with_fields(name, make) for name, make in makes.items()}


def show(documents: list[tuple[Case, tuple[Upper, ...]]], skips: list[Skip], warned: list[str], style: str = "table") -> None:
    """Prints one line a case, then why figures differ, then warnings and what was left out."""
    lines = [cells(case, uppers) for case, uppers in documents]
    if style == "table":
        from rich import box
        from rich.console import Console
        from rich.table import Table

        console = Console(width=None if Console().is_terminal else 200)
        table = Table(*HEAD, box=box.SIMPLE_HEAD, pad_edge=False)
        for column in table.columns[2:]:
            column.justify = "right"
        for line in lines:
            table.add_row(*line)
        console.print(table)
        say: Callable[[str], None] = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)  # noqa: E731
    else:
        print(markdown(lines) if style == "markdown" else latex(lines))
        say = print
    say("epsilon in nats, rounded up; true: the tightest upper bound of what is run. * Central limit, not an upper bound.")
    for name, reason in dict.fromkeys(reasons(documents)):
        say(f"  {name}: {reason}")
    for sentence in dict.fromkeys(warned):
        say(f"Warning. {sentence}")
    for skip in skips:
        say(f"Left out: {skip.what}: {skip.reason}")


def cells(case: Case, uppers: tuple[Upper, ...]) -> tuple[str, ...]:
    """One line of the table, in the order of HEAD; "-" where nobody can tell."""
    from ..accounting.upper import tightest
    from ..reports.words import up

    by_name = {u.accountant: u for u in uppers}
    best, published, coded = tightest(uppers), by_name.get("published"), as_coded(case)
    sigma = getattr(case.model, "sigma", None)
    values = [by_name[n].epsilon if n in by_name else None for n in COLUMNS]
    figures = [published.epsilon if published else None, coded, best.epsilon if best else None, *values]
    return (
        f"{case.model.name} ({case.model.mode})",
        str(case.claim.unit),
        f"{case.claim.epsilon:g}",
        f"{case.claim.delta:g}",
        "-" if sigma is None else f"{sigma:.5g}",
        *("-" if v is None else up(v) for v in figures),
    )


def reasons(documents: list[tuple[Case, tuple[Upper, ...]]]) -> list[tuple[str, str]]:
    """Why an accountant differs or declines; percentages are left to the table."""
    found = []
    for _, uppers in documents:
        for u in uppers:
            text = u.unsupported or u.note.partition(": ")[2] or u.note
            if text and u.accountant != "published":
                found.append((u.accountant, text))
    return found


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


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"param={text!r}: must be NAME=VALUE, e.g. hops=3.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _skipped(skip: Skip) -> dict[str, Any]:
    from ..reports.files import plain

    where = {"model": skip.model, "mode": skip.mode, "unit": None, "epsilon": skip.epsilon, "delta": None}
    return dict(plain({"kind": "skipped", **where, "what": skip.what, "reason": skip.reason}))
