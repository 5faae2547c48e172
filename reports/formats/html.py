"""The HTML report of a run: one page without scripts or network access, and its figures as files."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from ...accounting.checks.conditions import HOW, Condition
from ...accounting.claim import Unit
from .. import evidence, results
from ..evidence import LITTLE, WORDS, Evidence, refutes, refuting
from ..figures.accountant_rows import Cost, costs, reasons
from ..figures.claim_figures import bounds_plot, of_claim, power_plot
from ..figures.ledger_figure import observed_plot
from ..figures.run_figures import of_run, slug
from ..figures.style import Plot, save
from ..figures.subgroup_rows import sliced
from ..files import grouped, write_text
from ..layers import layers
from ..observed import REPORTS, alike
from ..results import AttackRow, Results, SkippedRow, UtilityRow
from ..rounding import down, percent, up
from ..summary import (
    UNITS,
    Line,
    budget,
    chance,
    claims_of,
    headline,
    inapplicable,
    interval,
    key,
    listed,
    may_be_chance,
    name,
    of_case,
    rivals,
    skips,
    spread,
    strongest,
    units,
    utility,
)

HERE = Path(__file__).parent
MANY = 20  # evidence files; the figures of fewer are drawn before workers would have started
SIGNS = {"refuted": "✖", "exceeds": "▲", "inconclusive": "?", "not-refuted": "○"}
EXITS = {
    0: "no claim was refuted, and the tests of each claim could detect the violation that the plan asks for",
    1: "a claim was refuted, or its ledger does not prove it",
    3: "unfinished, or a test is inconclusive",
}


def save_all(plots: Iterable[Plot], run_dir: Path) -> dict[str, str]:
    """Writes the files of figures, each name once. Returns the SVG of each name for the page."""
    named = {plot.name: plot for plot in plots}
    return {name: save(plot, run_dir / "figures") for name, plot in named.items()}


def save_some(run_dir: Path, part: int, parts: int) -> dict[str, str]:
    """`save_all` for one of `parts` equal parts of the figures of a run. A worker makes its figures itself, because a function
    that draws cannot be sent to it.
    """
    found, seen = results.read(run_dir), evidence.read_all(run_dir)
    of_sections = [plot for plots in of_run(found, seen).values() for plot in plots]
    own = by_claim(seen)[part::parts]
    observed = [observed_plot(e) for same in own for e in same if e.observed]
    return save_all([*of_sections[part::parts], *(plot for same in own for plot in pictures(same)), *observed], run_dir)


def in_parts(run_dir: Path, workers: Executor, parts: int) -> dict[str, str] | None:
    """`save_some` for all parts in worker processes; None if these cannot start or were killed."""
    try:
        each = list(workers.map(save_some, [run_dir] * parts, range(parts), [parts] * parts))
    except (BrokenExecutor, OSError):
        return None
    return {name: svg for some in each for name, svg in some.items()}


def render(run_dir: Path, workers: Executor | None = None, parts: int = 1) -> Path:
    """Writes RUN/report.html and RUN/figures/NAME.svg, .png, .csv; returns the page. Raises ValueError for an unreadable run.

    workers: processes that draw the figures, in so many parts; by default this process draws them.
    """
    from markupsafe import Markup

    run_dir, plan = Path(run_dir), Path(run_dir, "plan.toml")
    found, seen = results.read(run_dir), evidence.read_all(run_dir)
    drawn = in_parts(run_dir, workers, parts) if workers and len(seen) >= MANY else None
    sections, every = of_run(found, seen), [(same, pictures(same)) for same in by_claim(seen)]
    recorded = [(e, observed_plot(e)) for e in seen if e.observed]
    if drawn is None:
        groups = [*sections.values(), *(plots for _, plots in every), [plot for _, plot in recorded]]
        drawn = save_all((plot for plots in groups for plot in plots), run_dir)
    chosen = closest([same for same, _ in every])

    def draw(plots: Sequence[Plot], again: str = "") -> list[dict[str, Any]]:
        shown = [(p, drawn[p.name]) for p in plots]  # a second copy of a figure on the page gets other ids, by the prefix `again`
        return [{"plot": p, "svg": Markup(svg.replace(f"{p.name}-", f"{again}{p.name}-"))} for p, svg in shown]

    page = template(HERE / "report.html").render(
        css=Markup((HERE / "report.css").read_text(encoding="utf-8")),
        run=found.run,
        name=name,
        key=key,
        anchor=anchor,
        anchors={anchor(e.claim.unit, e.model, e.mode, e.claim.epsilon) for e in seen},
        infinite=math.inf,
        signs=SIGNS,
        words=WORDS,
        exits=EXITS if claims_of(found) else EXITS | {0: "no claim was tested"},
        reports=REPORTS,
        whom=UNITS,
        figures={section: draw(plots) for section, plots in sections.items()},
        fatal=[
            {"evidence": decided, "why": grounds(decided), "figures": draw(proof(same), "fatal-")}
            for same in chosen
            if (decided := decisive(same))
        ],
        closest=draw([p for same in chosen for p in foremost(same)], "closest-"),
        claims=[{"evidence": same, "figures": draw(plots), "conditions": conditions(same)} for same, plots in every],
        kinds={p.name.partition("-")[0] for same in chosen for p in foremost(same)},
        grouped=known_alike,
        alike=alike,
        source=lambda row: (row.audit, row.exposes, row.granted),
        recorded=[{"evidence": e, "figures": draw([plot])} for e, plot in recorded],
        plan=plan.read_text(encoding="utf-8") if plan.is_file() else "",
        **tables(found),
    )
    for path in (run_dir / "figures").glob("*"):
        # an earlier run in this folder wrote these figures
        if path.suffix in (".svg", ".png", ".csv") and path.stem not in drawn:
            path.unlink()
    return write_text(run_dir / "report.html", page)


@cache
def template(path: Path) -> Any:
    """The compiled template of a page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(path.parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"down": down, "up": up, "percent": percent, "budget": budget, "clock": clock, "interval": interval}
    environment.filters |= {"spread": spread, "six": six_digits, "breakable": breakable, "unbroken": unbroken}
    return environment.get_template(path.name)


