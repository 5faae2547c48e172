"""Neighbour sums of many worlds, against a product with each world's own matrix, built without its absent edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.graph.neighbour_lists import Lists
from gnnaudit.models.sparse.neighbour_sums import Aggregation, Bags


def some_graph(directed: bool = False, nodes: int = 30) -> Graph:
    random = np.random.default_rng(4)
    pairs = np.stack(np.triu_indices(nodes, 1))
    edges = pairs[:, random.random(pairs.shape[1]) < 0.2].astype(np.int64)
    if directed:
        edges[:, ::2] = edges[::-1, ::2]
    none = np.zeros(nodes, dtype=bool)
    x = random.random((nodes, 3)).astype(np.float32)
    return Graph(x, np.zeros(nodes, dtype=np.int64), edges, ~none, none, none, directed=directed, classes=2)


def some_worlds(graph: Graph, share: float, kind: str) -> Worlds:
    random = np.random.default_rng(5)
    worlds = Worlds.of(graph, list(range(4)))
    size = graph.edges.shape[1] if kind == "edges" else graph.nodes
    items = np.arange(0, size, 2)
    return dataclasses.replace(worlds, **{kind: Mask(items, random.random((4, items.size)) > share)})


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("kind", "share"), [("edges", 0.1), ("edges", 0.8), ("nodes", 0.3)])
def test_what_is_masked_is_physically_absent(directed: bool, kind: str, share: float) -> None:
    worlds = some_worlds(some_graph(directed), share, kind)
    x = np.random.default_rng(6).standard_normal((4, worlds.graph.nodes, 5)).astype(np.float32)
    sums = Aggregation.of(worlds)(torch.from_numpy(x)).numpy()
    for run in range(4):
        np.testing.assert_allclose(sums[run], worlds.removed(run).graph.adjacency() @ x[run], rtol=1e-5, atol=1e-5)


def test_few_absences_are_taken_off_and_many_get_lists_of_their_own() -> None:
    graph = some_graph()
    assert len(Aggregation.of(some_worlds(graph, 0.05, "edges")).bags) == 1
    assert len(Aggregation.of(some_worlds(graph, 0.8, "edges")).bags) == 4


def test_sums_of_a_run_have_the_same_bits_in_any_company() -> None:
    worlds = Worlds.of(some_graph(), list(range(9)))
    x = torch.from_numpy(np.random.default_rng(7).standard_normal((9, 30, 16)).astype(np.float32))
    assert torch.equal(Aggregation.of(worlds)(x)[4:5], Aggregation.of(worlds[4:5])(x[4:5]))


@pytest.mark.parametrize("width", [1, 5, 8, 16, 17, 32, 64, 100])
def test_sums_are_those_of_single_additions_in_order_to_the_last_bit(width: int) -> None:
    random = np.random.default_rng(8)
    starts = np.concatenate([[0], np.cumsum(random.integers(0, 9, 700))])
    senders = random.integers(0, 700, starts[-1]).astype(np.int32)
    rows = random.standard_normal((700, width)).astype(np.float32)
    expected, sums = np.zeros_like(rows), torch.full((700, width), np.nan)
    np.add.at(expected, np.repeat(np.arange(700), np.diff(starts)), rows[senders])
    Bags(Lists(starts, senders)).add_up(torch.from_numpy(rows), sums)
    np.testing.assert_array_equal(sums.numpy(), expected)


@pytest.mark.parametrize(
    ("starts", "senders"), [([0, 1, 2], [0, 2]), ([0, 1, 2], [-1, 0]), ([0, 3, 2], [0, 1]), ([0, 1, 3], [0, 1])]
)
def test_lists_that_lead_out_of_the_graph_are_refused(starts: list[int], senders: list[int]) -> None:
    with pytest.raises(ValueError, match="neighbour lists"):
        Bags(Lists(np.array(starts), np.array(senders, dtype=np.int32)))


def test_a_graph_without_edges_has_sums_of_zero() -> None:
    bags, sums = Bags(Lists(np.zeros(4, dtype=np.int64), np.empty(0, dtype=np.int32))), torch.full((3, 16), np.nan)
    bags.add_up(torch.ones(3, 16), sums)
    assert not sums.any()


@pytest.mark.parametrize(("directed", "moved"), [(True, 1.0), (False, 2**0.5)])
def test_one_edge_moves_the_sums_of_unit_rows_by_its_sensitivity(directed: bool, moved: float) -> None:
    graph = some_graph(directed)
    worlds = Worlds(graph, np.arange(2), np.arange(30), edges=Mask(np.array([3]), np.array([[True], [False]])))
    x = torch.nn.functional.normalize(torch.randn(1, 30, 6, generator=torch.Generator().manual_seed(8)), dim=2)
    with_edge, without = Aggregation.of(worlds)(x.expand(2, -1, -1))
    assert float((with_edge - without).norm()) == pytest.approx(moved, rel=1e-5)
