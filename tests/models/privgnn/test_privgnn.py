"""PrivGNN: its labels against their closed form, its samples, what reaches the student, and what it is charged."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.accounting.closed_forms import argmax_top_probability
from gnnaudit.accounting.upper.accountants import upper
from gnnaudit.audit.own.contract import contract
from gnnaudit.models.base import Model
from gnnaudit.models.graph.graph import Graph, Mask, Worlds
from gnnaudit.models.privgnn.privgnn import PrivGnn, Taught, nearest_first
from gnnaudit.models.privgnn.public_part import Public
from gnnaudit.models.privgnn.teachers import Lesson
from gnnaudit.models.random.streams import stream

from ...conftest import small_graph

QUICK = {"queries": 6, "epochs": 8, "student_epochs": 15, "neighbours": 5, "hidden": 8}


@pytest.mark.parametrize(
    "model",
    [
        PrivGnn(sigma=2.0, **QUICK),
        PrivGnn(sigma=2.0, **{**QUICK, "neighbours": 0}, layers=3),
        PrivGnn(sigma=2.0, **QUICK, single=True, selection="clusters"),
        PrivGnn(sigma=2.0, **QUICK, selection="pagerank"),
        PrivGnn(sigma=2.0, **QUICK, mode="paper", as_coded=True),
    ],
    ids=["sound", "all-neighbours", "single", "pagerank", "as-coded"],
)
@pytest.mark.nightly
def test_the_model_contract_holds(model):
    assert isinstance(model, Model)
    assert [c for c in contract(model) if c.failure] == []


def perfect(classes: int, runs: int, logarithms: float = 0.0) -> tuple[Worlds, Taught, np.ndarray]:
    """Worlds in which every teacher is correct, with certainty or by this many nats."""
    nodes = 400
    y = np.arange(nodes) % classes
    everyone, none = np.ones(nodes, bool), np.zeros(nodes, bool)
    graph = Graph(np.zeros((nodes, 2), np.float32), y, np.zeros((2, 0), np.int64), none, everyone, none, classes=classes)
    queries = np.tile(np.arange(nodes), (runs, 1))
    answers = np.where(np.eye(classes, dtype=bool)[y], 0.0, -logarithms or -80.0)
    return Worlds.of(graph, list(range(runs))), Taught(queries, np.repeat(answers[None], runs, 0)), y


@pytest.mark.parametrize(("classes", "scale", "ceiling"), [(2, 1.0, 0.72409042), (10, 1.0, 0.25733566), (41, 1.0, 0.06629695)])
def test_a_perfect_teacher_gives_right_labels_as_often_as_the_ceiling_says(classes, scale, ceiling):
    worlds, taught, y = perfect(classes, 50)
    right = (PrivGnn(sigma=scale).votes(worlds, taught) == y).mean()
    assert argmax_top_probability(classes, scale) == pytest.approx(ceiling, abs=1e-7)
    assert abs(right - ceiling) < 5 * np.sqrt(ceiling * (1 - ceiling) / 20_000)  # fails once in 1.7 million honest seeds


@pytest.mark.parametrize("inverse", [0.4, 1.0])
def test_as_coded_a_gap_in_logarithms_lifts_the_labels_above_that_ceiling(inverse):
    worlds, taught, y = perfect(10, 50, logarithms=10.0)
    model = PrivGnn(sigma=1 / inverse, mode="paper", as_coded=True)
    expected = argmax_top_probability(10, 1 / inverse / 10.0)  # noise over gap is all that counts
    assert expected > 3 * argmax_top_probability(10, 1 / inverse)
    right = (model.votes(worlds, taught) == y).mean()
    assert abs(right - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000) + 1e-4


def lessons(model: PrivGnn, worlds: Worlds, run: int = 0) -> list[Lesson]:
    queries = model.asked(worlds)[run]
    order = nearest_first(Public.of(worlds).x, queries) if model.neighbours else None
    return [model._lesson(worlds, run, int(q), worlds.trained()[run], order) for q in queries]


def test_every_query_draws_its_own_poisson_sample():
    graph = small_graph(400, 600)
    model = PrivGnn(neighbours=0, rate=0.3)
    chosen = np.zeros((100, 400))
    for i, lesson in enumerate(lessons(model, Worlds.of(graph, [3]))):
        chosen[i, lesson.members] = 1
    assert not chosen[:, ~graph.train].any()
    inside = chosen[:, graph.train]
    assert abs(inside.mean() - 0.3) < 5 * np.sqrt(0.21 / inside.size)  # five standard errors: once in 1.7 million
    sizes = inside.sum(1)
    assert 0.5 < sizes.var() / (200 * 0.21) < 1.7  # chi-square with 99 degrees: once in 30,000; a fixed size has variance 0


def test_as_coded_the_sample_has_a_fixed_size():
    graph = small_graph(400, 600)
    model = PrivGnn(neighbours=0, rate=0.3, mode="paper", as_coded=True)
    assert {lesson.members.size for lesson in lessons(model, Worlds.of(graph, [3]))} == {60}


def test_an_absent_node_leaves_every_sample_and_changes_no_other_membership():
    graph = small_graph(400, 600)
    gone = int(np.flatnonzero(graph.train)[7])
    model = PrivGnn(neighbours=0)
    absent = Worlds(graph, np.array([3], dtype=np.uint64), np.arange(9), nodes=Mask(np.array([gone]), np.array([[False]])))
    pairs = zip(lessons(model, Worlds.of(graph, [3])), lessons(model, absent), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(np.setdiff1d(before.members, [gone]), after.members)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_teacher_learns_from_the_sampled_nodes_nearest_to_its_query(sparse):
    import scipy.sparse as sp

    graph = small_graph(200, 300, dim=7)
    if sparse:
        graph = dataclasses.replace(graph, x=sp.random_array((200, 60), density=0.05, rng=0, format="csr", dtype=np.float32))
    dense = graph.x.toarray() if sparse else graph.x
    worlds = Worlds.of(graph, [3])
    whole = lessons(PrivGnn(neighbours=0, queries=20), worlds)
    for everyone, few in zip(whole, lessons(PrivGnn(neighbours=9, queries=20), worlds), strict=True):
        distance = np.linalg.norm(dense - dense[few.asked[0]], axis=1)
        assert set(few.members) <= set(everyone.members)
        assert distance[few.members].max() <= np.sort(distance[everyone.members])[8] + 1e-5
        assert few.members.size == 9


def test_private_nodes_reach_the_student_through_their_labels_only():
    """With the same answers of teachers, other private features, labels and edges change nothing, nor do other edges between the
    sides.
    """
    graph = small_graph(60, 200)
    model = PrivGnn(sigma=1.0, **QUICK)
    taught = model.teachers(Worlds.of(graph, [4]))
    public = ~graph.train
    both = public[graph.edges[0]] & public[graph.edges[1]]
    other = dataclasses.replace(graph, y=np.where(graph.train, (graph.y + 1) % 3, graph.y), edges=graph.edges[:, both])
    one, two = (model.answered(Worlds.of(g, [4]), taught) for g in (graph, other))
    np.testing.assert_array_equal(one["votes"], two["votes"])
    np.testing.assert_array_equal(one["posteriors"], two["posteriors"])


def test_as_coded_private_data_reach_the_student_past_the_noise():
    """The noise determines the labels, which are equal, but the optimiser's moments still depend on the private features."""
    graph = small_graph(60, 200)
    model = PrivGnn(sigma=1e9, **QUICK, mode="paper", as_coded=True)
    noise = stream(1, "features").standard_normal(graph.x.shape).astype(np.float32)
    other = dataclasses.replace(graph, x=graph.x + noise * graph.train[:, None])
    watch = np.flatnonzero(graph.test)
    one, two = (model.fit(Worlds.of(g, [4], watch)) for g in (graph, other))
    np.testing.assert_array_equal(one["votes"], two["votes"])
    assert np.abs(one["posteriors"] - two["posteriors"]).max() > 0.01
    sound = PrivGnn(sigma=1e9, **QUICK)
    one, two = (sound.fit(Worlds.of(g, [4], watch)) for g in (graph, other))
    np.testing.assert_array_equal(one["posteriors"], two["posteriors"])


