"""The embedded graph has the traits that an audit needs, and is the same every time."""

import numpy as np
import pytest

from gnnaudit.models.data.campus import campus
from gnnaudit.models.data.loading import load


def test_the_same_arguments_give_the_same_graph_and_another_seed_another():
    assert load("campus").digest == load("campus:n=2000:seed=0").digest
    assert load("campus").digest != load("campus:seed=1").digest


def test_it_has_the_asked_number_of_different_edges():
    raw = campus(n=500, degree=24.0)
    u, v = np.sort(raw.edges, axis=0)
    assert raw.edges.shape == (2, 6000)
    assert np.unique(u * 500 + v).size == 6000
    assert (u != v).all()


def test_a_few_nodes_have_many_times_the_median_degree():
    degree = load("campus").degree
    assert degree.max() > 10 * np.median(degree)
    assert np.isclose(degree.mean(), 24.0)
    assert degree.min() > 0


def test_edges_prefer_the_own_class():
    g = load("campus")
    same = (g.y[g.edges[0]] == g.y[g.edges[1]]).mean()
    chance = ((np.bincount(g.y) / g.nodes) ** 2).sum()
    assert 2 * chance < same < 0.7


def test_neighbours_say_more_of_the_class_than_the_features_and_those_more_than_chance():
    from sklearn.linear_model import RidgeClassifier

    g = load("campus")
    near = g.adjacency() @ g.x / np.maximum(g.degree, 1)[:, None]

    def accuracy(x):
        model = RidgeClassifier().fit(x[g.train], g.y[g.train])
        return model.score(x[g.test], g.y[g.test])

    alone, together = accuracy(g.x), accuracy(np.hstack([g.x, 10 * near]))
    assert 1.5 * np.bincount(g.y).max() / g.nodes < alone < together - 0.15


def test_within_a_class_edges_do_not_follow_from_features():
    """Among pairs of one class, friends share no more answers than strangers: 5 standard errors, once in a million."""
    g = load("campus")
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, g.nodes, (2, 200_000))
    strangers = (g.y[u] == g.y[v]) & (u != v)
    friends = g.y[g.edges[0]] == g.y[g.edges[1]]
    for y in range(g.classes):
        far = (g.x[u] * g.x[v]).sum(1)[strangers & (g.y[u] == y)]
        near = (g.x[g.edges[0]] * g.x[g.edges[1]]).sum(1)[friends & (g.y[g.edges[0]] == y)]
        assert abs(near.mean() - far.mean()) < 0.5  # answers shared, of about 7; classes differ by several


@pytest.mark.parametrize(("arguments", "said"), [({"n": 50}, "n=50"), ({"n": 200, "degree": 30}, "degree=30")])
def test_sizes_that_cannot_be_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        campus(**arguments)
