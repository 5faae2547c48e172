"""Writes findings as a table, as findings.json, as letters to the authors, and as one HTML page with plots and texts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...accounting.lower.bounds import Bound
from ...reports.figures import style
from ...reports.figures.style import COLOURS, MARKERS, Plot, legend
from ...reports.files import plain, write_text
from ...reports.rounding import SLACK, at_least, down, percent
from ...reports.terminal import simple
from .certificate import ALPHA, Certificate, Figure
from .finding import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

STYLES = {"refuted": "bold red", "argued": "yellow", "not-refuted": "green"}
SIGNS = {"refuted": "✖", "argued": "?", "not-refuted": "○"}
WORDS = {"refuted": "refuted", "argued": "argued, not refuted", "not-refuted": "not refuted"}
SEARCHED = ("id", "paper", "short", "plain", "argument")  # the texts in which the page searches
FEW = 8  # a logarithmic axis with at most this many points has a label at each point


def row(result: Result) -> dict[str, Any]:
    """The row of findings.json for one finding, with its certificate."""
    f, repaired = result.finding, result.repaired
    texts = ("short", "plain", "claim", "source", "paper", "proof", "view", "argument", "remains", "repair")
    return {
        **tested(f.id, result.certificate, result.verdict),
        "model": f.id.partition("-")[0],
        "mode": "paper",
        **{name: getattr(f, name) for name in texts},
        "printed_epsilon": f.printed,
        "seconds": result.seconds,
        "fixed": None if repaired is None else {"lower": repaired.bound.epsilon, **_certificate(repaired)},
    }


def tested(name: str, c: Certificate, verdict: str) -> dict[str, Any]:
    """What a row says about an experiment. name: the id of the finding."""
    claim = {"unit": str(c.claim.unit), "epsilon": c.claim.epsilon, "delta": c.claim.delta}
    bound = {"lower": c.bound.epsilon, "confidence": 1 - c.bound.alpha, "verdict": verdict}
    return {"kind": "finding", "id": name, **claim, **bound, **_certificate(c)}


def _certificate(c: Certificate) -> dict[str, Any]:
    return {
        "summary": c.summary,
        "told": c.summary,  # earlier scripts read this name
        **{name: getattr(c.bound, name) for name in ("method", "shape", "trials", "p_value", "refuted")},
        "libraries": dict(c.libraries),
        "figure": {"x": c.figure.x, "y": c.figure.y, "style": c.figure.style, "series": c.figure.series},
    }


def document(rows: list[dict[str, Any]], seed: str) -> dict[str, Any]:
    """The content of findings.json, or the JSON document for an experiment on a user's checkout. rows: of `row` or `tested`."""
    return {"schema": 1, "seed": seed, "alpha": ALPHA, "rows": rows}


def encoded(document: dict[str, Any]) -> str:
    return json.dumps(plain(document), indent=1, allow_nan=False) + "\n"


def show(results: Sequence[Result], out: Path) -> None:
    """Prints the table of findings, and the paths of the files that `write` has written."""
    from rich.console import Console

    console = Console()
    console.print(table(results))
    console.print(f"Lower bounds hold with {percent(1 - ALPHA)} confidence; exact values need no sampling. ε is in nats.")
    console.print(f"{out / 'findings.html'} and {out / 'findings.json'}", soft_wrap=True)


def table(results: Sequence[Result]) -> Table:
    made = simple(title="Published claims and what was found", title_justify="left")
    made.add_column("finding", min_width=max((len(r.finding.id) for r in results), default=0))
    for name in ("ε printed", "ε found", "how", "verdict", "repaired"):
        made.add_column(name.replace(" ", "\n"), justify="right" if "ε" in name else "left")
    for r in results:
        bound = r.certificate.bound
        what = f"{r.finding.id}\n[dim]{r.finding.short}[/]"
        found = ("-", "argued") if r.verdict == "argued" else (f"≥ {down(bound.epsilon)}", how(bound))
        verdict = f"[{STYLES[r.verdict]}]{r.verdict.replace('-', ' ')}[/]"
        made.add_row(what, f"{r.finding.printed:.4g}", *found, verdict, repaired_verdict(r).replace(" ", "\n"))
    return made


def how(bound: Bound) -> str:
    """How the bound was found, as a cell of the table: "exact", or the number of rounds."""
    return "exact" if bound.shape == "exact" else f"{sum(bound.trials):,}\nrounds"


def repaired_verdict(result: Result) -> str:
    """The verdict of the same experiment on the repaired mechanism; "-" if there is none."""
    return "-" if result.repaired is None else result.repaired.verdict.replace("-", " ")


def severity(result: Result) -> tuple[int, float]:
    """The sort key that puts the worst finding first: refuted before argued, then by epsilon divided by the claimed epsilon."""
    epsilon, claimed = result.certificate.bound.epsilon, result.certificate.claim.epsilon
    return list(WORDS).index(result.verdict), -epsilon / max(claimed, 1e-9)


