"""Writes the tables and figures of docs/study.md from finished runs of examples/matched.toml: python docs/make_study.py RUN ...

The prose of that page is written by hand. Each table stands between <!-- NAME --> and <!-- end NAME --> and is replaced; a page
that does not exist yet is begun with all of them. The long tables make a page of their own, docs/study-tables.md.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnaudit import Unit
from gnnaudit.reports import results
from gnnaudit.reports.evidence import WORDS
from gnnaudit.reports.figures.style import styles
from gnnaudit.reports.results import AttackRow, Results, UtilityRow
from gnnaudit.reports.rounding import down, percent, up
from gnnaudit.reports.summary import BESIDE, UNITS, Line, budget, chance, claims_of, key, name, skips, strongest, units, utility

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Path(__file__).parent / "study.md"
TABLES = Path(__file__).parent / "study-tables.md"
FIGURES = Path(__file__).parent / "figures"
ACCURACY = {
    Unit.UNDIRECTED_EDGE: "accuracy, ε of an edge",
    Unit.NODE: "accuracy, ε of a node",
    Unit.FEATURES: "accuracy, ε of features",
}
LEAKAGE = {
    (Unit.UNDIRECTED_EDGE, "edge"): "attacks on edges, ε of an edge",
    (Unit.UNDIRECTED_EDGE, "label"): "attacks on labels, ε of an edge",
    (Unit.NODE, "label"): "attacks on labels, ε of a node",
}
BUDGETS = (1.0, 4.0, 8.0, math.inf)
WHOM = {unit: {Unit.NODE: "a node", Unit.FEATURES: "features"}.get(unit, "an edge") for unit in UNITS}
DATA_DIR, DATA_DIR_SHOWN = r"--data-dir \S+", "--data-dir DIR"
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
                f"{r.run.seconds / 60:.0f}", f"`{re.sub(DATA_DIR, DATA_DIR_SHOWN, r.run.command)}`",
            )
        )  # fmt: skip
    return _table(header, rows, left=(0, 8))


def claims_table(found: Results, unit: Any) -> str:
    """Claimed, upper and lower epsilon and the verdict on every claim of one unit."""
    rows = []
    claimed = [c for c in claims_of(found) if c.key.unit == unit]
    for c in sorted(claimed, key=lambda c: (c.key.model, c.key.mode, c.key.epsilon)):
        seen = f"{down(c.lower.value)} ({percent(c.lower.confidence)}, {c.lower.audit})" if c.lower else "-"
        delta = "-" if c.delta is None else f"{c.delta:g}"
        at_most = f"{up(c.upper[0])}" if c.upper else "-"
        rows.append((name(c.key.model, c.key.mode), f"{c.key.epsilon:g}", delta, at_most, seen, c.verdict.sentence))
    return _table(("system", "claimed ε", "δ", "upper", "lower", "verdict"), rows, left=(0, 5))


def outcome_table(found: Sequence[Results]) -> str:
    """One row for each system and claim, one column for each graph: the lower bound and the detectable epsilon."""
    cells: dict[Any, dict[str, str]] = {}
    for r in found:
        for line in claims_of(r):
            row = (list(UNITS).index(line.key.unit), line.key.model, line.key.epsilon)
            cells.setdefault(row, {})[_graph(r)] = _outcome(line)
    graphs = [_graph(r) for r in found]
    order = list(UNITS)
    body = [(WHOM[order[u]], model, f"{e:g}", *(of.get(g, "") for g in graphs)) for (u, model, e), of in sorted(cells.items())]
    return _table(("ε protects", "system", "claimed ε", *graphs), body, left=(0, 1))


def _outcome(line: Line) -> str:
    kind = "" if line.verdict.kind == "not-refuted" else f"{WORDS[line.verdict.kind]}: "
    lower = down(line.lower.value) if line.lower else "-"
    return f"{kind}{lower}" + (f" / {up(line.noticing.detectable_epsilon, 3)}" if line.noticing else "")


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


def blocks_of_page(found: Sequence[Results]) -> dict[str, str]:
    """The blocks of docs/study.md by name."""
    return {"runs": runs_table(found), "outcome": outcome_table(found)}


def tables(found: Sequence[Results]) -> dict[str, str]:
    """The sections of docs/study-tables.md by name. Within one, every graph and every unit has a table of its own."""
    return {
        "claims": _apart(found, lambda r: r.rows, claims_table),
        "utility": _apart(found, lambda r: r.of(UtilityRow), utility_table),
        "leakage": _apart(found, lambda r: r.of(AttackRow), leakage_table),
        "attacks": _apart(found, lambda r: r.of(AttackRow), attacks_table),
        "skipped": "\n\n".join(f"*{_graph(r)}*\n\n{skipped_table(r)}" for r in found if r.of(results.SkippedRow)),
    }


def all_tables(found: Sequence[Results]) -> str:
    """The page docs/study-tables.md."""
    about = {
        "claims": "All lower bounds of a run hold together at 95 %. Each row also names its own confidence and its audit.",
        "utility": "Accuracy on the test nodes in percent, with 95 % intervals over trainings.",
        "leakage": "The strongest of all attacks on each system in each game, uncorrected for this choice. *Edge*: dropped real "
        "edges are the non-members. *Label*: training nodes with and without their label. *Node*: whole nodes. "
        "*Without the model*: the best AUC from features and a model that has never seen an edge.",
        "attacks": "AUC of every attack.",
        "skipped": "What the plan holds and the runs did not test, with the reason.",
    }
    head = (
        "# One budget, all systems: every table\n\n`docs/make_study.py` wrote this page from the runs of [the study](study.md).\n"
    )
    return "\n".join([head, *(f"## {n.capitalize()}\n\n{about[n]}\n\n{text}\n" for n, text in tables(found).items())])


def accuracy_figure(found: Sequence[Results]) -> Figure:
    """Accuracy against epsilon: one row for each graph, one column for each unit, and the accuracy of the largest class."""
    look = styles((r.model, r.mode) for f in found for r in f.of(UtilityRow))

    def draw(axes: Axes, r: Results, unit: Any) -> None:
        for (u, model, mode), cells in utility(r).items():
            if u == unit:
                axes.plot(_at(cells), [100 * cells[e].value for e in sorted(cells)], label=model, **look[model, mode])
        if "accuracy" in (level := chance(r)):
            axes.axhline(100 * level["accuracy"], color="black", linestyle="-.", linewidth=1, label="largest class")

    return _grid(found, ACCURACY, draw, "%")


def leakage_figure(found: Sequence[Results]) -> Figure:
    """The AUC of the strongest attack against epsilon: one row for each graph, one column for each game and unit."""
    look = styles((r.model, r.mode) for f in found for r in f.of(UtilityRow))

    def draw(axes: Axes, r: Results, panel: Any) -> None:
        unit, game = panel
        best = [row for row in strongest(x for x in r.of(AttackRow) if x.unit == unit) if row.game == game]
        for who in dict.fromkeys((row.model, row.mode) for row in best):
            cells = {row.epsilon: row.auc for row in best if (row.model, row.mode) == who}
            axes.plot(_at(cells), [cells[e] for e in sorted(cells)], label=who[0], **look[who])
        axes.axhline(0.5, color="black", linestyle="-.", linewidth=1, label="guessing")
        axes.set_ylim(0.45, 1.02)

    return _grid(found, LEAKAGE, draw, "AUC")


def _at(cells: Mapping[float, Any]) -> list[int]:
    """The places of the budgets on the axis: 0, 1, 2, ... in the order of BUDGETS."""
    return [BUDGETS.index(e) for e in sorted(cells)]


def _grid(found: Sequence[Results], columns: Mapping[Any, str], draw: Callable[[Axes, Results, Any], None], label: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.6 * len(found) + 0.6), layout="constrained", dpi=110)
    grid = figure.subplots(len(found), len(columns), squeeze=False, sharey="row")
    for row, r in zip(grid, found, strict=True):
        for axes, (column, title) in zip(row, columns.items(), strict=True):
            draw(axes, r, column)
            axes.set_title(f"{_graph(r)}: {title}", fontsize=9)
            axes.set_xticks(range(len(BUDGETS)), [budget(e) for e in BUDGETS])
            axes.set_ylabel(label, fontsize=8)
            axes.tick_params(labelsize=8)
            axes.grid(alpha=0.25)
    handles = {text: h for axes in grid.flat for h, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    return figure


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
    return str(found.run.data.get("name") or found.run.name).rpartition(":")[2]


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
    found = [results.read(Path(folder)) for folder in folders]
    blocks = blocks_of_page(found)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8") if PAGE.is_file() else begun(blocks), blocks), encoding="utf-8")
    TABLES.write_text(all_tables(found), encoding="utf-8")
    accuracy_figure(found).savefig(FIGURES / "study-accuracy.png")
    leakage_figure(found).savefig(FIGURES / "study-leakage.png")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
