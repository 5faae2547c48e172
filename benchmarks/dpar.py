"""DPAR: the seconds of PageRank, and the accuracy at each true epsilon: `python benchmarks/dpar.py --data-dir DIR`."""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import time

import measured
import numpy as np
import torch

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.upper.calibration import calibrate
from gnnaudit.attacks.roc import half_width
from gnnaudit.models.data.loading import load
from gnnaudit.models.dpar.dpar import Dpar
from gnnaudit.models.dpar.pagerank import among, page_rank
from gnnaudit.models.graph.graph import Graph, Worlds

DELTA = 1e-4
PUBLISHED = Dpar(
    sigma=0.95, source_sigma=0.67 / 0.95, mode="paper", node_rate=0.09, batch=60, epochs=200, train_nodes=2329, source_clip=0.01
)
PROVABLE = {
    "MLP": Dpar(sources=0, smoothing=0, epochs=200),
    "MLP, smoothed over the test graph": Dpar(sources=0, epochs=200),
    "DPAR, Gaussian, 10 lists": Dpar(sources=10, epochs=200),
    "DPAR, Gaussian, 70 lists": Dpar(epochs=200),
    "DPAR, Gaussian, 70 lists, four times their noise": Dpar(source_sigma=4.0, epochs=200),
    "DPAR, Gaussian, 70 lists, three rows a node": Dpar(cap=3, epochs=200),
    "DPAR, Gaussian, 70 lists, teleport 0.5": Dpar(teleport=0.5, epochs=200),
    "DPAR, Gumbel, 70 lists": Dpar(mechanism="gumbel", picks=2, source_clip=0.1, epochs=200),
}
CLEAR, LOUD = 1e-9, 1e9  # source_sigma for lists almost without noise, and for lists of noise alone


def divided(graph: Graph, seed: int) -> Graph:
    """The graph with a random split in the paper's shares: 7/9 of the nodes for training, 1/9 for validation, 1/9 for tests."""
    return measured.divided(graph, seed, 7 * graph.nodes // 9, 8 * graph.nodes // 9)


def accuracy(model: Dpar, graph: Graph, splits: int, runs: int) -> str:
    """The mean accuracy over all runs, half the width of its 95 % t-interval, and the CPU seconds of one run."""
    each, seconds = measured.accuracies(model, (divided(graph, split) for split in range(splits)), runs)
    return f"{each.mean():.3f} ± {half_width(each.std(ddof=1), each.size):.3f} ({seconds:.1f} s)"


def page_ranks(data_dir: str) -> None:
    print("| graph | nodes | arcs | CPU s, all nodes | entries a node | peak MiB |\n|---|---|---|---|---|---|")
    for name in ("cora_ml", "musae-facebook"):
        graph = load(name, data_dir=data_dir)
        adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
        start = time.process_time()
        found = page_rank(adjacency, np.arange(graph.nodes))
        seconds, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"| {name} | {graph.nodes} | {adjacency.nnz} | {seconds:.1f} | {found.nnz / graph.nodes:.0f} | {memory:.0f} |",
            flush=True,
        )


def as_coded(stored: Graph, both: Graph, splits: int, runs: int) -> None:
    print("\n| as coded, defaults | as stored | both ways |\n|---|---|---|")
    silent = PUBLISHED.with_noise(0.0)
    picked = dataclasses.replace(PUBLISHED, mechanism="gumbel", source_sigma=1 / 1.3 / 0.95, source_clip=0.001, values=True)
    for name, model in {"no noise": silent, "GM + DP-SGD": PUBLISHED, "EM + DP-SGD": picked}.items():
        print(f"| {name} | {accuracy(model, stored, splits, runs)} | {accuracy(model, both, splits, runs)} |", flush=True)


