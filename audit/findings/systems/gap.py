"""Experiments on GAP (Sajadmanesh et al., USENIX Security 2023) and ProGAP (Sajadmanesh and Gatica-Perez, WSDM 2024)."""

import dataclasses
import math
from typing import Any

import numpy as np

from ....accounting.claim import Claim, Unit
from ....accounting.closed_forms import channel_epsilon
from ....accounting.gaussian import epsilon_of, mu_of_claim
from ....models.base import Model
from ....models.graph.graph import Graph, Mask, Worlds
from ...key import Key
from .. import exact_epsilons as exact
from ..certificate import Certificate, Figure, bars, computed, confirmed, sampled
from ..finding import with_experiments

EDGE = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE, exposes=("aggregates", "inputs"))
NODE = Claim(1.0, 1e-5, Unit.NODE, exposes=("aggregates",))
CAP, LEAVES = 5, 50


def paired_graph(key: Key, nodes: int = 400) -> Graph:
    """A random graph with the edges 0 - 1, 2 - 3, … and about two random edges per node. Features do not depend on the edges."""
    rng = key.fold("graph").generator()
    edges = np.concatenate([np.arange(nodes).reshape(-1, 2), rng.integers(nodes, size=(2 * nodes, 2))])
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    part = rng.random(nodes)
    x = rng.standard_normal((nodes, 8)).astype(np.float32)
    return Graph(x, rng.integers(2, size=nodes), edges.T.copy(), part < 0.7, (part >= 0.7) & (part < 0.8), part >= 0.8)


def edge_game(key: Key, name: str, mode: str) -> Certificate:
    """Plays 400 runs of the likelihood-ratio game on the released sums of GAP or ProGAP. In each, a fair coin keeps or drops each
    of 200 edges.
    """
    from ....accounting.upper.tradeoff import curve
    from ....attacks.canary.gaussian_ratio import LikelihoodRatio
    from ...games.game import Game

    graph, model = paired_graph(key), calibrated(name, mode)
    pairs = np.flatnonzero((graph.edges[0] % 2 == 0) & (graph.edges[1] == graph.edges[0] + 1))
    rounds = Game(graph, "edge", pairs, key).rounds(400)
    release, attack = model.fit(rounds.worlds), LikelihoodRatio()
    scores = attack.score(release, rounds.challenge)
    shift = float(attack.shift(release, rounds.challenge).mean())
    summary = (
        f"{scores.size} rounds: one undirected edge moves the likelihood ratio by {shift:.4f} standard deviations; "
        f"the claim allows {mu_of_claim(EDGE):.4f}."
    )
    how: dict[str, Any] = {"shape": "ledger", "ledger_curve": curve(model.ledger), "likelihood_ratio": True}
    score = "log-likelihood ratio, in standard deviations"
    return sampled(EDGE, scores[~rounds.bits], scores[rounds.bits], key, summary, score, **how)


def calibrated(name: str, mode: str) -> Model:
    """GAP or ProGAP with two hops at epsilon = 1. The encoder trains for two epochs, because accuracy does not matter here."""
    from ....accounting.upper.calibration import calibrate
    from ....models.gap.gap import Gap
    from ....models.gap.progap import ProGap

    kept: dict[str, Any] = {"mode": mode, "epochs": 2, "hidden": 8, "keep": ("aggregates", "inputs"), "public_seed": 1}
    model: Any = Gap(hops=2, **kept) if name == "gap" else ProGap(depth=2, **kept)
    return calibrate(model, dataclasses.replace(EDGE, unit=model.unit))


