"""PrivGNN's teachers side by side against PyTorch Geometric one by one, and what its labels and students are worth.

    python benchmarks/privgnn.py speed --data-dir DIR
    python benchmarks/privgnn.py accuracy --data-dir DIR [--plot FILE.png]

One thread; CPU seconds, as others may use the machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from itertools import pairwise

import numpy as np

from gnnaudit.accounting.exact import argmax_top_probability
from gnnaudit.models.datasets import load
from gnnaudit.models.graph import Graph, Worlds
from gnnaudit.models.noise import stream
from gnnaudit.models.pate import Pate
from gnnaudit.models.privgnn import PrivGnn
from gnnaudit.models.privgnn_baselines import PrivGnnBaseline

INVERSE_SCALES = (0.1, 0.2, 0.4, 0.8, 1.0)
GRAPHS = {"Cora": "cora", "Johns Hopkins": "facebook100:JohnsHopkins55"}
RUNS = 2
QUERIES = 300


def divided(name: str, folder: str, private: int = 100, queries: int = 1000) -> Graph:
    """The authors' split of Cora: so many private nodes of every class, so many public ones to ask about, the rest for tests."""
    graph = load(name, data_dir=folder)
    order = stream(0, "split").permutation(graph.nodes)
    train = np.zeros(graph.nodes, dtype=bool)
    for c in range(graph.classes):
        train[order[graph.y[order] == c][:private]] = True
    val = np.zeros_like(train)
    val[order[~train[order]][:queries]] = True
    return dataclasses.replace(graph, train=train, val=val, test=~train & ~val)


def speed(folder: str) -> None:
    graph = divided("cora", folder)
    world = Worlds.of(graph, [1])
    official = PrivGnn(queries=128, neighbours=0, layers=3, epochs=500)
    recipes = {"the authors' (210 nodes, 3 layers, 500 epochs), 128 teachers": (official, 2)}
    recipes["50 neighbours, 2 layers, 200 epochs, 1000 teachers"] = (PrivGnn(queries=1000, epochs=200), 4)
    for name, (model, alone) in recipes.items():
        began = time.process_time()
        answers = model.teachers(world)
        ours = (time.process_time() - began) / answers.queries.size
        right = (answers.answers.argmax(2) == graph.y[answers.queries]).mean()
        seconds = [one_by_one(graph, model, int(q)) for q in answers.queries[0, :alone]]
        theirs = min(seconds)
        print(f"| {name} | {1e3 * ours:.1f} ms | {1e3 * theirs:.0f} ms | {theirs / ours:.1f}x | {right:.3f} |", flush=True)