def provable(graph: Graph, both_ways: bool, splits: int, runs: int, only: str) -> None:
    budgets = (1.0, 2.0, 4.0, 8.0, 16.0, math.inf)
    arcs = "both ways" if both_ways else "as stored"
    print(f"\n| {arcs}, true epsilon at delta {DELTA:g} | " + " | ".join(f"{b:g}" for b in budgets) + " |\n" + "|---" * 7 + "|")
    for name, recipe in PROVABLE.items():
        if only not in name or not (both_ways or recipe.smoothing):  # an MLP that reads no graph is the same on both
            continue
        model = dataclasses.replace(recipe, both_ways=both_ways)
        models = [calibrate(model, Claim(budget, DELTA, Unit.NODE)) for budget in budgets]
        row = [accuracy(m, graph, splits, runs).split(" (")[0] for m in models]
        print(f"| {name} | " + " | ".join(row) + " |", flush=True)


def parts(both: Graph, splits: int, runs: int) -> None:
    """Prints the causes of the loss of accuracy at epsilon 8, with one change of the recipe in each line. "Not paid for" means
    that the ledger does not charge for the change.
    """
    claim = Claim(8.0, DELTA, Unit.NODE)
    mlp = calibrate(PROVABLE["MLP, smoothed over the test graph"], claim)
    lists = PROVABLE["DPAR, Gaussian, 70 lists"]
    paid = calibrate(lists, claim)
    every = dataclasses.replace(lists, sources=2329, cap=10)
    print("\n| at epsilon 8 | noise std | accuracy |\n|---|---|---|")
    steps = {
        "MLP, smoothed over the test graph": mlp,
        "70 lists of pure noise, not paid for": dataclasses.replace(lists, sigma=mlp.sigma, source_sigma=LOUD),
        "70 lists without noise, not paid for": dataclasses.replace(lists, sigma=mlp.sigma, source_sigma=CLEAR),
        "70 lists with their noise, paid for": paid,
        "the same with no noise in training": dataclasses.replace(paid, sigma=CLEAR, source_sigma=paid.row_noise / CLEAR),
        "no noise at all, 70 lists": lists,
        "no noise at all, a list for every node": every,
        "no noise at all, MLP, smoothed": PROVABLE["MLP, smoothed over the test graph"],
    }
    for name, model in steps.items():
        print(f"| {name} | {model.noise_std:.1f} | {accuracy(model, both, splits, runs)} |", flush=True)
    print(f"\nOf the nodes picked for a list at epsilon 8, neighbours: {hits(paid, both):.4f}; by chance {chance(both):.4f}.")


def hits(model: Dpar, graph: Graph) -> float:
    """The share of the listed nodes that are neighbours of the source of their list."""
    part = divided(graph, 0)
    worlds = Worlds.of(part, list(range(5)), np.flatnonzero(part.test))
    release = dataclasses.replace(model, keep=("rows",), epochs=1).fit(worlds)
    alike = among(part.edges, ~(part.val | part.test), both_ways=True).toarray() > 0
    found = [
        alike[source, np.argsort(-row)[: model.picks]].mean()
        for rows, ids in zip(release["rows"], release["sources"], strict=True)
        for row, source in zip(rows, ids, strict=True)
    ]
    return float(np.mean(found))


def chance(graph: Graph) -> float:
    part = divided(graph, 0)
    pool = ~(part.val | part.test)
    return float(among(part.edges, pool, both_ways=True).nnz / pool.sum() ** 2)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data-dir", required=True)
    options.add_argument("--splits", type=int, default=2)
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--provable", action="store_true", help="only the tables at true epsilons")
    options.add_argument("--only", default="", help="just the provable recipes whose name holds this word")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    stored, both = (load(f"cora_ml:directed={how}", data_dir=arguments.data_dir) for how in ("yes", "no"))
    if not arguments.only and not arguments.provable:
        page_ranks(arguments.data_dir)
        as_coded(stored, both, arguments.splits, arguments.runs)
        parts(both, arguments.splits, arguments.runs)
    for graph, both_ways in ((both, True), (stored, False)):
        provable(graph, both_ways, arguments.splits, arguments.runs, arguments.only)


if __name__ == "__main__":
    main()
