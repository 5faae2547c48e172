"""A figure of the observed ledger: for each mechanism, in order, the data, the noise that is added, and the release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..evidence import Evidence
from ..observed import REPORTS, UNREAD
from .run_figures import slug
from .style import COLOURS, INK, Plot, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 12  # largest number of mechanisms that are drawn; the table beside the figure lists all
WIDE = 30  # largest number of letters in a line of a box
COLUMNS = (0.15, 0.5, 0.85)  # data, noise, release
OPEN = {"past the noise": COLOURS[1], "not known": COLOURS[4]}  # colours of arrays that no recorded noise protects
ELSEWHERE = " on a small graph of unusual nodes"  # audit/recorded/examination.py adds these words to the name of a secret


def observed_plot(found: Evidence) -> Plot:
    """A row for each mechanism, data -> noise -> release, then for each array past the noise or not known (see `Released`)."""
    seen = found.observed
    rows = [_row(m) for m in seen["mechanisms"][:MOST]]
    rows += [_open(r) for r in seen["released"] if r["how"] in OPEN]
    rows = rows or [("data", "no noise was found\nin what is released", "released", COLOURS[4])]

    def draw(axes: Axes) -> None:
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.75))
        for x, head in zip(COLUMNS, ("clean value", "noise, and its line", "released as"), strict=True):
            axes.text(x, -0.6, head, ha="center", va="center", fontsize=8, alpha=0.8)
        if (more := len(seen["mechanisms"]) - MOST) > 0:
            axes.text(COLUMNS[1], len(rows) - 0.45, f"and {more} more mechanisms, in the table", ha="center", fontsize=8)
        for y, (data, noise, release, colour) in enumerate(rows):
            for x, text, edge in zip(COLUMNS, (data, noise, release), (INK, colour, INK), strict=True):
                box = {"boxstyle": "round,pad=0.45", "facecolor": "none", "edgecolor": edge, "linewidth": 1.2}
                axes.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box)
            for start, end in ((0.27, 0.335), (0.665, 0.73)):
                axes.annotate("", (end, y), (start, y), arrowprops={"arrowstyle": "->", "color": INK})
            if y + 1 < len(seen["mechanisms"][:MOST]):
                axes.annotate("", (COLUMNS[0], y + 0.62), (COLUMNS[0], y + 0.38), arrowprops={"arrowstyle": "->", "color": INK})

    columns = ("number", "line", "meets", "law", "scale", "released", "move", "secret")
    table = tuple(tuple(m[c] for c in columns) for m in seen["mechanisms"])
    notes = [f"{len(table)} mechanisms in order: each with data, noise and release.", *seen["compared"], *seen["faults"]]
    name = f"ledger-{slug(found.model, found.mode, f'{found.claim.epsilon:g}', found.claim.unit)}"
    size = 7.4, 0.9 + 0.78 * len(rows)
    return Plot(name, "Mechanisms in the order of the run", " ".join(notes), columns, table, draw, size)


def _row(m: dict[str, Any]) -> tuple[str, str, str, str]:
    """The texts of data, noise and release, and the colour of the noise."""
    data = "no secret moves it"
    if m["move"] is None:
        data = "the run does not use this value" if m["released"] == UNREAD else "no secret was tried"
    elif m["secret"]:
        effect = f"costs ε = {m['move']:.3g}" if m["law"] in REPORTS else f"moves it by {m['move'] * m['scale'][0]:.3g}"
        data = f"{m['secret'].removesuffix(ELSEWHERE)}\n{effect}"
    low, high = m["scale"]
    size = f"{low:.3g}" if high - low <= 1e-3 * high else f"{low:.3g} to {high:.3g}"
    part = "" if m["covered"] > 0.999 else f" on {100 * m['covered']:.0f} %"
    law = f"{m['law']}\np = {size}" if m["law"] in REPORTS else f"{m['law']} noise, scale {size}"
    noise = f"{law}{part}\n{wrapped(m['meets'] or m['line'], WIDE)}"
    release = f"{m['released']}\n{' × '.join(map(str, m['shape']))}"
    if m["note"]:
        return data, f"{noise}\n{m['note']}", release, OPEN["past the noise"]
    return data, noise, release, COLOURS[2]


def _open(r: dict[str, Any]) -> tuple[str, str, str, str]:
    noise = "no noise covers it" if r["how"] == "past the noise" else "not known"
    return "data", noise, f"'{r['array']}'", OPEN[r["how"]]
