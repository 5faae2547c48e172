"""A figure that shows how many shadow models an attack needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from strength_nodes import BEST_OF_8, PUBLISHED, Pool, attacked, figures

from gnnaudit.attacks.membership.multi_lira import strongest
from gnnaudit.attacks.membership.rmia import Relative
from gnnaudit.attacks.roc import roc_points

STARS = {
    "LiRA": ({8: 0.012, 128: 0.203}, "C0"),
    "RMIA and BASE": ({8: 0.038, 128: 0.068}, "C1"),
    "G-BASE-MIA": ({8: 0.058, 128: 0.090}, "C4"),
    "MLP": ({8: 0.005, 128: 0.012}, "C5"),
}


def figure(pools: list[Pool], path: Path) -> None:
    """Draws TPR at 0.1 % FPR against the number of shadow models, with published figures as stars, and beside it the ROCs."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    counts = [2, 4, 8, 16, 32, 64, 128]
    canvas, (axes, beside) = pyplot.subplots(1, 2, figsize=(12, 5), width_ratios=(3, 2))
    lines: list[tuple[str, Any, str, list[int]]] = [
        ("LiRA, ours", PUBLISHED, "C0", counts[1:]),
        ("RMIA, ours", Relative(gamma=2.0), "C1", counts),
        ("our default (variances drawn together)", BEST_OF_8, "C2", counts),
        ("our strongest (two laws, three queries, neighbours)", strongest(), "C3", counts),
    ]
    for label, attack, colour, shadows in lines:
        values = [figures(*attacked(pools, attack, n))["TPR@0.1%"] for n in shadows]
        means = np.array([v.mean() for v in values])
        errors = np.array([1.96 * v.std(ddof=1) / np.sqrt(len(v)) for v in values])
        axes.plot(shadows, 100 * means, color=colour, label=label, lw=1 if label.endswith("ours") else 2.5)
        if not label.endswith(", ours"):
            axes.fill_between(shadows, 100 * (means - errors), 100 * (means + errors), color=colour, alpha=0.2, lw=0)
        for n, style in ((8, ":"), (128, "-")):
            beside.plot(*roc_points(*attacked(pools, attack, n)), style, color=colour, lw=1)
    for label, (points, colour) in STARS.items():
        axes.plot(list(points), [100 * v for v in points.values()], "*", color=colour, ms=11, label=f"{label}, published")
    beside.set(xscale="log", yscale="log", xlim=(7e-4, 1), ylim=(7e-3, 1), xlabel="FPR", ylabel="TPR")
    beside.set_title("ROC: 8 shadow models dotted, 128 solid")
    axes.set(
        xscale="log", xticks=counts, xticklabels=counts, ylim=(0, None), xlabel="shadow models", ylabel="TPR at 0.1 % FPR (%)"
    )
    axes.set_title(f"Node membership, GCN on Cora, {sum(len(pool.bits) - pool.shadows for pool in pools)} targets, bands 95 %")
    axes.minorticks_off()
    axes.legend(loc="upper left", fontsize=8)
    canvas.tight_layout()
    canvas.savefig(path, dpi=150)
