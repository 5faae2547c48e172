"""DP-GNN: occurrences, worlds, answers and ledger."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from gnnaudit.models.base import Model
from gnnaudit.models.baselines.dpgnn import DpGnn
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.random.witness import witnessed_by

from ..worlds import absent, masked, same

FIELDS: dict[str, Any] = {"sigma": 0.5, "epochs": 3, "hidden": 4, "train_nodes": 20, "batch": 5}
MODELS = {"paper": DpGnn(mode="paper", max_degree=3, **FIELDS), "sound": DpGnn(max_degree=12, **FIELDS)}


@pytest.mark.parametrize("mode", MODELS)
@pytest.mark.parametrize("kind", ["edges", "nodes", "labels"])
def test_what_is_masked_is_physically_absent_and_company_does_not_matter(mode: str, kind: str, graph: Graph) -> None:
    worlds = masked(graph, kind)
    absent(MODELS[mode], worlds, 1e-4)
    release = MODELS[mode].fit(worlds)
    for run in range(worlds.runs):
        same(release.part(slice(run, run + 1)), MODELS[mode].fit(worlds[run : run + 1]), 1e-5)


def test_a_world_with_fewer_training_nodes_than_a_batch_trains_on_all_of_them(graph: Graph) -> None:
    items = np.flatnonzero(graph.train)
    few = dataclasses.replace(Worlds.of(graph, [4, 5]), nodes=Mask(items, np.arange(2)[:, None] * 3 > np.arange(items.size)))
    release = dataclasses.replace(MODELS["paper"], batch=5).fit(few)["posteriors"]  # worlds with 0 and 3 of them
    assert np.isfinite(release).all()


@pytest.mark.parametrize("mode", MODELS)
def test_no_node_reaches_more_receivers_than_the_bound(mode: str, graph: Graph) -> None:
    model = MODELS[mode]
    for kept in model._bounded(Worlds.of(graph, list(range(50)))):
        assert np.bincount(graph.arcs[0][kept]).max() <= model.max_degree


def test_no_answer_of_sound_mode_reads_a_training_node(graph: Graph) -> None:
    """Without training steps the model learns nothing, so a change of training nodes' features must not change the release."""
    model = dataclasses.replace(MODELS["sound"], epochs=0)
    other = dataclasses.replace(graph, x=np.where(graph.train[:, None], graph.x + 1, graph.x).astype(np.float32))
    a, b = (model.fit(Worlds.of(g, [1]))["posteriors"] for g in (graph, other))
    np.testing.assert_array_equal(a, b)
    published = dataclasses.replace(MODELS["paper"], epochs=0)
    c, d = (published.fit(Worlds.of(g, [1]))["posteriors"] for g in (graph, other))
    assert not np.allclose(c[:, graph.test], d[:, graph.test])


def test_the_contract_the_noise_and_the_ledger(graph: Graph) -> None:
    from gnnaudit.accounting.events.mechanisms import dp_sgd_capped, dp_sgd_occurrences

    for model in MODELS.values():
        assert isinstance(model, Model)
        release = model.fit(Worlds.of(graph, [1, 2], np.array([3, 1])))
        np.testing.assert_allclose(np.exp(release["posteriors"]).sum(2), 1, rtol=1e-5)
    assert MODELS["paper"].noise_std == pytest.approx(0.5 * 2 * 4)
    assert MODELS["sound"].noise_std == pytest.approx(0.5 * (1 + 2 * 12))
    assert MODELS["paper"].ledger == dp_sgd_occurrences(0.5, 20, 4, 5, 12)
    assert MODELS["sound"].ledger == dp_sgd_capped(0.5, 0.25, 12, 12)
    # The multi-term bound at the noise that its authors' accountant asks for (N = 20000, B = 256, 10 epochs, D = 10, epsilon 8).
    large = DpGnn(mode="paper", sigma=0.6720876, train_nodes=20000, max_degree=10)
    assert large.printed(1e-5) == pytest.approx(8, rel=1e-3)


class Steps:
    """Remembers the norm of each clean sum over all tensors together, and the noise that is said to cover it."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.tensors: list[int] = []
        self.scales: list[float] = []

    def drew(self, seed: int, path: Any, numbers: Any) -> None: ...

    def sampled(self, purpose: str, joined: Any) -> None: ...

    def clean(self, purpose: str, values: Any) -> None:
        self.norms.append(float(np.sqrt(sum(float((v.double() ** 2).sum()) for v in values))))
        self.tensors.append(len(values))

    def released(self, purpose: str, values: Any, scale: float, events: int, order: int) -> None:
        self.scales.append(scale)


def test_one_clip_holds_all_tensors_so_that_one_mechanism_is_charged(graph: Graph) -> None:
    """The public code of the paper clips each tensor and charges once (finding dpgnn-per-tensor); this recipe must not."""
    model = dataclasses.replace(MODELS["paper"], batch=1, clip=1e-3)  # every gradient reaches the clip
    steps = Steps()
    with witnessed_by(steps):
        model.fit(Worlds.of(graph, [1]))
    assert min(steps.tensors) > 2  # clipped one by one, their norm would be more than sqrt(2) clips
    assert max(steps.norms) <= model.clip * (1 + 1e-4)
    assert max(steps.norms) >= model.clip * 0.9
    np.testing.assert_allclose(steps.scales, model.noise_std)


def test_recipes_that_do_not_exist_are_refused(graph: Graph) -> None:
    with pytest.raises(ValueError, match="protects nodes"):
        DpGnn(unit="directed-edge", **FIELDS)
    with pytest.raises(ValueError, match="train_nodes=0"):
        DpGnn()
    with pytest.raises(ValueError, match="max_degree=1: a node of"):
        DpGnn(max_degree=1, **FIELDS).fit(Worlds.of(graph, [1]))
