"""What VESPER is worth at each budget: sound against published, beside an MLP and the paper's baselines. Figures: RESULTS.md.

python benchmarks/vesper.py --data-dir DIR      (seven minutes on one core; --graphs campus needs no files)

"published" is noise calibrated by the paper's own theorem. "honest" is the same training at the noise that its messages
really cost: known batches, substituted neighbours, one evaluation and, for truncation, the true sensitivity. Even that leaves out
the un-noised backward pass, for which no noise is enough, so it flatters the published method.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from gnnaudit.accounting.calibrate import calibrate
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.published_vesper import truncated_gcn_sensitivity
from gnnaudit.models.datasets import load
from gnnaudit.models.graph import Graph, Worlds
from gnnaudit.models.message_passing import sensitivity
from gnnaudit.models.noise import stream
from gnnaudit.models.vesper import Vesper
from gnnaudit.models.vfl_baselines import gap_resampled, vfgnn

BUDGETS = (1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
DELTA = 1e-6
FLOOR = 5
GRAPHS = ("facebook100:JohnsHopkins55:min_class=150", "cora", "fraud")


def fraud(nodes: int = 4000, seed: int = 0) -> Graph:
    """Two classes, one in eight a fraud; half of the nodes isolated, the others with three edges on average."""
    random = stream(seed, "fraud")
    y = (random.random(nodes) < 0.125).astype(np.int64)
    linked = np.flatnonzero(random.random(nodes) < 0.5)
    wanted, edges = 3 * linked.size // 2, set()
    while len(edges) < wanted:
        u, v = random.choice(linked, 2)
        if u != v and random.random() < (0.9 if y[u] == y[v] == 1 else 0.15 if y[u] == y[v] else 0.03):
            edges.add((min(u, v), max(u, v)))
    x = (random.standard_normal((nodes, 16)) + 0.35 * y[:, None]).astype(np.float32)
    part = random.permutation(nodes)
    train, val, test = (np.zeros(nodes, dtype=bool) for _ in range(3))
    train[part[: nodes // 2]] = val[part[nodes // 2 : 5 * nodes // 8]] = test[part[5 * nodes // 8 :]] = True
    return Graph(x, y, np.array(sorted(edges), dtype=np.int64).T.copy(), train, val, test, name="fraud")


def value(graph: Graph, posteriors: np.ndarray) -> np.ndarray:
    """(runs,): test accuracy; the area under the ROC curve where there are two classes."""
    y = graph.y[graph.test]
    if graph.classes > 2:
        return (posteriors[:, graph.test].argmax(-1) == y).mean(1)
    from sklearn.metrics import roc_auc_score

    return np.array([roc_auc_score(y, run[graph.test, 1] - run[graph.test, 0]) for run in posteriors])


@dataclass(frozen=True)
class Row:
    """One line of the table: a recipe whose noise is set for a budget, and how often it is run."""

    label: str
    at: Callable[[float], Vesper]
    runs: int


def lines(graph: Graph) -> list[Row]:
    """All recipes on one graph. One layer, small batches and few epochs, because the published noise is least for them."""
    public = {"n_train": int(graph.train.sum()), "layers": 1, "batch_size": 64, "epochs": 10, "fan_out": 100, "floor": FLOOR}
    rows = [Row("MLP", lambda _: Vesper(layers=0), 3)]

    def own(recipe: Vesper) -> Callable[[float], Vesper]:
        return lambda epsilon: calibrate(recipe, Claim(epsilon, DELTA), relative=1e-2)

    def honest(recipe: Vesper, truth: float) -> Callable[[float], Vesper]:
        """truth: true over printed sensitivity."""
        price = gap_resampled(**public)

        def at(epsilon: float) -> Vesper:
            sigma = calibrate(replace(price, mode="sound"), Claim(epsilon, DELTA), relative=1e-2).sigma
            return recipe.with_noise(sigma * truth)

        return at

    for decoder in ("concat", "gru"):
        for rule in ("gin", "gcn-floor"):
            rows.append(Row(f"sound s1 {rule} {decoder}", own(Vesper(aggregator=rule, floor=FLOOR, decoder=decoder)), 3))
    rows.append(Row("sound s2 gin concat", own(Vesper(variant="s2", refreshes=2)), 3))
    for decoder in ("concat", "gru"):
        for rule in ("gin", "gcn-truncated"):
            recipe = Vesper(mode="paper", aggregator=rule, decoder=decoder, **public)
            worse = truncated_gcn_sensitivity(FLOOR) / sensitivity(rule, FLOOR) if rule == "gcn-truncated" else 1.0
            rows.append(Row(f"published {rule} {decoder}", own(recipe), 1))
            if decoder == "concat":
                rows.append(Row(f"honest {rule} {decoder}", honest(recipe, worse), 1))
    rows.append(Row("published gap-resampled", own(gap_resampled(**public)), 1))
    rows.append(Row("published vfgnn", own(vfgnn(**public)), 1))
    return rows


def measure(name: str, data_dir: str | None, results: list[dict[str, object]], log: Path) -> None:
    """Adds one result for each recipe and budget that has none yet, to the list and to the log. An MLP has one for all."""
    graph = fraud() if name == "fraud" else load(name, data_dir=data_dir)
    done = {(r["graph"], r["recipe"], r["epsilon"]) for r in results}
    for row in lines(graph):
        for epsilon in BUDGETS if row.label != "MLP" else BUDGETS[:1]:
            if (graph.name, row.label, str(epsilon)) in done:
                continue
            started = time.process_time()
            model = replace(row.at(epsilon), keep=("posteriors",))
            trained = time.process_time()
            found = value(graph, model.fit(Worlds.of(graph, list(range(row.runs))))["posteriors"])
            seconds = (time.process_time() - trained) / row.runs
            results.append(
                {
                    "graph": graph.name,
                    "recipe": row.label,
                    "epsilon": str(epsilon),
                    "runs": row.runs,
                    "value": float(found.mean()),
                }
                | {"spread": float(found.std()), "noise": model.noise_std, "seconds": seconds}
            )
            with log.open("a") as lines_so_far:
                lines_so_far.write(json.dumps(results[-1]) + "\n")
            print(f"{results[-1]} accounting {trained - started:.1f} s", flush=True)


def table(results: list[dict[str, object]]) -> str:
    """Markdown: a table for each graph, recipes down, budgets across."""
    text = []
    for name in dict.fromkeys(r["graph"] for r in results):
        text += [
            f"\n| {name} | runs | s/run | " + " | ".join(f"ε = {e:g}" for e in BUDGETS) + " |",
            "|---" * (len(BUDGETS) + 3) + "|",
        ]
        part = [r for r in results if r["graph"] == name]
        for label in dict.fromkeys(r["recipe"] for r in part):
            mine = {r["epsilon"]: r for r in part if r["recipe"] == label}
            first = next(iter(mine.values()))
            cells = [f"{100 * float(str(mine.get(str(e), first)['value'])):.1f}" for e in BUDGETS]
            seconds = np.mean([float(str(r["seconds"])) for r in mine.values()])
            text.append(f"| {label} | {first['runs']} | {seconds:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def plot(results: list[dict[str, object]], path: Path) -> None:
    """Value against budget, one panel a graph."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = {
        "MLP": "k:", "sound s1 gin concat": "C0o-", "sound s1 gcn-floor concat": "C1o-", "published gin concat": "C0x--",
        "published gcn-truncated concat": "C1x--", "honest gin concat": "C0+:", "honest gcn-truncated concat": "C1+:",
    }  # fmt: skip
    names = list(dict.fromkeys(r["graph"] for r in results))
    figure, panels = plt.subplots(1, len(names), figsize=(4 * len(names), 3.6), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for label, style in shown.items():
            mine = [r for r in results if r["graph"] == name and r["recipe"] == label]
            values = [100 * float(str(r["value"])) for r in mine]
            panel.plot(range(len(BUDGETS)), values * (len(BUDGETS) // len(values)), style, label=label, markersize=4)
        panel.set_xticks(range(len(BUDGETS)), [f"{e:g}" for e in BUDGETS])
        panel.set_title(str(name), fontsize=9)
        panel.set_xlabel("ε that is claimed or paid")
    panels[0][0].set_ylabel("test accuracy or AUC, %")
    panels[0][-1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=None)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--plot", type=Path, default=Path("vesper.png"))
    parser.add_argument("--log", type=Path, default=Path("vesper.jsonl"), help="raw results; what it holds is not run again")
    chosen = parser.parse_args()
    everything = [json.loads(line) for line in chosen.log.read_text().splitlines()] if chosen.log.exists() else []
    for wanted in chosen.graphs:
        measure(wanted, chosen.data_dir, everything, chosen.log)
    print(table(everything))
    plot(everything, chosen.plot)
