"""Compares the test accuracy of GAP, ProGAP and their baselines, as published and as proved, with that of the official code.

    python benchmarks/accuracy.py FOLDER_WITH_FACEBOOK100 [--seeds 10] [--only gap,progap,mlp]

The graph is JohnsHopkins55, with the official code's split and hyper-parameters. "paper" has the noise that the official code
printed. "sound" has the noise that its own ledger needs for the same epsilon. Its claim protects one undirected edge, or one node
with all its edges; for nodes, the public promise is the largest degree of this graph. Intervals are Student's 95 % intervals over
the seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
import torch

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.attacks.roc import half_width
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.data.loading import load
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph, Worlds

EDGE, NODE = 1e-6, 1e-4  # delta of edge claims and of node claims, as the official code chooses them
# name, recipe, epsilon, the official code's noise std / sensitivity, the accuracy that it prints with half width or spread
OFFICIAL: list[tuple[str, Any, float, float, str]] = [
    ("MLP", Mlp(), 0, 0, "53.3 ± 0.8"),
    ("GAP, edge", Gap(hops=5), np.inf, 0, "88.8 ± 0.7"),
    ("GAP, edge", Gap(), 0.25, 21.7931, "61.7 ± 1.6"),
    ("GAP, edge", Gap(), 1, 5.9746, "76.6 ± 1.4"),
    ("GAP, edge", Gap(), 4, 1.6879, "84.2 ± 0.9"),
    ("ProGAP, edge", ProGap(learning_rate=0.05), np.inf, 0, "91.5 ± 0.6"),
    ("ProGAP, edge", ProGap(), 0.25, 37.2514, "62.6 ± 1.3"),
    ("ProGAP, edge", ProGap(), 1, 10.1314, "81.5 ± 1.3"),
    ("ProGAP, edge", ProGap(), 4, 2.8349, "86.6 ± 1.1"),
    ("DP-MLP", Mlp(unit=Unit.NODE, train_nodes=1000, epochs=10), 2, 1.9298, "52.0 ± 1.7"),
    ("DP-MLP", Mlp(unit=Unit.NODE, train_nodes=1000, epochs=10), 8, 0.8686, "56.2 ± 0.6"),
    ("GAP, node", Gap(unit=Unit.NODE, train_nodes=1000, epochs=10), 2, 3.6225, "51.5 ± 1.2"),
    ("GAP, node", Gap(unit=Unit.NODE, train_nodes=1000, epochs=10), 8, 1.2278, "68.2 ± 1.3"),
    ("ProGAP, node", ProGap(unit=Unit.NODE, train_nodes=1000, depth=4, base_layers=2, epochs=5), 2, 4.6382, "35.5 ± 2.4"),
    ("ProGAP, node", ProGap(unit=Unit.NODE, train_nodes=1000, depth=4, base_layers=2, epochs=5), 8, 1.4979, "67.5 ± 2.0"),
    ("EdgeRand", EdgeRand(), 1, 1.0, "47.7 ± 1.7"),
    ("EdgeRand", EdgeRand(), 4, 0.25, "67.6 ± 1.5"),
    ("GraphSAGE", EdgeRand(layers=2), np.inf, 0, "88.6 ± 1.0"),
]


def accuracy(model: Any, graph: Graph, seeds: int) -> str:
    """The mean accuracy over the seeds and half the width of its 95 % interval, in percent of the test nodes."""
    test = np.flatnonzero(graph.test)
    posteriors = model.fit(Worlds.of(graph, list(range(seeds)), test))["posteriors"]
    right = 100 * (posteriors.argmax(2) == graph.y[test]).mean(1)
    return f"{right.mean():.1f} ± {half_width(right.std(ddof=1), seeds):.1f}"


def paper(recipe: Any, sigma: float, graph: Graph) -> Any:
    """The recipe in mode "paper", with the official code's noise."""
    fields: dict[str, Any] = {"mode": "paper", "sigma": float(sigma)}
    if recipe.unit is Unit.NODE:
        return dataclasses.replace(recipe, **fields, train_nodes=int(graph.train.sum()))
    return dataclasses.replace(recipe, **fields, unit=Unit.DIRECTED_EDGE)


def sound(recipe: Any, graph: Graph) -> Any:
    """The recipe in mode "sound", before its noise is set."""
    if recipe.unit is not Unit.NODE:
        return recipe
    promise = {} if recipe.name == "mlp" else {"max_degree": int(graph.degree.max())}
    return dataclasses.replace(recipe, train_nodes=int(graph.train.sum()), **promise)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="mlp,gap,progap,edgerand")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    graph = load("facebook100:JohnsHopkins55:min_class=150", data_dir=arguments.data_dir)
    kept = dataclasses.replace(graph, val=np.zeros_like(graph.val))
    print("| recipe | ε | official | paper | paper, last epoch | sound | σ: paper, sound | std of a sum's noise: paper, sound |")
    print("|---|---|---|---|---|---|---|---|")
    for name, recipe, epsilon, sigma, official in OFFICIAL:
        if recipe.name not in arguments.only.split(","):
            continue
        published, proved = paper(recipe, sigma, graph), sound(recipe, graph)
        cells = [accuracy(published, graph, arguments.seeds), "", "", "", ""]
        if recipe.unit is Unit.NODE:
            cells[1] = accuracy(published, kept, arguments.seeds)
        if 0 < epsilon < np.inf:
            proved = calibrate(proved, Claim(epsilon, NODE if recipe.unit is Unit.NODE else EDGE, recipe.unit))
            cells[3] = f"{sigma:.4f}, {proved.sigma:.4f}"
        if hasattr(proved, "noise_std") and proved.sigma:
            cells[4] = f"{published.noise_std:.1f}, {proved.noise_std:.1f}"
        cells[2] = accuracy(proved, graph, arguments.seeds) if proved.sigma else ""
        print(f"| {name} | {epsilon:g} | {official} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
