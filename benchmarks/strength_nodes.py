"""Node membership on GCNs: likelihood-ratio attacks on pools of runs, their null distribution, and the engine's speed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from proof import Proof

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.membership.cross_fit import scores_split
from gnnaudit.attacks.membership.lira import Lira
from gnnaudit.attacks.membership.multi_lira import strongest
from gnnaudit.attacks.membership.rmia import Relative
from gnnaudit.attacks.membership.threshold import Confidence
from gnnaudit.attacks.roc import measure
from gnnaudit.models.base import Release
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.random.streams import stream

Array = NDArray[np.float64]
PUBLISHED = Lira(shrinkage=0)
BEST_OF_8 = Lira()
SHARES = (0.001, 0.01)


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Runs on half of the nodes: `shadows` runs in complementary pairs, then targets. Half of the nodes are challenges."""

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
        """The scores and bits, (targets, challenges) each, of an attack with this number of shadows. If the pool has more
        shadows, its targets are divided among groups of shadows.
        """
        targets, groups = np.arange(self.shadows, len(self.bits)), self.shadows // shadows
        scores = np.empty((len(targets), len(self.asked)))
        for first in range(min(groups, len(targets))):
            group = np.arange(first * shadows, (first + 1) * shadows)
            scores[first::groups] = self.scores(attack, group, targets[first::groups])
        return scores, self.bits[targets][:, self.asked]


def attacked(pools: list[Pool], attack: Any, shadows: int) -> tuple[Array, NDArray[np.bool_]]:
    """`Pool.attacked` of several pools, one after the other."""
    scores, bits = zip(*(pool.attacked(attack, shadows) for pool in pools), strict=True)
    return np.concatenate(scores), np.concatenate(bits)


def coins(nodes: int, shadows: int, targets: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """(runs, nodes) bool, the members of each run: complementary halves for the shadows, an independent half for every target."""
    first = [half(nodes, random) for _ in range(shadows // 2)]
    return np.array([b for f in first for b in (f, ~f)] + [half(nodes, random) for _ in range(targets)])


def half(nodes: int, random: np.random.Generator) -> NDArray[np.bool_]:
    return random.permutation(nodes) < nodes // 2


def halves(graph: Graph, bits: NDArray[np.bool_], random: np.random.Generator) -> Worlds:
    """Worlds in which each run has the nodes of `bits`, (runs, nodes) bool, and trains on them."""
    everyone, rows = dataclasses.replace(graph, train=np.ones(graph.nodes, dtype=bool)), np.arange(graph.nodes)
    return Worlds(everyone, random.integers(2**63, size=len(bits)).astype(np.uint64), rows, nodes=Mask(rows, bits))


def figures(scores: Array, bits: NDArray[np.bool_]) -> dict[str, Array]:
    """The AUC and the TPRs of every target, by name, (targets,) each."""
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


def family(pools: list[Pool], data: str) -> Iterator[Proof]:
    """N4 to N7, and the difference between our strongest attack and published LiRA on the same targets."""
    for name, where, shadows, what, attack, bands in LIRA:
        if where != data:
            continue
        found = figures(*attacked(pools, attack, shadows))
        for kind, (source, low, high) in bands.items():
            yield Proof(name, data, f"{what}, {shadows} shadows, {kind}", found[kind], source, low, high)
        if name == "N7":
            plain = figures(*attacked(pools, PUBLISHED, shadows))
            for kind in found:
                yield Proof(name, data, f"{what} less LiRA on the same targets, {kind}", found[kind] - plain[kind], "paired", 0.0)


def null(pools: list[Pool], data: str) -> Iterator[Proof]:
    """V2: the attacks on the same pools with logits replaced by noise, and with new random bits."""
    random = stream(1, "null")
    blind = {"noise": [noisy(pool, random) for pool in pools], "dealt bits": [redealt(pool, random) for pool in pools]}
    attacks = {
        "LiRA": PUBLISHED,
        "our default": BEST_OF_8,
        "our strongest": strongest(),
        "RMIA": Relative(gamma=2.0),
        "confidence": Confidence("posteriors@0-hop"),
    }
    for what, attack in attacks.items():
        for kind, others in blind.items():
            values = figures(*attacked(others, attack, 16))["AUC"]
            yield Proof("V2", data, f"{what} on {kind}, 16 shadows, AUC", values, ".50", 0.49, 0.51)


def noisy(pool: Pool, random: np.random.Generator) -> Pool:
    arrays = pool.release.arrays.items()
    noise = {n: np.log(random.dirichlet(np.ones(a.shape[2]), a.shape[:2])).astype(np.float32) for n, a in arrays}
    return dataclasses.replace(pool, release=Release(noise, pool.release.watch))


def redealt(pool: Pool, random: np.random.Generator) -> Pool:
    return dataclasses.replace(pool, bits=coins(pool.graph.nodes, pool.shadows, len(pool.bits) - pool.shadows, random))


def speed(graph: Graph) -> Proof:
    """CPU seconds of PyTorch Geometric's GCN, one run at a time, over those of ours, 8 at a time, measured in turns."""
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
        if turn:  # the first repetition includes imports
            ratios.append(theirs / ours)
            print(f"PyG {theirs:.3f} CPU s, ours {ours:.3f} CPU s a model")
    return Proof("speed", graph.name, "GCN, 200 epochs: CPU s of PyG / ours", np.array(ratios), "side by side", 8.0)
