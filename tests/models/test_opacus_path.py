"""The path through Opacus for single runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gnnaudit.models.dpsgd import Private
from gnnaudit.models.graph import Graph, Mask, Worlds
from gnnaudit.models.looped import Looped
from gnnaudit.models.opacus_path import by_opacus

HOW = Private(sigma=0.5, rate=0.3, batch=6, epochs=2, steps=4)


def build(graph: Graph) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(graph.dim, 4), torch.nn.Tanh(), torch.nn.Linear(4, graph.classes))


def test_a_run_follows_from_its_seed_and_its_world_alone(graph: Graph) -> None:
    model = Looped(by_opacus(build, HOW))
    state = torch.get_rng_state()
    labels = Mask(np.flatnonzero(graph.train)[:6], np.array([[True] * 6, [False] * 6, [True] * 6]))
    worlds = dataclasses.replace(Worlds.of(graph, [1, 1, 2]), labels=labels)
    seen = model.fit(worlds)["posteriors"]
    np.testing.assert_array_equal(seen[1], model.fit(worlds[1:2])["posteriors"][0])
    assert not np.allclose(seen[0], seen[1])
    assert not np.allclose(seen[0], seen[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_empty_batches_are_steps_of_noise(graph: Graph) -> None:
    model = Looped(by_opacus(build, dataclasses.replace(HOW, rate=0.0)))
    assert np.isfinite(model.fit(Worlds.of(graph, [1]))["posteriors"]).all()


def test_a_layer_that_mixes_nodes_is_refused(graph: Graph) -> None:
    mixing = Looped(by_opacus(lambda g: torch.nn.Sequential(torch.nn.Linear(g.dim, 3), torch.nn.BatchNorm1d(3)), HOW))
    with pytest.raises(NotImplementedError, match="BatchNorm"):
        mixing.fit(Worlds.of(graph, [1]))
