"""Figures of one claim: moves, trade-off curves, scores of both worlds, residuals, and the smallest detectable violations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..evidence import Evidence, lowest
from ..rounding import down, up
from ..summary import UNITS, name_at
from .run_figures import slug
from .style import COLOURS, INK, MARKERS, TICK, Plot, legend, mark_reach, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# method of a bound -> its name in accounting.lower.power, for methods whose power is computed there
METHODS = {"Gaussian likelihood ratio": "likelihood-ratio", "Clopper-Pearson": "any"}
# the audits of `power_plot`, each with one colour in all figures; the colour of a claim is left out
TESTS = ("differential", "residual", "game", "transcript", "votes", "reports", "entries", "rows", "gradients", "added-up")
OF_TESTS = tuple(colour for colour in COLOURS if colour != COLOURS[1])
ROUNDS = tuple(10.0 ** (e / 2) for e in range(3, 13))  # rounds in each world: the horizontal axis of `power_plot`
ROUNDING = 1e-6  # a move that exceeds its limit by this part or less equals it
SECRETS = 8  # largest number of secrets in `moves_plot`; the CSV file has all
SUPERSCRIPTS = dict(zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True))
FAR = 2.0  # a reach beyond this many times the largest epsilon is written at the edge, so that the axis stays readable
TICKS = (1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
CURVES = {  # name in the evidence: (label, colour, dashes)
    "claimed": ("claimed lower limit of the error rates", COLOURS[1], "--"),
    "ledger": ("lower limit by the ledger", COLOURS[2], ":"),
    "observed": ("observed", COLOURS[0], "-"),
}


def of_claim(found: Evidence, refuting: bool = False) -> list[Plot]:
    """The figures of one audit for which its evidence has curves. refuting: only figures that can show a refutation: residuals
    within the band do not, because the refutation then comes from the number or the moves of the sums.
    """
    makes = {"moves": moves_plot, "tradeoff": tradeoff_plot, "histograms": histogram_plot, "residuals": residual_plot}
    if math.isinf(found.claim.epsilon):
        del makes["tradeoff"]
    if refuting and found.curves.get("residuals") and not leaves(found):
        del makes["residuals"]
    return [make(found) for curve, make in makes.items() if found.curves.get(curve)]


def moves_plot(found: Evidence) -> Plot:
    """How far each removed secret moves the released values, the largest moves first, against the move that is allowed."""
    curve = found.curves["moves"]
    order = sorted(curve["of"].items(), key=lambda item: -item[1])
    allowed, shown = curve["allowed"], order[:SECRETS]
    beyond = allowed * (1 + ROUNDING)
    colours = [COLOURS[1] if move > beyond else COLOURS[0] for _, move in shown]

    def draw(axes: Axes) -> None:
        for colour, label in ((COLOURS[1], "beyond this limit"), (COLOURS[0], "within this limit")):
            places = [i for i in range(len(shown)) if colours[i] == colour]
            if places:
                axes.barh(places, [shown[i][1] for i in places], 0.7, color=colour, label=label)
        axes.axvline(allowed, color=INK, linestyle="--", linewidth=1.5, label=f"{curve['limit']}: {allowed:.4g}")
        for i, (_, move) in enumerate(shown):
            axes.annotate(f"{move:.4g}", (move, i), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)
        axes.set_yticks(range(len(shown)), [wrapped(f"without {secret}") for secret, _ in shown])
        axes.set(xlim=(0, 1.2 * max(allowed, shown[0][1])), ylim=(len(shown) - 0.4, -0.6))
        axes.set_xlabel(wrapped(f"move, {curve['by']}", 30))
        axes.grid(axis="y", visible=False)
        legend(axes)

    worst = f"Removing {order[0][0]} moves the released values most: {order[0][1]:.4g} {curve['by']}"
    alt = f"{worst}; {curve['limit']}: {allowed:.4g}."
    tall = sum(1 + len(f"without {secret}") // TICK for secret, _ in shown)
    title = f"What one removal moves, audit “{found.game}”, {_who(found)}"
    rows = tuple((secret, move, allowed) for secret, move in order)
    return Plot(_name("moves", found), title, alt, ("secret", "move", "allowed"), rows, draw, (4.6, 1.5 + 0.22 * tall))


def tradeoff_plot(found: Evidence) -> Plot:
    """The error rates on probit axes, on which every Gaussian mechanism is a straight line of slope -1."""
    curves = found.curves["tradeoff"]
    unbounded = bool(found.uppers) and lowest(found.uppers) is None  # such a ledger counts another unit, or nothing bounds it
    drawn = [key for key in CURVES if curves.get(key) and not (key == "ledger" and unbounded)]

    def draw(axes: Axes) -> None:
        if curves.get("band"):
            x, low, high = (_probit(v) for v in curves["band"])
            axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="simultaneous band")
        for key in drawn:
            label, colour, dashes = CURVES[key]
            axes.plot(*map(_probit, curves[key]), label=label, color=colour, linestyle=dashes)
        at = _probit(TICKS)
        axes.set_xticks(at, [f"{t:g}" for t in TICKS], rotation=45)
        axes.set_yticks(at, [f"{t:g}" for t in TICKS])
        axes.plot(at, [-v for v in at], color=INK, linewidth=0.8, alpha=0.6, label="guessing at random")
        axes.set(xlim=(at[0], at[-1]), ylim=(at[0], at[-1]), xlabel="false-positive rate", ylabel="false-negative rate")
        legend(axes)

    rows = tuple((key, x, y) for key in drawn for x, y in zip(*curves[key], strict=True))
    alt = f"Trade-off between the adversary's two error rates for {_who(found)}. {_story(curves)}"
    title = f"Trade-off, audit “{found.game}”, {_who(found)}"
    return Plot(_name("tradeoff", found), title, alt, ("curve", "fpr", "fnr"), rows, draw, (4.6, 4.4))


def histogram_plot(found: Evidence) -> Plot:
    """Histograms of the attack's score in each world."""
    pictures = found.curves["histograms"]
    looks = ((COLOURS[8], ""), (COLOURS[6], "//"), (COLOURS[7], ".."))  # no released array has these colours in other figures

    def draw(axes: Axes) -> None:
        for (label, (edges, counts)), (colour, hatch) in zip(pictures.items(), looks, strict=False):
            axes.stairs(counts, edges, fill=True, alpha=0.55, color=colour, hatch=hatch, label=label)
            axes.stairs(counts, edges, color=colour, linewidth=1.2)
        axes.set(xlabel="score of the attack", ylabel="rounds")
        legend(axes, 2)

    rows = tuple((world, *row) for world, (edges, n) in pictures.items() for row in zip(edges[:-1], edges[1:], n, strict=True))
    alt = f"Histograms of the attack's score on {_who(found)}: {' and '.join(pictures)}."
    header = ("world", "low", "high", "rounds")
    return Plot(_name("scores", found), f"Scores, audit “{found.game}”, {_who(found)}", alt, header, rows, draw, (4.6, 2.8))


