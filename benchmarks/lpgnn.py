"""Accuracy, CPU seconds and memory of LPGNN with the published hyper-parameters: `python benchmarks/lpgnn.py --data-dir DIR`."""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import time

import numpy as np
import torch

from gnnaudit.models.datasets import load
from gnnaudit.models.graph import Graph, Worlds
from gnnaudit.models.lpgnn import BACKBONES, ENCODERS, Lpgnn

INF = math.inf
# (feature budget, label budget) -> feature steps, label steps, learning rate, weight decay, dropout
CORA = {
    (INF, INF): (0, 0, 0.01, 0.01, 0.5),
    (1.0, INF): (16, 0, 0.01, 0.01, 0.75),
    (1.0, 1.0): (2, 8, 0.01, 0.001, 0.5),
    (3.0, 3.0): (16, 2, 0.01, 0.001, 0.5),
    (INF, 1.0): (0, 4, 0.01, 1e-4, 0.75),
    (0.01, INF): (8, 0, 0.01, 0.01, 0.75),
    (0.0, INF): (8, 0, 0.01, 0.01, 0.75),  # fair coins with the steps of 0.01
    (0.01, 1.0): (8, 8, 0.01, 0.001, 0.5),
    (0.0, 1.0): (8, 8, 0.01, 0.001, 0.5),
}
FACEBOOK = {(1.0, 1.0): (2, 4, 0.001, 0.01, 0.5), (0.1, 1.0): (2, 4, 0.001, 0.01, 0.5), (0.0, 1.0): (2, 4, 0.001, 0.01, 0.5)}


def divided(graph: Graph, seed: int) -> Graph:
    """Half of the nodes for training, a quarter each for validation and test, as in the paper."""
    order = np.random.default_rng(seed).permutation(graph.nodes)
    parts = np.split(order, [graph.nodes // 2, graph.nodes // 2 + graph.nodes // 4])
    train, val, test = (np.isin(np.arange(graph.nodes), part) for part in parts)
    return dataclasses.replace(graph, train=train, val=val, test=test)


def measure(name: str, model: Lpgnn, graph: Graph, splits: int, runs: int) -> None:
    """Prints one row of the table."""
    scores, start = [], time.process_time()
    for split in range(splits):
        part = divided(graph, split)
        release = model.fit(Worlds.of(part, list(range(runs)), np.flatnonzero(part.test)))
        scores.append(100 * (release["posteriors"].argmax(2) == part.y[part.test]).mean(axis=1))
    seconds = (time.process_time() - start) / (splits * runs)
    each = np.concatenate(scores)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    half = 1.96 * each.std(ddof=1) / math.sqrt(each.size) if each.size > 1 else math.nan
    row = (name, model.mode, f"{model.feature_budget:g}, {model.label_budget:g}", f"{each.mean():.1f} ± {half:.1f}", each.size)
    print("| " + " | ".join(map(str, row)) + f" | {seconds:.1f} | {memory:.0f} |", flush=True)


def recipe(budgets: tuple[float, float], settings: tuple, mode: str, **fields: str) -> Lpgnn:
    feature_steps, label_steps, rate, decay, dropout = settings
    return Lpgnn(
        *budgets,
        feature_steps=feature_steps,
        label_steps=label_steps,
        learning_rate=rate,
        weight_decay=decay,
        dropout=dropout,
        mode=mode,
        **fields,  # type: ignore[arg-type]
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data-dir", required=True)
    options.add_argument("--data", default="cora", choices=("cora", "musae-facebook"))
    options.add_argument("--mode", default="paper", choices=("paper", "sound"))
    options.add_argument("--compare", action="store_true", help="encoders and backbones on Cora instead")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--runs", type=int, default=4)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    print("| data | mode | budgets | accuracy, 95 % | trainings | CPU s each | peak MiB |\n" + "|---" * 7 + "|")
    graph = load(arguments.data, data_dir=arguments.data_dir)
    if arguments.compare:
        variants = [((1.0, INF), {"encoder": e}) for e in ENCODERS] + [((1.0, 1.0), {"backbone": b}) for b in BACKBONES]
        for budgets, fields in variants:
            model = recipe(budgets, CORA[budgets], arguments.mode, **fields)
            measure(f"{graph.name}, {next(iter(fields.values()))}", model, graph, arguments.splits, arguments.runs)
        return
    for budgets, settings in (CORA if arguments.data == "cora" else FACEBOOK).items():
        measure(graph.name, recipe(budgets, settings, arguments.mode), graph, arguments.splits, arguments.runs)


if __name__ == "__main__":
    main()
