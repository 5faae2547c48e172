"""Sums that are weighted by degrees against dense matrices, and attention in blocks against all arcs at once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.sparse import attention
from gnnaudit.models.sparse.block_diagonal import Blocks
from gnnaudit.models.sparse.normalised_sums import Whole

NODES = 40


def two_worlds(directed: bool, masked: bool) -> Worlds:
    """Two runs on 40 nodes, one of which has no edge; masked: a third of the edges and a node are missing here and there."""
    rng = np.random.default_rng(5)
    pairs = rng.permutation(np.argwhere(~np.eye(NODES - 1, dtype=bool) if directed else np.triu(np.ones((39, 39)), 1)))[:150]
    none = np.zeros(NODES, dtype=bool)
    graph = Graph(np.zeros((NODES, 2), np.float32), none.astype(np.int64), pairs.T.copy(), none, none, none, directed)
    worlds = Worlds.of(graph, [1, 2])
    if not masked:
        return worlds
    nodes = Mask(np.array([4, 9]), np.array([[True, False], [False, True]]))
    return dataclasses.replace(worlds, edges=Mask(np.arange(0, 150, 3), rng.random((2, 50)) < 0.5), nodes=nodes)


def dense(worlds: Worlds, name: str) -> np.ndarray:
    """(runs, nodes, nodes) float64, from the definitions."""
    found = []
    for kept in worlds.edge_present():
        a = np.zeros((NODES, NODES))
        np.add.at(a, tuple(worlds.graph.edges[::-1, kept]), 1)
        a = a if worlds.graph.directed else a + a.T
        degree = a.sum(1)
        if name == "mean":
            a /= np.maximum(degree, 1)[:, None]
        elif name != "total":
            loops = np.eye(NODES) * (name == "symmetric")
            root = 1 / np.sqrt(degree + 1 if name == "symmetric" else np.maximum(degree, 1))
            a = root[:, None] * (a + loops) * root
        found.append(a)
    return np.stack(found)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("name", ["total", "mean", "symmetric", "normalised"])
@pytest.mark.parametrize(("units", "steps"), [(1, 2), (7, 1), (7, 3), (16, 2), (32, 1), (45, 2), (119, 5)])
def test_weighted_sums_are_powers_of_the_dense_matrix_and_so_are_their_gradients(units, steps, name, directed, masked):
    worlds = two_worlds(directed, masked)
    rows, slope = np.random.default_rng(units).normal(size=(2, 2, NODES, units))
    power = np.linalg.matrix_power(dense(worlds, name), steps)
    x = torch.from_numpy(rows.astype(np.float32)).requires_grad_()
    out = getattr(Whole.of(worlds), name).power(x, steps)
    (gradient,) = torch.autograd.grad(out, x, torch.from_numpy(slope.astype(np.float32)))
    for got, expected in ((out.detach(), power @ rows), (gradient, power.transpose(0, 2, 1) @ slope)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * abs(expected).max())


def test_a_large_table_is_summed_like_a_small_one():
    """In several blocks of receivers: arcs of a ring and of one hub, 20,000 nodes, 40 units."""
    nodes, units = 20_000, 40
    ring = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    hub = np.stack([np.zeros(nodes - 2, dtype=np.int64), np.arange(2, nodes)])
    none = np.zeros(nodes, dtype=bool)
    graph = Graph(np.zeros((nodes, 1), np.float32), none.astype(np.int64), np.concatenate([ring, hub], axis=1), none, none, none)
    x = np.random.default_rng(0).normal(size=(1, nodes, units)).astype(np.float32)
    matrix = graph.adjacency().astype(np.float64)
    expected = (matrix @ x[0]) / np.maximum(graph.degree, 1)[:, None]
    np.testing.assert_allclose(Whole.of(Worlds.of(graph, [1])).mean @ torch.from_numpy(x), expected[None], atol=1e-5)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("numbers", [1, 200, 1 << 20])
def test_attention_in_blocks_is_attention_over_all_arcs(numbers, directed, masked, monkeypatch):
    """numbers: one node at a time, several, all at once."""
    monkeypatch.setattr(attention, "NUMBERS", numbers)
    worlds = two_worlds(directed, masked)
    everyone = [np.arange(NODES)] * 2
    draw = torch.Generator().manual_seed(3)
    parts = [torch.randn(2, NODES, *shape, generator=draw, requires_grad=True) for shape in ((3, 5), (3,), (3,))]
    slope = torch.randn(2, NODES, 3, 5, generator=draw)
    whole, plain = Whole.of(worlds), Blocks.of(worlds.graph, everyone, worlds.edge_present())
    ours, theirs = whole.attend(*parts), plain.attend(*parts)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    for mine, other in zip(*(torch.autograd.grad(out, parts, slope) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_lists_that_go_both_ways_are_held_once_and_others_are_turned_round():
    both, forth = (Whole.of(two_worlds(directed, masked=False)) for directed in (False, True))
    assert both.back is both.bags
    assert forth.back is not forth.bags