def residual_plot(found: Evidence) -> Plot:
    """Quantiles of the residuals against those of the normal distribution. Noise that is too small makes the line flatter."""
    curve = found.curves["residuals"]
    expected, observed, count = curve["expected"], curve["observed"], int(curve["count"])
    low, high = _band(expected, count)

    def draw(axes: Axes) -> None:
        axes.fill_between(expected, low, high, color=COLOURS[1], alpha=0.25, linewidth=0, label="contains 95 % of honest runs")
        axes.plot(expected, expected, color=COLOURS[1], linestyle="--", linewidth=1, label="noise of the ledger")
        axes.plot(expected, observed, color=COLOURS[0], label=f"{count:,} residuals")
        axes.set(xlabel="normal quantile", ylabel="residual, in stated standard deviations")
        axes.set(xlim=(expected[0], expected[-1]), ylim=(1.2 * expected[0], 1.2 * expected[-1]))
        legend(axes)

    title = "leave" if leaves(found) else "stay within"
    alt = f"Quantiles of the residuals of {_who(found)}; they {title} the band of honest noise."
    rows = tuple(zip(expected, observed, low, high, strict=True))
    header = ("normal", "observed", "low", "high")
    return Plot(_name("residuals", found), f"Residuals, audit “{found.game}”, {_who(found)}", alt, header, rows, draw, (4.6, 3.9))


def leaves(found: Evidence) -> bool:
    """Whether the residuals leave the band of honest noise, so that `residual_plot` shows a violation."""
    curve = found.curves["residuals"]
    low, high = _band(curve["expected"], int(curve["count"]))
    return not all(a <= o <= b for a, o, b in zip(low, curve["observed"], high, strict=True))


