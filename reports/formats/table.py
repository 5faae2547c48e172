"""Prints the results of a run as terminal tables. Verdicts come last, because a terminal shows the end of the output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from ...accounting.claim import Unit
from ..results import AttackRow, Results, SkippedRow, UtilityRow
from ..rounding import down, up
from ..summary import (
    COVERED,
    UNITS,
    Key,
    Line,
    budget,
    chance,
    claims_of,
    inapplicable,
    interval,
    key,
    listed,
    may_be_chance,
    name,
    of_case,
    of_contract,
    one_delta,
    rivals,
    skips,
    spread,
    strongest,
    units,
    utility,
)
from ..terminal import simple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"refuted": "bold red", "exceeds": "bold red", "inconclusive": "yellow", "not-refuted": "green"}


def show(results: Results, console: Console) -> None:
    """Prints what was skipped, the strongest attacks, utility and verdicts, with separate tables for each unit."""
    skipped = results.of(SkippedRow)
    untested = [row for row in skipped if of_case(row)]
    if untested:
        _print(console, "Not tested", _texts(("model", "ε", "why"), (texts for _, *texts in skips(untested))))
    if fails := [row for row in skipped if of_contract(row)]:
        clauses = ((name(row.model, row.mode), row.what.partition(": ")[2], row.reason) for row in fails)
        _print(console, "Clauses of the contract that fail", _texts(("model", "clauses", "why"), clauses))
    if others := inapplicable(row for row in skipped if not of_contract(row)):
        title = "Audits and attacks without a result; the report gives the reasons"
        what = ((who, listed(dict.fromkeys(row.what for row in rows))) for who, rows in others.items())
        _print(console, title, _texts(("model", "what"), what))
    for unit in units(results.of(AttackRow)):
        attacks = strongest(row for row in results.of(AttackRow) if row.unit == unit)
        among = rivals(results.of(AttackRow))
        many = any(among[key(row), row.game] > 1 for row in attacks)
        best = "Strongest attack on each model, the best of many and not corrected for this choice"
        _print(console, f"{best if many else 'Attack on each model'}; epsilon protects {UNITS[unit]}", _attacks(attacks, among))
    for unit in units(results.of(UtilityRow)):
        rows = {place: cells for place, cells in utility(results).items() if place[0] == unit}
        metric = next(iter(next(iter(rows.values())).values())).metric
        whom = f"epsilon protects {UNITS[unit]}" if unit else "models without a claim"
        level = chance(results)
        _print(console, f"Test {metric} in percent with 95 % interval; {whom}", _utility(rows, level))
        if metric in level and any(may_be_chance(row, level) for cells in rows.values() for row in cells.values()):
            learned = f"{100 * level[metric]:.1f}, the {metric} of a model that has learned nothing"
            console.print(f"[yellow]*[/] the interval does not lie above {learned}\n")
    claims = claims_of(results)
    for unit in units(line.key for line in claims):
        halves = unit is Unit.DIRECTED_EDGE and results.run.data.get("directed") is False
        alike = [line for line in claims if line.key.unit == unit]
        counted = "; each undirected edge of this graph counts as two directed edges" * halves
        title = f"Claims on {UNITS[unit]}{one_delta(alike)}{counted}"
        _print(console, title, _verdicts(alike, {key(row): f": {row.reason}" for row in untested}))
        notes: dict[str, None] = {}  # what is true of all budgets of a model is said once
        for line in alike:
            who = name(line.key.model, line.key.mode)
            if line.upper_is:
                notes[f"{who}: upper is {line.upper_is}"] = None
            if line.no_upper:
                notes[f"{who}: no upper bound, because {line.no_upper}"] = None
        for note in notes:
            console.print(note, markup=False, highlight=False)


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"[bold]{title}[/]")
    console.print(table)


def _who(model: str, mode: str) -> str:
    """The name of a model as rich markup. A user's model may have brackets in its name."""
    return escape(name(model, mode))


def _verdicts(claims: list[Line], said: Mapping[Key, str]) -> Table:
    """said: claim -> the end of its verdict, if a table above says the same."""
    many = not one_delta(claims)
    numbers = ("claimed ε", *(["δ"] if many else []), "upper", "lower")
    table = simple("model", *numbers, "verdict", right=numbers)
    for line in claims:
        upper = up(line.upper[0]) if line.upper else "-"
        lower = down(line.lower.value, beyond=line.key.epsilon) if line.lower else "-"
        sentence = escape(line.verdict.sentence.removesuffix(said.get(line.key, "")))
        delta = ["-" if line.delta is None else f"{line.delta:g}"] if many else []
        table.add_row(
            _who(line.key.model, line.key.mode),
            budget(line.key.epsilon),
            *delta,
            upper,
            lower,
            f"[{STYLES[line.verdict.kind]}]{sentence}[/]",
        )
    return table


def _utility(rows: dict[tuple[Unit | None, str, str], dict[float, UtilityRow]], level: Mapping[str, float]) -> Table:
    budgets = sorted({epsilon for cells in rows.values() for epsilon in cells})
    names = [f"ε = {budget(e)}" for e in budgets]
    table = simple("model", *names, right=tuple(names))
    for (_, model, mode), cells in rows.items():
        shown = [_percentage(cells[e], may_be_chance(cells[e], level)) if e in cells else "" for e in budgets]
        table.add_row(_who(model, mode), *shown)
    return table


def _percentage(row: UtilityRow, flagged: bool) -> str:
    mark = "[yellow]*[/]" if flagged else ""
    return f"{100 * row.value:.1f}{mark}" + (f" [dim]{between}[/]" if (between := spread(row)) else "")


def _attacks(rows: list[AttackRow], among: Mapping[tuple[Key, str], int]) -> Table:
    numbers = ("AUC", "TPR at\n1 % FPR", "features\nalone")
    table = simple("model", "ε", "game: attack", *numbers, right=("ε", *numbers))
    table.columns[3].no_wrap = True
    for row in rows:
        between = interval(row.auc_ci95)
        beside = "" if row.unit is None or row.game in COVERED[row.unit] else "\n[dim]not what ε protects[/]"
        rate, several = row.tpr_at_fpr.get("0.01"), among[key(row), row.game]
        chosen = f"\n[dim]best of {several}[/]" if several > 1 else ""
        table.add_row(
            _who(row.model, row.mode),
            budget(row.epsilon),
            f"{row.game}: {row.attack}{chosen}{beside}",
            f"{row.auc:.3f}" + (f"\n[dim]{between}[/]" if between else ""),
            "" if rate is None else f"{100 * rate:.1f} %",
            "" if row.baseline_auc is None else f"{row.baseline_auc:.3f}",
        )
    return table


def _texts(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = simple(*columns)
    for row in rows:
        table.add_row(*map(escape, row))
    return table