@pytest.mark.parametrize("selection", ["random", "pagerank", "clusters"])
def test_queries_are_chosen_among_validation_nodes_from_public_data(selection):
    graph = small_graph(120, 500)
    model = PrivGnn(queries=20, selection=selection)
    asked = model.asked(Worlds.of(graph, [1, 2]))
    assert asked.shape == (2, 20)
    assert graph.val[asked].all()
    assert np.unique(asked[0]).size == 20
    private = graph.train[graph.edges].any(0)
    other = dataclasses.replace(
        graph,
        x=np.where(graph.train[:, None], 0, graph.x).astype(np.float32),
        y=1 - (graph.y > 0),
        edges=graph.edges[:, ~private],
    )
    np.testing.assert_array_equal(asked, model.asked(Worlds.of(other, [7, 8])))


def test_page_rank_solves_its_linear_system():
    graph = small_graph(50, 160)
    public = Public.of(Worlds.of(graph, [1]))
    nodes = public.nodes
    a = graph.adjacency().toarray()[np.ix_(nodes, nodes)].astype(float)
    home = np.full(nodes.size, 1 / nodes.size)
    out = a.sum(0)
    step = np.where(out > 0, a / np.maximum(out, 1), home[:, None])
    exact = np.linalg.solve(np.eye(nodes.size) - 0.9 * step, 0.1 * home)
    np.testing.assert_allclose(public._page_rank(0)[nodes], exact, atol=1e-5)


