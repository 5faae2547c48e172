"""Two runs side by side: which leaks more, and whether the difference is more than chance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

from . import results
from .files import plain
from .results import AttackRow, BoundRow, Results, Row, UtilityRow
from .summary import UNITS, Key, budget, key, name

if TYPE_CHECKING:
    from rich.table import Table

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """One quantity that both runs measured.

    utility: whether it measures use rather than leakage. first, second: its value in either run. interval: 95 % of
    second - first, taking the runs as independent; None when one of them has no interval. word: "more", "less", or "" when
    the interval holds 0 or is unknown.
    """

    key: Key
    what: str
    utility: bool
    first: float
    second: float
    interval: Interval | None
    word: str


def compare(run_a: Path, run_b: Path) -> list[Difference]:
    """Every quantity that both runs measured, clear differences in leakage first. Raises ValueError if a run cannot be read."""
    return differences(results.read(run_a), results.read(run_b))


def differences(first: Results, second: Results) -> list[Difference]:
    """As `compare`, of results at hand."""
    others = {_place(row): row for row in second.rows}
    found = [_difference(row, others[_place(row)]) for row in first.rows if _place(row) in others]
    told = [d for d in found if d is not None]
    return sorted(told, key=lambda d: (d.utility, not d.word, -abs(d.second - d.first)))


def show(run_a: Path, run_b: Path, json: bool = False) -> None:
    """Prints the differences, each unit in a table of its own; with json, one document on stdout and nothing else."""
    from rich.console import Console

    found = compare(run_a, run_b)
    if json:
        print(dumps(plain([dataclasses.asdict(d) | {"key": d.key._asdict()} for d in found]), indent=1))
        return
    console = Console()
    if not found:
        console.print("The two runs measured nothing in common.")
    for unit in dict.fromkeys(d.key.unit for d in found):
        whom = f"ε protects {UNITS[unit]}" if unit else "Models without a claim"
        console.print(f"[bold]{whom}[/]")
        console.print(_table([d for d in found if d.key.unit == unit], (Path(run_a).name, Path(run_b).name)))


def _table(found: list[Difference], names: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    numbers = (*names, "difference [95 %]")
    for column in ("model", "ε", "what", *numbers, ""):
        table.add_column(column, justify="right" if column in ("ε", *numbers) else "left")
    for d in found:
        ends = f" [dim]{d.interval[0]:+.3f} to {d.interval[1]:+.3f}[/]" if d.interval else ""
        said = "" if not d.word else (f"{d.word} useful" if d.utility else f"leaks {d.word}")
        worse = d.word == ("less" if d.utility else "more")
        shown = f"[{'red' if worse else 'green'}]{said}[/]" if said else ""
        values = (f"{d.first:.3f}", f"{d.second:.3f}", f"{d.second - d.first:+.3f}{ends}")
        table.add_row(name(d.key.model, d.key.mode), budget(d.key.epsilon), d.what, *values, shown)
    return table


def _place(row: Row) -> Hashable:
    if isinstance(row, UtilityRow):
        return key(row), row.metric, row.split
    if isinstance(row, AttackRow):
        return key(row), row.attack, row.game, row.query, row.negatives
    if isinstance(row, BoundRow):
        return key(row), row.audit, row.attack, row.shape
    return id(row)  # nothing that a difference could be taken of


def _difference(a: Row, b: Row) -> Difference | None:
    if isinstance(a, UtilityRow) and isinstance(b, UtilityRow):
        return _told(a, f"{a.split} {a.metric}", (a.value, b.value), (a.ci95, b.ci95))
    if isinstance(a, AttackRow) and isinstance(b, AttackRow):
        where = ", ".join(w for w in (a.game, a.query, a.negatives) if w)
        return _told(a, f"AUC of {a.attack} ({where})", (a.auc, b.auc), (a.auc_ci95, b.auc_ci95))
    if isinstance(a, BoundRow) and isinstance(b, BoundRow):
        return _told(a, f"lower bound by {a.audit}, {a.attack} ({a.shape})", (a.value, b.value), (None, None))
    return None


def _told(row: Row, what: str, values: tuple[float, float], ends: tuple[Interval | None, Interval | None]) -> Difference:
    first, second = values
    if ends[0] is None or ends[1] is None:
        return Difference(key(row), what, isinstance(row, UtilityRow), first, second, None, "")
    # Independent errors add in squares, and each side of an interval may have its own length.
    below = math.hypot(second - ends[1][0], ends[0][1] - first)
    above = math.hypot(ends[1][1] - second, first - ends[0][0])
    interval = (second - first - below, second - first + above)
    word = "more" if interval[0] > 0 else ("less" if interval[1] < 0 else "")
    return Difference(key(row), what, isinstance(row, UtilityRow), first, second, interval, word)
