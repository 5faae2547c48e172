"""Writes the tables of docs/study.md from finished runs of examples/matched.toml: python docs/make_study.py RUN [RUN ...]

The prose of the page is written by hand. Each table stands between <!-- NAME --> and <!-- end NAME --> and is replaced; a page
that does not exist yet is begun with all of them.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnnaudit.reports import results
from gnnaudit.reports.results import AttackRow, Results, UtilityRow
from gnnaudit.reports.rounding import down, percent, up
from gnnaudit.reports.summary import BESIDE, UNITS, budget, key, lines, name, skips, strongest, units, utility

PAGE = Path(__file__).parent / "study.md"
RATE = "0.01"  # false positives at which true ones are counted


def runs_table(found: Sequence[Results]) -> str:
    """The runs and their graphs."""
    header = ("graph", "nodes", "edges", "classes", "homophily", "trainings", "shadows / targets", "minutes", "command")
    rows = []
    for r in found:
        d, attacks, used = r.run.data, r.of(AttackRow), r.of(UtilityRow)
        classes = d.get("classes", "")
        rows.append(
            (
                d.get("name", ""), f"{d.get('nodes', 0):,}", f"{d.get('edges', 0):,}",
                classes if isinstance(classes, int) else len(classes), d.get("homophily", ""),
                used[0].runs if used else "", f"{attacks[0].shadows} / {attacks[0].targets}" if attacks else "",
                f"{r.run.seconds / 60:.0f}", f"`{r.run.command}`",
            )
        )  # fmt: skip
    return _table(header, rows, left=(0, 8))


def claims_table(found: Results, unit: Any) -> str:
    """Claimed, upper and lower epsilon and the verdict on every claim of one unit."""
    rows = []
    claimed = [c for c in lines(found) if c.key.unit == unit and math.isfinite(c.key.epsilon)]
    for c in sorted(claimed, key=lambda c: (c.key.model, c.key.mode, c.key.epsilon)):
        seen = f"{down(c.lower.value)} ({percent(c.lower.confidence)}, {c.lower.audit})" if c.lower else "-"
        delta = "-" if c.delta is None else f"{c.delta:g}"
        at_most = f"{up(c.upper[0])}" if c.upper else "-"
        rows.append((name(c.key.model, c.key.mode), f"{c.key.epsilon:g}", delta, at_most, seen, c.verdict.sentence))
    return _table(("system", "claimed ε", "δ", "upper", "lower", "verdict"), rows, left=(0, 5))


def utility_table(found: Results, unit: Any) -> str:
    """Test metric in percent with its 95 % interval, budgets from left to right."""
    table = {who[1:]: cells for who, cells in utility(found).items() if who[0] == unit}
    budgets = sorted({e for cells in table.values() for e in cells})
    rows = [(name(*who), *(_share(cells.get(e)) for e in budgets)) for who, cells in table.items()]
    return _table(("system", *(f"ε = {budget(e)}" for e in budgets)), rows)


def leakage_table(found: Results, unit: Any) -> str:
    """The strongest attack on each system in each game, and the best that sees no model; AUC with half of its 95 % interval."""
    rows = [r for r in found.of(AttackRow) if r.unit == unit]
    body = []
    for r in sorted(strongest(rows), key=lambda r: (r.game, r.model, r.mode, r.epsilon)):
        blind = [b.auc for b in rows if b.baseline and (key(b), b.game, b.negatives) == (key(r), r.game, r.negatives)]
        blind += [] if r.baseline_auc is None else [r.baseline_auc]
        beside = f"{max(blind):.3f}" if blind else ""
        body.append((name(r.model, r.mode), budget(r.epsilon), r.game, _asked(r), _auc(r), _rate(r), beside))
    return _table(("system", "ε", "game", "strongest attack", "AUC", "TPR at 1 % FPR", "without the model"), body, left=(0, 2, 3))


def attacks_table(found: Results, unit: Any) -> str:
    """AUC of every attack, a column for each system, budgets from left to right in a cell."""
    rows = [r for r in found.of(AttackRow) if r.unit == unit and r.negatives not in BESIDE]
    budgets, parts = sorted({r.epsilon for r in rows}), []
    for game in sorted({r.game for r in rows}):
        aucs = {(_asked(r), name(r.model, r.mode), r.epsilon): f"{r.auc:.2f}" for r in rows if r.game == game}
        asked, systems, _ = (list(dict.fromkeys(part)) for part in zip(*aucs, strict=True))
        cells = {(a, s): [aucs.get((a, s, e), "-") for e in budgets] for a in asked for s in systems}
        table = _table(("attack", *systems), [(a, *(" / ".join(cells[a, s]) for s in systems)) for a in asked])
        parts.append(f"{game} game, AUC at ε = {' / '.join(map(budget, budgets))}\n\n{table}")
    return "\n\n".join(parts)


def skipped_table(found: Results) -> str:
    """The parts of the plan that were skipped."""
    return _table(("what", "system", "ε", "why"), skips(found.of(results.SkippedRow)), left=(0, 1, 3))


def tables(found: Sequence[Results]) -> dict[str, str]:
    """The blocks of the page by name. Within one, every graph and every unit has a table of its own."""
    return {
        "runs": runs_table(found),
        "claims": _apart(found, lambda r: r.rows, claims_table),
        "utility": _apart(found, lambda r: r.of(UtilityRow), utility_table),
        "leakage": _apart(found, lambda r: r.of(AttackRow), leakage_table),
        "attacks": _apart(found, lambda r: r.of(AttackRow), attacks_table),
        "skipped": "\n\n".join(f"*{_graph(r)}*\n\n{skipped_table(r)}" for r in found if r.of(results.SkippedRow)),
    }


def filled(page: str, blocks: dict[str, str]) -> str:
    """The page with its blocks replaced. Raises ValueError for a block that the page does not hold."""
    for block, text in blocks.items():
        begin, end = f"<!-- {block} -->", f"<!-- end {block} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"study.md: must hold {begin} and {end} once each; put them where the table belongs.")
        page = re.sub(f"{begin}.*?{end}", lambda _, t=text, b=begin, e=end: f"{b}\n{t}\n{e}", page, flags=re.S)
    return page


def begun(blocks: dict[str, str]) -> str:
    """A page without prose."""
    return "# One budget, all systems\n\n" + "\n".join(f"## {b.capitalize()}\n\n<!-- {b} -->\n<!-- end {b} -->\n" for b in blocks)


def _apart(found: Sequence[Results], rows: Callable[[Results], Any], table: Callable[[Results, Any], str]) -> str:
    parts = []
    for r in found:
        for unit in units(rows(r)):
            text = table(r, unit)
            if text:
                parts.append(f"*{_graph(r)}: {f'ε protects {UNITS[unit]}' if unit else 'models without a claim'}*\n\n{text}")
    return "\n\n".join(parts)


def _graph(found: Results) -> str:
    return str(found.run.data.get("name") or found.run.name)


def _share(row: UtilityRow | None) -> str:
    if row is None:
        return ""
    return f"{100 * row.value:.1f}" + (f" [{100 * row.ci95[0]:.1f}, {100 * row.ci95[1]:.1f}]" if row.ci95 else "")


def _asked(row: AttackRow) -> str:
    """The attack, its query if that is not the usual one, and whether it reads a model at all."""
    query = f" ({row.query})" if row.query not in ("", "full") else ""
    return f"{row.attack}{query}{', no model' if row.baseline else ''}"


def _auc(row: AttackRow) -> str:
    return f"{row.auc:.3f}" + (f" ± {(row.auc_ci95[1] - row.auc_ci95[0]) / 2:.3f}" if row.auc_ci95 else "")


def _rate(row: AttackRow) -> str:
    return f"{100 * row.tpr_at_fpr[RATE]:.1f} %" if RATE in row.tpr_at_fpr else ""


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[int] = (0,)) -> str:
    """A Markdown table; nothing when it would be empty. left: the columns that hold words."""
    if not rows:
        return ""
    rule = ["---" if i in left else "--:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in [header, rule, *rows])


def main(folders: Sequence[str]) -> None:
    blocks = tables([results.read(Path(folder)) for folder in folders])
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8") if PAGE.is_file() else begun(blocks), blocks), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
