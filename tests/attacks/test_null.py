"""Every attack gains nothing on noise and on shuffled bits, and everything on a release that gives the bits away."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.label_only import NeighbourhoodLabels
from gnnaudit.attacks.link import FeatureDistance, LinkStealing
from gnnaudit.attacks.link_stealing import LinkClassifier
from gnnaudit.attacks.lira import Lira
from gnnaudit.attacks.multi_lira import MultiLira, strongest
from gnnaudit.attacks.pool import scores_split
from gnnaudit.attacks.relative import Relative
from gnnaudit.attacks.roc import measure
from gnnaudit.attacks.shadow import ShadowMlp
from gnnaudit.attacks.threshold import Confidence, Entropy, LabelOnly, ModifiedEntropy
from gnnaudit.models.base import Release

NEAR, FAR = "posteriors@0-hop", "posteriors@full"
NODE = [
    Confidence(),
    Entropy(),
    ModifiedEntropy(),
    LabelOnly(),
    NeighbourhoodLabels(),
    Lira(),
    Lira(shrinkage=0),
    Lira(online=False),
    MultiLira(),
    strongest(),
    Relative(),
    Relative(gamma=2.0),
    Relative(online=False),
    ShadowMlp(epochs=2),
    dataclasses.replace(ShadowMlp.he((NEAR, FAR)), epochs=5),
    dataclasses.replace(ShadowMlp.gap(), epochs=2),
]
EDGE = [
    LinkStealing(),
    FeatureDistance(),
    Lira("ends", NEAR),
    MultiLira("edge"),
    strongest("edge"),
    LinkClassifier(1),
    LinkClassifier(3),
]
NODES, RUNS, SHADOWS = 400, 76, 16


def label(attack):
    return f"{attack.name}-{attack.kinds[0]}"


def noise(graph, rng):
    logits = rng.normal(size=(3, RUNS, graph.nodes, graph.classes)) * 2 + rng.normal(size=(1, 1, graph.nodes, graph.classes))
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return Release(dict(zip(("posteriors", NEAR, FAR), log_p.astype(np.float32), strict=True)), np.arange(graph.nodes))


@pytest.fixture(scope="module")
def world():
    """(release, node challenge, edge challenge, node bits, edge bits): nothing in the release depends on the bits."""
    from .conftest import draw_graph

    rng = np.random.default_rng(12)
    graph = draw_graph(nodes=NODES, edges=800)
    known = dataclasses.replace(graph, edges=graph.edges[:, 400:])
    nodes, edges = Challenge("node", graph, np.arange(NODES)), Challenge("edge", known, graph.edges[:, :400].T)
    return noise(graph, rng), nodes, edges, rng.random((RUNS, NODES)) < 0.5, rng.random((RUNS, 400)) < 0.5


def telling(arrays, watch):
    return Release({n: (a - np.log(np.exp(a).sum(-1, keepdims=True))).astype(np.float32) for n, a in arrays.items()}, watch)


def gained(attack, release, challenge, bits):
    """(AUC, how far from one half an honest run strays once in ten million): 400 coins a target."""
    targets = np.arange(SHADOWS, SHADOWS + 4 if isinstance(attack, LinkClassifier) else RUNS)
    scores = scores_split(attack, release, challenge, bits, np.arange(SHADOWS), targets)
    return measure(scores, bits[targets]).auc, 5.3 * 0.029 / np.sqrt(len(targets))


@pytest.mark.parametrize("attack", NODE + EDGE, ids=label)
def test_noise_gives_nothing_away(attack, world):
    release, nodes, edges, node_bits, edge_bits = world
    challenge, bits = (nodes, node_bits) if "node" in attack.kinds else (edges, edge_bits)
    auc, margin = gained(attack, release, challenge, bits)
    assert abs(auc - 0.5) < margin


@pytest.mark.parametrize("attack", NODE, ids=label)
def test_a_release_that_shows_the_bits_is_read_and_shuffled_bits_are_not(attack, world):
    release, nodes, _, bits, _ = world
    right = (nodes.known.y[:, None] == np.arange(4))[None] * bits[:, :, None]
    release = telling({name: a * 0.2 + 4 * right for name, a in release.arrays.items()}, release.watch)
    assert gained(attack, release, nodes, bits)[0] > (0.85 if "label-only" in attack.name else 0.98)
    auc, margin = gained(attack, release, nodes, np.random.default_rng(2).permuted(bits, axis=1))
    assert abs(auc - 0.5) < margin


# Attack 3 learns from known edges, whose ends do not copy each other here; the features are no release.
@pytest.mark.parametrize("attack", [a for a in EDGE if a.needs and a.name != "link-stealing-3"], ids=label)
def test_ends_that_copy_each_other_where_an_edge_is_are_found(attack, world):
    release, _, edges, _, bits = world
    matched = Challenge("edge", edges.known, np.arange(NODES).reshape(-1, 2))
    bits = bits[:, : NODES // 2]
    told = {}
    for name, a in release.arrays.items():
        copied = np.where(bits[:, :, None], a[:, ::2], a[:, 1::2])
        told[name] = np.stack([a[:, ::2], 0.9 * copied + 0.1 * a[:, 1::2]], axis=2).reshape(a.shape)
    assert gained(attack, telling(told, release.watch), matched, bits)[0] > 0.9
