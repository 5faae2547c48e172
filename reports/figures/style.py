"""The style of all figures. Saves a figure as SVG, PNG and CSV files, and returns an SVG for the page."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import write_text
from ..rounding import up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Six of Okabe and Ito's colours, then four of Paul Tol's. Markers and dashes repeat the information of the colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933", "#7F7F7F", "#332288")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PAPER = "#FDFEFC"  # placeholder for the colour of the page
INK = "#010203"  # placeholder for the colour of the page's text; no other part of a figure uses it
PNG_DPI = 160
PNG_LEVEL = 1  # of compression: the usual 6 makes files 5 % smaller and takes three times as long
FAINT = 0.25  # opacity of grids

STYLE: Any = {
    "svg.fonttype": "none",  # text is stored as text, not as paths: it scales, can be selected, and uses the page's font
    "svg.hashsalt": "gnnaudit",  # makes SVG files reproducible
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": FAINT,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass(frozen=True)
class Plot:
    """A figure. name: file name without ending. alt: in words. rows: numbers, named by `header`. size: (width, height), inch."""

    name: str
    title: str
    alt: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    draw: Callable[[Axes], None]
    size: tuple[float, float] = (4.6, 3.4)

    @property
    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()


HANDLE = 0.57  # inch: the mark of an entry of a legend with the gaps beside it
TICK, LABEL = 26, 44  # longest line of a tick label and of a legend, in characters; longer lines would leave no room for the axes


def save(plot: Plot, folder: Path) -> str:
    """Writes NAME.svg, NAME.png and NAME.csv; returns the SVG for a page, in the colour of the page's text."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    with rc_context(STYLE):  # both canvases are used directly, because savefig would draw everything five times
        figure = Figure(figsize=plot.size, layout="constrained", dpi=PNG_DPI, facecolor="white")
        plot.draw(figure.add_subplot(facecolor="none"))
        FigureCanvasAgg(figure).print_png(folder / f"{plot.name}.png", pil_kwargs={"compress_level": PNG_LEVEL})
        figure.set_layout_engine("none")  # the layout is computed once for all files
        figure.set_facecolor("none")
        figure.set_dpi(72)  # points per inch; points are the unit of an SVG
        FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    drawn = text.getvalue()
    write_text(folder / f"{plot.name}.svg", drawn.replace("<defs>", '<rect width="100%" height="100%" fill="white"/><defs>', 1))
    write_text(folder / f"{plot.name}.csv", plot.csv)
    return inline(drawn, plot)


def inline(svg: str, plot: Plot) -> str:
    """The SVG for embedding in a page: with unique ids, the text colour of the page, and `plot.alt` as its text alternative."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{plot.name}-\1"', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{plot.name}-", body)
    body = body.replace(INK, "currentColor").replace(PAPER.lower(), "var(--page)")
    for i, colour in enumerate(COLOURS):
        body = body.replace(colour.lower(), f"var(--series-{i})")  # dark mode uses lighter colours
    label = plot.alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return re.sub(r'width="[^"]+" height="[^"]+"', f'role="img" aria-label="{label}"', body, count=1)


def legend(axes: Axes, columns: int = 1) -> None:
    """Draws the legend below the axes, where it covers no data, in at most so many columns as fit. Each label occurs once."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure = axes.get_figure(root=True)
    assert figure is not None
    words = [wrapped(label, LABEL) for label in once]
    fitting = next((n for n in range(columns, 1, -1) if legend_width(words, n) < figure.get_figwidth()), 1)
    figure.legend(once.values(), words, loc="outside lower center", ncols=fitting)


def mark_reach(axes: Axes, reach: float, at: float, end: float, near: bool) -> None:
    """Marks the smallest epsilon that a test would have noticed on the bar at height `at`; if it is not `near`, by a number at
    the right `end` of the axes.
    """
    mark: dict[str, Any] = {"marker": "|", "color": INK, "markersize": 11, "linestyle": "none", "zorder": 4}
    axes.plot(reach if near else math.nan, at, label="would have been noticed", **mark)
    if not near:
        axes.annotate(f"| {up(reach, 3)} →", (end, at), ha="right", va="center", fontsize=9)


def legend_width(words: Sequence[str], columns: int) -> float:
    """The width in inches of a legend, whose columns are filled one after the other."""
    import numpy as np
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=STYLE["legend.fontsize"])
    points = [
        max(text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] for line in label.splitlines())
        for label in words
    ]
    return sum(max(part, default=0) / 72 + HANDLE for part in np.array_split(points, columns))


def wrapped(text: str, width: int = TICK) -> str:
    """The text in lines of at most `width` characters. A longer word is broken."""
    return "\n".join(textwrap.wrap(text, width))


def styles(models: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The line style of each (model, mode). Each model has a colour and a marker; mode "paper" is dashed and hollow."""
    pairs = list(dict.fromkeys(models))
    order = list(dict.fromkeys(model for model, _ in pairs))
    looks = {}
    for model, mode in pairs:
        i = order.index(model)
        filled = {"linestyle": "--", "markerfacecolor": "none"} if mode == "paper" else {"linestyle": "-"}
        looks[model, mode] = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], **filled}
    return looks