def test_teachers_are_the_same_at_every_noise():
    worlds = Worlds.of(small_graph(60, 200), [4])
    model = PrivGnn(sigma=3.0, **QUICK)
    reused = model.answered(worlds, model.with_noise(0.1).teachers(worlds))
    np.testing.assert_array_equal(model.fit(worlds)["posteriors"], reused["posteriors"])


def epsilon(model: PrivGnn, delta: float) -> float:
    return min(u.epsilon for u in upper(model.ledger, delta) if u.is_upper_bound and u.epsilon is not None)


def test_the_ledger_of_two_classes_exceeds_the_tables():
    """Two classes, lambda = 0.4, 1000 queries at rate 0.3, delta = 1e-4: 20.445 is the truth, 19.81 the printed value."""
    model = PrivGnn(sigma=2.5, queries=1000, classes=2)
    assert epsilon(model, 1e-4) == pytest.approx(
        20.4448, abs=1e-3
    )  # the exact composition of 1000 sampled coins, summed over a binomial
    paper = dataclasses.replace(model, mode="paper")
    coded = dataclasses.replace(paper, as_coded=True)
    assert coded.printed(1e-4) == pytest.approx(19.813, abs=1e-3)
    assert paper.printed(1e-4) == pytest.approx(22.116, abs=1e-3)
    assert model.printed(1e-4) is None
    assert paper.theorem_epsilon(1e-4) == paper.printed(1e-4)
    assert coded.theorem_epsilon(1e-4) is None  # no theorem covers noise on logarithms


def test_one_sample_for_all_queries_is_amplified_once_and_costs_more():
    each = PrivGnn(sigma=2.5, queries=200, classes=10)
    once = dataclasses.replace(each, single=True)
    assert epsilon(once, 1e-4) > 2.5 * epsilon(each, 1e-4)


def test_an_undeclared_number_of_classes_is_charged_as_the_costliest():
    for scale in (0.5, 2.0, 10.0):
        open_ended = epsilon(PrivGnn(sigma=scale, queries=1, rate=1.0), 0.0)
        assert all(
            open_ended >= epsilon(PrivGnn(sigma=scale, queries=1, rate=1.0, classes=c), 0.0) for c in (2, 5, 7, 10, 41, 300)
        )


def test_as_coded_has_no_finite_ledger():
    model = PrivGnn(sigma=10.0, mode="paper", as_coded=True)
    assert not any(u.epsilon is not None and np.isfinite(u.epsilon) for u in upper(model.ledger, 1e-4))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "proved"}, "mode='proved'"),
        ({"rate": 0.0}, r"rate=0.0: must be in \(0, 1\]"),
        ({"queries": 0}, "queries=0: must be at least 1"),
        ({"selection": "best"}, "selection='best'"),
        ({"keep": ("weights",)}, "can release posteriors, votes"),
        ({"as_coded": True}, "mode='paper'"),
    ],
)
def test_wrong_recipes_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PrivGnn(**fields)


def test_graphs_that_do_not_fit_are_refused():
    graph = small_graph()
    with pytest.raises(ValueError, match="classes=2: graph has 3"):
        PrivGnn(classes=2).fit(Worlds.of(graph, [1]))
    with pytest.raises(ValueError, match="no validation nodes"):
        PrivGnn().fit(Worlds.of(dataclasses.replace(graph, val=np.zeros_like(graph.val)), [1]))


def test_mode_sound_has_no_epsilon_of_the_released_code():
    assert PrivGnn(sigma=2.0, **QUICK, mode="sound").coded_epsilon(1e-4) is None
