"""LPGNN as published: its accuracy, CPU seconds and memory: `python benchmarks/lpgnn.py --data-dir DIR`."""

from __future__ import annotations

import argparse
import math
import resource
import time

import measured
import numpy as np
import torch

from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.lpgnn.lpgnn import BACKBONES, ENCODERS, Lpgnn

INF = math.inf
# (feature budget, label budget) -> feature steps, label steps, learning rate, weight decay, dropout
CORA = {
    (INF, INF): (0, 0, 0.01, 0.01, 0.5),
    (1.0, INF): (16, 0, 0.01, 0.01, 0.75),
    (1.0, 1.0): (2, 8, 0.01, 0.001, 0.5),
    (3.0, 3.0): (16, 2, 0.01, 0.001, 0.5),
    (INF, 1.0): (0, 4, 0.01, 1e-4, 0.75),
    (0.01, INF): (8, 0, 0.01, 0.01, 0.75),
    (0.0, INF): (8, 0, 0.01, 0.01, 0.75),  # budget 0 with the steps of budget 0.01
    (0.01, 1.0): (8, 8, 0.01, 0.001, 0.5),
    (0.0, 1.0): (8, 8, 0.01, 0.001, 0.5),
}
FACEBOOK = {(1.0, 1.0): (2, 4, 0.001, 0.01, 0.5), (0.1, 1.0): (2, 4, 0.001, 0.01, 0.5), (0.0, 1.0): (2, 4, 0.001, 0.01, 0.5)}


def divided(graph: Graph, seed: int) -> Graph:
    """The graph with a random split: half of the nodes for training, a quarter each for validation and test, as in the paper."""
    return measured.divided(graph, seed, graph.nodes // 2, graph.nodes // 2 + graph.nodes // 4)


def measure(name: str, model: Lpgnn, graph: Graph, splits: int, runs: int) -> None:
    """Prints one row of the table."""
    shares, seconds = measured.accuracies(model, (divided(graph, split) for split in range(splits)), runs)
    each = 100 * shares
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    half = 1.96 * each.std(ddof=1) / math.sqrt(each.size) if each.size > 1 else math.nan
    row = (name, model.mode, f"{model.feature_budget:g}, {model.label_budget:g}", f"{each.mean():.1f} ± {half:.1f}", each.size)
    print("| " + " | ".join(map(str, row)) + f" | {seconds:.1f} | {memory:.0f} |", flush=True)


def alone(graph: Graph, budgets: tuple[float, float], settings: tuple, epochs: int = 20) -> float:
    """The CPU seconds of one training of 500 epochs as in the released code, with PyTorch Geometric's layers on dense features.

    The time is extrapolated from `epochs` epochs, all of which take the same time, and from the steps before the first epoch.
    """
    import scipy.sparse as sp
    import torch_geometric.utils as utils
    from torch.nn import functional
    from torch_geometric.nn import SAGEConv

    feature_steps, label_steps, rate, decay, dropout = settings
    started = time.process_time()
    x = torch.from_numpy(graph.x.toarray() if sp.issparse(graph.x) else graph.x)
    arcs, y, classes = torch.from_numpy(graph.arcs), torch.from_numpy(graph.y), graph.classes
    train, val = torch.from_numpy(graph.train), torch.from_numpy(graph.val)
    adjacency = utils.to_torch_csr_tensor(arcs, size=(graph.nodes, graph.nodes))
    root = utils.degree(arcs[0], graph.nodes).clamp(min=1).rsqrt()
    hop = utils.to_torch_csr_tensor(arcs, root[arcs[0]] * root[arcs[1]], size=(graph.nodes, graph.nodes))
    if math.isfinite(budgets[0]):
        sampled = torch.zeros_like(x).scatter_(1, torch.rand_like(x).topk(1, dim=1).indices, 1)
        x = sampled * (2 * torch.bernoulli(0.3 + 0.4 * x) - 1) * x.shape[1] + 0.5
    for _ in range(feature_steps):
        x = hop @ x
    keep = 1 / (1 + (classes - 1) * math.exp(-budgets[1]))
    noise = torch.full((classes, classes), (1 - keep) / (classes - 1)).fill_diagonal_(keep)
    layers = torch.nn.ModuleList([SAGEConv(x.shape[1], 16), SAGEConv(16, classes)])
    adam = torch.optim.Adam(layers.parameters(), lr=rate, weight_decay=decay)

    def forward(training: bool) -> torch.Tensor:
        hidden = functional.dropout(torch.selu(layers[0](x, adjacency)), dropout, training)
        return layers[1](hidden, adjacency).softmax(1) @ noise

    def loss(posterior: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return -((posterior[rows] + 1e-20).log() * functional.one_hot(y[rows], classes)).sum(1).mean()

    before = time.process_time() - started
    forward(training=True)  # the first call compiles and allocates
    started = time.process_time()
    for _ in range(epochs):
        adam.zero_grad()
        smoothed = forward(training=True)
        for _ in range(label_steps):
            smoothed = hop @ smoothed
        loss(smoothed.softmax(1) if label_steps else smoothed, train).backward()
        adam.step()
        with torch.no_grad():
            loss(forward(training=False), val).item()
    return before + 500 / epochs * (time.process_time() - started)


def speed(graph: Graph, table: dict, mode: str) -> None:
    """Prints the seconds of a training by this engine, and of a training as in the released code."""
    print("| data | budgets | CPU s each, 4 runs together | one by one in PyTorch Geometric | factor |\n" + "|---" * 5 + "|")
    part = divided(graph, 0)
    for budgets, settings in table.items():
        started = time.process_time()
        recipe(budgets, settings, mode).fit(Worlds.of(part, range(4), np.flatnonzero(part.test)))
        ours = (time.process_time() - started) / 4
        theirs = alone(part, budgets, settings)
        cells = (graph.name, f"{budgets[0]:g}, {budgets[1]:g}", f"{ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.1f}")
        print("| " + " | ".join(cells) + " |", flush=True)


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
    options.add_argument("--speed", action="store_true", help="seconds against PyTorch Geometric instead")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--runs", type=int, default=4)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    graph, table = load(arguments.data, data_dir=arguments.data_dir), CORA if arguments.data == "cora" else FACEBOOK
    if arguments.speed:
        speed(graph, table, arguments.mode)
        return
    print("| data | mode | budgets | accuracy, 95 % | trainings | CPU s each | peak MiB |\n" + "|---" * 7 + "|")
    if arguments.compare:
        variants = [((1.0, INF), {"encoder": e}) for e in ENCODERS] + [((1.0, 1.0), {"backbone": b}) for b in BACKBONES]
        for budgets, fields in variants:
            model = recipe(budgets, CORA[budgets], arguments.mode, **fields)
            measure(f"{graph.name}, {next(iter(fields.values()))}", model, graph, arguments.splits, arguments.runs)
        return
    for budgets, settings in table.items():
        measure(graph.name, recipe(budgets, settings, arguments.mode), graph, arguments.splits, arguments.runs)


if __name__ == "__main__":
    main()