def bounds_plot(same: Sequence[Evidence]) -> Plot | None:
    """The lower bounds of a claim on one axis, with the claim and its upper bound. Those that refute the claim come first. Those
    of 0 without a reach are left out, unless all are such.

    same: all evidence on one claim. None if the claimed epsilon is infinite or there are no lower bounds.
    """
    claim, every = same[0].claim, [b for e in same for b in e.bounds]
    if not every or math.isinf(claim.epsilon):
        return None
    ceiling = lowest(same[0].uppers)
    telling = [b for b in every if b.refuted or b.epsilon > 0 or math.isfinite(b.reach)]
    shown = sorted(telling or every, key=lambda b: (not b.refuted, -b.epsilon))
    finite = [b.epsilon for b in shown if math.isfinite(b.epsilon)]
    most = max([claim.epsilon, ceiling[0] if ceiling and math.isfinite(ceiling[0]) else 0.0, *finite])
    near = [b.reach for b in shown if not b.refuted and b.reach <= FAR * most]
    widest = 1.15 * max([most, *near])

    def draw(axes: Axes) -> None:
        for i, b in enumerate(shown):
            colour = COLOURS[1] if b.refuted else COLOURS[0]
            axes.plot([0, min(b.epsilon, widest)], [i, i], color=colour, linewidth=2.5)
            mark: dict[str, Any] = {"marker": ">" if math.isinf(b.epsilon) else "o", "color": colour, "linestyle": "none"}
            mark["clip_on"] = False  # the axis of zero would hide half of a mark
            axes.plot(min(b.epsilon, widest), i, label="lower bound that refutes" if b.refuted else "lower bound", **mark)
            if math.isfinite(b.reach) and not b.refuted:
                mark_reach(axes, b.reach, i, widest, b.reach in near)
        axes.axvline(claim.epsilon, color=COLOURS[1], linestyle="--", linewidth=1.5, label="claimed")
        if ceiling and math.isfinite(ceiling[0]):
            axes.axvline(ceiling[0], color=INK, linestyle=":", linewidth=1.2, label="upper bound of the ledger")
        axes.set_yticks(
            range(len(shown)), [f"{b.audit}, {b.shape}: {'∞' if math.isinf(b.epsilon) else down(b.epsilon)}" for b in shown]
        )
        axes.set(xlim=(0, 1.03 * widest), ylim=(len(shown) - 0.5, -0.6), xlabel=f"ε (protects {UNITS[claim.unit]})")
        axes.grid(axis="y", visible=False)
        legend(axes, 2)

    who = _who(same[0])
    said = "; ".join(f"{b.audit} {'infinite' if math.isinf(b.epsilon) else down(b.epsilon)}" for b in shown)
    title = f"Lower bounds of {who}"
    rows = tuple((b.audit, b.attack, b.shape, b.epsilon, b.reach, b.refuted) for b in shown)
    file = _name("bounds", same[0], f"-{same[0].game}.json")
    header = ("audit", "attack", "shape", "lower", "would_notice", "refutes")
    alt = f"Lower bounds of {who} against the claimed {claim.epsilon:g}: {said}."
    return Plot(file, title, alt, header, rows, draw, (4.6, 1.6 + 0.28 * len(shown)))


