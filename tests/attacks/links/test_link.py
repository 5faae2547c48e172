"""Link stealing's distances against scipy, and its score against a loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import distance as oracle

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.distances import DISTANCES
from gnnaudit.attacks.links.model_free import FEATURES
from gnnaudit.attacks.links.similarity import LinkStealing


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_are_scipys(name):
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(7), (2, 3, 50))
    expected = [[getattr(oracle, name)(u, v) for u, v in zip(x, y, strict=True)] for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(DISTANCES[name](a, b), expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", DISTANCES)
def test_two_empty_rows_have_a_finite_distance(name):
    empty = np.zeros((1, 5))
    assert np.isfinite(DISTANCES[name](empty, empty)).all()


def test_the_score_is_minus_the_distance_of_the_ends(noise_release):
    release, challenge, _ = noise_release
    edges = Challenge("edge", challenge.known, np.array([[0, 1], [5, 9], [30, 2]]))
    scores = LinkStealing("euclidean").score(release, edges)
    p = np.exp(release["posteriors"][4].astype(np.float64))
    assert scores.shape == (40, 3)
    assert scores[4, 2] == pytest.approx(-np.linalg.norm(p[30] - p[2]), abs=1e-6)


def test_the_feature_baseline_reads_sparse_features_and_no_release(noise_release, graph):
    import dataclasses

    release, _, _ = noise_release
    items = np.array([[0, 1], [5, 9]])
    dense = FEATURES.score(release, Challenge("edge", graph, items))
    known = dataclasses.replace(graph, x=sp.csr_array(graph.x))
    np.testing.assert_allclose(FEATURES.score(release, Challenge("edge", known, items)), dense)
    assert dense[0, 0] == pytest.approx(-oracle.cosine(graph.x[0].astype(float), graph.x[1].astype(float)))


def test_an_unknown_distance_is_answered_with_the_names_there_are():
    with pytest.raises(ValueError, match="must be one of cosine"):
        LinkStealing("manhattan")
