"""Votes of neighbours that are balanced: one secret decides the vote of its neighbours, and with it what they pass on.
The truth is counted by hand for each model.
"""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=4")
MOST = 31  # the public bound on degrees; a star has 30 leaves beside the edge that joins the centres
DELTA = 1e-6


def opinions(graph):
    """+1 or -1 for each node: about a quarter of the rows of GRAPH say +1."""
    sums = [np.asarray(g.x)[:, :10].sum(axis=1) for g in (graph, GRAPH)]
    return np.where(sums[0] > np.quantile(sums[1], 0.75), 1.0, -1.0)


def votes(graph):
    """The sign of the sum of the neighbours' opinions; 0 if they are balanced."""
    return np.sign(graph.adjacency().toarray() @ opinions(graph))


def passed_on(graph):
    """An edge between balanced nodes decides both votes, so 60 leaves get another number, and the two centres too."""
    return graph.adjacency().toarray() @ votes(graph)


def won(graph):
    """The number of nodes of at least ten neighbours among whose neighbours the opinion +1 has won."""
    return np.array([((votes(graph) > 0) & (graph.degree >= 10)).sum()], dtype=float)


def not_won_by_labels(graph):
    """The number of nodes of at least ten neighbours at most half of whom have a label in the first half of all labels."""
    labels = np.where(graph.y < graph.classes // 2, 1.0, -1.0)
    return np.array([((graph.adjacency().toarray() @ labels <= 0) & (graph.degree >= 10)).sum()], dtype=float)


def normal(statistic, scale):
    def train(graph, seed):
        exact = statistic(graph)
        return {"sums": exact + np.random.default_rng(seed).normal(0, scale, exact.shape)}

    return Looped(train, releases=("sums",), events=dp.GaussianDpEvent(scale), max_degree=MOST)


def laplace(statistic, scale):
    def train(graph, seed):
        exact = statistic(graph)
        return {"count": exact + np.random.default_rng(seed).laplace(0, scale, exact.shape)}

    return Looped(train, releases=("count",), events=dp.LaplaceDpEvent(scale), max_degree=MOST)


def audited(model, unit, claim, tmp_path, seed=0):
    case = Case(model, Claim(*claim, unit, exposes=model.releases))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("votes", seed), 3, 1e-4)).bounds
    return max(bounds, key=lambda b: (b.refuted, b.epsilon))


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_noise_for_one_balanced_neighbourhood_is_refuted_because_an_edge_decides_two(seed, tmp_path):
    noise = MOST**0.5  # one centre's leaves and the other centre
    bound = audited(normal(passed_on, noise), Unit.UNDIRECTED_EDGE, (1.01 * epsilon_of(1.0, DELTA), DELTA), tmp_path, seed)
    assert bound.refuted
    truth = epsilon_of((2 * MOST) ** 0.5 / noise, DELTA)
    assert 0.99 * truth <= bound.epsilon <= truth


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_noise_for_both_neighbourhoods_is_not_refuted(seed, tmp_path):
    claim = 1.01 * epsilon_of(1.0, DELTA), DELTA
    assert not audited(normal(passed_on, (2 * MOST) ** 0.5), Unit.UNDIRECTED_EDGE, claim, tmp_path, seed).refuted


@pytest.mark.parametrize("statistic", [won, *nightly(not_won_by_labels)])
@pytest.mark.parametrize("unit", [Unit.NODE, Unit.FEATURES])
@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_votes_of_many_neighbours_that_one_node_decides_are_refuted(statistic, unit, seed, tmp_path):
    bound = audited(laplace(statistic, 4.0), unit, (3.0, 0.0), tmp_path, seed)
    assert bound.refuted
    assert 0.999 * (MOST - 1) / 2 <= 4.0 * bound.epsilon <= MOST + 1


@pytest.mark.parametrize("unit", [Unit.NODE, *nightly(Unit.FEATURES)])
def test_noise_for_the_votes_of_all_neighbours_is_not_refuted(unit, tmp_path):
    assert not audited(laplace(won, MOST + 1.0), unit, (1.01, 0.0), tmp_path).refuted


@pytest.mark.parametrize("most", [int(GRAPH.degree.max()) - 1, int(GRAPH.degree.max()), 0])
def test_a_refutation_says_whether_the_graph_breaks_the_declared_bound_on_degrees(most, tmp_path):
    model = dataclasses.replace(laplace(won, 0.5), max_degree=most)
    bound = audited(model, Unit.NODE, (1.01, 0.0), tmp_path)
    assert bound.refuted
    said = f"on graphs whose nodes may have more neighbours than max_degree={most}, as a node of yours has ({most + 1})"
    assert (said in bound.granted) == (0 < most < GRAPH.degree.max())
