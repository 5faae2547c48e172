"""Released arrays whose number of entries differs from run to run."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load

from ...nightly import nightly

GRAPH, STD = load("campus:n=120:degree=6"), 4.0
CLAIM = Claim(1.6, 1e-5)  # an edge moves two sums by 1, which costs 1.357 at this delta


def votes(graph, seed):
    labelled = np.eye(graph.classes)[graph.y] * graph.train[:, None]
    return graph.adjacency() @ labelled + STD * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))


def noisy_list(graph, seed):
    noisy = votes(graph, seed)
    return {"posteriors": noisy - np.logaddexp.reduce(noisy, axis=1, keepdims=True), "list": np.flatnonzero(noisy[:, 0] > 5.0)}


def as_long_as_the_edges(graph, seed):
    return {**noisy_list(graph, seed), "list": np.arange(graph.edges.shape[1])}


@pytest.mark.parametrize("seed", ["a", *nightly("b", "c")])
def test_a_list_whose_length_depends_on_noise_is_not_refuted(seed):
    """Its first entry is the same for all noise, and equal in both worlds; only the lengths differ."""
    model = Looped(noisy_list, releases=("posteriors", "list"), events=dp.GaussianDpEvent(STD / 2**0.5))
    assert audit(model, GRAPH, CLAIM, audits="differential", repeats=1, seed=seed).run.verdict == "not refuted"


def test_a_list_as_long_as_the_number_of_edges_does_not_pass():
    model = Looped(as_long_as_the_edges, releases=("posteriors", "list"), events=dp.GaussianDpEvent(STD / 2**0.5))
    found = audit(model, GRAPH, CLAIM, audits="differential", repeats=1, seed="a").run
    assert found.verdict in ("inconclusive", "refuted")


def sums_of_classes(graph, seed):
    """More numbers than the graph has nodes, with less noise on the later ones."""
    sums = np.zeros((graph.classes, graph.dim))
    np.add.at(sums, graph.y[graph.train], np.asarray(graph.x)[graph.train])
    noise = np.random.default_rng(seed).standard_normal(sums.size)
    return {"sums": sums.ravel() + np.linspace(40.0, 20.0, sums.size) * noise}


def test_a_vector_longer_than_the_list_of_nodes_with_uneven_noise_is_audited():
    model = Looped(sums_of_classes, unit="node", releases=("sums",))
    assert audit(model, GRAPH, Claim(0.01, 1e-5, "node"), audits="differential", repeats=1, seed="a").run.verdict == "refuted"
