"""The results of a run as terminal tables: verdicts first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..accounting.claim import Unit
from .results import AttackRow, Results, SkippedRow, UtilityRow
from .summary import UNITS, Line, lines, strongest, title, units, utility
from .words import down, up

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"refuted": "bold red", "exceeds": "bold red", "inconclusive": "yellow", "not-refuted": "green"}


def show(results: Results, console: Console) -> None:
    """Prints verdicts, utility, the strongest attacks and what was skipped. Each unit has tables of its own."""
    claims = [line for line in lines(results) if math.isfinite(line.key.epsilon)]
    for unit in units(line.key for line in claims):
        console.print(_verdicts(f"Claims on {UNITS[unit]}", [line for line in claims if line.key.unit == unit]))
    for unit in units(results.of(UtilityRow)):
        console.print(_utility(unit, {k: cells for k, cells in utility(results).items() if k[0] == unit}))
    for unit in units(results.of(AttackRow)):
        rows = [row for row in results.of(AttackRow) if row.unit == unit]
        console.print(_attacks(f"Strongest attacks, where epsilon protects {UNITS[unit]}", strongest(rows)))
    if results.of(SkippedRow):
        console.print(_skipped(results.of(SkippedRow)))


def _table(name: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def _verdicts(name: str, claims: list[Line]) -> Table:
    numbers = ("claimed ε", "upper", "lower")
    table = _table(name, "model", *numbers, "verdict", right=numbers)
    for line in claims:
        upper = up(line.upper[0]) if line.upper else "-"
        lower = down(line.lower.value) if line.lower else "-"
        sentence = f"[{STYLES[line.verdict.kind]}]{line.verdict.sentence}[/]"
        table.add_row(title(line.key), f"{line.key.epsilon:g}", upper, lower, sentence)
    return table


def _utility(unit: Unit | None, rows: dict[tuple[Unit | None, str, str], dict[float, UtilityRow]]) -> Table:
    budgets = sorted({epsilon for cells in rows.values() for epsilon in cells})
    names = ["ε = ∞" if math.isinf(e) else f"ε = {e:g}" for e in budgets]
    metric = next(iter(next(iter(rows.values())).values())).metric
    whom = f"where epsilon protects {UNITS[unit]}" if unit else "of models without a claim"
    table = _table(f"Test {metric} in percent with 95 % interval, {whom}", "model", *names, right=tuple(names))
    for (_, model, mode), cells in rows.items():
        shown = [_percentage(cells[e]) if e in cells else "" for e in budgets]
        table.add_row(f"{model} ({mode})" if mode else model, *shown)
    return table


def _percentage(row: UtilityRow) -> str:
    if row.ci95 is None:
        return f"{100 * row.value:.1f}"
    return f"{100 * row.value:.1f} [dim]{100 * row.ci95[0]:.1f}–{100 * row.ci95[1]:.1f}[/]"


def _attacks(name: str, rows: list[AttackRow]) -> Table:
    numbers = ("AUC", "TPR at 1 % FPR", "features alone")
    table = _table(name, "model", "ε", "game", "attack", *numbers, right=("ε", *numbers))
    for row in rows:
        interval = f" [dim]{row.auc_ci95[0]:.3f}–{row.auc_ci95[1]:.3f}[/]" if row.auc_ci95 else ""
        rate = row.tpr_at_fpr.get("0.01")
        table.add_row(
            f"{row.model} ({row.mode})" if row.mode else row.model,
            "∞" if math.isinf(row.epsilon) else f"{row.epsilon:g}",
            row.game,
            row.attack,
            f"{row.auc:.3f}{interval}",
            "" if rate is None else f"{100 * rate:.1f} %",
            "" if row.baseline_auc is None else f"{row.baseline_auc:.3f}",
        )
    return table


def _skipped(rows: list[SkippedRow]) -> Table:
    table = _table("Skipped", "what", "model", "why")
    for row in rows:
        table.add_row(row.what, row.model, row.reason)
    return table
