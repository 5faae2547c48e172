"""GAP's node attack as in its code: a perceptron is trained and tested on nodes of one run on the whole graph (N9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from proof import Proof
from strength_nodes import ANY, Array

from gnnaudit.accounting.claim import Unit
from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.membership.shadow_classifier import ShadowMlp
from gnnaudit.attacks.roc import measure
from gnnaudit.models.base import Release
from gnnaudit.models.baselines.edgerand import EdgeRand
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.random.streams import stream

# of the drawn nodes of each class, the share of members, and an equal share of non-members; of both, the share for testing
MEMBERS, TEST = 0.4, 0.3
PER_CLASS = 230  # how many nodes of each class are drawn for a graph with official figures
# the official code's AUC and TPR at 1 % FPR on JohnsHopkins55: mean and standard deviation of three runs; then the band of the
# AUC
OFFICIAL = {
    "GAP": (".763 ± .063", ".083 ± .056", 0.743, 0.783),
    "MLP": (".773 ± .047", ".082 ± .044", 0.753, 0.793),
    "GraphSAGE": (".566 ± .019", ".014 ± .003", -ANY, ANY),
    "GAP, node level, epsilon 8": (".483 ± .007", ".020 ± .020", -ANY, ANY),
    "GAP, node level, epsilon 2": (".491 ± .034", ".026 ± .013", -ANY, ANY),
}


def nmi(graph: Graph, data: str, seeds: int) -> Iterator[Proof]:
    """The attack on one model, for each seed, with equally many nodes of each class. One campus has official figures."""
    recipes: dict[str, Any] = {"GAP": Gap(hidden=64), "MLP": Mlp(hidden=64), "GraphSAGE": EdgeRand(hidden=64, layers=2)}
    official = OFFICIAL if "JohnsHopkins55" in data else {}
    per_class = PER_CLASS if official else int(np.bincount(graph.y).min())
    if official:
        nodes = int(MEMBERS * per_class) * graph.classes
        private = Gap(hidden=64, unit=Unit.NODE, mode="paper", epochs=10, train_nodes=nodes)
        recipes["GAP, node level, epsilon 8"] = private.with_noise(1.8763)
        recipes["GAP, node level, epsilon 2"] = private.with_noise(5.4495)
    for name, model in recipes.items():
        found = np.array([once(model, graph, per_class, seed) for seed in range(seeds)])
        auc, tpr, lowest, highest = official.get(name, ("", "", -ANY, ANY))
        yield Proof("N9", data, f"nmi within one run, {name}, AUC", found[:, 0], auc, lowest, highest)
        yield Proof("N9", data, f"nmi within one run, {name}, TPR@1%", found[:, 1], tpr)


def once(model: Any, graph: Graph, per_class: int, seed: int) -> tuple[float, float]:
    """The AUC and the TPR at 1 % FPR of the attack on one training."""
    random = stream(seed, "nmi")
    order, size = random.permutation(graph.nodes), int(MEMBERS * per_class)
    drawn = [order[graph.y[order] == c][:per_class] for c in range(graph.classes)]
    members, others = (np.concatenate([c[k * size : (k + 1) * size] for c in drawn]) for k in (0, 1))
    none, train = np.zeros(graph.nodes, dtype=bool), np.zeros(graph.nodes, dtype=bool)
    train[members] = True
    seen = dataclasses.replace(graph, train=train, val=none, test=~train)
    asked = random.permutation(np.concatenate([members, others]))
    posteriors = model.fit(Worlds.of(seen, [seed], asked))["posteriors"].astype(np.float64)
    return tried(posteriors, asked, train[asked], graph, seed)


def tried(posteriors: Array, asked: NDArray[np.int64], bits: NDArray[np.bool_], graph: Graph, seed: int) -> tuple[float, float]:
    """The AUC and the TPR at 1 % FPR of an attack that is trained on the first 70 % of the nodes and tested on the others. (GAP's
    code uses a seventh of the first 70 % to choose the epoch.)
    """
    cut = round((1 - TEST) * len(asked))
    parts = [
        (Release({"posteriors": posteriors[:, part]}, asked[part]), Challenge("node", graph, asked[part]), bits[None, part])
        for part in (slice(0, cut), slice(cut, None))
    ]
    attack = dataclasses.replace(ShadowMlp.gap(), seed=seed).fit(Pilot(*parts[0]))
    leak = measure(attack.score(*parts[1][:2]), parts[1][2])
    return leak.auc, leak.tpr_at_fpr[0.01].value