def letter(result: Result) -> str:
    """A letter to the authors in Markdown: the claim, its place, the fault, how to see the fault, what is true, the repair."""
    from .checkout import CHECKOUTS

    f, c = result.finding, result.certificate
    shown = (
        "No experiment was run; this finding is an argument from the paper and the code."
        if result.verdict == "argued"
        else f"Epsilon is {in_words(c)}."
    )
    see = f"audit findings {f.id}"
    see += f"\naudit findings {f.id} --checkout PATH/TO/THE/REPOSITORY" if f.id in CHECKOUTS else ""
    mended = ""
    if result.repaired:
        mended = f" The same experiment then gives: {result.repaired.summary} ({repaired_verdict(result)})"
    return (
        f"# {f.paper}: {f.short}\n\n{f.plain}\n\n"
        f"**What is claimed.** {f.claim} The adversary sees {f.view}.\n\n**Where.** {f.source}\n\n"
        f"**What happens.** {f.argument}\n\n**How to see it.** {c.summary} {shown}\n\n```\n{see}\n```\n\n"
        f"**What remains true.** {f.remains}\n\n**Repair.** {f.repair[0].upper()}{f.repair[1:]}.{mended}\n"
    )


def write(results: Sequence[Result], document: dict[str, Any], out: Path) -> None:
    """Writes OUT/findings.json, OUT/findings.html, OUT/letters/ID.md, and each figure to OUT/figures as SVG, PNG and CSV."""
    from markupsafe import Markup

    from ...reports.formats import html

    parts = [
        {
            "result": r,
            "finding": r.finding,
            "bound": r.certificate.bound,
            "said": in_words(r.certificate),
            "svg": Markup(style.save(plot(r), out / "figures")),
            "repaired": repaired_verdict(r),
            "text": " ".join([*(getattr(r.finding, name) for name in SEARCHED), r.verdict]).lower(),
        }
        for r in sorted(results, key=severity)
    ]
    for r in results:
        write_text(out / "letters" / f"{r.finding.id}.md", letter(r))
    text = html.template(Path(__file__).with_name("findings.html")).render(
        css=Markup((html.HERE / "report.css").read_text(encoding="utf-8")),
        parts=parts,
        signs=SIGNS,
        words=WORDS,
        counts={kind: sum(r.verdict == kind for r in results) for kind in WORDS},
        seconds=sum(r.seconds for r in results),
        alpha=ALPHA,
        seed=document["seed"],
        date=time.strftime("%Y-%m-%d"),
    )
    write_text(out / "findings.html", text)
    write_text(out / "findings.json", encoded(document))


def in_words(certificate: Certificate) -> str:
    """The bound in words: "at least 1.36 (99.99 %, shape of the ledger)". Exact numbers are printed without a confidence."""
    bound = certificate.bound
    if bound.shape != "exact":
        return at_least(bound.epsilon, bound.alpha, bound.shape)
    if math.isinf(bound.epsilon):
        return "infinite (exact)"
    return f"{down(bound.epsilon * (1 + SLACK), 4)} (exact)"


def plot(result: Result) -> Plot:
    """The figure of a certificate, in the style of the other figures of this package."""
    figure, f = result.certificate.figure, result.finding
    rows = tuple(
        (name, *point) for name, (x, y) in figure.series.items() for point in zip(list(x), [float(v) for v in y], strict=True)
    )
    alt = f"{f.id}: {figure.y} against {figure.x or 'cases'}. {result.certificate.summary}"
    return Plot(f.id, f.id, alt, ("series", figure.x or "case", figure.y), rows, lambda axes: _draw(axes, figure))


def _draw(axes: Axes, figure: Figure) -> None:
    if figure.style == "bars":
        _bars(axes, figure)
    else:
        for i, (name, (x, y)) in enumerate(figure.series.items()):
            if figure.style == "steps":
                axes.step(x, y, where="mid", color=COLOURS[i], linestyle=("-", "--")[i % 2], label=name)
                axes.fill_between(x, y, step="mid", color=COLOURS[i], alpha=0.15)
            else:
                marker = MARKERS[i] if len(list(x)) < 15 else ""
                axes.plot(x, y, color=COLOURS[i], marker=marker, linestyle=("-", "--", ":")[i % 3], label=name)
        legend(axes, 2)
    if figure.level is not None:
        axes.axhline(figure.level, color=COLOURS[1], linestyle="--", linewidth=1.2)
        axes.annotate("claimed", (0.99, figure.level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8)
    if "x" in figure.log:
        axes.set_xscale("log")
        shown = sorted({float(v) for x, _ in figure.series.values() for v in x})
        if len(shown) <= FEW:  # Matplotlib's own labels of a short logarithmic axis overlap
            axes.set_xticks(shown, [f"{v:g}" for v in shown])
            axes.xaxis.minorticks_off()
    if "y" in figure.log:
        axes.set_yscale("log")
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)


def _bars(axes: Axes, figure: Figure) -> None:
    width = 0.8 / len(figure.series)
    for i, (name, (x, y)) in enumerate(figure.series.items()):
        at = [k + (i - (len(figure.series) - 1) / 2) * width for k in range(len(list(x)))]
        axes.bar(at, y, 0.9 * width, color=COLOURS[i], label=name)
        for place, value in zip(at, y, strict=True):
            axes.annotate(f"{float(value):.3g}", (place, value), ha="center", va="bottom", fontsize=8)
    names: Iterable[str] = next(iter(figure.series.values()))[0]
    axes.set_xticks(range(len(list(names))), list(names))
    axes.grid(axis="x", visible=False)
    if len(figure.series) > 1:
        legend(axes, 2)
