"""The results of a run as terminal tables; verdicts last, because a terminal shows the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...accounting.claim import Unit
from ..results import AttackRow, Results, SkippedRow, UtilityRow
from ..rounding import down, up
from ..summary import COVERED, UNITS, Line, budget, lines, name, skips, strongest, units, utility

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"refuted": "bold red", "exceeds": "bold red", "inconclusive": "yellow", "not-refuted": "green"}


def show(results: Results, console: Console) -> None:
    """Prints what was skipped, the strongest attacks, utility and verdicts. Each unit has tables of its own."""
    if results.of(SkippedRow):
        _print(console, "Skipped", _skipped(results.of(SkippedRow)))
    for unit in units(results.of(AttackRow)):
        attacks = strongest(row for row in results.of(AttackRow) if row.unit == unit)
        _print(console, f"Strongest attacks; epsilon protects {UNITS[unit]}", _attacks(attacks))
    for unit in units(results.of(UtilityRow)):
        rows = {place: cells for place, cells in utility(results).items() if place[0] == unit}
        metric = next(iter(next(iter(rows.values())).values())).metric
        whom = f"epsilon protects {UNITS[unit]}" if unit else "models without a claim"
        _print(console, f"Test {metric} in percent with 95 % interval; {whom}", _utility(rows))
    claims = [line for line in lines(results) if math.isfinite(line.key.epsilon)]
    for unit in units(line.key for line in claims):
        halves = unit is Unit.DIRECTED_EDGE and results.run.data.get("directed") is False
        title = f"Claims on {UNITS[unit]}{'; each edge of this graph is two of them' * halves}"
        _print(console, title, _verdicts([line for line in claims if line.key.unit == unit]))


def _print(console: Console, title: str, table: Table) -> None:
    console.print(f"[bold]{title}[/]")
    console.print(table)


def _table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def _verdicts(claims: list[Line]) -> Table:
    numbers = ("claimed ε", "upper", "lower")
    table = _table("model", *numbers, "verdict", right=numbers)
    for line in claims:
        upper = up(line.upper[0]) if line.upper else "-"
        lower = down(line.lower.value) if line.lower else "-"
        sentence = f"[{STYLES[line.verdict.kind]}]{line.verdict.sentence}[/]"
        table.add_row(name(line.key.model, line.key.mode), budget(line.key.epsilon), upper, lower, sentence)
    return table


def _utility(rows: dict[tuple[Unit | None, str, str], dict[float, UtilityRow]]) -> Table:
    budgets = sorted({epsilon for cells in rows.values() for epsilon in cells})
    names = [f"ε = {budget(e)}" for e in budgets]
    table = _table("model", *names, right=tuple(names))
    for (_, model, mode), cells in rows.items():
        shown = [_percentage(cells[e]) if e in cells else "" for e in budgets]
        table.add_row(name(model, mode), *shown)
    return table


def _percentage(row: UtilityRow) -> str:
    if row.ci95 is None:
        return f"{100 * row.value:.1f}"
    return f"{100 * row.value:.1f} [dim]{100 * row.ci95[0]:.1f}–{100 * row.ci95[1]:.1f}[/]"


def _attacks(rows: list[AttackRow]) -> Table:
    numbers = ("AUC", "TPR at\n1 % FPR", "features\nalone")
    table = _table("model", "ε", "game: attack", *numbers, right=("ε", *numbers))
    table.columns[3].no_wrap = True
    for row in rows:
        interval = f"\n[dim]{row.auc_ci95[0]:.3f}–{row.auc_ci95[1]:.3f}[/]" if row.auc_ci95 else ""
        beside = "" if row.unit is None or row.game in COVERED[row.unit] else "\n[dim]not what ε protects[/]"
        rate = row.tpr_at_fpr.get("0.01")
        table.add_row(
            name(row.model, row.mode),
            budget(row.epsilon),
            f"{row.game}: {row.attack}{beside}",
            f"{row.auc:.3f}{interval}",
            "" if rate is None else f"{100 * rate:.1f} %",
            "" if row.baseline_auc is None else f"{row.baseline_auc:.3f}",
        )
    return table


def _skipped(rows: list[SkippedRow]) -> Table:
    from rich.markup import escape

    table = _table("what", "model", "ε", "why")
    for entry in skips(rows):
        table.add_row(*(escape(text) for text in entry))
    return table