def conditions(evidence: Sequence[Evidence]) -> list[tuple[Condition, list[str]]]:
    """The conditions of the bounds of a claim, each with the audits whose bounds need it, in the reverse order of `HOW`: those
    that are proved come last.
    """
    found: dict[Condition, list[str]] = {}
    for bound, condition in ((b, c) for e in evidence for b in e.bounds for c in b.conditions):
        found.setdefault(condition, []).append(bound.audit)
    return [(c, list(dict.fromkeys(found[c]))) for c in sorted(found, key=lambda c: -HOW.index(c.how))]


def tables(found: Results) -> dict[str, Any]:
    """The values for the tables of the page, most of them by unit."""
    claims = claims_of(found)
    table, priced, level = utility(found), costs(claims), chance(found)
    skipped, attacks = found.of(SkippedRow), found.of(AttackRow)
    return {
        "headline": headline(claims),
        "stated": stated(claims),
        "low": uncertain(table, level),
        "layers": layers(found, claims),
        "sections": {"verdicts", "reproduce"} | ({"accountants"} if priced else set()) | ({"evidence"} if claims else set()),
        "counts": Counter(line.verdict.kind for line in claims),
        "verdicts": {u: [line for line in claims if line.key.unit == u] for u in units(line.key for line in claims)},
        "utilities": {
            u: {(m, mode): cells for (unit, m, mode), cells in table.items() if unit == u} for u in units(found.of(UtilityRow))
        },
        "chance": level,
        "may_be_chance": lambda row: may_be_chance(row, level),
        "attacks": {u: strongest(r for r in attacks if r.unit == u) for u in units(attacks)},
        "rivals": (among := rivals(attacks)),
        "several": (several := any(count > 1 for count in among.values())),
        "best_attack": "strongest attack on each model (the best of many, uncorrected)" if several else "attack on each model",
        "slices": {u: sliced(r for r in attacks if r.unit == u) for u in units(attacks)},
        "costs": {u: [c for c in priced if c.key.unit == u] for u in units(c.key for c in priced)},
        "accountants": {u: giving(c for c in priced if c.key.unit == u) for u in units(c.key for c in priced)},
        "published": any(c.printed is not None or c.as_coded is not None for c in priced),
        "reasons": reasons(priced),
        "by_noise": any(re.search(f"{LITTLE}(?! in | on )", line.verdict.sentence) for line in claims),
        "noticing": any("would have been noticed" in line.verdict.sentence for line in claims),
        "ours": any(row.mode != "own" for row in found.of(UtilityRow)),
        "unclaimed": any(row.unit and math.isinf(row.epsilon) for row in found.of(UtilityRow)),
        "untested": skips(row for row in skipped if of_case(row)),
        "skipped": {
            who: (listed(dict.fromkeys(r.what for r in rows)), skips(rows)) for who, rows in inapplicable(skipped).items()
        },
    }


def stated(claims: Sequence[Line]) -> list[str]:
    """The claimed budgets, one text for each unit and delta: "ε = 1 and 8, δ = 1e-06 for an undirected edge"."""
    found: dict[Any, set[float]] = {}
    for line in claims:
        found.setdefault((line.key.unit, line.delta), set()).add(line.key.epsilon)
    delta = {place: "" if place[1] is None else f", δ = {place[1]:g}" for place in found}
    return [f"ε = {' and '.join(map(budget, sorted(e)))}{delta[place]} for {UNITS[place[0]]}" for place, e in found.items()]


