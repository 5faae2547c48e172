"""Figures of one claim: the trade-off curve it promises and the one that was seen, and the scores of both worlds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .canvas import COLOURS, INK, Plot, legend
from .evidence import Evidence
from .figures import slug
from .summary import budget, name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS = (1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
CURVES = {  # name in the evidence: (what a reader is told, colour, dashes)
    "claimed": ("claimed: no pair of error rates may lie below", COLOURS[1], "--"),
    "ledger": ("what the ledger allows", COLOURS[2], ":"),
    "observed": ("observed", COLOURS[0], "-"),
}


def of_claim(found: Evidence) -> list[Plot]:
    """The figures for which this evidence has curves."""
    plots = []
    if found.curves.get("tradeoff") and math.isfinite(found.claim.epsilon):
        plots.append(tradeoff_plot(found))
    if found.curves.get("histograms"):
        plots.append(histogram_plot(found))
    return plots


def tradeoff_plot(found: Evidence) -> Plot:
    """Error rates on probit axes, where every Gaussian mechanism is a straight line of slope -1."""
    curves = found.curves["tradeoff"]

    def draw(axes: Axes) -> None:
        if curves.get("band"):
            x, low, high = (_probit(v) for v in curves["band"])
            axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.25, linewidth=0, label="simultaneous band")
        for key, (label, colour, dashes) in CURVES.items():
            if curves.get(key):
                axes.plot(_probit(curves[key][0]), _probit(curves[key][1]), label=label, color=colour, linestyle=dashes)
        at = _probit(TICKS)
        axes.set_xticks(at, [f"{t:g}" for t in TICKS], rotation=45)
        axes.set_yticks(at, [f"{t:g}" for t in TICKS])
        axes.plot(at, [-v for v in at], color=INK, linewidth=0.8, alpha=0.6)
        axes.set(xlim=(at[0], at[-1]), ylim=(at[0], at[-1]), xlabel="false-positive rate", ylabel="false-negative rate")
        legend(axes)

    rows = tuple((key, x, y) for key in CURVES if curves.get(key) for x, y in zip(*curves[key], strict=True))
    alt = f"Trade-off between the adversary's two error rates for {_who(found)}. {_story(curves)}"
    return Plot(_name("tradeoff", found), f"Trade-off, {_who(found)}", alt, ("curve", "fpr", "fnr"), rows, draw, (4.6, 4.4))


def histogram_plot(found: Evidence) -> Plot:
    """What the attack's score was in either world."""
    pictures = found.curves["histograms"]
    looks = ((COLOURS[5], ""), (COLOURS[4], "//"), (COLOURS[2], ".."))

    def draw(axes: Axes) -> None:
        for (label, (edges, counts)), (colour, hatch) in zip(pictures.items(), looks, strict=False):
            axes.stairs(counts, edges, fill=True, alpha=0.55, color=colour, hatch=hatch, label=label)
            axes.stairs(counts, edges, color=colour, linewidth=1.2)
        axes.set(xlabel="score of the attack", ylabel="rounds")
        legend(axes, 2)

    rows = tuple((world, low, high, n) for world, picture in pictures.items() for low, high, n in _bins(*picture))
    alt = f"Histograms of the attack's score on {_who(found)}: {' and '.join(pictures)}."
    header = ("world", "low", "high", "rounds")
    return Plot(_name("scores", found), f"Scores, {_who(found)}", alt, header, rows, draw, (4.6, 2.8))


def _bins(edges: Sequence[float], counts: Sequence[float]) -> zip[tuple[float, float, float]]:
    return zip(edges[:-1], edges[1:], counts, strict=True)


def _probit(rates: Sequence[float]) -> list[float]:
    """Standard normal quantiles; rates of 0 and 1 leave the picture."""
    import numpy as np
    from scipy.special import ndtri

    quantiles = np.asarray(ndtri(np.asarray(rates, dtype=float)))
    return [float(v) for v in np.clip(quantiles, -9, 9)]


def _story(curves: dict[str, Any]) -> str:
    import numpy as np

    if not (curves.get("claimed") and curves.get("observed")):
        return ""
    x, y = (np.asarray(v, dtype=float) for v in curves["observed"])
    promised = np.interp(x, np.asarray(curves["claimed"][0]), np.asarray(curves["claimed"][1]))
    share = float(np.mean(y < promised))
    return f"The observed curve lies below the claimed one at {100 * share:.0f} % of its points."


def _who(found: Evidence) -> str:
    return f"{name(found.model, found.mode)}, ε = {budget(found.claim.epsilon)}"


def _name(kind: str, found: Evidence) -> str:
    return slug(kind, found.file_name.removesuffix(".json"))
