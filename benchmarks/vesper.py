"""The accuracy of VESPER at each budget: sound, published, an MLP, and a baseline of the paper. RESULTS.md has the figures.

python benchmarks/vesper.py --data-dir DIR      (half an hour on one core; --graphs fraud large needs no files)

"published" has noise that is calibrated by the paper's own theorem. "honest" is the same training with noise for the true cost of
its messages: party B knows the batches, one evaluation is charged, and an edge may replace a neighbour in a sample (for
truncation, the true sensitivity is used). "honest" still flatters the published method, because it does not charge for the
backward pass without noise, for which no noise would be enough.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.attacks.roc import half_width
from gnnaudit.models.data.campus import campus
from gnnaudit.models.data.loading import load
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.random.streams import stream
from gnnaudit.models.vesper.aggregators import sensitivity
from gnnaudit.models.vesper.vesper import Vesper

BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
DELTA = 1e-6
GRAPHS = ("facebook100:JohnsHopkins55:min_class=150", "cora", "fraud", "large")
RUNS = 3


def fraud(nodes: int = 4000, seed: int = 0) -> Graph:
    """A graph with two classes, one of them an eighth. Half of the nodes have no edge, the others three on average."""
    random = stream(seed, "fraud")
    y = (random.random(nodes) < 0.125).astype(np.int64)
    linked = np.flatnonzero(random.random(nodes) < 0.5)
    wanted, edges = 3 * linked.size // 2, set()
    while len(edges) < wanted:
        u, v = random.choice(linked, 2)
        if u != v and random.random() < (0.9 if y[u] == y[v] == 1 else 0.15 if y[u] == y[v] else 0.03):
            edges.add((min(u, v), max(u, v)))
    x = (random.standard_normal((nodes, 16)) + 0.35 * y[:, None]).astype(np.float32)
    return Graph(x, y, np.array(sorted(edges), dtype=np.int64).T.copy(), *split(random, nodes, 0.5, 0.625), name="fraud")


def large(nodes: int = 100_000) -> Graph:
    """A large graph like the paper's: ten classes, two million edges, and features that depend little on the class."""
    raw = campus(nodes, classes=10, degree=40.0, same=0.6, signal=0.2)
    return Graph(raw.x, raw.y, raw.edges, *split(stream(0, "large"), nodes, 0.8, 0.9), name="large")


def split(random: np.random.Generator, nodes: int, first: float, second: float) -> list[np.ndarray]:
    """Random masks for training, validation and testing. first, second: the shares at which the last two begin."""
    place = np.argsort(random.permutation(nodes)) / nodes
    return [place < first, (place >= first) & (place < second), place >= second]


MADE = {"fraud": fraud, "large": large}


def value(graph: Graph, posteriors: np.ndarray) -> np.ndarray:
    """(runs,): the accuracy on the test nodes, or, with two classes, the area under the ROC curve."""
    y = graph.y[graph.test]
    if graph.classes > 2:
        return (posteriors.argmax(-1) == y).mean(1)
    from sklearn.metrics import roc_auc_score

    return np.array([roc_auc_score(y, run[:, 1] - run[:, 0]) for run in posteriors])


Result = dict[str, Any]  # graph, recipe, epsilon, runs, value, spread, noise, seconds


@dataclass(frozen=True)
class Row:
    """One line of the table. at: from a budget to the recipe with its noise. budgets: those at which it is run."""

    label: str
    at: Callable[[float], Vesper]
    budgets: tuple[float, ...] = BUDGETS


def lines(graph: Graph) -> list[Row]:
    """All recipes for one graph, with one layer, small batches and few epochs, for which the published noise is smallest.

    The large graph gets only the recipes that may beat the MLP, with the decoder that the paper prefers on such graphs.
    """
    crowd, floor, size = graph.name == "large", 50 if graph.name == "large" else 5, int(graph.train.sum())
    decoders = ("concat",) if crowd else ("concat", "gru")
    public = {"n_train": size, "layers": 1, "floor": floor}
    public |= {"batch_size": 512, "epochs": 4, "fan_out": 50} if crowd else {"batch_size": 64, "epochs": 10, "fan_out": 100}
    resampled = Vesper("paper", "gap-resampled", **public)
    rows = [Row("MLP", lambda _: Vesper(layers=0), BUDGETS[:1])]

    def own(recipe: Vesper) -> Callable[[float], Vesper]:
        return lambda epsilon: calibrate(recipe, Claim(epsilon, DELTA), relative=1e-2)

    def honest(recipe: Vesper, truth: float) -> Callable[[float], Vesper]:
        """truth: the true sensitivity to an edge / the printed sensitivity; 2 if the edge replaces a neighbour in a sample."""

        def at(epsilon: float) -> Vesper:
            for_substitution = calibrate(replace(resampled, mode="sound"), Claim(epsilon, DELTA), relative=1e-2).sigma
            return recipe.with_noise(for_substitution * truth / 2)

        return at

    layers = {"layers": 1} if crowd else {}
    for decoder in decoders:
        for rule in ("gin", "gcn-floor"):
            rows.append(Row(f"sound s1 {rule} {decoder}", own(Vesper(aggregator=rule, floor=floor, decoder=decoder, **layers))))
    if not crowd:
        rows.append(Row("sound s2 gin concat", own(Vesper(variant="s2", refreshes=2))))
        rows.append(Row("published gap-resampled", own(resampled)))
    for decoder in decoders:
        for rule in ("gin", "gcn-truncated"):
            recipe = Vesper(mode="paper", aggregator=rule, decoder=decoder, **public)
            truth = truncated(floor) / sensitivity(rule, floor) if rule == "gcn-truncated" else 2.0
            rows.append(Row(f"published {rule} {decoder}", own(recipe)))
            rows.append(Row(f"honest {rule} {decoder}", honest(recipe, truth), BUDGETS[:-1]))
    return rows


