"""Several noisy values of which the release shows fewer linear functions: weighted sums whose weights differ from row to row or
from class to class, sums of products with matrices, and a linear head on concatenated values. The truth is the Gaussian mechanism
on these functions: the moves of all values in a row, projected on what the release shows of it.
"""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds.within_run import from_mechanisms

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH, DELTA, STD = load("campus:n=120:degree=6"), 1e-5, 4.0
CLASSES, WEIGHTS = GRAPH.classes, np.random.default_rng(11)
SAME, NONE, PAIRS = np.eye(CLASSES), np.zeros((CLASSES, CLASSES)), np.repeat(np.eye(CLASSES // 2), 2, axis=0)
TOTAL = np.ones((CLASSES, 1))


def each_node(some):
    """A gate: each node has its own share of the first value, and the rest of the second."""
    shares = WEIGHTS.choice(some, GRAPH.nodes)
    return np.stack([np.vstack([share * SAME, (1 - share) * SAME]) for share in shares])


def each_class(hops):
    """Attention over hops: each class has its own shares."""
    shares = WEIGHTS.dirichlet(np.ones(hops), CLASSES).T
    return every_node(np.vstack([np.diag(share) for share in shares]))


def every_node(matrix):
    return np.repeat(matrix[None], GRAPH.nodes, axis=0)


def head(width):
    """A linear head on concatenated values."""
    return every_node(WEIGHTS.standard_normal((width, CLASSES)) / 5)


# each value is the counts times a matrix, plus noise; a row of the release is the row of all values times the map of its node
MIXES = {
    "gate with a value that does not move": ([SAME, NONE], each_node([0.3, 0.6])),
    "attention for each class over three hops": ([SAME, SAME / 2, SAME / 3], each_class(3)),
    "two widths": ([SAME, PAIRS], head(CLASSES + CLASSES // 2)),
    "jumping knowledge with a total": ([SAME, SAME / 2, TOTAL], head(2 * CLASSES + 1)),
}
NAMES = nightly(*MIXES.keys() - {"two widths"}, among=MIXES)


def mixed(values, maps, std, shown=lambda numbers: numbers):
    def train(graph, seed):
        random, noisy = np.random.default_rng(seed), []
        for matrix in values:
            data = counts(graph) @ matrix
            data = data[:, 0] if matrix.shape[1] == 1 else data
            noisy.append((data + std * random.standard_normal(data.shape)).reshape(graph.nodes, -1))
        return released(shown(np.einsum("nw,nwc->nc", np.hstack(noisy), maps)))

    return train


def truth(values, maps, std):
    """The mu of the worst edge: what a row of the release shows is known up to a common change, which the softmax undoes."""
    most, moves = 0.0, np.hstack(values)
    for edge in GRAPH.edges.T:
        square = 0.0
        for u, v in (edge, edge[::-1]):
            shown = maps[u] - maps[u].mean(1, keepdims=True)
            gap = GRAPH.train[v] * moves[GRAPH.y[v]] @ shown
            square += gap @ np.linalg.pinv(shown.T @ shown) @ gap
        most = max(most, square)
    return most**0.5 / std


def bound(train, epsilon, events=None):
    case = Case(Looped(train, events=events), Claim(epsilon, DELTA))
    runs = Recorded(case, GRAPH, Key("part"))
    return from_mechanisms(case, runs.inside)


@pytest.mark.parametrize("name", NAMES)
def test_values_that_only_a_few_sums_show_cost_no_more_than_these_sums(name):
    true = float(epsilon_of(truth(*MIXES[name], STD), DELTA))
    found = bound(mixed(*MIXES[name], STD), 1.01 * true)
    assert not found.refuted
    assert found.epsilon <= true


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("name", NAMES)
def test_a_claim_below_the_cost_of_the_sums_that_a_release_shows_is_refuted(name):
    true = float(epsilon_of(truth(*MIXES[name], STD), DELTA))
    found = bound(mixed(*MIXES[name], STD), 0.98 * true)
    assert found.refuted
    assert 0.99 * true < found.epsilon <= true


def through_a_layer(std):
    """Two hops through a layer of 24 units with tanh: locally six numbers of a row, but other ones at each noisy value."""
    first, last = (np.random.default_rng(k).standard_normal(shape) for k, shape in enumerate([(12, 24), (24, CLASSES)]))
    return mixed([SAME, SAME / 2], every_node(first / 8), std, lambda numbers: np.tanh(numbers) @ last)


def side_by_side(std):
    """Both hops released through maps with an inverse."""
    return mixed([SAME, SAME / 2], every_node(np.random.default_rng(0).standard_normal((12, 12)) / 8), std, np.tanh)


@pytest.mark.parametrize(("train", "events"), [(side_by_side, None), *nightly((through_a_layer, GaussianDpEvent(STD)))])
def test_values_that_the_release_shows_are_charged_together(train, events):
    together = float(epsilon_of((2 * 1.25) ** 0.5 / STD, DELTA))
    assert bound(train(STD), 0.98 * together, events).refuted
    assert not bound(train(STD), 1.02 * together, events).refuted


@pytest.mark.nightly
def test_a_release_of_fewer_numbers_than_noisy_values_refutes_only_if_the_ledger_charges_for_the_noise():
    """At each noisy value the release shows other numbers, as a selection of a few does; see `View.nearby`."""
    together = float(epsilon_of((2 * 1.25) ** 0.5 / STD, DELTA))
    assert not bound(through_a_layer(STD), 0.98 * together).refuted
