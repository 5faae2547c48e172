"""Canaries have the documented effect, by brute force on small graphs."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit.audit.games import canaries
from gnnaudit.models.graph.degree_cap import bounded
from gnnaudit.models.graph.graph import Mask, Worlds

PLANTS = {
    "pairs": lambda g: canaries.pairs(g, 3)[0],
    "stars": lambda g: canaries.stars(g, 3, 4)[0],
    "cap breaker": lambda g: canaries.cap_breaker(g, 4, 6)[0],
    "double star": lambda g: canaries.double_star(g, 5)[0],
    "strange rows": lambda g: canaries.strange_rows(g)[0],
    "own features": lambda g: canaries.own_features(g, 3, 10.0)[0],
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
@pytest.mark.parametrize("form", ["dense", "sparse", "directed"])
def test_what_is_planted_leaves_the_graph_itself_as_it_was(graph, plant, form):
    graph = graph.as_directed() if form == "directed" else graph
    graph = dataclasses.replace(graph, x=sp.csr_array(graph.x)) if form == "sparse" else graph
    wider = plant(graph)
    old = wider.edges[:, : graph.edges.shape[1]]
    new = wider.edges[:, graph.edges.shape[1] :]
    np.testing.assert_array_equal(old, graph.edges)
    assert new.size == 0 or new.min() >= graph.nodes
    assert form == "directed" or (new[0] < new[1]).all()
    x, own = (v.toarray() if sp.issparse(v) else v for v in (wider.x, graph.x))
    np.testing.assert_array_equal(x[: graph.nodes, : graph.dim], own)
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(getattr(wider, part)[: graph.nodes], getattr(graph, part))
    assert wider.train.sum() + wider.val.sum() + wider.test.sum() <= wider.nodes
    assert wider.classes == graph.classes
    assert wider.x.dtype == np.float32


def test_a_pair_is_joined_by_its_edge_alone(graph):
    wider, edges, every = canaries.pairs(graph, 3, 2)
    ends = wider.edges[:, edges]
    np.testing.assert_array_equal(np.sort(every[:3]), np.sort(ends.T))
    np.testing.assert_array_equal(wider.degree[every[3:]], 0)
    assert len(set(ends.ravel().tolist())) == 6
    np.testing.assert_array_equal(wider.degree[ends], 1)
    assert (wider.y[ends[0]] != wider.y[ends[1]]).all()


def test_the_centre_of_a_star_is_in_as_many_rows_as_it_has_leaves(graph):
    wider, centres, leaves = canaries.stars(graph, 3, 4)
    adjacency = wider.adjacency().toarray()
    for centre, around in zip(centres, leaves, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(adjacency[:, centre]), np.sort(around))
    assert wider.train[centres].all()
    assert wider.test[leaves].all()


def test_a_node_that_leaves_a_cap_breaker_moves_more_rows_than_the_cap(graph):
    """Degrees are cut by the published code, with and without one receiver; the test counts the new arcs."""
    wider, receivers = canaries.cap_breaker(graph, 4, 60)
    wider = dataclasses.replace(wider, edges=np.concatenate([wider.edges, [[0], [wider.nodes - 1]]], axis=1))  # last is cut
    present = np.array([[True], [False]])
    worlds = Worlds(wider, np.array([7, 7], dtype=np.uint64), np.arange(wider.nodes), nodes=Mask(receivers[:1], present))
    whole, without = bounded(worlds, 4)
    anew = without & ~whole
    assert (wider.arcs[1][anew] != receivers[0]).all()
    assert anew.sum() > 4 * 4  # each of 60 senders had kept it with chance 4/5: fewer than 17 once in 1e20 seeds


def test_the_edge_of_a_double_star_takes_both_ends_to_the_floor(graph):
    wider, edge = canaries.double_star(graph, 5)
    ends = wider.edges[:, edge]
    np.testing.assert_array_equal(wider.degree[ends], [5, 5])
    without = dataclasses.replace(wider, edges=np.delete(wider.edges, edge, axis=1))
    np.testing.assert_array_equal(without.degree[ends], [4, 4])


def test_strange_rows_are_what_they_are_called(graph):
    wider, ids = canaries.strange_rows(graph)
    assert not wider.x[ids["zero"]].any()
    assert np.isfinite(np.square(wider.x[ids["huge"]]).sum())
    np.testing.assert_array_equal(wider.x[ids["twin"]], wider.x[ids["other twin"]])
    assert (wider.degree[list(ids.values())] == 1).all()


def test_a_feature_of_its_own_is_nobody_elses(graph):
    wider, ids = canaries.own_features(graph, 3, 10.0)
    for place, node in enumerate(ids):
        assert np.flatnonzero(wider.x[:, graph.dim + place]).tolist() == [node]
        assert np.flatnonzero(wider.x[node]).tolist() == [graph.dim + place]


def test_the_aligned_direction_is_that_between_the_commonest_classes(graph):
    means, classes = canaries.aligned(dataclasses.replace(graph, y=np.minimum(graph.y, 1)))
    np.testing.assert_array_equal(classes, [1, 0])
    np.testing.assert_allclose(means[0], graph.x[graph.y >= 1].mean(0), rtol=1e-5)