def truncated(floor: int) -> float:
    """The true sensitivity of truncated message passing to one edge: its two ends have degree `floor` with the edge, and without
    it are computed without their neighbours.

    The other neighbours of both ends have degree 1.
    """
    return math.sqrt(2) * (1 + 2 / (floor + 1) + (floor - 1) / math.sqrt(2 * (floor + 1)))


def measure(name: str, data_dir: str | None, results: list[Result], log: Path) -> None:
    """Computes the missing results, one for each recipe and budget, and adds them to the list and to the log."""
    graph = MADE[name]() if name in MADE else load(name, data_dir=data_dir)
    asked = np.flatnonzero(graph.test)
    done = {(r["graph"], r["recipe"], r["epsilon"]) for r in results}
    for row in lines(graph):
        for epsilon in row.budgets:
            if (graph.name, row.label, str(epsilon)) in done:
                continue
            started = time.process_time()
            model = replace(row.at(epsilon), keep=("posteriors",))
            trained = time.process_time()
            found = value(graph, model.fit(Worlds.of(graph, list(range(RUNS)), asked))["posteriors"])
            seconds = (time.process_time() - trained) / RUNS
            results.append(
                {"graph": graph.name, "recipe": row.label, "epsilon": str(epsilon), "runs": RUNS, "value": float(found.mean())}
                | {"spread": float(found.std(ddof=1)), "noise": model.noise_std, "seconds": seconds}
            )
            with log.open("a") as lines_so_far:
                lines_so_far.write(json.dumps(results[-1]) + "\n")
            print(f"{results[-1]} accounting {trained - started:.1f} s", flush=True)


def table(results: list[Result]) -> str:
    """A Markdown table for each graph, recipes by budgets: means with half the widths of 95 % t-intervals."""
    text = []
    for name in dict.fromkeys(r["graph"] for r in results):
        text += [
            f"\n| {name} | runs | s/run | " + " | ".join(f"ε = {e:g}" for e in BUDGETS) + " |",
            "|---" * (len(BUDGETS) + 3) + "|",
        ]
        for label, cells in curves(results, name).items():
            words = [f"{100 * c['value']:.1f} ± {100 * half(c):.1f}" if c else "" for c in cells]
            seconds = np.mean([c["seconds"] for c in cells if c])
            text.append(f"| {label} | {RUNS} | {seconds:.2f} | " + " | ".join(words) + " |")
    return "\n".join(text)


def curves(results: list[Result], name: str) -> dict[str, list[Result | None]]:
    """For each recipe on this graph, a result for every budget; None for a budget at which the recipe was not run.

    The MLP has the same result at all budgets. Without noise, the result of "honest" is that of "published".
    """
    found = {(r["recipe"], r["epsilon"]): r for r in results if r["graph"] == name}
    labels = dict.fromkeys(label for label, _ in found)
    silent = {label: label.replace("honest", "published") for label in labels}

    def at(label: str, epsilon: float) -> Result | None:
        if label == "MLP":
            return found[label, "1.0"]
        return found.get((label if math.isfinite(epsilon) else silent[label], str(epsilon)))

    return {label: [at(label, e) for e in BUDGETS] for label in labels}


def half(result: Result) -> float:
    """Half the width of a 95 % t-interval for the mean."""
    return half_width(result["spread"], result["runs"])


def plot(results: list[Result], path: Path) -> None:
    """Plots value against budget, with one panel for each graph."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = {
        "MLP": "k:", "sound s1 gin concat": "C0o-", "sound s1 gcn-floor concat": "C1o-", "published gin concat": "C0x--",
        "published gcn-truncated concat": "C1x--", "honest gin concat": "C0+:", "honest gcn-truncated concat": "C1+:",
    }  # fmt: skip
    names = list(dict.fromkeys(r["graph"] for r in results))
    figure, panels = plt.subplots(1, len(names), figsize=(3.6 * len(names), 3.9), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        cells = curves(results, name)
        for label, style in shown.items():
            line = cells.get(label, [None] * len(BUDGETS))
            values, widths = ([100 * f(c) if c else math.nan for c in line] for f in (lambda c: c["value"], half))
            panel.errorbar(range(len(BUDGETS)), values, widths, fmt=style, label=label, markersize=4, capsize=2, linewidth=1.2)
        panel.set_xticks(range(len(BUDGETS)), [f"{e:g}" for e in BUDGETS])
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("ε that is claimed or paid")
    panels[0][0].set_ylabel("test accuracy or AUC, %")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncol=4, loc="lower center")
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--plot", type=Path, default=Path("vesper.png"))
    parser.add_argument(
        "--log", type=Path, default=Path("vesper.jsonl"), help="raw results; results in this file are not computed again"
    )
    chosen = parser.parse_args()
    everything = [json.loads(line) for line in chosen.log.read_text().splitlines()] if chosen.log.exists() else []
    for wanted in chosen.graphs:
        measure(wanted, chosen.data_dir, everything, chosen.log)
    print(table(everything))
    plot(everything, chosen.plot)