def degree_cap(key: Key, bounded_degree: bool) -> Certificate:
    """Plays rounds on a graph in which every leaf is joined to every hub, and one hub is present or absent.

    bounded_degree: whether to test the repaired mechanism, which has no cap, and noise for a public degree bound.
    """
    from ....models.gap.published import progap_edge_coded
    from ....models.graph.degree_cap import arc_present, bounded

    hubs, nodes, rounds, pilot = CAP + 1, LEAVES + CAP + 1, 4000, 500
    worlds = bipartite(key, pilot + rounds)
    degree = LEAVES if bounded_degree else CAP
    kept = arc_present(worlds) if bounded_degree else bounded(worlds, CAP)
    noise = exact.sigma_for(lambda s: progap_edge_coded(s, 1, NODE.delta), NODE.epsilon) * math.sqrt(degree)
    received = np.zeros((len(worlds), nodes))  # all features are equal, so a row of sums is one number
    for run in range(len(worlds)):
        received[run] = np.bincount(worlds.graph.arcs[1][kept[run]], minlength=nodes)
    assert worlds.nodes is not None
    present = worlds.nodes.present[:, 0]
    # pilot rounds only choose the threshold
    mean = [received[:pilot][present[:pilot] == bit].mean(axis=0) for bit in (False, True)]
    move = (mean[1] - mean[0]) * (np.arange(nodes) != LEAVES)  # the hub's own row is withheld
    noisy = received + noise * key.fold("noise").generator().standard_normal(received.shape)
    scores = (noisy @ move / (noise * np.linalg.norm(move)))[pilot:]
    present = present[pilot:]
    summary = (
        f"{rounds} rounds on {LEAVES} leaves, {hubs} hubs and "
        + (f"a public degree bound of {LEAVES}" if bounded_degree else f"a cap of {CAP}")
        + f": the other nodes' sums move by {np.linalg.norm(move):.1f} in total; the noise covers {math.sqrt(degree):.2f}."
    )
    return sampled(NODE, scores[~present], scores[present], key, summary, "sums of the other nodes, in standard deviations")


def bipartite(key: Key, rounds: int) -> Worlds:
    """Worlds of the complete bipartite graph of leaves and hubs. A fair coin decides whether hub LEAVES (its id) is present."""
    nodes = LEAVES + CAP + 1
    leaf, hub = np.meshgrid(np.arange(LEAVES), np.arange(LEAVES, nodes), indexing="ij")
    none = np.zeros(nodes, dtype=bool)
    edges = np.stack([leaf.ravel(), hub.ravel()])
    graph = Graph(np.ones((nodes, 1), np.float32), none.astype(np.int64), edges, none, none, none, classes=1)
    coins = key.fold("bits").generator().random((rounds, 1)) < 0.5
    return Worlds(graph, key.seeds(0, rounds), np.arange(nodes), nodes=Mask(np.array([LEAVES]), coins))


def isolated(key: Key, dropped: bool) -> Certificate:
    """Trains GAP on the path 0 - 1 - 2 with and without the edge 0 - 1. dropped: nodes without an edge are removed first."""
    model = calibrated("gap", "paper")
    model = dataclasses.replace(model, keep=("posteriors",))  # type: ignore[type-var]
    counts = []
    for edges in (np.array([[0, 1], [1, 2]]), np.array([[1], [2]])):
        graph = Graph(
            np.eye(3, dtype=np.float32), np.array([0, 1, 0]), edges, np.ones(3, bool), np.zeros(3, bool), np.zeros(3, bool)
        )
        graph = without_isolated(graph) if dropped else graph
        counts.append(model.fit(Worlds.of(graph, key.seeds(0, 1)))["posteriors"].shape[1])
    table = np.zeros((2, 4))
    table[[0, 1], counts] = 1.0  # the release contains the number of predictions
    summary = f"The release holds {counts[0]} predictions with the edge and {counts[1]} without it."
    figure = bars("predictions released", {"with the edge": counts[0], "without": counts[1]}, "rows")
    return computed(EDGE, channel_epsilon(table, EDGE.delta), summary, figure, "enumeration")


def without_isolated(graph: Graph) -> Graph:
    """The graph without its isolated nodes, as both repositories prepare their data before any private step."""
    stays = graph.degree > 0
    place = np.cumsum(stays) - 1
    parts: dict[str, Any] = {name: getattr(graph, name)[stays] for name in ("x", "y", "train", "val", "test")}
    return dataclasses.replace(graph, edges=place[graph.edges], **parts)


