"""G-BASE against whole-graph forward passes with and without each node."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge
from gnnaudit.attacks.membership.g_base import GraphBase, neighbourhoods
from gnnaudit.models.baselines.gnn import Gnn
from gnnaudit.models.graph.graph import Mask, Worlds


def induced(graph, nodes):
    """The graph on all ids with only the edges among `nodes`."""
    return dataclasses.replace(graph, edges=graph.edges[:, np.isin(graph.edges, nodes).all(0)])


def test_gains_are_the_change_of_the_whole_graphs_likelihood(graph):
    sparse = dataclasses.replace(graph, edges=graph.edges[:, :90])
    query = Gnn(hidden=8, epochs=5).anywhere(Worlds.of(sparse, [1, 2]))
    member = np.random.default_rng(0).random(sparse.nodes) < 0.5
    items = np.arange(sparse.nodes)
    challenge = Challenge("node", sparse, items)
    gains = GraphBase(query, query)._gains(query, challenge, member)
    for v in (0, 3, 17, 42, 79):
        others = np.setdiff1d(np.flatnonzero(member), [v])
        with_node, without = (query(induced(sparse, kept)).astype(np.float64) for kept in (np.append(others, v), others))
        y = sparse.y
        expected = with_node[:, others, y[others]].sum(1) - without[:, others, y[others]].sum(1) + with_node[:, v, y[v]]
        np.testing.assert_allclose(gains[:, v], expected, atol=2e-3)  # float32 sums over 80 nodes


def test_a_neighbourhood_has_the_members_within_reach_and_the_node(graph):
    member = np.random.default_rng(1).random(graph.nodes) < 0.3
    items = np.array([5, 60])
    near, start, own = neighbourhoods(graph, items, member, hops=2)
    assert (near.x[own] == graph.x[items]).all()
    adjacency = graph.adjacency().toarray() > 0
    for i, v in enumerate(items):
        first = np.flatnonzero(adjacency[v] & member)
        second = np.flatnonzero(adjacency[first].any(0) & member) if len(first) else first
        expected = np.unique(np.concatenate([[v], first, second]))
        end = start[1] if i == 0 else near.nodes
        assert (near.x[start[i] : end] == graph.x[expected]).all()


def test_it_finds_members_of_an_overfitted_network(graph):
    """Coins for every node; shadows on halves of their own."""
    rng = np.random.default_rng(4)
    bits = rng.random((12, graph.nodes)) < 0.5
    worlds = Worlds(graph, np.arange(12, dtype=np.uint64), np.arange(graph.nodes), nodes=Mask(np.arange(graph.nodes), bits))
    model = Gnn(hidden=32, epochs=60, learning_rate=0.02, dropout=0.0)
    attack = GraphBase(model.anywhere(worlds[:4]), model.anywhere(worlds[4:]), samples=4)
    scores = attack.score(None, Challenge("node", graph, np.arange(graph.nodes)))
    assert scores.shape == (4, graph.nodes)
    assert np.isfinite(scores).all()
    assert scores[bits[:4]].mean() > scores[~bits[:4]].mean() + 1


def test_a_directed_graph_is_refused(graph):
    with pytest.raises(ValueError, match="the graph is directed"):
        neighbourhoods(graph.as_directed(), np.array([0]), np.ones(graph.nodes, bool), 2)
