"""The published cut of out-degrees: its distribution, and its flaw, which an audit tests."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import stats

from gnnaudit.models.graph.degree_cap import bounded
from gnnaudit.models.graph.graph import Graph, Mask, Worlds


def bipartite(leaves: int, hubs: int) -> Graph:
    """Every leaf is joined to every hub; one node without edges comes last, as the published code never visits that one."""
    edges = np.array([(u, leaves + v) for u in range(leaves) for v in range(hubs)], dtype=np.int64).T
    nodes = leaves + hubs + 1
    none = np.zeros(nodes, dtype=bool)
    return Graph(np.ones((nodes, 1), dtype=np.float32), np.zeros(nodes, dtype=np.int64), edges, ~none, none, none, classes=2)


def test_no_node_sends_more_than_the_bound_and_short_lists_stay_whole() -> None:
    graph = bipartite(20, 6)
    kept = bounded(Worlds.of(graph, [1, 2]), 5)
    for run in kept:
        sent = np.bincount(graph.arcs[0][run], minlength=graph.nodes)
        assert (sent == [5] * 20 + [5] * 6 + [0]).all()
    assert bounded(Worlds.of(graph, [1]), 20).all()


def test_the_last_node_sends_nothing_as_in_the_published_code() -> None:
    graph = bipartite(3, 2)
    edges = np.concatenate([graph.edges, [[0], [5]]], axis=1)
    graph = dataclasses.replace(graph, edges=edges)
    kept = bounded(Worlds.of(graph, [1]), 10)[0]
    assert not kept[graph.arcs[0] == 5].any()
    assert kept[graph.arcs[0] != 5].all()


def test_every_choice_is_equally_likely() -> None:
    graph = bipartite(1, 6)
    kept = bounded(Worlds.of(graph, list(range(3000))), 2)[:, graph.arcs[0] == 0]
    pairs = np.array([np.flatnonzero(run) for run in kept])
    counts = np.bincount(pairs[:, 0] * 6 + pairs[:, 1])
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-6  # an honest run fails once in a million times
    assert (counts > 0).sum() == 15


def test_a_masked_node_leaves_every_other_arc_in_its_place_and_lists_are_refilled() -> None:
    graph = bipartite(50, 6)
    hub = 50
    nodes = Mask(np.array([hub]), np.array([[True], [False]]))
    worlds = dataclasses.replace(Worlds.of(graph, [9, 9]), nodes=nodes)
    with_hub, without = bounded(worlds, 5)
    removed = bounded(worlds.removed(1), 5)[0]
    rest = worlds.removed(1).graph
    assert {tuple(a) for a in graph.arcs[:, without].T} == {tuple(a) for a in rest.arcs[:, removed].T}
    toward = np.bincount(graph.arcs[1][without], minlength=graph.nodes)[51:56]
    assert (toward == 50).all()  # each remaining hub receives from every leaf, although the bound promises 5 changes per node
    before = np.bincount(graph.arcs[1][with_hub], minlength=graph.nodes)[51:56]
    assert (toward - before).sum() > 5
