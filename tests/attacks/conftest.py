"""Small graphs and releases whose membership bits are known, without any model."""

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge
from gnnaudit.models.base import Release
from gnnaudit.models.graph.graph import Graph


@pytest.fixture
def graph():
    """80 nodes, 200 edges, 4 classes, 12 features, from a fixed seed."""
    return draw_graph()


@pytest.fixture
def noise_release(graph):
    """(release, challenge, bits): 40 runs of posteriors that are independent of the bits; a random half of the nodes are
    members.
    """
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(40, graph.nodes, graph.classes)) + 3 * rng.normal(size=(1, graph.nodes, graph.classes))
    bits = rng.random((40, graph.nodes)) < 0.5
    return release_of(logits), Challenge("node", graph, np.arange(graph.nodes)), bits


def draw_graph(nodes=80, edges=200, classes=4, dim=12, seed=5):
    rng = np.random.default_rng(seed)
    pairs = np.array([(u, v) for u in range(nodes) for v in range(u + 1, nodes)])
    chosen = pairs[rng.choice(len(pairs), edges, replace=False)].T
    x = rng.normal(size=(nodes, dim)).astype(np.float32)
    none = np.zeros(nodes, dtype=bool)
    return Graph(x, rng.integers(classes, size=nodes), chosen.astype(np.int64), ~none, none, none)


def release_of(logits, name="posteriors"):
    """A release of every node from logits (runs, nodes, classes)."""
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return Release({name: log_p.astype(np.float32)}, np.arange(logits.shape[1]))
