"""PATE, the baseline of PrivGNN: one node changes one vote."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.accounting.upper.accountants import upper
from gnnaudit.audit.own.contract import contract
from gnnaudit.models.base import Model
from gnnaudit.models.graph.graph import Mask, Worlds
from gnnaudit.models.privgnn.pate import Pate
from gnnaudit.models.privgnn.public_part import Public

from ...conftest import small_graph
from ...nightly import nightly

QUICK = {"queries": 8, "epochs": 8, "student_epochs": 15, "hidden": 8}


@pytest.mark.parametrize("teacher", ["mlp", *nightly("gnn")])
def test_the_model_contract_holds(teacher):
    model = Pate(sigma=2.0, teacher=teacher, parts=3, **QUICK)
    assert isinstance(model, Model)
    assert [c for c in contract(model) if c.failure] == []


def counted(model, graph, **masks):
    public = Public.of(Worlds(graph, np.array([3], dtype=np.uint64), np.arange(5), **masks))
    return model.counts(public, public.queries(model.queries, "random"))[0]


@pytest.mark.parametrize("teacher", ["gnn", "mlp"])
def test_a_node_moves_at_most_one_vote_of_a_query(teacher):
    graph = small_graph(120, 400)
    model = Pate(teacher=teacher, parts=6, queries=20, epochs=15, hidden=8)
    whole = counted(model, graph)
    np.testing.assert_array_equal(whole.sum(1), 6)
    moved = 0
    for node in np.flatnonzero(graph.train)[:6]:
        without = counted(model, graph, nodes=Mask(np.array([node]), np.array([[False]])))
        change = np.abs(whole - without).sum(1)
        assert change.max() <= 2
        moved += int(change.any())
    assert moved  # or the teachers do not learn


def test_teachers_of_features_read_no_edges():
    graph = small_graph(120, 400)
    model = Pate(teacher="mlp", parts=4, queries=20, epochs=10, hidden=8)
    alone = dataclasses.replace(graph, edges=graph.edges[:, :0])
    np.testing.assert_array_equal(counted(model, graph), counted(model, alone))
    of_graph = dataclasses.replace(model, teacher="gnn")
    assert (counted(of_graph, graph) != counted(of_graph, alone)).any()


def test_trained_teachers_know_the_classes_and_untrained_ones_do_not():
    """Resetting the teachers, as the released code does, equals zero epochs of training: with 3 classes, chance is a third."""
    graph = small_graph(300, 300, dim=6)
    graph = dataclasses.replace(graph, x=graph.x + 4 * np.eye(3, 6, dtype=np.float32)[graph.y])
    public = Public.of(Worlds.of(graph, [3]))
    model = Pate(parts=5, queries=70, epochs=60)
    queries = public.queries(70, "random")
    y = graph.y[queries]
    trained = (model.counts(public, queries).argmax(2) == y).mean()
    untrained = np.take_along_axis(dataclasses.replace(model, epochs=0).counts(public, queries), y[..., None], 2).mean() / 5
    assert trained > 0.9
    assert untrained < 0.6


def test_pate_is_charged_two_over_the_scale_for_every_query():
    model = Pate(sigma=4.0, queries=30)
    assert min(u.epsilon for u in upper(model.ledger, 0.0) if u.epsilon is not None) == pytest.approx(15.0)
    assert dataclasses.replace(model, mode="paper", queries=1000, sigma=10.0).printed(4e-4) == pytest.approx(47.82, abs=0.01)


def test_wrong_recipes_are_refused():
    with pytest.raises(ValueError, match="teacher='gcn'"):
        Pate(teacher="gcn")
