"""Link stealing, LinkTeller and edge membership on Kipf and Welling's GCN."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from proof import Proof

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.links.link_stealing import LinkClassifier
from gnnaudit.attacks.links.linkteller import influence, symmetric
from gnnaudit.attacks.links.model_free import FEATURES
from gnnaudit.attacks.links.similarity import LinkStealing
from gnnaudit.attacks.membership.cross_fit import scores_split
from gnnaudit.attacks.membership.lira import Lira
from gnnaudit.attacks.membership.multi_lira import MultiLira
from gnnaudit.attacks.roc import auc, measure
from gnnaudit.models.base import Release
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.random.streams import stream

KIPF = Gnn(hidden=16, input_dropout=0.5, learning_rate=0.01, weight_decay=5e-4, epochs=100)  # the target of link stealing
TELLER = Gnn(hidden=16, learning_rate=0.01, weight_decay=5e-4, epochs=500)  # the target of LinkTeller
QUERY = "posteriors"


def as_kipf(graph: Graph, labels: int = 0) -> Graph:
    """The graph with rows of features that sum to one. Its first `labels` nodes, or a tenth for 0, are for training."""
    x = sp.csr_array(graph.x)
    size = np.maximum(np.asarray(x.sum(1)).ravel(), 1).astype(np.float32)
    train = np.arange(graph.nodes) < (labels or graph.nodes // 10)
    return dataclasses.replace(
        graph, x=sp.csr_array(sp.diags_array(1 / size) @ x), train=train, val=~train, test=np.zeros_like(train)
    )


def non_edges(graph: Graph, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(count, 2) random pairs without an edge."""
    edges = set(map(tuple, graph.edges.T.tolist()))
    pairs = np.sort(random.integers(graph.nodes, size=(3 * count, 2)), axis=1)
    free = [p for p in np.unique(pairs, axis=0).tolist() if p[0] != p[1] and tuple(p) not in edges]
    return np.array(free)[random.permutation(len(free))[:count]]


STEALING: dict[str, tuple[str, Any, dict[str, tuple[str, float]]]] = {
    "features, cosine": ("E1", FEATURES, {"cora": ("port .803", -np.inf), "citeseer": ("port .881", -np.inf)}),
    "attack 0, correlation": ("E1", LinkStealing(), {"cora": ("port .914", 0.90), "citeseer": ("port .952", 0.94)}),
    "attack 3": ("E2", LinkClassifier(3), {"cora": ("port .953", 0.945), "citeseer": ("port .967", 0.96)}),
    "attack 6": ("E2", LinkClassifier(6), {"cora": ("port .959", 0.95), "citeseer": ("port .978", 0.97)}),
}


def stealing(graph: Graph, data: str, seeds: int) -> Iterator[Proof]:
    """E1 and E2: edges against random pairs. The attacker knows half of the edges; a tenth are challenges."""
    graph = as_kipf(graph)
    release = KIPF.fit(Worlds.of(graph, list(range(seeds))))
    found: dict[str, list[float]] = {what: [] for what in STEALING}
    for seed in range(seeds):
        random = stream(seed, "stealing")
        order = random.permutation(graph.edges.shape[1])
        tenth = len(order) // 10
        items = np.concatenate([graph.edges[:, order[:tenth]].T, non_edges(graph, tenth, random)])
        known = dataclasses.replace(graph, edges=graph.edges[:, order[tenth : tenth + len(order) // 2]])
        for what, (_, attack, _) in STEALING.items():
            scores = attack.score(release.part(slice(seed, seed + 1)), Challenge("edge", known, items))[0]
            found[what].append(auc(scores, np.arange(len(items)) < tenth))
    for what, (name, _, bands) in STEALING.items():
        yield Proof(name, data, f"link stealing against random pairs, {what}, AUC", np.array(found[what]), *bands[data])


def linkteller(graph: Graph, data: str, seeds: int) -> Iterator[Proof]:
    """E3: all pairs among 500 random nodes are challenges. At the true number of edges, precision equals recall.

    As in the authors' code, training uses Planetoid's 20 labels of each class and 500 epochs. The authors' code reads the
    influence of one end on the other. Ours reads the larger influence of the two directions, which does not depend on the order
    of the nodes.
    """
    graph = as_kipf(graph, labels=20 * graph.classes)
    edges, upper = set(map(tuple, graph.edges.T.tolist())), np.triu_indices(500, 1)
    found: dict[str, list[float]] = {"one way": [], "both ways": [], "self-normalised": []}
    for seed in range(seeds):
        nodes = np.sort(stream(seed, "linkteller").permutation(graph.nodes)[:500])
        there = np.array([tuple(p) in edges for p in nodes[np.stack(upper, axis=1)].tolist()])
        api = TELLER.deployed(Worlds.of(graph, [seed]))
        moves = influence(api, graph.x, nodes)
        ways = {
            "one way": moves.transpose(0, 2, 1),
            "both ways": symmetric(moves, False),
            "self-normalised": symmetric(moves, True),
        }
        for way, scores in ways.items():
            found[way].append(there[np.argsort(-scores[0][upper], kind="stable")[: there.sum()]].mean())
    bands = {
        "one way": {"cora": ("", -np.inf), "citeseer": ("", -np.inf)},
        "both ways": {"cora": ("port .660", 0.65), "citeseer": ("port .672", 0.65)},
        "self-normalised": {"cora": ("port .725", 0.72), "citeseer": ("port .759", 0.76)},
    }
    for way, values in found.items():
        yield Proof("E3", data, f"LinkTeller, {way}, precision", np.array(values), *bands[way][data])


def halved(graph: Graph, shadows: int, targets: int, seed: int) -> tuple[Release, Challenge, NDArray[np.bool_]]:
    """A release of runs that keep each edge with probability 1/2, the challenge of all edges, and the bits."""
    random, m = stream(seed, "edges"), graph.edges.shape[1]
    first = [random.random(m) < 0.5 for _ in range(shadows // 2)]
    bits = np.array([b for f in first for b in (f, ~f)] + [random.random(m) < 0.5 for _ in range(targets)])
    seeds = random.integers(2**63, size=len(bits)).astype(np.uint64)
    release = KIPF.fit(Worlds(graph, seeds, np.arange(graph.nodes), edges=Mask(np.arange(m), bits)))
    return release, Challenge("edge", dataclasses.replace(graph, edges=graph.edges[:, :0]), graph.edges.T.copy()), bits


def shadow_edges(graph: Graph, data: str, shadows: int, targets: int) -> Iterator[Proof]:
    """E4: every run keeps each edge with probability 1/2. The non-members are the edges that are left out."""
    release, challenge, bits = halved(as_kipf(graph), shadows, targets, seed=0)
    attacks = {
        "feature cosine": (FEATURES, "", -np.inf),
        "link stealing 0, correlation": (LinkStealing(), "port .688", -np.inf),
        "edge-LiRA on the distance": (Lira("ends", QUERY), "port .787", 0.78),
        "edge-LiRA on all logits and the distance": (MultiLira("edge", (QUERY,), (QUERY,)), "port .842", 0.83),
    }
    for what, (attack, source, low) in attacks.items():
        scores = scores_split(attack, release, challenge, bits, np.arange(shadows), np.arange(shadows, len(bits)))
        each = [measure(s[None], b[None]) for s, b in zip(scores, bits[shadows:], strict=True)]
        yield Proof("E4", data, f"dropped edges, {what}, AUC", np.array([e.auc for e in each]), source, low)
        yield Proof("E4", data, f"dropped edges, {what}, TPR@1%", np.array([e.tpr_at_fpr[0.01].value for e in each]), "")
