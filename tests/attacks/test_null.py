"""Every attack has an AUC of 1/2 on noise and on shuffled bits, and nearly 1 on a release that reveals the bits."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.links.link_stealing import LinkClassifier
from gnnaudit.attacks.links.linkteller import LinkTeller
from gnnaudit.attacks.links.model_free import EDGE_FREE, FEATURES
from gnnaudit.attacks.membership.cross_fit import scores_split
from gnnaudit.attacks.membership.g_base import GraphBase
from gnnaudit.attacks.membership.lira import Lira
from gnnaudit.attacks.membership.multi_lira import MultiLira, strongest
from gnnaudit.attacks.membership.rmia import Relative
from gnnaudit.attacks.membership.shadow_classifier import ShadowMlp
from gnnaudit.attacks.registry import ATTACKS
from gnnaudit.attacks.roc import measure
from gnnaudit.models.base import Release

from ..nightly import nightly
from .conftest import draw_graph

NEAR, HALF, FAR = "posteriors@0-hop", "posteriors@half", "posteriors@full"
SUITE = [make(NEAR) for make in ATTACKS.values()]
NODE = [
    *(a for a in SUITE if "node" in a.kinds and not isinstance(a, GraphBase)),
    Lira(shrinkage=0),
    Lira(shrinkage=np.inf),
    MultiLira(),
    Relative(gamma=2.0),
    Relative(online=False),
]
EDGE = [
    *(a for a in SUITE if "edge" in a.kinds and not isinstance(a, LinkTeller)),
    MultiLira("edge"),
    strongest("edge", "posteriors"),
]
SIBLINGS = {
    *(f"link-stealing-{k}" for k in (1, 2, 3, 4, 5, 6)),
    *(f"shadow-mlp-{kind}" for kind in ("2-hop", "ranked", "public", "combined")),
    "nmi-within",
}
NODE, EDGE = (nightly(*(a for a in some if a.name in SIBLINGS), among=some) for some in (NODE, EDGE))
ASKED, SHADOWS, TARGETS = 1000, 16, 96


def label(attack):
    return f"{attack.name}-{attack.kinds[0]}"


def quick(attack):
    """The same attack with less training, which makes the test faster."""
    if isinstance(attack, ShadowMlp):
        return dataclasses.replace(attack, epochs=3)
    return dataclasses.replace(attack, limit=200) if isinstance(attack, LinkClassifier) else attack


def noise(graph, runs, rng):
    logits = rng.normal(size=(4, runs, graph.nodes, graph.classes)) * 2 + rng.normal(size=(1, 1, graph.nodes, graph.classes))
    return telling(dict(zip(("posteriors", NEAR, HALF, FAR), logits, strict=True)), np.arange(graph.nodes))


def telling(arrays, watch):
    return Release({n: (a - np.log(np.exp(a).sum(-1, keepdims=True))).astype(np.float32) for n, a in arrays.items()}, watch)


@pytest.fixture(scope="module")
def world():
    """(release, node challenge, edge challenge, node bits, edge bits): nothing in the release depends on the bits."""
    rng = np.random.default_rng(12)
    graph = draw_graph(nodes=ASKED, edges=2 * ASKED)
    known = dataclasses.replace(graph, edges=graph.edges[:, ASKED:])
    nodes, edges = Challenge("node", graph, np.arange(ASKED)), Challenge("edge", known, graph.edges[:, :ASKED].T)
    bits = rng.random((2, SHADOWS + TARGETS, ASKED)) < 0.5
    return noise(graph, SHADOWS + TARGETS, rng), nodes, edges, *bits


def strays(bits):
    """How far from one half the mean AUC of scores that are independent of fair coins may be; exceeded once in ten million.

    For m members and n others the variance of an AUC is then (m + n + 1) / 12mn (Mann and Whitney 1947), for any dependence
    between scores: one third over the number of coins. 5.3 deviations below 0.01 take 94,000 coins.
    """
    return 5.3 / np.sqrt(3 * bits.size)


def gained(attack, release, challenge, bits):
    targets = np.arange(SHADOWS, len(bits))
    return measure(scores_split(quick(attack), release, challenge, bits, np.arange(SHADOWS), targets), bits[targets]).auc


@pytest.mark.parametrize("attack", [*NODE, *EDGE, FEATURES, EDGE_FREE], ids=label)
def test_noise_gives_nothing_away(attack, world):
    release, nodes, edges, node_bits, edge_bits = world
    challenge, bits = (nodes, node_bits) if "node" in attack.kinds else (edges, edge_bits)
    assert abs(gained(attack, release, challenge, bits) - 0.5) < strays(bits[SHADOWS:]) < 0.01


@pytest.mark.parametrize("attack", NODE, ids=label)
def test_a_release_that_shows_the_bits_is_read_and_shuffled_bits_are_not(attack, world):
    release, nodes, _, bits, _ = world
    bits = bits[: SHADOWS + 24]  # as many targets tell whether bits are read
    right = (nodes.known.y[:, None] == np.arange(4))[None] * bits[:, :, None]
    release = telling({name: a[: len(bits)] * 0.2 + 4 * right for name, a in release.arrays.items()}, release.watch)
    assert gained(attack, release, nodes, bits) > (0.85 if "label-only" in attack.name else 0.98)
    shuffled = np.random.default_rng(2).permuted(bits, axis=1)
    assert abs(gained(attack, release, nodes, shuffled) - 0.5) < strays(bits[SHADOWS:])


@pytest.mark.parametrize("attack", EDGE, ids=label)
def test_ends_that_copy_each_other_where_an_edge_is_are_found_and_shuffled_bits_are_not(attack):
    """Of 1000 pairs of nodes one half are known edges, which attackers may learn from; the other half have coins."""
    rng = np.random.default_rng(3)
    pairs, runs = np.arange(2 * ASKED).reshape(-1, 2), SHADOWS + 8
    graph = dataclasses.replace(draw_graph(nodes=200), **bare(2 * ASKED, rng), edges=pairs[: ASKED // 2].T)
    challenge = Challenge("edge", graph, pairs[ASKED // 2 :])
    bits = rng.random((runs, ASKED // 2)) < 0.5
    there = np.concatenate([np.ones_like(bits), bits], axis=1)[:, :, None]
    told = {}
    for name, a in noise(graph, runs, rng).arrays.items():
        copied = np.where(there, a[:, ::2], a[:, 1::2])
        told[name] = np.stack([a[:, ::2], 0.9 * copied + 0.1 * a[:, 1::2]], axis=2).reshape(a.shape)
    release = telling(told, np.arange(graph.nodes))
    assert gained(attack, release, challenge, bits) > 0.9
    shuffled = rng.permuted(bits, axis=1)
    assert abs(gained(attack, release, challenge, shuffled) - 0.5) < strays(bits[SHADOWS:])


def bare(nodes, rng):
    """Labels and features that are independent of the edges."""
    none = np.zeros(nodes, dtype=bool)
    return {
        "x": np.ones((nodes, 12), dtype=np.float32),
        "y": rng.integers(4, size=nodes),
        "train": ~none,
        "val": none,
        "test": none,
    }


@pytest.mark.parametrize("normalised", [False, *nightly(True)])
def test_linkteller_finds_edges_that_carry_features_and_none_in_noise_or_shuffled_bits(normalised):
    rng = np.random.default_rng(5)
    graph = draw_graph(nodes=50, edges=100)
    bits = rng.random((960, 100)) < 0.5
    challenge = Challenge("edge", dataclasses.replace(graph, edges=graph.edges[:, :0]), graph.edges.T)
    run, edge = np.nonzero(bits)
    u, v = graph.edges[:, edge] + 50 * run
    send, receive = np.r_[u, v] % 50, np.r_[v, u]
    joined = sp.csr_array((np.ones(len(send)), (receive, send)), shape=(960 * 50, 50))  # every run's adjacency, stacked
    weight = rng.normal(size=(12, 4))

    def api(x):
        return (x + (joined @ x).reshape(960, 50, -1)) @ weight

    def deaf(x):
        return rng.normal(size=(960, 50, 4))

    recorded, guessed = (LinkTeller(query, normalised=normalised).score(None, challenge) for query in (api, deaf))
    assert measure(recorded, bits).auc > 0.98
    assert abs(measure(guessed, bits).auc - 0.5) < strays(bits) < 0.01
    assert abs(measure(recorded, rng.permuted(bits, axis=1)).auc - 0.5) < strays(bits)


def test_g_base_finds_what_moves_its_neighbours_and_nothing_in_noise_or_shuffled_bits():
    rng = np.random.default_rng(6)
    graph = dataclasses.replace(draw_graph(nodes=400, edges=500), x=np.arange(400, dtype=np.float32)[:, None])
    bits = rng.random((250, 400)) < 0.5
    target = bits[:240]
    challenge = Challenge("node", graph, np.arange(400))

    def known(own, gain):
        """Log-probabilities of the true label, larger if the run contains the node and the node has neighbours."""
        right = np.where(own.y[:, None] == np.arange(4), 0.0, -3.0)[None] * (1 + gain)[:, :, None]
        return right - np.log(np.exp(right).sum(-1, keepdims=True))

    def telling_of(bits):
        return lambda near: known(near, 2.0 * bits[:, near.x[:, 0].astype(int)] * (near.degree > 0))

    def deaf(near):
        return known(near, rng.random((240, near.nodes)))

    seen = GraphBase(telling_of(target), telling_of(bits[240:]), samples=2, hops=1).score(None, challenge)
    lonely = graph.degree == 0  # an isolated node affects no other node
    assert measure(seen[:, ~lonely], target[:, ~lonely]).auc > 0.75  # only its own neighbours among the members count
    guessed = GraphBase(deaf, deaf, samples=2, hops=1).score(None, challenge)
    assert abs(measure(guessed, target).auc - 0.5) < strays(target) < 0.01
    assert abs(measure(seen, rng.permuted(target, axis=1)).auc - 0.5) < strays(target)


def test_attacks_without_a_model_to_ask_say_so(world):
    with pytest.raises(ValueError, match="give it a query"):
        LinkTeller().score(world[0], world[2])
    with pytest.raises(ValueError, match="give it a target and shadows"):
        GraphBase().score(world[0], world[1])