def one_by_one(graph: Graph, model: PrivGnn, query: int) -> float:
    """CPU seconds of one teacher with the layers of PyTorch Geometric, from the sample to the answer."""
    import torch
    from torch_geometric.nn import SAGEConv
    from torch_geometric.utils import subgraph

    x = torch.from_numpy(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x)
    y, arcs = torch.from_numpy(graph.y), torch.from_numpy(graph.arcs)
    private, public = torch.from_numpy(np.flatnonzero(graph.train)), torch.from_numpy(np.flatnonzero(~graph.train))
    open_arcs, _ = subgraph(public, arcs)
    began = time.process_time()
    rows = private[torch.rand(private.numel(), generator=torch.Generator().manual_seed(query)) < model.rate]
    if model.neighbours:
        rows = rows[torch.cdist(x[query : query + 1], x[rows])[0].argsort()[: model.neighbours]]
    own, _ = subgraph(rows, arcs, relabel_nodes=True, num_nodes=graph.nodes)
    sizes = [graph.dim, *[model.hidden] * (model.layers - 1), graph.classes]
    layers = torch.nn.ModuleList([SAGEConv(a, b) for a, b in pairwise(sizes)])
    norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(model.hidden) for _ in sizes[1:-1]])
    whole = torch.nn.ModuleList([layers, norms])
    adam = torch.optim.Adam(whole.parameters(), lr=model.learning_rate)

    def forward(rows: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(layers, norms, strict=False):
            rows = torch.dropout(torch.relu(norm(layer(rows, edges))), model.dropout, whole.training)
        return layers[-1](rows, edges)

    part, label = x[rows], y[rows]
    for _ in range(model.epochs):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(forward(part, own), label).backward()
        adam.step()
    whole.eval()
    with torch.no_grad():
        forward(x, open_arcs)
    return time.process_time() - began


def accuracy(folder: str, plot: str | None) -> None:
    lines: dict[str, dict[str, list[float]]] = {}
    for title, name in GRAPHS.items():
        graph = divided(name, folder, 150 if "facebook" in name else 100, QUERIES)
        worlds = Worlds.of(graph, list(range(1, RUNS + 1)), np.flatnonzero(graph.test))
        test, rows = graph.y[graph.test], lines.setdefault(title, {})
        settings = {"queries": QUERIES, "neighbours": 50, "epochs": 50}
        sound = PrivGnn(**settings)
        coded = PrivGnn(mode="paper", as_coded=True, **settings)
        for word, model in (("probabilities", sound), ("as coded", coded)):
            began = time.process_time()
            told = model.teachers(worlds)
            y = graph.y[told.queries]
            print(f"{title}, {word}: teachers right {(told.answers.argmax(2) == y).mean():.3f},", end=" ")
            print(f"{time.process_time() - began:.0f} CPU s for {told.queries.size} teachers", flush=True)
            for part in ("labels", "student"):
                rows[f"{part}, {word}"] = []
            for inverse in INVERSE_SCALES:
                seen = model.with_noise(1 / inverse).answered(worlds, told)
                rows[f"labels, {word}"].append(float((seen["votes"] == y).mean()))
                rows[f"student, {word}"].append(float((seen["posteriors"].argmax(2) == test).mean()))
        rows["ceiling a(c, beta)"] = [argmax_top_probability(graph.classes, 1 / v) for v in INVERSE_SCALES]
        for kind in ("private", "public", "both"):
            right = float((PrivGnnBaseline(kind).fit(worlds)["posteriors"].argmax(2) == test).mean())
            rows[f"baseline {kind}"] = [right] * len(INVERSE_SCALES)
        noisy = [PrivGnnBaseline("noisy-labels", sigma=1 / v, queries=QUERIES) for v in INVERSE_SCALES]
        rows["baseline noisy-labels"] = [float((m.fit(worlds)["posteriors"].argmax(2) == test).mean()) for m in noisy]
        for teacher in ("mlp", "gnn"):
            models = [Pate(sigma=1 / v, teacher=teacher, queries=QUERIES) for v in INVERSE_SCALES]
            rows[f"student, PATE {teacher}"] = [float((m.fit(worlds)["posteriors"].argmax(2) == test).mean()) for m in models]
        print(f"\n{title}: {graph.train.sum()} private, {graph.val.sum()} asked about, {graph.test.sum()} tested, ", end="")
        print(f"{graph.classes} classes\n\n| accuracy at lambda = | " + " | ".join(map(str, INVERSE_SCALES)) + " |")
        print("|---" * (len(INVERSE_SCALES) + 1) + "|")
        for row, values in rows.items():
            print(f"| {row} | " + " | ".join(f"{v:.3f}" for v in values) + " |", flush=True)
    if plot:
        draw(lines, plot)


def draw(lines: dict[str, dict[str, list[float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(lines), figsize=(9, 3.4), sharey=True)
    for axis, (title, rows) in zip(axes, lines.items(), strict=True):
        for row, values in rows.items():
            if row.startswith(("labels", "student, prob", "student, as", "ceiling")):
                style = "k-" if row.startswith("ceiling") else "o--" if row.startswith("student") else "s-"
                axis.plot(INVERSE_SCALES, values, style, label=row, markersize=4)
        axis.set(title=title, xlabel="lambda = 1 / noise scale", ylim=(0, 1))
    axes[0].set_ylabel("accuracy")
    axes[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "accuracy"))
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--plot")
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if chosen.part == "speed":
        speed(chosen.data_dir)
    else:
        accuracy(chosen.data_dir, chosen.plot)
