"""The speed of PrivGNN's teachers compared with PyTorch Geometric, and the accuracy of its labels and students.

    python benchmarks/privgnn.py speed --data-dir DIR
    python benchmarks/privgnn.py accuracy --data-dir DIR [--queries 1000 --runs 3] [--plot FILE.png]

Times are CPU seconds of one thread, because other programs may use the machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from itertools import pairwise

import numpy as np

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.closed_forms import argmax_top_probability
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.attacks.roc import half_width
from gnnaudit.models.base import Release
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.privgnn.pate import Pate
from gnnaudit.models.privgnn.privgnn import PrivGnn
from gnnaudit.models.privgnn.public_part import Public
from gnnaudit.models.random.streams import stream

INVERSE_SCALES = (0.1, 0.2, 0.4, 0.8, 1.0)
GRAPHS = {"Cora": "cora", "Johns Hopkins": "facebook100:JohnsHopkins55"}
DELTA = 1e-4


def divided(name: str, folder: str, private: int = 100, queries: int = 1000) -> Graph:
    """The graph with the authors' kind of split: `private` nodes of each class, `queries` public nodes, and nodes for tests."""
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
    """The CPU seconds of one teacher with the layers of PyTorch Geometric, from the sample to the answer."""
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


def accuracy(folder: str, titles: list[str], queries: int, runs: int, plot: str | None) -> None:
    lines = {}
    for title in titles:
        lines[title] = measured(title, divided(GRAPHS[title], folder, 150 if "Hopkins" in title else 100, queries), runs)
    if plot:
        draw(lines, plot)


Line = list[np.ndarray]  # for each inverse scale the accuracies of all runs, (runs,), or one number if nothing is random


def measured(title: str, graph: Graph, runs: int) -> dict[str, Line]:
    """Prints the table of one graph, and returns its lines."""
    asked = int(graph.val.sum())
    worlds = Worlds.of(graph, list(range(1, runs + 1)), np.flatnonzero(graph.test))
    test, rows = graph.y[graph.test], dict[str, Line]()
    settings = {"queries": asked, "classes": graph.classes, "epochs": 50}
    near = PrivGnn(neighbours=50, **settings)
    recipes = {"probabilities": near, "as coded": dataclasses.replace(near, mode="paper", as_coded=True)}
    for word, model in recipes.items():
        began = time.process_time()
        told = model.teachers(worlds)
        y = graph.y[told.queries]
        right = (told.answers.argmax(2) == y).mean(1)
        print(f"{title}, {word}: teachers right {shown(right)}", end=", ")
        print(f"{time.process_time() - began:.0f} CPU s for {told.queries.size} teachers", flush=True)
        seen = [model.with_noise(1 / inverse).answered(worlds, told) for inverse in INVERSE_SCALES]
        rows[f"labels, {word}"] = [(release["votes"] == y).mean(1) for release in seen]
        rows[f"student, {word}"] = [tested(release, test) for release in seen]
    rows["ceiling a(c, beta)"] = [np.array([argmax_top_probability(graph.classes, 1 / v)]) for v in INVERSE_SCALES]
    for teacher in ("mlp", "gnn"):
        model = Pate(teacher=teacher, queries=asked)
        public = Public.of(worlds)
        queries = public.queries(asked, model.selection)
        counts = model.counts(public, queries)
        seen = [model.with_noise(1 / v).answered(worlds, queries, counts) for v in INVERSE_SCALES]
        rows[f"student, PATE {teacher}"] = [tested(release, test) for release in seen]
    print(f"\n{title}: {graph.train.sum()} private, {graph.val.sum()} asked about, {graph.test.sum()} tested, ", end="")
    print(f"{graph.classes} classes\n\n| at lambda = | " + " | ".join(map(str, INVERSE_SCALES)) + " |")
    print("|---" * (len(INVERSE_SCALES) + 1) + "|")
    for word, line in rows.items():
        print(f"| {word} | " + " | ".join(map(shown, line)) + " |", flush=True)
    for word, cells in budgets(near).items():
        print(f"| {word} | " + " | ".join(f"{v:.1f}" for v in cells) + " |", flush=True)
    return rows


def tested(release: Release, labels: np.ndarray) -> np.ndarray:
    """(runs,): the share of the test nodes that the student classifies correctly."""
    return (release["posteriors"].argmax(2) == labels).mean(1)


def half(each: np.ndarray) -> float:
    """Half the width of a 95 % t-interval for the mean."""
    return half_width(each.std(ddof=1), each.size) if each.size > 1 else 0.0


def shown(each: np.ndarray) -> str:
    return f"{each.mean():.3f}" + (f" ± {half(each):.3f}" if each.size > 1 else "")


def budgets(model: PrivGnn) -> dict[str, list[float]]:
    """Epsilons at DELTA: the true cost of noisy labels from probabilities, and the epsilons of the paper and of its tables."""
    claim = Claim(1.0, DELTA, Unit.NODE)
    noisy = [model.with_noise(1 / v) for v in INVERSE_SCALES]
    paper = [dataclasses.replace(m, mode="paper") for m in noisy]
    return {
        "epsilon that is proved, probabilities": [tightest(upper(m.ledger, claim)).epsilon for m in noisy],
        "epsilon of mode paper (theorem 8)": [m.printed(DELTA) for m in paper],
        "epsilon printed as coded (proved: none)": [dataclasses.replace(m, as_coded=True).printed(DELTA) for m in paper],
    }


def draw(lines: dict[str, dict[str, Line]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"probabilities": "C0", "as coded": "C3"}
    figure, axes = plt.subplots(1, len(lines), figsize=(9, 4.2), sharey=True)
    for axis, (title, rows) in zip(axes, lines.items(), strict=True):
        for word, colour in colours.items():
            for part, style, aside in (
                ("labels", "s-", 0.0),
                ("student", "o--", 0.012),
            ):  # shifted, so that both intervals are visible
                line, at = rows[f"{part}, {word}"], [v + aside for v in INVERSE_SCALES]
                values, widths = [v.mean() for v in line], [half(v) for v in line]
                name = f"{part}, {word}"
                axis.errorbar(at, values, widths, fmt=style, color=colour, label=name, markersize=4, capsize=2)
        axis.plot(INVERSE_SCALES, [v.mean() for v in rows["ceiling a(c, beta)"]], "k-", linewidth=2, label="ceiling a(c, β)")
        axis.set(title=title, xlabel="λ = 1 / noise scale", ylim=(0, 0.85))
    axes[0].set_ylabel("accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, ncol=4, loc="lower center")
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "accuracy"))
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--plot")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    chosen = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if chosen.part == "speed":
        speed(chosen.data_dir)
    else:
        accuracy(chosen.data_dir, chosen.graphs, chosen.queries, chosen.runs, chosen.plot)