def best_epoch(key: Key, mode: str) -> Certificate:
    """Trains DP-MLP at node level in two worlds. Node 0 is a validation node in one of them. Everything else is equal.

    The other two validation nodes have equal features and different labels. Every epoch classifies exactly one of them correctly,
    so node 0 alone decides which epoch is best.
    """
    from ....accounting.upper.calibration import calibrate
    from ....models.gap.mlp import Mlp
    from ....models.kernels.compiler.compiled import unused

    rng, nodes, runs = key.fold("graph").generator(), 67, 2000
    x = rng.standard_normal((nodes, 4)).astype(np.float32)
    x[2] = x[1]
    # each feature vector occurs with both labels, so training favours no class, and chance decides which epoch is best
    x[35:] = x[3:35]
    y = np.concatenate([[1, 0, 1], np.repeat([0, 1], 32)])
    train = np.arange(nodes) >= 3
    model = calibrate(Mlp(mode=mode, unit=Unit.NODE, epochs=100, batch=32, train_nodes=64, layers=1, learning_rate=1.0), NODE)
    scores = []
    for world in (0, 1):
        val = (np.arange(nodes) < 3) & ((np.arange(nodes) > 0) | bool(world))
        asked = np.arange(nodes) == 0  # the adversary queries node 0 by its features, which are not secret
        graph = Graph(x, y, np.empty((2, 0), np.int64), train, val, asked & ~val)
        worlds = Worlds.of(graph, key.seeds(world * runs, (world + 1) * runs), np.array([0]))
        # torch trains all runs at once, which for this small network is faster than the compiled loops, run by run
        with unused():
            logs = model.fit(worlds)["posteriors"][:, 0]
        scores.append(logs[:, 1] - logs[:, 0])
    summary = (
        f"{2 * runs} trainings: the model assigns class 1 to the node's features in {np.mean(scores[0] > 0):.1%} of the runs "
        f"without the node and in {np.mean(scores[1] > 0):.1%} of the runs with it."
    )
    return sampled(NODE, scores[0], scores[1], key, summary, "log-odds of class 1")


def delta_rule(delta: float) -> Certificate:
    """Calibrates noise to epsilon = 1 at `delta`, and computes its epsilon at delta = 1e-7. The paper's rule gives 1e-7 for
    Facebook's 2,117,924 directed edges.
    """
    from ....models.gap.published import progap_edge_coded

    claim = Claim(1.0, 1e-7, Unit.DIRECTED_EDGE)
    sigma = exact.sigma_for(lambda s: progap_edge_coded(s, 2, delta), 1.0)
    summary = f"The noise is {sigma:.2f} times the sensitivity. At delta = 1e-7 two hops with this noise cost {{}}."
    deltas, mu = np.geomspace(1e-8, 0.1, 40), math.sqrt(2) / sigma
    figure = Figure("delta", "epsilon", {"two hops at this noise": (deltas, epsilon_of(mu, deltas))}, level=1.0, log="x")
    libraries = exact.gaussian(mu, claim.delta)
    return confirmed(claim, libraries, summary.format(f"epsilon = {min(libraries.values()):.2f}"), figure)


def node_delta(key: Key) -> Certificate:
    """Compares the delta of the paper's rule with 1 / nodes, for the paper's two large social graphs."""
    ratios = {"Reddit": 1e-5 / (1 / 116_713), "FB-100": 1e-6 / (1 / 1_120_280)}
    figure = bars("delta x nodes", ratios, "delta / (1 / nodes)", level=1.0)
    summary = (
        "Reddit: 1e-5 against 1 / 116,713 = 8.57e-6. FB-100: 1e-6 against 1 / 1,120,280 = 8.93e-7. "
        "This is arithmetic; no attack ran."
    )
    return computed(Claim(8.0, 1e-5, Unit.NODE), 0.0, summary, figure, "arithmetic")


GAP = with_experiments(
    "gap.toml",
    {
        "gap-undirected-edge": (lambda key: edge_game(key, "gap", "paper"), lambda key: edge_game(key, "gap", "sound")),
        "progap-undirected-edge": (lambda key: edge_game(key, "progap", "paper"), lambda key: edge_game(key, "progap", "sound")),
        "gap-degree-cap": (lambda key: degree_cap(key, bounded_degree=False), lambda key: degree_cap(key, bounded_degree=True)),
        "gap-isolated-nodes": (lambda key: isolated(key, dropped=True), lambda key: isolated(key, dropped=False)),
        "gap-best-epoch": (lambda key: best_epoch(key, "paper"), lambda key: best_epoch(key, "sound")),
        "progap-delta-rule": (lambda key: delta_rule(0.1), lambda key: delta_rule(1e-7)),
        "progap-node-delta": (node_delta, None),
    },
)
