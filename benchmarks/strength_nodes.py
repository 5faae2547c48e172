"""Node membership on plain GCNs: the shadow classifier of TSTF and TSTS, and the likelihood-ratio family on one pool of runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from proof import Proof
from sklearn.metrics import balanced_accuracy_score

from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.lira import Lira
from gnnaudit.attacks.multi_lira import strongest
from gnnaudit.attacks.pool import scores_split
from gnnaudit.attacks.relative import Relative
from gnnaudit.attacks.roc import auc, measure, roc_points
from gnnaudit.attacks.shadow import ShadowMlp
from gnnaudit.attacks.threshold import Confidence
from gnnaudit.models.base import Release
from gnnaudit.models.blocks import Blocks, features
from gnnaudit.models.gnn import Gnn
from gnnaudit.models.graph import Graph, Mask, Worlds
from gnnaudit.models.noise import stream

Array = NDArray[np.float64]
PUBLISHED = Lira(shrinkage=0)
BEST_OF_8 = Lira()
SHARES = (0.001, 0.01)


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Runs on halves of the nodes, `shadows` in complementary pairs and then the targets; half of the nodes are asked about."""

    graph: Graph
    release: Release
    bits: NDArray[np.bool_]
    shadows: int
    asked: NDArray[np.int64]

    @staticmethod
    def train(graph: Graph, shadows: int, targets: int, seed: int) -> Pool:
        random = stream(seed, "pool")
        bits = coins(graph.nodes, shadows, targets, random)
        worlds = halves(graph, bits, random)
        asked = np.sort(random.permutation(graph.nodes)[: graph.nodes // 2])
        return Pool(graph, Gnn().fit(worlds), bits, shadows, asked)

    def scores(self, attack: Any, shadows: NDArray[np.int64], targets: NDArray[np.int64]) -> Array:
        challenge = Challenge("node", self.graph, self.asked)
        return scores_split(attack, self.release, challenge, self.bits[:, self.asked], shadows, targets)

    def attacked(self, attack: Any, shadows: int) -> tuple[Array, NDArray[np.bool_]]:
        """Scores and bits (targets, asked). Where the pool has more shadows than are used, every target gets other ones."""
        targets, rows = np.arange(self.shadows, len(self.bits)), []
        for i, target in enumerate(targets):
            start = shadows * (i % (self.shadows // shadows))
            if i and shadows == self.shadows:
                break
            chosen = np.array([target]) if shadows < self.shadows else targets
            rows.append(self.scores(attack, np.arange(start, start + shadows), chosen))
        return np.concatenate(rows), self.bits[targets][:, self.asked]


def coins(nodes: int, shadows: int, targets: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """(runs, nodes): complementary halves for the shadows, a half of its own for every target."""
    first = [half(nodes, random) for _ in range(shadows // 2)]
    return np.array([b for f in first for b in (f, ~f)] + [half(nodes, random) for _ in range(targets)])


def half(nodes: int, random: np.random.Generator) -> NDArray[np.bool_]:
    return random.permutation(nodes) < nodes // 2


def halves(graph: Graph, bits: NDArray[np.bool_], random: np.random.Generator) -> Worlds:
    """Runs that hold and train on the nodes that bits (runs, nodes) say."""
    everyone, rows = dataclasses.replace(graph, train=np.ones(graph.nodes, dtype=bool)), np.arange(graph.nodes)
    return Worlds(everyone, random.integers(2**63, size=len(bits)).astype(np.uint64), rows, nodes=Mask(rows, bits))


def figures(scores: Array, bits: NDArray[np.bool_]) -> dict[str, Array]:
    """AUC and TPR of every target, (targets,) each."""
    each = [measure(s[None], b[None]) for s, b in zip(scores, bits, strict=True)]
    rates = {f"TPR@{100 * f:g}%": np.array([m.tpr_at_fpr[f].value for m in each]) for f in SHARES}
    return {"AUC": np.array([m.auc for m in each]), **rates}


Band = tuple[str, float, float]  # source, lowest, highest
ANY = np.inf
LIRA: list[tuple[str, str, int, str, Any, dict[str, Band]]] = [
    ("N4", "cora", 8, "LiRA as published", PUBLISHED, {"AUC": (".819", 0.807, 0.831), "TPR@1%": (".082", -ANY, ANY)}),
    (
        "N4",
        "cora",
        128,
        "LiRA as published",
        PUBLISHED,
        {"AUC": (".892", 0.880, 0.904), "TPR@1%": (".355", 0.305, 0.405), "TPR@0.1%": (".203", -ANY, ANY)},
    ),
    ("N5", "cora", 8, "RMIA, gamma 2", Relative(gamma=2.0), {"AUC": (".815", 0.800, 0.830)}),
    ("N5", "cora", 128, "RMIA, gamma 2", Relative(gamma=2.0), {"AUC": (".827", 0.812, 0.842)}),
    ("N5", "cora", 8, "BASE", Relative(), {"AUC": ("as RMIA", 0.800, 0.830)}),
    ("N5", "cora", 128, "BASE", Relative(), {"AUC": ("as RMIA", 0.812, 0.842)}),
    (
        "N6",
        "cora",
        8,
        "our default",
        BEST_OF_8,
        {"AUC": ("best .819", 0.85, ANY), "TPR@1%": ("best .165", 0.22, ANY), "TPR@0.1%": ("best .069", 0.085, ANY)},
    ),
    (
        "N6",
        "citeseer",
        8,
        "our default",
        BEST_OF_8,
        {"AUC": ("best .871", 0.89, ANY), "TPR@1%": ("best .268", 0.31, ANY), "TPR@0.1%": ("best .118", 0.12, ANY)},
    ),
    (
        "N7",
        "cora",
        128,
        "our strongest",
        strongest(),
        {"AUC": (".892", 0.900, ANY), "TPR@1%": (".355", 0.365, ANY), "TPR@0.1%": (".203", 0.21, ANY)},
    ),
]


def family(pool: Pool, data: str) -> Iterator[Proof]:
    """N4 to N7, and our strongest less published LiRA on the same targets."""
    for name, where, shadows, what, attack, bands in LIRA:
        if where != data:
            continue
        found = figures(*pool.attacked(attack, shadows))
        for kind, (source, low, high) in bands.items():
            yield Proof(name, data, f"{what}, {shadows} shadows, {kind}", found[kind], source, low, high)
        if name == "N7":
            plain = figures(*pool.attacked(PUBLISHED, shadows))
            for kind in found:
                yield Proof(name, data, f"{what} less LiRA on the same targets, {kind}", found[kind] - plain[kind], "paired", 0.0)


TSTF: list[tuple[str, str, dict[str, Band]]] = [
    ("N1", "TSTF as published, balanced accuracy", {"cora": (".811", 0.791, 0.831), "citeseer": (".879", 0.859, 0.899)}),
    ("N2", "TSTF disjoint, AUC", {"cora": ("port .894", 0.88, ANY), "citeseer": ("port .940", 0.93, ANY)}),
    ("N2", "TSTS disjoint, AUC", {"cora": ("port .884", 0.87, ANY), "citeseer": ("port .935", 0.92, ANY)}),
    ("N2", "everyone on the full graph, AUC", {"cora": ("port .743", -ANY, ANY), "citeseer": ("port .724", -ANY, ANY)}),
    ("N3", "0-hop confidence, AUC", {"cora": ("port .861", 0.85, ANY), "citeseer": ("port .917", 0.91, ANY)}),
    ("N3", "0-hop confidence, TPR@1%", {"cora": ("port .145", 0.12, ANY), "citeseer": ("port .308", 0.27, ANY)}),
]


def tstf(graph: Graph, data: str, seeds: int) -> Iterator[Proof]:
    """N1 to N3: one target and one shadow model on disjoint nodes, as in rebMIGraph."""
    sizes = {"cora": (90, 630), "citeseer": (100, 600)}[data]
    each = [tstf_once(graph, *sizes, seed) for seed in range(seeds)]
    for name, what, bands in TSTF:
        yield Proof(name, data, what, np.array([e[what] for e in each]), *bands[data])


def tstf_once(graph: Graph, per_class: int, others: int, seed: int) -> dict[str, float]:
    random = stream(seed, "tstf")
    order = random.permutation(graph.nodes)
    by_class = [order[graph.y[order] == c] for c in range(graph.classes)]
    members = [np.concatenate([c[k * per_class : (k + 1) * per_class] for c in by_class]) for k in (0, 1)]
    rest = np.setdiff1d(order, np.concatenate(members))
    rest = random.permutation(rest)
    outside = [rest[:others], rest[others : 2 * others]]
    anyone = [random.permutation(graph.nodes)[:others] for _ in (0, 1)]  # the published lists hold members too
    bits = np.zeros((2, graph.nodes), dtype=bool)
    for k in (0, 1):
        bits[k, members[k]] = True
    everyone = dataclasses.replace(graph, train=np.ones(graph.nodes, dtype=bool))
    worlds = Worlds(
        everyone,
        random.integers(2**63, size=2).astype(np.uint64),
        np.arange(graph.nodes),
        nodes=Mask(np.arange(graph.nodes), bits),
    )
    model = Gnn(hidden=256, dropout=0.0, epochs=300, learning_rate=1e-4, weight_decay=0.0)
    values = model.train(worlds)

    def answers(kept: list[NDArray[np.int64]] | None) -> Array:
        """(2, nodes, classes) log-probabilities on the edges among `kept` of each run; None: on all edges; empty: on none."""
        edges = np.ones((2, graph.edges.shape[1]), dtype=bool)
        if kept is not None:
            edges = np.array([np.isin(graph.edges, k).all(0) for k in kept])
        rows = [np.arange(graph.nodes)] * 2
        return model.posteriors(values, features(graph.x, rows, "cpu"), Blocks.of(graph, rows, edges)).astype(np.float64)

    own, full, alone = answers(members), answers(None), answers([np.zeros(0, dtype=np.int64)] * 2)

    def attack(inside: Array, non_members: list[NDArray[np.int64]], beyond: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Run 1 teaches, run 0 is attacked; members and others may have been asked on different graphs."""
        log_p = [np.concatenate([inside[k, members[k]], beyond[k, non_members[k]]]) for k in (0, 1)]
        bit = [np.arange(len(p)) < len(members[k]) for k, p in enumerate(log_p)]
        fake = [
            Challenge("node", dataclasses.replace(graph, y=np.zeros(len(p), dtype=np.int64)), np.arange(len(p))) for p in log_p
        ]
        view = [Release({"posteriors": p[None]}, np.arange(len(p))) for p in log_p]
        fitted = ShadowMlp(seed=seed).fit(Pilot(view[1], fake[1], bit[1][None]))
        return fitted.score(view[0], fake[0])[0], bit[0]

    def batched(scores: Array, bit: NDArray[np.bool_]) -> float:
        """The published "AUROC": of the decided labels, in batches of 64."""
        shuffled = random.permutation(len(bit))
        return float(np.mean([balanced_accuracy_score(bit[b], scores[b] > 0) for b in np.array_split(shuffled, len(bit) // 64)]))

    both = np.concatenate([members[0], outside[0]])
    bit = np.arange(len(both)) < len(members[0])
    confidence = Confidence("alone").score(Release({"alone": alone[:1]}, np.arange(graph.nodes)), Challenge("node", graph, both))
    threshold = measure(confidence, bit[None])
    return {
        "TSTF as published, balanced accuracy": batched(*attack(own, anyone, full)),
        "TSTF disjoint, AUC": auc(*attack(own, outside, full)),
        "TSTS disjoint, AUC": auc(*attack(own, outside, answers(outside))),
        "everyone on the full graph, AUC": auc(*attack(full, outside, full)),
        "0-hop confidence, AUC": threshold.auc,
        "0-hop confidence, TPR@1%": threshold.tpr_at_fpr[0.01].value,
    }


def null(pool: Pool, data: str) -> Iterator[Proof]:
    """V2: the same pool with logits that are noise, and with bits dealt anew."""
    random = stream(1, "null")
    noise = {
        n: np.log(random.dirichlet(np.ones(a.shape[2]), a.shape[:2])).astype(np.float32) for n, a in pool.release.arrays.items()
    }
    dealt = coins(pool.graph.nodes, pool.shadows, len(pool.bits) - pool.shadows, random)
    attacks = {
        "LiRA": PUBLISHED,
        "our default": BEST_OF_8,
        "our strongest": strongest(),
        "RMIA": Relative(gamma=2.0),
        "confidence": Confidence("posteriors@0-hop"),
    }
    for what, attack in attacks.items():
        for kind, other in {
            "noise": dataclasses.replace(pool, release=Release(noise, pool.release.watch)),
            "dealt bits": dataclasses.replace(pool, bits=dealt),
        }.items():
            values = figures(*other.attacked(attack, 16))["AUC"]
            yield Proof("V2", data, f"{what} on {kind}, 16 shadows, AUC", values, ".50", 0.49, 0.51)


def speed(graph: Graph) -> Proof:
    """CPU seconds of PyTorch Geometric's GCN one by one over ours, 8 runs at a time, taken in turns on the same machine."""
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import subgraph

    whole, random = graph.to_pyg(), stream(0, "speed")
    ratios = []
    for turn in range(7):
        members = np.array([half(graph.nodes, random) for _ in range(8)])
        worlds = halves(graph, members, random)
        start = time.process_time()
        Gnn().train(worlds)
        ours = (time.process_time() - start) / 8
        start = time.process_time()
        rows = torch.from_numpy(np.flatnonzero(members[0]))
        arcs, _ = subgraph(rows, whole.edge_index, relabel_nodes=True)
        x, y, first, second = whole.x[rows], whole.y[rows], GCNConv(graph.dim, 64), GCNConv(64, graph.classes)
        adam = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3, weight_decay=1e-5)
        for _ in range(200):
            adam.zero_grad()
            hidden = torch.nn.functional.dropout(first(x, arcs).relu(), 0.5)
            torch.nn.functional.cross_entropy(second(hidden, arcs), y).backward()
            adam.step()
        theirs = time.process_time() - start
        if turn:  # the first turn pays for imports
            ratios.append(theirs / ours)
            print(f"PyG {theirs:.3f} CPU s, ours {ours:.3f} CPU s a model")
    return Proof("speed", graph.name, "GCN, 200 epochs: CPU s of PyG / ours", np.array(ratios), "side by side", 8.0)


STARS = {
    "LiRA": ({8: 0.012, 128: 0.203}, "C0"),
    "RMIA": ({8: 0.038, 128: 0.068}, "C1"),
    "G-BASE-MIA": ({8: 0.058, 128: 0.090}, "C4"),
    "MLP": ({8: 0.005, 128: 0.012}, "C5"),
}


def figure(pool: Pool, path: Path) -> None:
    """TPR at 0.1 % FPR against the number of shadow models, the published figures as stars; inset: the ROCs."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    counts = [2, 4, 8, 16, 32, 64, 128]
    canvas, axes = pyplot.subplots(figsize=(7, 5))
    lines: list[tuple[str, Any, str, list[int]]] = [
        ("LiRA, ours", PUBLISHED, "C0", counts[1:]),
        ("RMIA, ours", Relative(gamma=2.0), "C1", counts),
        ("our default (pooled variance)", BEST_OF_8, "C2", counts),
        ("our strongest (two laws, two queries)", strongest(), "C3", counts),
    ]
    inset = axes.inset_axes((0.08, 0.56, 0.38, 0.4))
    for label, attack, colour, shadows in lines:
        values = [figures(*pool.attacked(attack, n))["TPR@0.1%"] for n in shadows]
        means = np.array([v.mean() for v in values])
        errors = np.array([1.96 * v.std(ddof=1) / np.sqrt(len(v)) for v in values])
        axes.plot(shadows, 100 * means, color=colour, label=label, lw=1 if label.endswith("ours") else 2.5)
        if not label.endswith(", ours"):
            axes.fill_between(shadows, 100 * (means - errors), 100 * (means + errors), color=colour, alpha=0.2, lw=0)
        for n, style in ((8, ":"), (128, "-")):
            inset.plot(*roc_points(*pool.attacked(attack, n)), style, color=colour, lw=1)
    for label, (points, colour) in STARS.items():
        axes.plot(list(points), [100 * v for v in points.values()], "*", color=colour, ms=11, label=f"{label}, published")
    inset.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1), xlabel="FPR", ylabel="TPR")
    inset.set_title("ROC: 8 shadows dotted, 128 solid", fontsize=7)
    inset.tick_params(labelsize=6)
    axes.set(xscale="log", xticks=counts, xticklabels=counts, xlabel="shadow models", ylabel="TPR at 0.1 % FPR (%)")
    axes.set_title("Node membership, GCN on Cora, 20 targets, bands 95 %")
    axes.legend(loc="lower right", fontsize=7)
    canvas.tight_layout()
    canvas.savefig(path, dpi=150)
