"""Worlds of a few runs in which some units are masked, and comparisons of the releases of a model on them."""

from __future__ import annotations

import dataclasses

import numpy as np

from gnnaudit.models.base import Model, Release
from gnnaudit.models.graph.graph import Graph, Mask, Worlds


def masked(graph: Graph, kind: str, runs: int = 3) -> Worlds:
    items = np.flatnonzero(graph.train)[::3] if kind != "edges" else np.arange(0, graph.edges.shape[1], 7)
    present = np.random.default_rng(3).random((runs, items.size)) < 0.5
    return dataclasses.replace(Worlds.of(graph, list(range(11, 11 + runs))), **{kind: Mask(items, present)})


def same(a: Release, b: Release, tolerance: float) -> None:
    assert set(a.arrays) == set(b.arrays)
    for name in a.arrays:
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=tolerance, err_msg=name)


def absent(model: Model, worlds: Worlds, tolerance: float) -> None:
    """In every run, what is masked might as well not be in the graph."""
    release = model.fit(worlds)
    for run in range(worlds.runs):
        same(release.part(slice(run, run + 1)), model.fit(worlds.removed(run)), tolerance)
