"""Noise that an exact property of the whole graph resizes or removes. Only graphs that the audit builds have the property on one
side of a secret and not on the other. At delta = 0, two scales, or noise in one of two worlds, cost infinitely much.
"""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=6")  # has isolated nodes, nodes of degree 1, and every class
EDGE, NODE, FEATURES = Unit.UNDIRECTED_EDGE, Unit.NODE, Unit.FEATURES


def of_high_degrees(graph):
    """Whether each node with an edge has at least three."""
    return bool((graph.degree[graph.degree > 0] >= 3).all())


def without_isolated_nodes(graph):
    return bool((graph.degree > 0).all())


def dense(graph):
    """Whether more than half of all pairs of nodes have an edge."""
    return bool(graph.edges.shape[1] > graph.nodes * (graph.nodes - 1) / 4)


def within_classes(graph):
    """Whether no edge joins two classes, and there is one."""
    return bool(graph.edges.size and (graph.y[graph.edges[0]] == graph.y[graph.edges[1]]).all())


def of_one_star(graph):
    return bool(graph.edges.shape[1] == graph.degree.max() >= 3)


def of_equal_classes(graph):
    return bool(np.ptp(np.bincount(graph.y, minlength=graph.classes)) <= 2)


def with_every_class(graph):
    return bool((np.bincount(graph.y, minlength=graph.classes) > 0).all())


def with_every_training_class(graph):
    return bool((np.bincount(graph.y[graph.train], minlength=graph.classes) > 0).all())


def with_a_column_that_tells_a_class(graph):
    """Whether the training nodes with a large number in some column are those of some class."""
    here, y = graph.x[graph.train] > 0.5, graph.y[graph.train]
    return any((here == (y == label)[:, None]).all(0).any() for label in np.unique(y)[: graph.classes - 1])


def of_many_nodes(graph):
    """A public property."""
    return graph.nodes > 100


def edges(graph):
    return np.array([graph.edges.shape[1]])


def sizes(graph):
    return np.bincount(graph.y[graph.train], minlength=graph.classes)


def nothing(graph):
    return np.zeros(3)


def resized(has, data, scale):
    return lambda graph, draw: data(graph) + draw.laplace(0, scale * (2 if has(graph) else 1), data(graph).shape)


def removed(has, data, scale):
    return lambda graph, draw: data(graph) + (0.0 if has(graph) else 1.0) * draw.laplace(0, scale, data(graph).shape)


def not_drawn(has, data, scale):
    def noisy(graph, draw):
        other = draw.laplace(0, scale, 2)  # the run draws in both worlds
        return np.append(other, data(graph) if has(graph) else data(graph) + draw.laplace(0, scale, data(graph).shape))

    return noisy


def judged(noisy, unit, tmp_path, epsilon=1.001):
    model = Looped(
        lambda graph, seed: {"total": np.asarray(noisy(graph, np.random.default_rng(seed)), dtype=np.float64)},
        releases=("total",),
        events=dp.LaplaceDpEvent(1.0),
    )
    case = Case(model, Claim(epsilon, 0.0, unit, exposes=("total",)))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("structure"), 3, 1e-4)).bounds


def lies(has, rare):
    """Randomised response of each pair of nodes; a share `rare` of lies where the graph has the property, and else a fourth."""

    def pairs(graph, draw):
        there = np.triu(graph.adjacency().toarray() > 0, 1)
        return there ^ (draw.random(there.shape) < (rare if has(graph) else 0.25))

    return pairs


FAULTS = {
    "scale by high degrees": (EDGE, resized(of_high_degrees, edges, 1.0)),
    "no noise at high degrees": (EDGE, removed(of_high_degrees, edges, 1.0)),
    "no noise in dense graphs": (EDGE, removed(dense, edges, 1.0)),
    "nothing drawn at high degrees": (EDGE, not_drawn(of_high_degrees, edges, 1.0)),
    "no noise within classes": (EDGE, removed(within_classes, edges, 1.0)),
    "no noise within classes, nodes": (NODE, removed(within_classes, sizes, 1.0)),
    "scale by one star": (EDGE, resized(of_one_star, edges, 1.0)),
    "scale by equal classes": (FEATURES, resized(of_equal_classes, sizes, 2.0)),
    "scale by isolated nodes": (EDGE, resized(without_isolated_nodes, edges, 1.0)),
    "no noise without isolated nodes": (NODE, removed(without_isolated_nodes, sizes, 1.0)),
    "scale by training classes": (NODE, resized(with_every_training_class, sizes, 1.0)),
    "scale by classes": (FEATURES, resized(with_every_class, sizes, 2.0)),
    "scale by a telling column": (FEATURES, resized(with_a_column_that_tells_a_class, sizes, 2.0)),
}
LATE = ("nothing drawn at high degrees", "scale by training classes", "scale by isolated nodes")


@pytest.mark.parametrize("name", [*(n for n in FAULTS if n not in LATE), *nightly(*LATE)])
def test_noise_that_an_exact_property_of_the_graph_resizes_or_removes_is_refuted(name, tmp_path):
    unit, noisy = FAULTS[name]
    assert max(bound.epsilon for bound in judged(noisy, unit, tmp_path) if bound.refuted) == np.inf


@pytest.mark.parametrize(("has", "refuted"), [(of_high_degrees, True), (of_many_nodes, False)])
def test_a_share_of_lies_that_a_property_of_the_graph_sets_is_refuted_unless_the_property_is_public(has, refuted, tmp_path):
    """With a share of 0.1 of one set of lies and 0.25 of the other, all pairs move; a public property leaves at most log 9."""
    bounds = judged(lies(has, 0.1), EDGE, tmp_path, epsilon=np.log(9) * 1.001)
    assert any(bound.refuted for bound in bounds) is refuted
    if refuted:
        assert max(bound.epsilon for bound in bounds) > 131 * 130 / 2 * np.log(0.9 / 0.75)


@pytest.mark.parametrize("unit", [EDGE, *nightly(NODE, FEATURES)])
@pytest.mark.parametrize("kind", [resized, removed])
def test_noise_that_a_public_property_resizes_or_removes_is_not_refuted(kind, unit, tmp_path):
    """All graphs that the audit builds have more than 100 nodes, as the given one. `removed` then releases no data at all."""
    data = edges if kind is resized and unit is EDGE else nothing
    assert not any(bound.refuted for bound in judged(kind(of_many_nodes, data, 1.0), unit, tmp_path))


@pytest.mark.parametrize(("unit", "data", "scale", "moved"), [(EDGE, edges, 1.0, 51.0), (FEATURES, sizes, 2.0, 6 * 50.0 / 2)])
def test_an_amount_for_graphs_without_isolated_nodes_or_with_every_class_is_refuted_at_its_size(
    unit, data, scale, moved, tmp_path
):
    """An edge of a perfect matching isolates its two ends. The label of the only node of a class empties it, and that node, no
    training node, moves no size.
    """
    has = without_isolated_nodes if unit is EDGE else with_every_class

    def noisy(graph, draw):
        return data(graph) + 50.0 * has(graph) + draw.laplace(0, scale, data(graph).shape)

    bound = max(judged(noisy, unit, tmp_path), key=lambda b: b.epsilon)
    assert bound.refuted
    assert bound.epsilon == pytest.approx(moved, abs=1.01)  # a training node also moves two sizes by 1
