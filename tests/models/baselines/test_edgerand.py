"""Randomised response on the edges, and the GraphSAGE that learns from what is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting.claim import Unit
from gnnaudit.accounting.events.mechanisms import PureDpEvent
from gnnaudit.models.base import Model
from gnnaudit.models.baselines.edgerand import EdgeRand, probabilities
from gnnaudit.models.graph.graph import Graph, Worlds

from ..worlds import absent, masked, same

MODELS = {
    "sound": EdgeRand(sigma=0.5, hidden=4, epochs=4),
    "sound directed": EdgeRand(sigma=0.5, hidden=4, epochs=4, unit=Unit.DIRECTED_EDGE),
    "paper": EdgeRand(sigma=0.5, hidden=4, epochs=4, mode="paper"),
    "none": EdgeRand(hidden=4, epochs=4, layers=2),
}


@pytest.mark.parametrize(("epsilon", "kept", "invented"), [(0.9, 0.0477968, 0.0194327), (3.6, 0.427558, 0.0116825)])
def test_probabilities_are_those_of_the_published_code(epsilon: float, kept: float, invented: float) -> None:
    assert probabilities(epsilon, 0.02) == (pytest.approx(kept, rel=1e-5), pytest.approx(invented, rel=1e-5))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("density", [0.0, 1e-4, 0.3, 0.9, 1.0])
def test_no_answer_tells_more_than_epsilon(epsilon: float, density: float) -> None:
    kept, invented = probabilities(epsilon, density)
    bound = math.exp(epsilon) * (1 + 1e-9)
    assert kept <= bound * invented
    assert 1 - invented <= bound * (1 - kept)
    if density <= 0.3:
        assert density * kept + (1 - density) * invented == pytest.approx(density)


def random_graph(nodes: int = 700) -> Graph:
    random = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(nodes, 1))
    edges = pairs[:, random.random(pairs.shape[1]) < 0.05].astype(np.int64)
    part = np.arange(nodes) % 4
    return Graph(np.ones((nodes, 1), dtype=np.float32), part % 2, edges, part < 2, part == 2, part == 3)


@pytest.mark.parametrize(("mode", "unit"), [("paper", "directed-edge"), ("sound", "undirected-edge"), ("sound", "directed-edge")])
def test_true_and_false_edges_appear_as_often_as_they_should(mode: str, unit: str) -> None:
    graph = random_graph()
    model, once = EdgeRand(sigma=0.25, mode=mode, unit=Unit(unit)), unit == "undirected-edge"
    arcs = model.response(Worlds.of(graph, [3]), 0)
    seen = set(map(tuple, arcs.T.tolist()))
    assert len(seen) == arcs.shape[1]
    true = set(map(tuple, graph.arcs.T.tolist()))
    cells = graph.nodes**2 if mode == "paper" else graph.nodes * (graph.nodes - 1)
    kept, invented = probabilities(0.9 * 4, len(true) / cells)
    half = 2 if once else 1  # both directions of a pair share a coin
    for count, trials, chance in ((len(seen & true), len(true), kept), (len(seen - true), cells - len(true), invented)):
        # The densities of the published code differ by chunk of rows: one per cent of slack on the chance.
        low, high = (stats.binomtest(count // half, trials // half, chance * f).pvalue for f in (0.99, 1.01))
        assert max(low, high) > 1e-6 or chance * 0.99 < count / trials < chance * 1.01  # fails once in a million honest runs
    if once:
        assert seen == {(b, a) for a, b in seen}
    assert any(a == b for a, b in seen) == (mode == "paper")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["edges", "nodes", "labels"])
def test_what_is_masked_is_physically_absent_and_company_does_not_matter(name: str, kind: str, graph: Graph) -> None:
    worlds = masked(graph, kind)
    absent(MODELS[name], worlds, 1e-4)
    release = MODELS[name].fit(worlds)
    for run in range(worlds.runs):
        same(release.part(slice(run, run + 1)), MODELS[name].fit(worlds[run : run + 1]), 1e-5)


def test_the_contract_and_the_ledger(graph: Graph) -> None:
    from dp_accounting import ComposedDpEvent, LaplaceDpEvent, NonPrivateDpEvent

    model = EdgeRand().with_noise(0.5)
    assert isinstance(model, Model)
    assert model.ledger == ComposedDpEvent([PureDpEvent(1.8), LaplaceDpEvent(pytest.approx(5.0))])
    assert isinstance(EdgeRand().ledger, NonPrivateDpEvent)
    assert EdgeRand(sigma=0.5, mode="paper").printed(1e-6) == 2.0
    # 500 rows share a density whose noise is meant for all 5000: it costs ten times as much.
    published = EdgeRand(sigma=0.5, mode="paper", nodes=5000).ledger
    assert published == ComposedDpEvent([PureDpEvent(1.8), LaplaceDpEvent(pytest.approx(0.5))])
    # In a last chunk of 100 rows an arc moves the density five times as far.
    ragged = EdgeRand(sigma=0.5, mode="paper", nodes=5100).ledger
    assert ragged == ComposedDpEvent([PureDpEvent(1.8), LaplaceDpEvent(pytest.approx(5.0 * 100 / 5100))])
    with pytest.raises(ValueError, match="Set nodes"):
        _ = EdgeRand(sigma=0.5, mode="paper").ledger
    with pytest.raises(ValueError, match="not nodes"):
        EdgeRand(unit=Unit.NODE)
