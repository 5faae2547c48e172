"""A graph without some edges, read from the whole graph, against one that is made without them."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from gnnaudit.models.graph import neighbour_lists
from gnnaudit.models.graph.edge_removed import without
from gnnaudit.models.graph.graph import Graph


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """200 edges on 30 nodes, read 17 edges at a time."""
    monkeypatch.setattr("gnnaudit.models.graph.graph.BLOCK", 17)
    monkeypatch.setattr(neighbour_lists, "BLOCK", 17)
    pairs = np.argwhere(~np.eye(30, dtype=bool) if request.param else np.triu(np.ones((30, 30)), 1))
    edges = np.sort(np.random.default_rng(2).permutation(pairs)[:200] @ [30, 1])
    none = np.zeros(30, dtype=bool)
    x, y = np.zeros((30, 2), np.float32), none.astype(np.int64)
    return Graph(x, y, np.stack(np.divmod(edges, 30)), none, none, none, request.param)


@pytest.mark.parametrize("gone", [[], [0], [16, 17, 18, 199], list(range(200))])
def test_what_is_read_from_the_whole_graph_is_what_a_copy_holds(whole: Graph, gone: list[int]) -> None:
    ids = np.array(gone, dtype=np.int64)
    copy = dataclasses.replace(whole, edges=np.delete(whole.edges, ids, axis=1))
    ours, nodes = without(whole, ids), np.array([29, 0, 3, 4, 17])
    np.testing.assert_array_equal(np.concatenate(list(ours.edge_blocks()), axis=1), copy.edges)
    adjacency = copy.adjacency().toarray()
    seen = 0
    for some, starts, senders in ours.into(nodes):
        for place, node in enumerate(nodes[some]):
            received = np.bincount(senders[starts[place] : starts[place + 1]], minlength=30)
            np.testing.assert_array_equal(received, adjacency[node])
            seen += 1
    assert seen == len(nodes)
    assert "edges" not in vars(ours)
    assert "incoming" not in vars(ours)


def test_its_arrays_are_those_of_a_copy_once_somebody_asks(whole: Graph) -> None:
    ids = np.array([3, 50])
    copy = dataclasses.replace(whole, edges=np.delete(whole.edges, ids, axis=1))
    for ours in (without(whole, ids), pickle.loads(pickle.dumps(without(whole, ids)))):
        assert ours.digest == copy.digest
        np.testing.assert_array_equal(ours.degree, copy.degree)
        other = dataclasses.replace(ours, name="another")
        np.testing.assert_array_equal(np.concatenate(list(other.edge_blocks()), axis=1), copy.edges)
        assert sum(len(senders) for _, _, senders in other.into(np.arange(30))) == copy.arc_count