def uncertain(table: dict[tuple[Any, str, str], dict[float, UtilityRow]], level: dict[str, float]) -> list[str]:
    """The models whose test score may be chance, each with its budgets: "gap (sound) at ε = 1, 4"."""
    low = {who[1:]: [budget(e) for e, row in sorted(cells.items()) if may_be_chance(row, level)] for who, cells in table.items()}
    return [f"{name(*who)} at ε = {', '.join(budgets)}" for who, budgets in low.items() if budgets]


def giving(costs: Iterable[Cost]) -> list[str]:
    """The accountants that give a value for one of the ledgers, in the order of the rows."""
    return list(dict.fromkeys(row.accountant for c in costs for row in c.rows if row.value is not None))


def known_alike(released: Sequence[dict[str, str]]) -> list[tuple[tuple[str, str], list[str]]]:
    """((how, detail), arrays): the released arrays of an observed ledger, grouped by what is known (see `observed.Released`)."""
    return [(known, [r["array"] for r in same]) for known, same in grouped(released, itemgetter("how", "detail")).items()]


def by_claim(seen: Sequence[Evidence]) -> list[list[Evidence]]:
    """The evidence, grouped by claim."""
    return list(grouped(seen, attrgetter("claim", "model", "mode")).values())


def closest(claims: Sequence[list[Evidence]]) -> list[list[Evidence]]:
    """For each unit, the claim with the largest ratio of lower bound to claimed epsilon. A refuted claim comes first."""
    best: dict[Any, tuple[tuple[bool, float], list[Evidence]]] = {}
    for same in claims:
        claim, bounds = same[0].claim, [b.epsilon for e in same for b in e.bounds]
        if bounds and 0 < claim.epsilon < math.inf:
            rank = decisive(same) is not None, max(bounds) / claim.epsilon
            if claim.unit not in best or rank > best[claim.unit][0]:
                best[claim.unit] = (rank, same)
    return [best[unit][1] for unit in UNITS if unit in best]


def decisive(same: Sequence[Evidence]) -> Evidence | None:
    """The evidence whose bound decides the verdict of a refuted claim; None if no bound refutes."""
    found = [(b.against == "claim", b.epsilon, e) for e in same for b in e.bounds if refutes(b)]
    return max(found, key=lambda item: item[:2])[2] if found else None


def grounds(decided: Evidence) -> str:
    """What the decisive bound of a refutation rests on, if the bound is computed and its method is a sentence; else ""."""
    worst = refuting(decided.bounds)
    return worst.method if worst and " " in worst.method and (worst.shape == "exact" or math.isinf(worst.epsilon)) else ""


def pictures(same: Sequence[Evidence]) -> list[Plot]:
    """The figures of one claim: all lower bounds, then each audit (refuting ones first), then detectable violations."""
    ordered = sorted(same, key=lambda e: not any(b.refuted for b in e.bounds))
    drawn = [bounds_plot(same), *(p for e in ordered for p in of_claim(e)), power_plot(same)]
    return [p for p in drawn if p]


def proof(same: Sequence[Evidence]) -> list[Plot]:
    """The figures that show why a claim is refuted: those of its decisive evidence, then all lower bounds."""
    decided = decisive(same)
    return [p for p in (*(of_claim(decided, refuting=True) if decided else ()), bounds_plot(same)) if p]


def foremost(same: Sequence[Evidence]) -> list[Plot]:
    """The figures that represent a claim. If it is refuted: those of all evidence that refutes it, without those of `proof`. Else
    all but histograms and moves.
    """
    if decisive(same) is None:
        return [p for p in pictures(same) if not p.name.startswith(("scores", "moves"))]
    shown = {p.name for p in proof(same)}
    return [p for e in same if any(map(refutes, e.bounds)) for p in of_claim(e, refuting=True) if p.name not in shown]


def anchor(unit: Unit | None, model: str, mode: str, epsilon: float) -> str:
    """The id of the evidence on a claim within the page."""
    return slug("claim", model, mode, budget(epsilon, "inf"), unit)


def six_digits(ledger: str) -> str:
    """The text of a ledger with numbers rounded to six significant digits; the evidence file has all digits."""
    return re.sub(r"\d+\.\d+(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.6g}", ledger)


def breakable(word: str) -> str:
    """The name of an accountant with places where a line may break."""
    return re.sub(r"([_-])", "\\1\N{ZERO WIDTH SPACE}", word)


def unbroken(text: str) -> str:
    """The text, in which no line breaks between "ε", "=" and the number, nor before "protects"."""
    return re.sub(r"([εδ]) (=|protects) ", "\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", text)


def clock(seconds: float) -> str:
    """A duration with its unit, such as "3 min 5 s"."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
