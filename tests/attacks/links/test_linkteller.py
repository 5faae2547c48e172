"""LinkTeller against the exact derivative of a linear model, and on a trained network."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.links.linkteller import LinkTeller
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.graph.graph import Worlds


@pytest.fixture
def linear(graph):
    """A one-layer network without softmax: its derivative with respect to x_v is A[u, v] W."""
    weight = np.random.default_rng(0).normal(size=(12, 4))
    adjacency = graph.adjacency().toarray() + np.eye(graph.nodes)
    adjacency /= adjacency.sum(1, keepdims=True)
    return adjacency, weight, lambda x: (adjacency @ (x.toarray() if sp.issparse(x) else x) @ weight)[None]


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_influence_is_the_exact_derivative_of_a_linear_model(graph, linear, kind):
    adjacency, weight, query = linear
    pairs = np.array([[0, 1], *graph.edges[:, :5].T.tolist()])
    known = dataclasses.replace(graph, x=kind(graph.x.astype(np.float64)), edges=graph.edges[:, :0])
    scores = LinkTeller(query, normalised=False).score(None, Challenge("edge", known, pairs))[0]
    size = np.linalg.norm(graph.x.astype(np.float64) @ weight, axis=1)
    expected = [max(adjacency[v, u] * size[u], adjacency[u, v] * size[v]) for u, v in pairs]
    np.testing.assert_allclose(np.exp(scores), np.maximum(expected, 1e-30), rtol=1e-4, atol=1e-9)


def test_normalised_influence_is_relative_to_how_a_node_moves_itself(graph, linear):
    adjacency, _, query = linear
    pairs = graph.edges[:, :5].T
    known = dataclasses.replace(graph, x=graph.x.astype(np.float64), edges=graph.edges[:, :0])
    scores = LinkTeller(query).score(None, Challenge("edge", known, pairs))[0]
    expected = [max(adjacency[v, u] / adjacency[u, u], adjacency[u, v] / adjacency[v, v]) for u, v in pairs]
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-4)


def test_a_one_layer_network_gives_all_its_edges_away(graph):
    model = Gnn(layers=1, epochs=10, learning_rate=0.05)
    api = model.deployed(Worlds.of(graph, [1, 2]))
    rng = np.random.default_rng(0)
    random = np.unique(np.sort(rng.integers(graph.nodes, size=(300, 2)), axis=1), axis=0)
    known = set(map(tuple, graph.edges.T.tolist()))
    others = np.array([p for p in random.tolist() if p[0] != p[1] and tuple(p) not in known])
    pairs = np.concatenate([graph.edges.T, others])
    scores = LinkTeller(api).score(None, Challenge("edge", graph, pairs))
    assert scores.shape == (2, len(pairs))
    assert (scores[:, :200].min(1) > scores[:, 200:].max(1)).all()
