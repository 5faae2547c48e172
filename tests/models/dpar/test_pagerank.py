"""PageRank against linear solves, networkx and golden values; private lists against their closed forms."""

import math

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from gnnaudit.models.dpar.pagerank import (
    among,
    capped,
    column_normalised,
    gaussian_rows,
    gumbel_scores,
    largest,
    page_rank,
    smoothed,
)
from gnnaudit.models.graph.graph import Graph


def joined(nodes: int, *edges: tuple[int, int]) -> sp.csr_array:
    return among(np.array(edges).T, np.ones(nodes, dtype=bool), both_ways=True)


def solved(adjacency: sp.csr_array, source: int, teleport: float) -> np.ndarray:
    """(I - (1 - teleport) W) p = teleport e_s by a dense solver."""
    a = adjacency.toarray() + np.eye(adjacency.shape[0])
    lazy = (np.eye(len(a)) + a / a.sum(axis=1)) / 2
    return np.linalg.solve(np.eye(len(a)) - (1 - teleport) * lazy, teleport * np.eye(len(a))[source])


@pytest.mark.parametrize(
    ("nodes", "edges", "source", "golden", "exact"),
    [
        (3, [(0, 1), (1, 2)], 0, [0.649151, 0.272427, 0.077722], [0.649351, 0.272727, 0.077922]),
        (3, [(0, 1), (1, 2)], 1, [0.181618, 0.636064, 0.181618], None),
        (
            5,
            [(0, 1), (0, 2), (0, 3), (0, 4), (3, 4)],
            0,
            [0.57327, 0.098161, 0.098161, 0.114454, 0.114454],
            [0.57377, 0.098361, 0.098361, 0.114754, 0.114754],
        ),
    ],
)
def test_small_graphs_have_the_golden_vectors(nodes, edges, source, golden, exact):
    adjacency = joined(nodes, *edges)
    np.testing.assert_allclose(page_rank(adjacency, np.array([source])).toarray()[0], golden, atol=1e-6)
    if exact is not None:
        np.testing.assert_allclose(solved(adjacency, source, 0.25), exact, atol=1e-6)


@pytest.mark.parametrize("teleport", [0.05, 0.25, 0.9])
def test_a_small_threshold_gives_the_linear_solve(graph: Graph, teleport: float):
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    found = page_rank(adjacency, np.arange(graph.nodes), teleport, threshold=1e-8).toarray()
    truth = np.stack([solved(adjacency, s, teleport) for s in range(graph.nodes)])
    np.testing.assert_allclose(found, truth, atol=2e-6)


def test_it_is_the_page_rank_of_networkx(graph: Graph):
    """The lazy walk with self loops is itself a random walk; its PageRank is that of a graph whose loops are heavier."""
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    walk = adjacency.toarray() + np.eye(graph.nodes)
    walk += np.diag(walk.sum(axis=1))
    theirs = networkx.pagerank(networkx.from_numpy_array(walk), alpha=0.75, personalization={3: 1.0}, tol=1e-12)
    ours = page_rank(adjacency, np.array([3]), 0.25, threshold=1e-8).toarray()[0]
    np.testing.assert_allclose(ours, [theirs[i] for i in range(graph.nodes)], atol=2e-6)


def test_on_its_support_the_vector_solves_the_regularised_equation(graph: Graph):
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    p = page_rank(adjacency, np.array([0]), 0.25, threshold=5e-3, tolerance=1e-6).toarray()[0].astype(np.float64)
    a = adjacency.toarray() + np.eye(graph.nodes)
    degree, source = a.sum(axis=1), np.eye(graph.nodes)[0]
    left = p - 0.75 * (p + a @ (p / degree)) / 2
    right = 0.25 * source - 5e-3 * 0.25 * degree
    on = p > 0
    assert 1 < on.sum() < graph.nodes
    np.testing.assert_allclose(left[on], right[on], atol=1e-6)
    assert (left[~on] >= right[~on] - 1e-6).all()  # the optimality condition holds outside the support


def test_a_vector_does_not_depend_on_the_other_sources(graph: Graph):
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    together = page_rank(adjacency, np.arange(20)).toarray()
    np.testing.assert_array_equal(together[7], page_rank(adjacency, np.array([7])).toarray()[0])
    assert page_rank(adjacency, np.array([], dtype=np.int64)).shape == (0, graph.nodes)


def test_the_source_keeps_its_guaranteed_share(graph: Graph):
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    found = page_rank(adjacency, np.arange(graph.nodes)).toarray()
    assert (np.diag(found) >= 2 * 0.25 / 1.25 - 1e-2).all()  # p_s >= 2 a / (1 + a), minus the effect of the threshold
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-6).all()


def test_a_one_way_arc_moves_nothing_but_counts_in_the_degree():
    edges, present = np.array([[0, 1, 1], [1, 0, 2]]), np.ones(3, dtype=bool)
    found = page_rank(among(edges, present, both_ways=False), np.array([1, 2])).toarray()
    assert found[0, 2] == 0
    assert found[1].tolist() == pytest.approx([0, 0, 1 - 1e-4], abs=1e-6)
    without = page_rank(among(edges[:, :2], present, both_ways=False), np.array([1])).toarray()
    assert found[0, 0] != pytest.approx(without[0, 0], abs=1e-3)


