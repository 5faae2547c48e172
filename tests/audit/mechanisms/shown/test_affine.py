"""A release that is affine in its noisy values is a Gaussian mechanism: its bound is the closed form for the worst edge, and it
is no affine release if a number depends on a noisy value in another way.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.differential import of_one_run
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.mechanisms.shown.affine import affine
from gnnaudit.audit.own_bounds.within_run import from_mechanisms
from gnnaudit.audit.storage.store import Store

from ....nightly import nightly
from ...recorded.votes import counts

GRAPH, DELTA, STD = load("campus:n=120:degree=6"), 1e-6, 0.5


def released(answer, std=STD, of_nodes=0.0):
    """A function of the noisy counts of neighbours by class. of_nodes: the power of the number of nodes to which the standard
    deviation is proportional; on GRAPH it is `std`.
    """

    def train(graph, seed):
        scale = std * (graph.nodes / GRAPH.nodes) ** of_nodes
        noisy = counts(graph) + scale * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
        return {"out": answer(noisy, graph)}

    return Looped(train, releases=("out",))


def by_class(noisy, graph):
    """Means of the rows of each class: an edge between small classes moves them farther than all others do."""
    return np.eye(graph.classes)[graph.y].T @ noisy / np.bincount(graph.y, minlength=graph.classes)[:, None]


def total(noisy, graph):
    return float(noisy.sum())


def sums_and_a_column(noisy, graph):
    """A sum of each row, and the first of its noisy numbers."""
    return np.append(noisy.sum(1), noisy[:, 0])


def worst(answer, std=STD):
    """The largest mu of an edge, from the matrix of the release."""
    size = GRAPH.nodes * GRAPH.classes
    rows = np.stack([np.ravel(answer(unit.reshape(GRAPH.nodes, -1), GRAPH)) for unit in np.eye(size)], axis=1)
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    directions, mus = directions[sizes > 1e-9], []
    for u, v in GRAPH.edges.T:
        by = np.zeros((GRAPH.nodes, GRAPH.classes))
        by[u, GRAPH.y[v]] += GRAPH.train[v]
        by[v, GRAPH.y[u]] += GRAPH.train[u]
        mus.append(np.linalg.norm(directions @ by.ravel()) / std)
    return float(epsilon_of(max(mus), DELTA))


def bound(model, epsilon):
    case = Case(model, Claim(epsilon, DELTA))
    return from_mechanisms(case, Recorded(case, GRAPH, Key("affine")).inside)


@pytest.mark.parametrize(("answer", "of_nodes"), [(by_class, 0), *nightly((total, -0.5), (sums_and_a_column, 0))])
def test_the_bound_of_an_affine_release_is_the_closed_form_of_its_worst_edge(answer, of_nodes):
    """The noise of a sum over all nodes has one size on all graphs, so that no smaller graph costs more."""
    true, model = worst(answer), released(answer, of_nodes=of_nodes)
    honest, faulty = bound(model, 1.02 * true), bound(model, 0.9 * true)
    assert not honest.refuted
    assert honest.reach < 1.1 * true
    assert faulty.refuted
    for found in (honest, faulty):
        assert found.epsilon == pytest.approx(true, rel=1e-3)
        assert found.epsilon <= true


def test_the_own_rows_of_a_node_do_not_count():
    """A node moves one count by 1, and each row shows multiples of the distances of all counts from their mean."""

    def train(graph, seed):
        noise = 2 * np.random.default_rng(seed).standard_normal(graph.classes)
        noisy = np.bincount(graph.y[graph.train], minlength=graph.classes) + noise
        return {"out": np.linspace(1, 2, graph.nodes)[:, None] * (noisy - noisy.mean())}

    true = float(epsilon_of((1 - 1 / GRAPH.classes) ** 0.5 / 2, DELTA))
    model = Looped(train, releases=("out",), unit="node")
    cases = [Case(model, Claim(share * true, DELTA, "node")) for share in (1.02, 0.95)]
    honest, faulty = (from_mechanisms(case, Recorded(case, GRAPH, Key("rows")).inside) for case in cases)
    assert not honest.refuted
    assert faulty.refuted
    assert faulty.epsilon == pytest.approx(true, rel=1e-3)


BUCKETS, SUMS = 16, np.random.default_rng(3).standard_normal((5, 16))


def test_of_all_nodes_the_one_that_fixed_sums_show_most_is_found():
    """A node counts in the bucket of its number. All counts move by 1, and the sums show some of them more than others."""

    def train(graph, seed):
        counts = np.bincount(np.flatnonzero(graph.train) % BUCKETS, minlength=BUCKETS)
        return {"out": SUMS @ (counts + 2 * np.random.default_rng(seed).standard_normal(BUCKETS))}

    true = float(epsilon_of(np.linalg.norm(np.linalg.pinv(SUMS) @ SUMS, axis=0).max() / 2, DELTA))
    model = Looped(train, releases=("out",), unit="node")
    cases = [Case(model, Claim(share * true, DELTA, "node")) for share in (1.02, 0.98)]
    honest, faulty = (from_mechanisms(case, Recorded(case, GRAPH, Key("nodes")).inside) for case in cases)
    assert not honest.refuted
    assert honest.reach < 1.2 * true
    assert faulty.refuted
    assert faulty.epsilon == pytest.approx(true, rel=1e-3)


def test_if_the_release_hides_all_that_the_first_secret_moves_others_are_tried():
    """Sums of pairs of counts by class: a label that changes within a pair moves no sum, and others move two sums by 1 each."""

    def train(graph, seed):
        counts = np.bincount(graph.y[graph.train], minlength=6) + 3 * np.random.default_rng(seed).standard_normal(6)
        return {"out": counts[0::2] + counts[1::2]}

    true = float(epsilon_of(1 / 3, DELTA))
    model = Looped(train, releases=("out",), unit="features")
    cases = [Case(model, Claim(share * true, DELTA, "features")) for share in (1.02, 0.95)]
    honest, faulty = (from_mechanisms(case, Recorded(case, GRAPH, Key("pairs")).inside) for case in cases)
    assert not honest.refuted
    assert honest.epsilon or any("others may cost more" in reason for reason in honest.failed)
    assert faulty.refuted
    assert faulty.epsilon == pytest.approx(true, rel=1e-3)


def squeezed(noisy, graph):
    return np.tanh(noisy.mean(0))


@pytest.mark.parametrize("factor", [0.9, *nightly(1.02)])
def test_a_function_of_sums_costs_what_the_sums_cost(factor):
    true = worst(lambda noisy, graph: noisy.mean(0))
    found = bound(released(squeezed, of_nodes=-0.5), factor * true)
    assert found.refuted == (factor < 1)
    assert found.epsilon == pytest.approx(true, rel=2e-3)


@pytest.mark.parametrize(
    "answer",
    [
        lambda noisy, graph: np.append(squeezed(noisy, graph), np.median(noisy, axis=0)),
        lambda noisy, graph: np.append(squeezed(noisy, graph), np.maximum(noisy[:, 0], noisy[:, 1])),
        *nightly(
            lambda noisy, graph: noisy[:, 0] * noisy[:, 1],
            lambda noisy, graph: np.linalg.norm(noisy, axis=1),
            lambda noisy, graph: np.linalg.norm(noisy.sum(0)),
            lambda noisy, graph: np.logaddexp.reduce(noisy, axis=1),
        ),
    ],
)
def test_other_functions_are_no_functions_of_sums(answer):
    case = Case(released(answer), Claim(1.0, DELTA))
    first = Recorded(case, GRAPH, Key("affine")).inside.run
    assert affine(first, [0], of_sums=True) is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda noisy, graph: np.median(noisy, axis=0),
        lambda noisy, graph: np.append(noisy.sum(0), np.tanh(noisy[0, 0])),
        lambda noisy, graph: np.append(noisy.sum(0), 1e-3 * noisy[0, 0] * noisy[0, 1]),
        lambda noisy, graph: np.minimum(noisy.sum(0), 140.0),
        lambda noisy, graph: np.round(noisy.sum(0)),
    ],
)
def test_another_function_of_noisy_values_is_not_affine(answer):
    case = Case(released(answer), Claim(1.0, DELTA))
    first = Recorded(case, GRAPH, Key("affine")).inside.run
    assert affine(first, [0]) is None


def test_a_sum_beside_another_function_is_not_passed(tmp_path):
    """The release also shows the median of each column, so the sums alone say too little."""
    model = released(lambda noisy, graph: np.append(noisy.sum(0), np.median(noisy, axis=0)), STD)
    case = Case(model, Claim(1.02 * worst(lambda noisy, graph: noisy.sum(0)), DELTA))
    found = of_one_run(Setting(case, GRAPH, Store(tmp_path), Key("beside"), 10, 0.05))
    assert not any(b.refuted for b in found.bounds)
    assert all(np.isinf(b.reach) for b in found.bounds)
