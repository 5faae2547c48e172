"""The likelihood ratio against its closed form, on a mechanism simulated here: rows normalised, summed, noised, two hops."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chi2, kstest, multivariate_normal, norm

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.canary.gaussian_ratio import LikelihoodRatio
from gnnaudit.models.base import Release

STD = 1.7


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def simulate(graph, items, bits, hops=2, seed=0, std=STD):
    """Each run sums the known edges and those challenge edges that its bits switch on. bits: (runs, c)."""
    rng = np.random.default_rng(seed)
    known = graph.adjacency().toarray().astype(np.float64)
    aggregates, inputs = [], []
    for row in bits:
        adjacency, h = known.copy(), unit(graph.x.astype(np.float64))
        for u, v in items[row]:
            adjacency[v, u] += 1
            if not graph.directed:
                adjacency[u, v] += 1
        sums, read = [], []
        for _ in range(hops):
            y = (adjacency @ h + std * rng.normal(size=h.shape)).astype(np.float32)
            sums, read = [*sums, y], [*read, h.astype(np.float32)]
            h = unit(y.astype(np.float64))
        aggregates, inputs = [*aggregates, sums], [*inputs, read]
    arrays = {"aggregates": np.array(aggregates), "inputs": np.array(inputs)}
    return Release(arrays, np.arange(graph.nodes), {"noise_std": std})


def matching(graph, pairs):
    """`pairs` challenge edges with all ends distinct, and the graph without any edge between their ends."""
    items = np.arange(2 * pairs).reshape(-1, 2)
    clash = (graph.edges[0] // 2 == graph.edges[1] // 2) & (graph.edges[1] < 2 * pairs)
    return items, dataclasses.replace(graph, edges=graph.edges[:, ~clash])


@pytest.mark.parametrize(("directed", "shift"), [(False, np.sqrt(4) / STD), (True, np.sqrt(2) / STD)])
def test_scores_are_standard_normal_without_the_edge_and_shifted_with_it(graph, directed, shift):
    items, known = matching(graph, 20)
    known = known.as_directed() if directed else known
    bits = np.random.default_rng(3).random((100, 20)) < 0.5
    release, challenge = simulate(known, items, bits), Challenge("edge", known, items)
    attack = LikelihoodRatio()
    scores = attack.score(release, challenge)
    np.testing.assert_allclose(attack.shift(release, challenge), shift, rtol=1e-5)  # two hops of unit rows
    assert kstest(scores[~bits], norm.cdf).pvalue > 1e-6  # each fails once in a million honest runs
    assert kstest(scores[bits] - shift, norm.cdf).pvalue > 1e-6
    assert abs(scores[bits].mean() - shift) < 5 / np.sqrt(bits.sum())


def test_the_score_is_the_log_likelihood_ratio_of_the_whole_release(graph):
    """Against scipy's densities of both worlds, for one edge and one hop: log ratio = shift * score - shift^2 / 2."""
    items, known = matching(graph, 1)
    release, challenge = simulate(known, items, np.array([[True], [False]]), hops=1), Challenge("edge", known, items)
    h = release["inputs"][0, 0].astype(np.float64)
    without = known.adjacency().toarray() @ h
    with_edge = without.copy()
    with_edge[0] += h[1]
    with_edge[1] += h[0]
    law = multivariate_normal(np.zeros(h.size), STD**2)
    y = release["aggregates"][:, 0].astype(np.float64)
    expected = [law.logpdf((row - with_edge).ravel()) - law.logpdf((row - without).ravel()) for row in y]
    score, shift = LikelihoodRatio().score(release, challenge)[:, 0], LikelihoodRatio().shift(release, challenge)[:, 0]
    np.testing.assert_allclose(shift * score - shift**2 / 2, expected, rtol=1e-4, atol=1e-4)


def test_residuals_are_standard_normal_and_leave_the_touched_rows_out(graph):
    items, known = matching(graph, 5)
    release, challenge = simulate(known, items, np.ones((30, 5), dtype=bool)), Challenge("edge", known, items)
    residuals = LikelihoodRatio().residuals(release, challenge)
    assert residuals.shape == (30, 2, 70, 12)
    assert 1e-6 < chi2.cdf((residuals**2).sum(), residuals.size) < 1 - 1e-6  # fails twice in a million honest runs
    wrong = dataclasses.replace(release, public={"noise_std": 1.5 * STD})
    assert chi2.cdf((LikelihoodRatio().residuals(wrong, challenge) ** 2).sum(), residuals.size) < 1e-6


def test_a_run_scores_the_same_alone_and_in_a_chunk(graph, monkeypatch):
    items, known = matching(graph, 10)
    bits = np.random.default_rng(3).random((9, 10)) < 0.5
    release, challenge = simulate(known, items, bits), Challenge("edge", known, items)
    together = LikelihoodRatio().score(release, challenge)
    monkeypatch.setattr("gnnaudit.attacks.canary.gaussian_ratio.WIDE", 2 * 80 * 12)
    np.testing.assert_allclose(LikelihoodRatio().score(release, challenge), together)
    np.testing.assert_allclose(LikelihoodRatio().score(release.part(slice(4, 5)), challenge), together[4:5])


def test_a_shuffled_watch_list_changes_nothing(graph):
    items, known = matching(graph, 10)
    release, challenge = simulate(known, items, np.ones((3, 10), dtype=bool)), Challenge("edge", known, items)
    order = np.random.default_rng(0).permutation(80)
    shuffled = Release({n: a[:, :, order] for n, a in release.arrays.items()}, order, release.public)
    expected = LikelihoodRatio().score(release, challenge)
    np.testing.assert_allclose(LikelihoodRatio().score(shuffled, challenge), expected, rtol=1e-5)


def test_edges_that_share_an_end_are_refused(graph):
    items = np.array([[0, 1], [1, 2]])
    known = dataclasses.replace(graph, edges=graph.edges[:, graph.edges[0] > 2])
    release = simulate(known, items, np.ones((1, 2), dtype=bool))
    with pytest.raises(ValueError, match="2 challenge edges reach node 1"):
        LikelihoodRatio().score(release, Challenge("edge", known, items))
    directed = Challenge("edge", known.as_directed(), items)  # 0 -> 1 and 1 -> 2 end in different rows
    assert LikelihoodRatio().score(release, directed).shape == (1, 2)


def test_a_challenge_edge_in_the_known_graph_is_refused(graph):
    items = graph.edges[:, :1].T
    release = simulate(graph, items, np.zeros((1, 1), dtype=bool))
    with pytest.raises(ValueError, match="leave it out"):
        LikelihoodRatio().score(release, Challenge("edge", graph, items))


def test_sums_without_noise_are_refused(graph):
    items, known = matching(graph, 1)
    release = dataclasses.replace(simulate(known, items, np.ones((1, 1), dtype=bool)), public={"noise_std": 0.0})
    with pytest.raises(ValueError, match="must be above 0"):
        LikelihoodRatio().score(release, Challenge("edge", known, items))