def test_absent_nodes_take_their_edges_with_them(graph: Graph):
    present = np.arange(graph.nodes) % 3 > 0
    kept = present[graph.edges[0]] & present[graph.edges[1]]
    a = among(graph.edges, present, both_ways=True)
    b = among(graph.edges[:, kept], np.ones(graph.nodes, dtype=bool), both_ways=True)
    assert (a != b).nnz == 0


def test_smoothing_goes_to_the_page_rank_of_predictions(graph: Graph):
    adjacency = among(graph.edges, np.ones(graph.nodes, dtype=bool), both_ways=True)
    scores = np.random.default_rng(0).standard_normal((graph.nodes, 3)).astype(np.float32)
    a = adjacency.toarray() + np.eye(graph.nodes)
    walk = a / a.sum(axis=1, keepdims=True)
    once = 0.75 * walk @ scores + 0.25 * scores
    np.testing.assert_allclose(smoothed(scores, adjacency, 0.25, 1), once, atol=1e-5)
    limit = np.linalg.solve(np.eye(graph.nodes) - 0.75 * walk, 0.25 * scores)
    np.testing.assert_allclose(smoothed(scores, adjacency, 0.25, 200), limit, atol=1e-5)


def test_gaussian_rows_are_clipped_and_noised_as_said():
    vectors = np.abs(np.random.default_rng(0).standard_normal((40, 500)))
    small = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * 0.002
    np.testing.assert_allclose(np.linalg.norm(gaussian_rows(vectors, 0.01, 0.0, np.random.default_rng(1)), axis=1), 0.01)
    np.testing.assert_allclose(gaussian_rows(small, 0.01, 0.0, np.random.default_rng(1)), small)
    noise = gaussian_rows(small, 0.01, 0.3, np.random.default_rng(1)) - small
    assert stats.kstest(noise.ravel(), stats.norm(scale=0.3).cdf).pvalue > 1e-6  # once in a million honest runs
    assert stats.kstest(noise.ravel(), stats.norm(scale=0.2).cdf).pvalue < 1e-6
    assert stats.kstest(noise.ravel(), stats.norm(scale=0.45).cdf).pvalue < 1e-6


def test_clipped_non_negative_rows_are_at_most_sqrt_two_clips_apart():
    rng = np.random.default_rng(0)
    a, b = (gaussian_rows(rng.random((2000, 3)) ** 8, 0.01, 0.0, rng) for _ in range(2))
    apart = np.linalg.norm(a - b, axis=1)
    assert 1.2 * 0.01 < apart.max() <= math.sqrt(2) * 0.01 + 1e-12  # more than one clip, which the code assumes


def test_one_shot_gumbel_picks_like_peeling_the_exponential_mechanism():
    scores, epsilon, clip, draws = np.array([0.9, 0.5, 0.1, 0.0]), 3.0, 1.0, 40_000
    listed = largest(gumbel_scores(np.tile(scores, (draws, 1)), clip, epsilon, np.random.default_rng(2)), 2)
    weight = np.exp(epsilon * scores / (2 * clip))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    expected = [draws * weight[i] / weight.sum() * weight[j] / (weight.sum() - weight[i]) for i, j in pairs]
    counts = [((listed == pair).all(axis=1)).sum() for pair in pairs]
    assert stats.chisquare(counts, expected).pvalue > 1e-6


def test_one_pick_is_bounded_range_for_any_two_rows_within_the_clip():
    """Log-probabilities of all picks under two clipped rows span at most epsilon."""
    rng, epsilon = np.random.default_rng(3), 1.3
    for _ in range(200):
        logs = [epsilon * np.minimum(rng.random(6) * 2, 1.0) / 2 for _ in range(2)]
        loss = (logs[0] - np.logaddexp.reduce(logs[0])) - (logs[1] - np.logaddexp.reduce(logs[1]))
        assert loss.max() - loss.min() <= epsilon + 1e-12


def test_no_node_stands_in_more_lists_than_the_cap_and_the_largest_weights_stay():
    rng = np.random.default_rng(0)
    rows, index, weights = np.arange(30), rng.integers(0, 8, (30, 4)), rng.random((30, 4))
    for cap in (0, 1, 3):
        kept = capped(index, weights, rows, cap)
        for node in range(8):
            others = (index == node) & (rows != node)[:, None]
            assert (kept[others] > 0).sum() == min(cap, others.sum())
            np.testing.assert_array_equal(
                np.sort(kept[others])[-cap or len(kept) :], np.sort(weights[others])[-cap or len(kept) :]
            )
            own = (index == node) & (rows == node)[:, None]
            np.testing.assert_array_equal(kept[own], weights[own])


def test_columns_have_norm_one_after_normalisation():
    rng = np.random.default_rng(0)
    index, weights = rng.integers(0, 9, (20, 4)), rng.standard_normal((20, 4))
    weights[index == 5] = 0
    share = column_normalised(index, weights, 9)
    norms = np.bincount(index.ravel(), np.abs(share).ravel(), 9)
    np.testing.assert_allclose(norms, np.where(np.arange(9) == 5, 0, 1))
