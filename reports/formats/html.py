"""The HTML report of a run: one page without scripts or network access, and its figures as files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import evidence, results
from ..evidence import Evidence
from ..figures.accountant_rows import costs, reasons
from ..figures.claim_figures import of_claim, power_plot
from ..figures.ledger_figure import observed_plot
from ..figures.run_figures import of_run
from ..figures.style import Plot, save
from ..figures.subgroup_rows import sliced
from ..files import write_text
from ..results import AttackRow, FindingRow, Results, SkippedRow, UtilityRow
from ..rounding import down, percent, up
from ..summary import UNITS, Line, budget, lines, name, skips, strongest, units, utility

HERE = Path(__file__).parent
SIGNS = {"refuted": "✖", "exceeds": "▲", "inconclusive": "?", "not-refuted": "○"}
WORDS = {"refuted": "refuted", "exceeds": "exceeded by the ledger", "inconclusive": "inconclusive", "not-refuted": "not refuted"}
EXITS = {
    0: "no claim was refuted, and each test could detect the violation that the plan asks for",
    1: "a claim was refuted, or its ledger exceeds it",
    3: "unfinished, or a test was too weak",
}


def render(run_dir: Path) -> Path:
    """Writes RUN/report.html, and RUN/figures/NAME.svg, .png and .csv. Raises ValueError when the run cannot be read."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    run_dir = Path(run_dir)
    found, seen = results.read(run_dir), evidence.read_all(run_dir)
    every = [(same, pictures(same)) for same in by_claim(seen)]
    drawn: dict[str, str] = {}

    def draw(plots: Sequence[Plot], again: str = "") -> list[dict[str, Any]]:
        drawn.update({p.name: save(p, run_dir / "figures") for p in plots if p.name not in drawn})
        shown = [(p, drawn[p.name]) for p in plots]  # a figure shown twice needs other ids
        return [{"plot": p, "svg": Markup(svg.replace(f"{p.name}-", f"{again}{p.name}-"))} for p, svg in shown]

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"down": down, "up": up, "percent": percent, "budget": budget, "clock": clock, "interval": interval}
    page = environment.get_template("report.html").render(
        css=Markup((HERE / "report.css").read_text(encoding="utf-8")),
        run=found.run,
        name=name,
        signs=SIGNS,
        words=WORDS,
        exits=EXITS,
        whom=UNITS,
        figures={section: draw(plots) for section, plots in of_run(found, seen).items()},
        closest=draw([p for plots in closest(every) for p in plots if not p.name.startswith("scores")], "closest-"),
        claims=[{"evidence": same, "figures": draw(plots)} for same, plots in every],
        recorded=[{"evidence": e, "figures": draw([observed_plot(e)])} for e in seen if e.observed],
        plan=_text(run_dir / "plan.toml"),
        **tables(found),
    )
    for path in (run_dir / "figures").glob("*"):
        if path.suffix in (".svg", ".png", ".csv") and path.stem not in drawn:  # left by an earlier run in this folder
            path.unlink()
    return write_text(run_dir / "report.html", page)


def tables(found: Results) -> dict[str, Any]:
    """All tables of the page, separately for each unit."""
    every = lines(found)
    claimed = [line for line in every if math.isfinite(line.key.epsilon)]
    table, priced = utility(found), costs(claimed)
    return {
        "headline": headline(claimed),
        "counts": Counter(line.verdict.kind for line in claimed),
        "verdicts": {u: [line for line in claimed if line.key.unit == u] for u in units(line.key for line in claimed)},
        "utilities": {
            u: {(m, mode): cells for (unit, m, mode), cells in table.items() if unit == u} for u in units(found.of(UtilityRow))
        },
        "attacks": {u: strongest(r for r in found.of(AttackRow) if r.unit == u) for u in units(found.of(AttackRow))},
        "slices": {u: sliced(r for r in found.of(AttackRow) if r.unit == u) for u in units(found.of(AttackRow))},
        "costs": {u: [c for c in priced if c.key.unit == u] for u in units(c.key for c in priced)},
        "accountants": list(dict.fromkeys(row.accountant for c in priced for row in c.rows)),
        "reasons": reasons(priced),
        "findings": found.of(FindingRow),
        "skipped": skips(found.of(SkippedRow)),
    }


def headline(claimed: Sequence[Line]) -> str:
    """The first sentence of the page: how many claims were refuted, and which."""
    refuted = [
        f"{name(line.key.model, line.key.mode)} at ε = {line.key.epsilon:g}" for line in claimed if line.verdict.exit_code == 1
    ]
    if not claimed:
        return "This run tested no claim."
    one = len(claimed) == 1
    if refuted:
        more = f" and {len(refuted) - 4} more" if len(refuted) > 4 else ""
        what = "The claim is refuted" if one else f"{len(refuted)} of {len(claimed)} claims are refuted"
        return f"{what}: {', '.join(refuted[:4])}{more}."
    weak = sum(line.verdict.exit_code == 3 for line in claimed)
    what = "The claim was not refuted" if one else f"None of the {len(claimed)} claims was refuted"
    if not weak:
        return f"{what}."
    return f"{what}, but its test was too weak." if one else f"{what}; {weak} of the tests were too weak."


def by_claim(seen: Sequence[Evidence]) -> list[list[Evidence]]:
    """The evidence of all games on the same claim, together."""
    groups: dict[Any, list[Evidence]] = {}
    for e in seen:
        groups.setdefault((e.claim, e.model, e.mode), []).append(e)
    return list(groups.values())


def closest(claims: Sequence[tuple[list[Evidence], list[Plot]]]) -> list[list[Plot]]:
    """For each unit, the figures of the claim with the largest ratio of lower bound to claimed epsilon."""
    best: dict[Any, tuple[float, list[Plot]]] = {}
    for same, plots in claims:
        claim, bounds = same[0].claim, [b.epsilon for e in same for b in e.bounds]
        if bounds and 0 < claim.epsilon < math.inf and plots:
            ratio = max(bounds) / claim.epsilon
            if claim.unit not in best or ratio > best[claim.unit][0]:
                best[claim.unit] = (ratio, plots)
    return [best[unit][1] for unit in UNITS if unit in best]


def pictures(same: Sequence[Evidence]) -> list[Plot]:
    """The figures of one claim, and that of its smallest detectable violations."""
    power = power_plot(same)
    return [p for e in same for p in of_claim(e)] + ([power] if power else [])


def clock(seconds: float) -> str:
    """A duration in words."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def interval(ends: tuple[float, float] | None, digits: int = 3, factor: float = 1.0) -> str:
    """ "0.692–0.716", or an empty string without an interval."""
    return "" if ends is None else f"{factor * ends[0]:.{digits}f}–{factor * ends[1]:.{digits}f}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
