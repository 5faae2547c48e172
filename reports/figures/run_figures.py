"""Figures of a whole run: utility against epsilon, bounds on epsilon as bars, leakage as heat maps, ROC curves."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...accounting.claim import Unit
from ..evidence import Evidence
from ..files import grouped
from ..results import AttackRow, BoundRow, Results, UtilityRow
from ..rounding import down, up
from ..summary import BESIDE, COVERED, UNITS, Line, budget, chance, claims_of, name, name_at, units, utility
from .style import COLOURS, INK, LABEL, PAPER, Plot, legend, mark_reach, styles, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Looks = dict[tuple[str, str], dict[str, Any]]
BRIGHT = (5, 4, 2, 3)  # indices of colours on which black text is legible
PAGE = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}  # behind a label, so that no line crosses it
# sets of arrays that the audits of this package read, which look alike in all reports
VIEWS = ("posteriors", "aggregates, inputs", "votes", "reports, label_reports", "transcript", "rows", "gradients")
HATCHES = ("", "//", "..", "xx")
FLOOR = 1e-4  # the smallest false-positive rate that a logarithmic axis shows


def of_run(results: Results, found: Sequence[Evidence]) -> dict[str, list[Plot]]:
    """The figures of each section of the report.

    leakage: attacks on the protected unit. unprotected: attacks on other secrets. beside: attacks that compare edges with random
    or 2-hop non-edges. Homophily alone separates such pairs from edges, so a high AUC shows no leakage.
    """
    look = styles((r.model, r.mode) for r in results.rows)
    fair = [r for r in results.of(AttackRow) if r.negatives not in BESIDE]
    return {
        "utility": [utility_plot(results, unit, look) for unit in units(results.of(UtilityRow)) if unit],
        "epsilon": epsilon_plots(claims_of(results)),
        "roc": roc_plots(found, look),
        "leakage": leakage_plots([r for r in fair if r.unit is None or r.game in COVERED[r.unit]]),
        "unprotected": leakage_plots([r for r in fair if r.unit and r.game not in COVERED[r.unit]]),
        "beside": leakage_plots([r for r in results.of(AttackRow) if r.negatives in BESIDE]),
    }


def slug(*words: object) -> str:
    """The words joined by dashes, with "_" for characters that are not safe in a file name. Empty words are left out."""
    return re.sub(r"[^\w.-]+", "_", "-".join(str(w) for w in words if w not in ("", None)))


def utility_plot(results: Results, unit: Unit, look: Looks) -> Plot:
    """Utility against epsilon: one line for each model, with intervals. Models without a claim are horizontal lines."""
    table = utility(results)
    series = {(model, mode): cells for (u, model, mode), cells in table.items() if u == unit}
    level = {(model, mode): next(iter(cells.values())) for (u, model, mode), cells in table.items() if u is None}
    budgets = sorted({e for cells in series.values() for e in cells})
    place = _places(budgets)
    metric = next(iter(next(iter(series.values())).values())).metric
    learned_nothing = chance(results).get(metric)
    rows = [(name(*who), budget(e, "inf"), *_numbers(row)) for who, cells in series.items() for e, row in sorted(cells.items())]
    rows += [(name(*who), "any", *_numbers(row)) for who, row in level.items()]

    def draw(axes: Axes) -> None:
        wide = max(place.values()) - min(place.values()) or 1.0
        aside = 0.012 * wide  # so that no interval covers another one
        for i, (who, cells) in enumerate(series.items()):
            at = sorted(cells)
            values = [100 * cells[e].value for e in at]
            places = [place[e] + aside * (i - (len(series) - 1) / 2) for e in at]
            axes.errorbar(places, values, yerr=_bars([cells[e] for e in at]), label=name(*who), capsize=2, **look[who])
        for who, row in level.items():
            axes.axhline(100 * row.value, color=INK, linestyle=":", linewidth=1)
            axes.annotate(
                name(*who), (1, 100 * row.value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9
            )
        if learned_nothing is not None:
            axes.axhline(100 * learned_nothing, color=INK, linestyle="-.", linewidth=1, label="a model that has learned nothing")
        axes.set_xticks([place[e] for e in budgets], [budget(e) for e in budgets])
        axes.set_xlim(min(place.values()) - 0.08 * wide, max(place.values()) + 0.08 * wide)
        axes.set_xlabel(f"ε (protects {UNITS[unit]})")
        axes.set_ylabel(f"test {metric}, %")
        legend(axes, 2)

    ends = "; ".join(
        f"{name(*w)} {100 * min(c.items())[1].value:.0f} to {100 * max(c.items())[1].value:.0f} %" for w, c in series.items()
    )
    alt = f"Test {metric} from the smallest to the largest budget: {ends}."
    header = ("model", "epsilon", "value", "ci95_low", "ci95_high")
    return Plot(slug("utility", unit), f"Utility, where ε protects {UNITS[unit]}", alt, header, tuple(rows), draw)


def epsilon_plots(claims: Sequence[Line]) -> list[Plot]:
    """Finite claims as bars, a figure for each unit and budget, so that no two kinds of epsilon share an axis."""
    panels = grouped(claims, lambda line: (line.key.unit, line.key.epsilon))
    others = {_view(b) for line in claims for b in line.bounds} - {*VIEWS}
    views = [*VIEWS, *sorted(others)]  # each set of arrays has one look
    order = list(UNITS)
    return [_epsilon_plot(*p, panels[p], views) for p in sorted(panels, key=lambda p: (order.index(p[0]), p[1]))]


def _epsilon_plot(unit: Unit | None, epsilon: float, claims: list[Line], views: list[str]) -> Plot:
    rows: list[tuple[Any, ...]] = []
    for line in claims:
        upper = line.upper[0] if line.upper else None
        for view in dict.fromkeys(map(_view, line.bounds)):
            best = max((b for b in line.bounds if _view(b) == view), key=lambda b: b.value)
            unrefuted = [b for b in line.bounds if _view(b) == view and b.verdict != "refuted"]
            known = [b.detectable_epsilon for b in unrefuted if b.detectable_epsilon]
            rows.append(
                (name(*line.key[1:3]), epsilon, upper, view, best.value, best.shape, best.confidence, min(known, default=""))
            )
    widest = max([epsilon, *(r[4] for r in rows if math.isfinite(r[4]))])
    whole = 1.06 * widest  # the bar of an infinite bound spans the whole figure
    bars = {who: [r for r in rows if r[0] == who] for who in (name(*line.key[1:3]) for line in claims)}
    first, height = {}, 0.0  # model -> the vertical position of its first bar, with a gap after each model
    for who, seen in bars.items():
        first[who], height = height, height + max(1, len(seen)) + 0.6

    def draw(axes: Axes) -> None:
        for line in claims:
            who = name(*line.key[1:3])
            for i, r in enumerate(bars[who]):
                view = views.index(r[3])
                colour: dict[str, Any] = {
                    "color": COLOURS[BRIGHT[view % len(BRIGHT)]],
                    "hatch": HATCHES[view // len(BRIGHT) % len(HATCHES)],
                }
                length = min(r[4], whole)
                if length > 0:
                    axes.barh(first[who] + i, length, 0.9, label=_from(r[3]), **colour)
                inside = length > 0.35 * widest
                plain = inside and not colour["hatch"]
                ink: dict[str, Any] = {"color": "#000000" if plain else INK, "fontsize": 9, "va": "center"}
                shift: dict[str, Any] = {"xytext": (4 if inside else 8, 0), "textcoords": "offset points"}
                label = _seen(r[4]) if length > 0 else f"≥ 0 from {r[3]}"
                ink["bbox"] = None if plain else PAGE
                if r[7]:
                    mark_reach(axes, r[7], first[who] + i, 1.2 * widest, r[7] <= 1.2 * widest)
                axes.annotate(label, (0 if inside else length, first[who] + i), **shift, **ink)
            if line.upper and math.isfinite(line.upper[0]):
                diamond: dict[str, Any] = {"marker": "D", "color": INK, "markerfacecolor": "none", "linestyle": "none"}
                axes.plot(line.upper[0], _middle(first[who], bars[who]), label="upper bound of the ledger", **diamond)
        axes.axvline(epsilon, color=COLOURS[1], linestyle="--", linewidth=1.5, label="claimed")
        axes.set_yticks([_middle(first[who], seen) for who, seen in bars.items()], [wrapped(who) for who in bars])
        axes.set_ylim(height - 0.9, -0.7)
        axes.grid(axis="y", visible=False)
        axes.set_xlim(0, 1.2 * widest)
        axes.set_xlabel(f"ε (protects {UNITS[unit]})")
        legend(axes)

    summary = "; ".join(f"{r[0]} at least {down(r[4])}, at most {up(r[2]) if r[2] is not None else 'unknown'}" for r in rows)
    header = ("model", "claimed", "upper", "adversary_sees", "lower", "shape", "confidence", "detectable")
    title = f"Claimed ε = {epsilon:g}, protects {UNITS[unit]}"
    lines = sum(len(wrapped(_from(view), LABEL).splitlines()) for view in {r[3] for r in rows})  # of the legend
    size = (4.6, 1.2 + 0.2 * height + 0.2 * (lines + 3))
    return Plot(slug("epsilon", unit, f"{epsilon:g}"), title, f"Claimed {epsilon:g}: {summary}.", header, tuple(rows), draw, size)


def _view(bound: BoundRow) -> str:
    """What the adversary of a bound sees: the released arrays, and for a bound above 0 what the bound grants besides."""
    return ", ".join([*bound.exposes, *([bound.granted] if bound.granted and bound.value > 0 else [])])


def _from(view: str) -> str:
    return f"lower bound from {view}"


def _seen(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"≥ {down(epsilon)}"


def _middle(first: float, seen: Sequence[Any]) -> float:
    """The middle of the bars of one model, on the vertical axis."""
    return first + (max(1, len(seen)) - 1) / 2


def leakage_plots(attacks: Sequence[AttackRow]) -> list[Plot]:
    """Heat maps of the AUC, models by attacks: one for each unit, game and kind of non-members."""
    panels = dict.fromkeys((r.unit, r.game, r.negatives) for r in attacks)
    return [_leakage_plot(*p, [r for r in attacks if (r.unit, r.game, r.negatives) == p]) for p in panels]


def _leakage_plot(unit: Unit | None, game: str, negatives: str, attacks: list[AttackRow]) -> Plot:
    asked = sorted(attacks, key=lambda r: r.baseline)  # attacks that read no output of the model come last, in brackets
    down_, across = (list(dict.fromkeys(x)) for x in ([_who(r) for r in attacks], [_attack(r) for r in asked]))
    cells: dict[tuple[str, str], float] = {}
    for r in attacks:
        cells[_who(r), _attack(r)] = max(r.auc, cells.get((_who(r), _attack(r)), 0.0))

    def draw(axes: Axes) -> None:
        from matplotlib import colormaps

        shade = colormaps["Blues"]
        for (who, attack), auc in cells.items():
            x, y = across.index(attack), down_.index(who)
            colour = shade(min(1.0, max(0.0, (auc - 0.5) / 0.5)))
            axes.fill([x - 0.48, x + 0.48, x + 0.48, x - 0.48], [y - 0.46, y - 0.46, y + 0.46, y + 0.46], color=colour)
            bright = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] > 0.5
            axes.text(x, y, f"{auc:.2f}", ha="center", va="center", fontsize=8, color="#000000" if bright else "#ffffff")
        for auc, words in ((0.5, "0.5 or less: guessing"), (0.75, "0.75"), (1.0, "1")):
            axes.fill([], [], facecolor=shade(2 * auc - 1), edgecolor=INK, linewidth=0.5, label=f"AUC {words}")
        legend(axes, 3)
        axes.set_xticks(range(len(across)), [wrapped(text) for text in across], rotation=30, ha="right")
        axes.set_yticks(range(len(down_)), [wrapped(text) for text in down_])
        axes.set_xlim(-0.5, len(across) - 0.5)
        axes.set_ylim(len(down_) - 0.5, -0.5)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)

    most = max(cells.items(), key=lambda c: c[1])
    alt = f"AUC of {len(across)} attacks on {len(down_)} models; the largest is {most[1]:.2f}, {most[0][1]} on {most[0][0]}."
    rows = tuple((who, attack, auc) for (who, attack), auc in cells.items())
    against = f" against {negatives} non-members" if negatives else ""
    beside = ": homophily, not leakage" if negatives in BESIDE else ""
    title = f"AUC of the {game} game{against}{beside}" + (f"; ε protects {UNITS[unit]}" if unit else "; no claim")
    row = max(0.26, 0.17 * max(len(wrapped(who).splitlines()) for who in down_))  # inch
    size = (max(3.6, 1.9 + 0.55 * len(across)), 1.6 + row * len(down_))  # the legend of a narrow map has two lines
    return Plot(slug("leakage", unit, game, negatives), title, alt, ("model", "attack", "auc"), rows, draw, size)


def roc_plots(found: Sequence[Evidence], look: Looks) -> list[Plot]:
    """For each unit, question and budget, the ROC of the strongest attack on each model, on logarithmic axes.

    The question is a game with a kind of non-members. The name of a ROC curve has it in brackets, as in "lira (edge, dropped)".
    Without brackets, the question is the name of the audit.
    """
    panels: dict[tuple[Unit, str, float], dict[tuple[str, str], dict[str, Any]]] = {}
    for e in found:
        for attack, curve in e.curves.get("roc", {}).items():
            who, _, question = attack.partition(" (")
            question = question.rstrip(")") or e.game
            if question.rpartition(", ")[2] not in BESIDE:
                panel = panels.setdefault((e.claim.unit, question, e.claim.epsilon), {})
                panel.setdefault((e.model, e.mode), {})[who] = curve
    order = list(UNITS)  # as in the tables
    ordered = sorted(panels.items(), key=lambda panel: (order.index(panel[0][0]), *panel[0][1:]))
    return [_roc_plot(*panel, curves, look) for panel, curves in ordered]


def _roc_plot(unit: Unit, question: str, epsilon: float, curves: dict[tuple[str, str], dict[str, Any]], look: Looks) -> Plot:
    chosen = {who: max(c.items(), key=lambda item: _area(*item[1])) for who, c in curves.items()}

    def draw(axes: Axes) -> None:
        for who, (attack, (fpr, tpr)) in chosen.items():
            style = {**look.get(who, {"color": INK, "linestyle": "-"}), "marker": ""}
            axes.plot(fpr, tpr, label=f"{name(*who)}: {attack}", **style)
        axes.plot([FLOOR, 1], [FLOOR, 1], color=INK, linewidth=0.8, linestyle=":", label="guessing at random")
        axes.set(xscale="log", yscale="log", xlim=(FLOOR, 1), ylim=(FLOOR, 1))
        axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
        axes.minorticks_off()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        legend(axes)

    rows = tuple((name(*who), attack, x, y) for who, (attack, curve) in chosen.items() for x, y in zip(*curve, strict=True))
    areas = "; ".join(f"{name(*who)} {_area(*curve):.2f} by {attack}" for who, (attack, curve) in chosen.items())
    alt = f"ROC of the strongest attack on each model. Areas: {areas}."
    game, _, negatives = question.partition(", ")
    what = f"the {game} game against {negatives} non-members" if negatives else f"audit “{game}”"
    title = f"ROC of {what}; ε = {budget(epsilon)} protects {UNITS[unit]}"
    return Plot(slug("roc", unit, question, budget(epsilon, "inf")), title, alt, ("model", "attack", "fpr", "tpr"), rows, draw)


def _area(fpr: Sequence[float], tpr: Sequence[float]) -> float:
    import numpy as np

    return float(np.trapezoid([0.0, *tpr, 1.0], [0.0, *fpr, 1.0]))


def _attack(row: AttackRow) -> str:
    """The attack's name, in brackets if the attack reads no output of the model."""
    return f"({row.attack})" if row.baseline else row.attack


def _who(row: AttackRow) -> str:
    return name_at(row.model, row.mode, row.epsilon)


def _places(budgets: Sequence[float]) -> dict[float, float]:
    """Budget -> its position on the axis, which is its logarithm. Infinity is one step to the right of all others."""
    finite = {e: math.log(max(e, 1e-3)) for e in budgets if math.isfinite(e)}
    step = (max(finite.values()) - min(finite.values())) / max(1, len(finite) - 1) if len(finite) > 1 else 1.0
    return finite | ({math.inf: max(finite.values(), default=0.0) + step} if math.inf in budgets else {})


def _numbers(row: UtilityRow) -> tuple[float, float | None, float | None]:
    low, high = row.ci95 or (None, None)
    return row.value, low, high


def _bars(rows: Sequence[UtilityRow]) -> list[list[float]]:
    """(2, rows): the length of each interval below and above the value, in percent."""
    ends = [row.ci95 or (row.value, row.value) for row in rows]
    below = [100 * max(0.0, row.value - low) for row, (low, _) in zip(rows, ends, strict=True)]
    above = [100 * max(0.0, high - row.value) for row, (_, high) in zip(rows, ends, strict=True)]
    return [below, above]