def power_plot(same: Sequence[Evidence]) -> Plot | None:
    """The smallest detectable violation against the number of rounds, with the tests of this run as marks.

    same: all evidence on one claim. None if no test has a finite detectable violation.
    """
    from ...accounting.lower.detection.power import notices

    claim, curves = same[0].claim, {}
    tests = [b for e in same for b in e.bounds if b.alpha > 0 and math.isfinite(b.notices)]
    marks = [(f"{b.audit}, {b.shape}", min(b.trials) or max(b.trials), b.notices) for b in tests]
    if not marks:
        return None
    for b in (b for b in tests if min(b.trials) > 1):  # other bounds read one run
        kappas = [notices(claim, round(n), round(n), b.alpha, METHODS.get(b.method, "gate"))[0] for n in ROUNDS]
        curves[f"{b.audit}, {b.shape}"] = [(n, k) for n, k in zip(ROUNDS, kappas, strict=True) if math.isfinite(k)]
    colours = {f"{b.audit}, {b.shape}": _colour(b.audit) for b in tests}

    def draw(axes: Axes) -> None:
        for label, points in curves.items():
            dashes = ":" if label.endswith(", any") else "-"
            axes.plot(*zip(*points, strict=True), label=f"{label}, by rounds", color=colours[label], linestyle=dashes)
        for i, (label, rounds, kappa) in enumerate(marks):
            if rounds <= 1:  # the test reads all noise of one run
                axes.axhline(kappa, color=colours[label], linestyle="-.", label=f"this run: {label}, on one run")
                continue
            style: dict[str, Any] = {"color": colours[label], "marker": MARKERS[i % len(MARKERS)], "markersize": 8}
            axes.plot(rounds, kappa, linestyle="none", label=f"this run: {label}", **style)
        axes.set(xscale="log", yscale="log", xlabel="rounds in each world, or residuals")
        axes.set_ylabel("noise too small\nby this factor")
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, place: power_of_ten(value))
        least, most = min(k for _, _, k in marks), max(k for _, _, k in marks)
        ticks = [t for t in (1, 1.2, 1.5, 2, 3, 5, 10, 20) if t <= 1.2 * most] or [most]
        axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axes.set_ylim(0.95 * min(1.0, least), 1.3 * max(most, ticks[-1]))
        legend(axes)

    who = _who(same[0])
    alt = f"Smallest detectable violations on {who}: " + "; ".join(f"{m} a factor of {up(k, 3)}" for m, _, k in marks)
    rows = [(label, n, k, "") for label, points in curves.items() for n, k in points]
    rows += [(label, n, k, "this run") for label, n, k in marks]
    file = _name("noticed", same[0], f"-{same[0].game}.json")
    size = (4.6, 2.6 + 0.2 * (len(curves) + len(marks)))  # each has a line in the legend
    header = ("test", "rounds", "factor", "run")
    return Plot(file, f"Detectable violations, {who}", f"{alt}.", header, tuple(rows), draw, size)


def _colour(audit: str) -> str:
    """The colour of an audit, which is the same for its repetition with fresh randomness ("game again")."""
    known = audit.removesuffix(" again")
    return OF_TESTS[(TESTS.index(known) if known in TESTS else len(TESTS)) % len(OF_TESTS)]


def power_of_ten(value: float) -> str:
    """A power of ten as text, such as "10³"; another number as usual.

    Matplotlib's own labels are formulas, which take several times as long to draw.
    """
    exponent = round(math.log10(value))
    if not math.isclose(value, 10.0**exponent):
        return f"{value:g}"
    return "10" + "".join(SUPERSCRIPTS[digit] for digit in str(exponent))


def _band(expected: Sequence[float], count: int) -> tuple[list[float], list[float]]:
    """(low, high): contains all quantiles of `count` honest residuals with probability 95 % (DKW inequality, Massart 1990)."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    level, reach = ndtr(np.asarray(expected)), math.sqrt(math.log(2 / 0.05) / (2 * count))
    wide = 2 * abs(expected[0])  # the band is cut off here, because it is infinite at its ends
    low, high = ndtri(np.clip(level - reach, 0, 1)), ndtri(np.clip(level + reach, 0, 1))
    return [float(v) for v in np.maximum(low, -wide)], [float(v) for v in np.minimum(high, wide)]


def _probit(rates: Sequence[float]) -> list[float]:
    """Standard normal quantiles of the rates, clipped to ±9 so that rates of 0 and 1 lie outside of the axes."""
    import numpy as np
    from scipy.special import ndtri

    quantiles = np.asarray(ndtri(np.asarray(rates, dtype=float)))
    return [float(v) for v in np.clip(quantiles, -9, 9)]


def _story(curves: dict[str, Any]) -> str:
    import numpy as np

    if not (curves.get("claimed") and curves.get("observed")):
        return ""
    x, y = (np.asarray(v, dtype=float) for v in curves["observed"])
    claimed = np.interp(x, np.asarray(curves["claimed"][0]), np.asarray(curves["claimed"][1]))
    share = float(np.mean(y < claimed))
    return f"The observed curve lies below the claimed one at {100 * share:.0f} % of its points."


def _who(found: Evidence) -> str:
    return name_at(found.model, found.mode, found.claim.epsilon)


def _name(kind: str, found: Evidence, ending: str = ".json") -> str:
    return slug(kind, found.file_name.removesuffix(ending))
