"""The shadow classifier, as published and corrected, with one target and one shadow model on disjoint nodes, as in rebMIGraph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from proof import Proof
from sklearn.metrics import balanced_accuracy_score
from strength_nodes import ANY, Array, Band, halves

from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.membership.shadow_classifier import ShadowMlp
from gnnaudit.attacks.membership.threshold import Confidence
from gnnaudit.attacks.roc import Leak, auc, measure
from gnnaudit.models.base import Release
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.graph.graph import Graph
from gnnaudit.models.random.streams import stream
from gnnaudit.models.sparse.block_diagonal import Blocks, features

TSTF: list[tuple[str, str, dict[str, Band]]] = [
    ("N1", "TSTF as published, balanced accuracy", {"cora": (".811", 0.791, 0.831), "citeseer": (".879", 0.859, 0.899)}),
    ("N2", "TSTF disjoint, AUC", {"cora": ("port .894", 0.88, ANY), "citeseer": ("port .940", 0.93, ANY)}),
    ("N2", "TSTS disjoint, AUC", {"cora": ("port .884", 0.87, ANY), "citeseer": ("port .935", 0.92, ANY)}),
    ("N2", "everyone on the full graph, AUC", {"cora": ("port .743", -ANY, ANY), "citeseer": ("port .724", -ANY, ANY)}),
    ("N3", "0-hop confidence, AUC", {"cora": ("port .861", 0.85, ANY), "citeseer": ("port .917", 0.91, ANY)}),
    ("N3", "0-hop confidence, TPR@1%", {"cora": ("port .145", 0.12, ANY), "citeseer": ("port .308", 0.27, ANY)}),
    ("N3", "0-hop confidence, others of the members' classes, TPR@1%", {"cora": ("", -ANY, ANY), "citeseer": ("", -ANY, ANY)}),
]


def tstf(graph: Graph, data: str, seeds: int, thresholds: int) -> Iterator[Proof]:
    """N1 to N3: one target and one shadow model on disjoint nodes, as in rebMIGraph. seeds: how many seeds train classifiers.
    thresholds: how many seeds measure attacks by a threshold, which are cheaper.
    """
    sizes = {"cora": (90, 630), "citeseer": (100, 600)}[data]
    each = [tstf_once(graph, *sizes, seed, seed < seeds) for seed in range(thresholds)]
    for name, what, bands in TSTF:
        yield Proof(name, data, what, np.array([e[what] for e in each if what in e]), *bands[data])


def tstf_once(graph: Graph, per_class: int, others: int, seed: int, classifiers: bool) -> dict[str, float]:
    random = stream(seed, "tstf")
    order = random.permutation(graph.nodes)
    by_class = [order[graph.y[order] == c] for c in range(graph.classes)]
    members = [np.concatenate([c[k * per_class : (k + 1) * per_class] for c in by_class]) for k in (0, 1)]
    rest = np.setdiff1d(order, np.concatenate(members))
    rest = random.permutation(rest)
    outside = [rest[:others], rest[others : 2 * others]]
    anyone = [
        random.permutation(graph.nodes)[:others] for _ in (0, 1)
    ]  # as published: these lists of non-members contain members too
    bits = np.zeros((2, graph.nodes), dtype=bool)
    for k in (0, 1):
        bits[k, members[k]] = True
    worlds = halves(graph, bits, random)
    model = Gnn(hidden=256, dropout=0.0, epochs=300, learning_rate=1e-4, weight_decay=0.0)
    values = model.train(worlds)

    def answers(kept: list[NDArray[np.int64]] | None) -> Array:
        """(2, nodes, classes) log-probabilities of both runs, with the edges among kept[run]; None: all edges; empty: none."""
        edges = np.ones((2, graph.edges.shape[1]), dtype=bool)
        if kept is not None:
            edges = np.array([np.isin(graph.edges, k).all(0) for k in kept])
        rows = [np.arange(graph.nodes)] * 2
        return model.posteriors(values, features(graph.x, rows, "cpu"), Blocks.of(graph, rows, edges)).astype(np.float64)

    own, alone = answers(members), answers([np.zeros(0, dtype=np.int64)] * 2)

    def threshold(others: NDArray[np.int64]) -> Leak:
        both = np.concatenate([members[0], others])
        view, challenge = Release({"alone": alone[:1]}, np.arange(graph.nodes)), Challenge("node", graph, both)
        return measure(Confidence("alone").score(view, challenge), (np.arange(len(both)) < len(members[0]))[None])

    found = {
        "0-hop confidence, AUC": threshold(outside[0]).auc,
        "0-hop confidence, TPR@1%": threshold(outside[0]).tpr_at_fpr[0.01].value,
        "0-hop confidence, others of the members' classes, TPR@1%": threshold(members[1]).tpr_at_fpr[0.01].value,
    }
    if not classifiers:
        return found
    full = answers(None)

    def attack(inside: Array, non_members: list[NDArray[np.int64]], beyond: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The scores and bits of an attack that is trained on run 1 and scores run 0. inside, beyond: the answers for members and
        for non-members, which may be queried on different graphs.
        """
        log_p = [np.concatenate([inside[k, members[k]], beyond[k, non_members[k]]]) for k in (0, 1)]
        bit = [np.arange(len(p)) < len(members[k]) for k, p in enumerate(log_p)]
        fake = [Challenge("node", graph, np.arange(len(p))) for p in log_p]
        view = [Release({"posteriors": p[None]}, np.arange(len(p))) for p in log_p]
        fitted = ShadowMlp(seed=seed).fit(Pilot(view[1], fake[1], bit[1][None]))
        return fitted.score(view[0], fake[0])[0], bit[0]

    def batched(scores: Array, bit: NDArray[np.bool_]) -> float:
        """The published "AUROC", which is the balanced accuracy of the decisions, averaged over batches of 64."""
        shuffled = random.permutation(len(bit))
        return float(np.mean([balanced_accuracy_score(bit[b], scores[b] > 0) for b in np.array_split(shuffled, len(bit) // 64)]))

    return found | {
        "TSTF as published, balanced accuracy": batched(*attack(own, anyone, full)),
        "TSTF disjoint, AUC": auc(*attack(own, outside, full)),
        "TSTS disjoint, AUC": auc(*attack(own, outside, answers(outside))),
        "everyone on the full graph, AUC": auc(*attack(full, outside, full)),
    }
