"""GAP, ProGAP and MLP: worlds, releases, noise and ledgers, at edge and at node level."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from gnnaudit.accounting.claim import Unit
from gnnaudit.models.base import Model, Release
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.gap.mlp import Mlp
from gnnaudit.models.gap.progap import ProGap
from gnnaudit.models.graph.graph import Graph, Worlds
from gnnaudit.models.sparse.neighbour_sums import Aggregation

from ..worlds import absent, masked, same

EVERYTHING = ("posteriors", "aggregates", "inputs")
NODE: dict[str, Any] = {"unit": "node", "train_nodes": 20, "batch": 5, "max_degree": 12}
SMALL: dict[str, Any] = {"sigma": 1.5, "hidden": 4, "epochs": 4}
MODELS: dict[str, Any] = {
    "gap sound": Gap(keep=EVERYTHING, **SMALL),
    "gap paper": Gap(mode="paper", keep=EVERYTHING, **SMALL),
    "gap none": Gap(keep=EVERYTHING, **{**SMALL, "sigma": 0.0}),
    "gap node sound": Gap(keep=EVERYTHING, **SMALL, **NODE),
    "gap node paper": Gap(mode="paper", keep=EVERYTHING, **SMALL, **{**NODE, "max_degree": 3}),
    "progap sound": ProGap(depth=2, keep=EVERYTHING, **SMALL),
    "progap paper": ProGap(depth=2, base_layers=2, mode="paper", keep=EVERYTHING, **SMALL),
    "progap node sound": ProGap(depth=2, keep=EVERYTHING, **SMALL, **NODE),
    "progap node paper": ProGap(depth=2, mode="paper", keep=EVERYTHING, **SMALL, **{**NODE, "max_degree": 3}),
    "mlp": Mlp(hidden=4, epochs=4),
    "mlp node": Mlp(unit=Unit.NODE, train_nodes=20, batch=5, **SMALL),
    "mlp node paper": Mlp(mode="paper", unit=Unit.NODE, train_nodes=20, batch=5, **SMALL),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["edges", "nodes", "labels"])
def test_what_is_masked_is_physically_absent(name: str, kind: str, graph: Graph) -> None:
    absent(MODELS[name], masked(graph, kind), 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_does_not_know_its_company(name: str, graph: Graph) -> None:
    worlds = masked(graph, "edges", runs=5)
    whole = MODELS[name].fit(worlds)
    same(whole.part(slice(3, 4)), MODELS[name].fit(worlds[3:4]), 1e-5)
    same(whole, Release.join([MODELS[name].fit(worlds[:2]), MODELS[name].fit(worlds[2:])]), 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_worlds_give_the_same_bits(name: str, graph: Graph) -> None:
    worlds = masked(graph, "edges")
    same(MODELS[name].fit(worlds), MODELS[name].fit(worlds), 0.0)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_the_contract(name: str, graph: Graph) -> None:
    model = MODELS[name]
    watch = np.array([5, 2, 30])
    release = model.fit(Worlds.of(graph, [1, 2], watch))
    assert isinstance(model, Model)
    assert tuple(release.arrays) == model.releases
    assert release["posteriors"].shape == (2, 3, graph.classes)
    np.testing.assert_allclose(np.exp(release["posteriors"]).sum(2), 1, rtol=1e-5)
    everyone = model.fit(Worlds.of(graph, [1, 2]))
    np.testing.assert_allclose(release["posteriors"], everyone["posteriors"][:, watch], rtol=1e-5, atol=1e-5)
    assert all(a.dtype == np.float32 for a in release.arrays.values())
    assert model.footprint(graph) > 0
    assert model.public


@pytest.mark.parametrize(
    ("recipe", "factor"),
    [
        (Gap(sigma=2.0, mode="paper", keep=("aggregates", "inputs"), epochs=2), 1.0),
        (Gap(sigma=2.0, keep=("aggregates", "inputs"), epochs=2), 2**0.5),
        (ProGap(sigma=2.0, depth=2, keep=("aggregates", "inputs"), epochs=2), 2**0.5),
        (ProGap(sigma=2.0, depth=2, mode="paper", keep=("aggregates", "inputs"), epochs=2), 1.0),
        (Gap(sigma=2.0, mode="paper", keep=("aggregates", "inputs"), epochs=2, **NODE), 12**0.5),
    ],
)
def test_the_released_sums_carry_noise_of_the_stated_std(recipe: Any, factor: float, graph: Graph) -> None:
    release = recipe.fit(Worlds.of(graph, list(range(20))))
    assert release.public["noise_std"] == pytest.approx(2.0 * factor)
    # The last node of the published node-level code sends nothing, so the test leaves out the rows that receive from it.
    quiet = ~np.isin(np.arange(graph.nodes), graph.arcs[1][graph.arcs[0] == graph.nodes - 1])
    base = Aggregation.of(Worlds.of(graph, [0]))
    for hop in range(2):
        sums = np.stack([base(torch.from_numpy(z[None]))[0].numpy() for z in release["inputs"][:, hop]])
        noise = (release["aggregates"][:, hop] - sums)[:, quiet].astype(np.float64)
        total = float((noise**2).sum())
        for std, accepted in ((1.0, True), (2 / 3, False), (3 / 2, False)):
            scaled = total / (std * 2.0 * factor) ** 2
            p = 2 * min(stats.chi2.cdf(scaled, noise.size), stats.chi2.sf(scaled, noise.size))
            assert bool(p > 1e-7) == accepted  # an honest run fails once in ten million times
        assert stats.kstest(noise.ravel() / (2.0 * factor), "norm").pvalue > 1e-6
        assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.5  # runs do not share their noise


@pytest.mark.parametrize("kind", [Gap, ProGap])
def test_summed_rows_have_length_one_and_follow_from_earlier_sums(kind: type, graph: Graph) -> None:
    release = kind(sigma=1.0, epochs=2, keep=("aggregates", "inputs")).fit(Worlds.of(graph, [1]))
    np.testing.assert_allclose(np.linalg.norm(release["inputs"], axis=3), 1, rtol=1e-5)
    if kind is Gap:
        first = release["aggregates"][0, 0]
        np.testing.assert_allclose(release["inputs"][0, 1], first / np.linalg.norm(first, axis=1, keepdims=True), rtol=1e-5)


def test_sums_that_are_kept_alone_are_those_of_the_full_training(graph: Graph) -> None:
    worlds = Worlds.of(graph, [1, 2])
    for kind in (Gap, ProGap):
        full = kind(sigma=1.0, epochs=3, keep=EVERYTHING).fit(worlds)
        same(kind(sigma=1.0, epochs=3, keep=("aggregates", "inputs")).fit(worlds), full.only(("aggregates", "inputs")), 0.0)


def test_no_edge_is_read_once_the_sums_are_drawn(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = Aggregation.__call__

    def counted(self: Aggregation, x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return original(self, x)

    monkeypatch.setattr(Aggregation, "__call__", counted)
    Gap(hops=3, epochs=2).fit(Worlds.of(graph, [1]))
    assert len(calls) == 3
    ProGap(depth=4, epochs=2).fit(Worlds.of(graph, [1]))
    assert len(calls) == 3 + 4


def test_a_public_seed_makes_all_runs_share_the_part_that_sees_no_edge(graph: Graph) -> None:
    worlds = Worlds.of(graph, [1, 2])
    for kind in (Gap, ProGap):
        own = kind(epochs=2, keep=("inputs",)).fit(worlds)["inputs"]
        shared = kind(epochs=2, keep=("inputs",), public_seed=7).fit(worlds)["inputs"]
        assert not np.allclose(own[0, 0], own[1, 0])
        np.testing.assert_allclose(shared[0, 0], shared[1, 0])


def test_an_isolated_node_stays(graph: Graph) -> None:
    edges = graph.edges[:, (graph.edges != 0).all(0)]
    lonely = dataclasses.replace(graph, edges=edges)
    for model in MODELS.values():
        assert np.isfinite(model.fit(Worlds.of(lonely, [1]))["posteriors"][0, 0]).all()


def test_in_sound_mode_a_training_node_is_not_told_its_own_prediction(graph: Graph) -> None:
    for name in ("gap node sound", "progap node sound", "mlp node"):
        posteriors = MODELS[name].fit(Worlds.of(graph, [1]))["posteriors"][0]
        np.testing.assert_allclose(posteriors[graph.train], -np.log(graph.classes), rtol=1e-6)
        assert not np.allclose(posteriors[graph.test], -np.log(graph.classes), rtol=1e-3)


def test_a_graph_that_breaks_the_promised_degree_is_refused(graph: Graph) -> None:
    with pytest.raises(ValueError, match=r"max_degree=2: a node of graph has degree \d+.*Use max_degree"):
        Gap(**{**NODE, "max_degree": 2}).fit(Worlds.of(graph, [1]))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "paper", "unit": "undirected-edge"}, "counts directed edges"),
        ({"unit": "features"}, "not a node's own features"),
        ({"mode": "best"}, "'paper'.*or 'sound'"),
        ({"unit": "node"}, "train_nodes=0"),
        ({"keep": ("weights",)}, "releases one or more of"),
    ],
)
def test_a_recipe_that_does_not_exist_is_refused(fields: dict[str, Any], words: str) -> None:
    for kind in (Gap, ProGap):
        with pytest.raises(ValueError, match=words):
            kind(**fields)


def test_undirected_edges_are_not_counted_on_a_directed_graph(graph: Graph) -> None:
    with pytest.raises(ValueError, match="is directed"):
        Gap(epochs=1).fit(Worlds.of(graph.as_directed(), [1]))
    Gap(epochs=1, unit=Unit.DIRECTED_EDGE).fit(Worlds.of(graph.as_directed(), [1]))


def test_what_the_published_code_prints_is_what_its_authors_ran() -> None:
    """Noise scales that the official code printed on JohnsHopkins55 for the epsilon given here."""
    node: dict[str, Any] = {"unit": "node", "train_nodes": 3314, "mode": "paper"}
    assert Gap(mode="paper", sigma=5.9746).printed(1e-6) == pytest.approx(1, rel=1e-4)
    assert ProGap(mode="paper", sigma=10.1314).printed(1e-6) == pytest.approx(1, rel=1e-4)
    assert Gap(sigma=1.2278, epochs=10, **node).printed(1e-4) == pytest.approx(8, rel=1e-3)
    assert ProGap(sigma=1.4979, depth=4, epochs=5, **node).printed(1e-4) == pytest.approx(8, rel=1e-3)
    assert Mlp(sigma=0.8686, epochs=10, **node).printed(1e-4) == pytest.approx(8, rel=1e-3)
    assert Gap(sigma=1.0).printed(1e-6) is None


def test_the_ledger_counts_what_is_executed() -> None:
    from dp_accounting import (
        ComposedDpEvent,
        GaussianDpEvent,
        NonPrivateDpEvent,
        NoOpDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
    )

    assert Gap(sigma=2.0).ledger == SelfComposedDpEvent(GaussianDpEvent(2.0), 2)
    assert ProGap(sigma=2.0, depth=5).ledger == SelfComposedDpEvent(GaussianDpEvent(2.0), 5)
    assert isinstance(Gap().ledger, NonPrivateDpEvent)
    assert isinstance(Mlp().ledger, NoOpDpEvent)
    # 20 // 6 = 3 steps an epoch, 4 epochs, 3 stages
    node = ProGap(sigma=2.0, depth=2, epochs=4, unit=Unit.NODE, train_nodes=20, batch=6).ledger
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(0.3, GaussianDpEvent(2.0)), 36)
    assert node == ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(2.0), 2), sampled])


def test_small_graph_is_learned_better_with_edges_than_without() -> None:
    """Edges join nodes of one class and features are weak, so accuracy must come from the sums."""
    random = np.random.default_rng(0)
    nodes, classes = 400, 4
    y = random.integers(classes, size=nodes)
    pairs = np.stack(np.triu_indices(nodes, 1))
    edges = pairs[:, random.random(pairs.shape[1]) < np.where(y[pairs[0]] == y[pairs[1]], 0.2, 0.02)].astype(np.int64)
    x = (random.standard_normal((nodes, 8)) + 0.8 * np.eye(classes, 8)[y]).astype(np.float32)
    part = np.arange(nodes) % 4
    graph = Graph(x, y, edges, part < 2, part == 2, part == 3)

    def accuracy(model: Any) -> float:
        posteriors = model.fit(Worlds.of(graph, [1, 2]))["posteriors"]
        return float((posteriors.argmax(2) == y)[:, graph.test].mean())

    assert accuracy(Mlp()) < 0.75
    assert accuracy(Gap()) > 0.9
    assert accuracy(ProGap(depth=2)) > 0.9


@pytest.mark.parametrize("model", [Gap(epochs=3, hops=1), ProGap(epochs=3, depth=1), ProGap(epochs=3, depth=0)])
def test_a_shared_encoder_is_the_one_that_every_run_would_have_trained(model: Any, graph: Graph) -> None:
    shared = dataclasses.replace(model, public_seed=7)
    together = shared.fit(Worlds.of(graph, [1, 2]))
    alone = Release.join([shared.fit(Worlds.of(graph, [seed])) for seed in (1, 2)])
    same(together, alone, 1e-5)
    assert together["posteriors"].shape == (2, graph.nodes, graph.classes)


@pytest.mark.parametrize("made", [lambda keep: Gap(hops=0, keep=keep), lambda keep: ProGap(depth=0, keep=keep)])
def test_without_hops_there_are_no_sums_to_keep(made):
    assert made(("posteriors",)).keep == ("posteriors",)
    with pytest.raises(ValueError, match="no sums to release"):
        made(("posteriors", "aggregates"))
