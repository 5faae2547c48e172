"""A figure of the observed ledger: for each mechanism, in order, the data, the noise that is added, and the release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..evidence import Evidence
from ..observed import REPORTS, UNREAD, alike
from .run_figures import slug
from .style import COLOURS, INK, Plot, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

MOST = 12  # largest number of rows of mechanisms that are drawn; the table beside the figure lists all
WIDE = 21  # largest number of letters in a line of a box
COLUMNS = (0.17, 0.505, 0.84)  # data, noise, release
ACROSS, LINE, GAP = 4.2, 0.145, 0.4  # width of the figure, which a phone shows whole, height of a line, room around a box; inch
OPEN = {"past the noise": COLOURS[1], "not known": COLOURS[4]}  # colours of arrays that no recorded noise protects
ELSEWHERE = " on a small graph of unusual nodes"  # audit/recorded/examination.py adds these words to the name of a secret


def observed_plot(found: Evidence) -> Plot:
    """A row for each group of mechanisms that are alike, data -> noise -> release, then for each array past the noise or not
    known (see `Released`).
    """
    seen = found.observed
    groups = alike(seen["mechanisms"])
    rows = [_row(numbers, m) for numbers, m in groups[:MOST]]
    in_order = len(rows)
    rows += [_open(r) for r in seen["released"] if r["how"] in OPEN]
    rows = rows or [("data", "no noise was found\nin what is released", "released", COLOURS[4])]
    rows = [(_lines(data), _lines(noise), _lines(release), colour) for data, noise, release, colour in rows]
    more = len(groups) - MOST
    places, tall = [], 0.3  # the middle of each row and the height of the figure without its last line, inch
    for row in rows:
        height = GAP + LINE * max(1 + text.count("\n") for text in row[:3])
        places.append(tall + height / 2)
        tall += height

    def draw(axes: Axes) -> None:
        axes.set_axis_off()
        axes.set(xlim=(0, 1), ylim=(tall + 0.3 * (more > 0), 0))
        for x, head in zip(COLUMNS, ("clean value", "noise, and its line", "released as"), strict=True):
            axes.text(x, 0.12, head, ha="center", va="center", fontsize=8, alpha=0.8)
        if more > 0:
            axes.text(COLUMNS[1], tall + 0.15, f"and {more} more rows in the table", ha="center", fontsize=8)
        above = None
        for i, (y, (*texts, colour)) in enumerate(zip(places, rows, strict=True)):
            boxes = []
            for x, text, edge in zip(COLUMNS, texts, (INK, colour, INK), strict=True):
                box = {"boxstyle": "round,pad=0.45", "facecolor": "none", "edgecolor": edge, "linewidth": 1.2}
                boxes.append(axes.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box))
            _arrow(axes, boxes[0], boxes[1])
            _arrow(axes, boxes[1], boxes[2])
            if above is not None and i < in_order:
                _arrow(axes, above, boxes[0])
            above = boxes[0]

    columns = ("number", "line", "meets", "law", "scale", "released", "move", "secret")
    table = tuple(tuple(m[c] for c in columns) for m in seen["mechanisms"])
    notes = [f"{len(table)} mechanisms in order: each with data, noise and release.", *seen["compared"], *seen["faults"]]
    name = f"ledger-{slug(found.model, found.mode, f'{found.claim.epsilon:g}', found.claim.unit)}"
    size = ACROSS, tall + 0.3 * (more > 0)
    return Plot(name, "Mechanisms in the order of the run", " ".join(notes), columns, table, draw, size)


def _lines(text: str) -> str:
    """The text with its own line breaks, and more where a line is longer than WIDE letters."""
    whole = re.sub(r"\((\d+), (\d+)\)", "(\\1,\N{NO-BREAK SPACE}\\2)", text)  # the ends of an edge stay on one line
    whole = re.sub(r"\bline (\d+)", "line\N{NO-BREAK SPACE}\\1", whole)
    return "\n".join(wrapped(line, WIDE) for line in whole.split("\n"))


def _arrow(axes: Axes, start: Text, end: Text) -> None:
    """An arrow from the edge of one box to the edge of the next."""
    ends = {"patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch(), "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end.get_position(), start.get_position(), arrowprops={"arrowstyle": "->", "color": INK, **ends})


def _row(numbers: str, m: dict[str, Any]) -> tuple[str, str, str, str]:
    """The texts of data, noise and release, and the colour of the noise. numbers, m: see `alike`."""
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
    several = "" if numbers.isdigit() else f"mechanisms {numbers}:\n"
    noise = f"{several}{law}{part}\n{m['meets'] or m['line']}"
    release = f"{m['released']}\n{' × '.join(map(str, m['shape']))}"
    if m["note"]:
        return data, f"{noise}\n{m['note']}", release, OPEN["past the noise"]
    return data, noise, release, COLOURS[2]


def _open(r: dict[str, Any]) -> tuple[str, str, str, str]:
    noise = "no noise covers it" if r["how"] == "past the noise" else "not known"
    return "data", noise, f"'{r['array']}'", OPEN[r["how"]]
