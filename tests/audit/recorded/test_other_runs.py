"""No reach is stated from one recorded run, one secret or one graph, if other runs, secrets or graphs may show more. Truths are
closed forms of the Gaussian mechanism.
"""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import recorded
from gnnaudit.audit.own_bounds.within_run import from_mechanisms
from gnnaudit.audit.recorded.secrets.worlds import small
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-5
ONE_HOT = np.eye(GRAPH.classes)
NOT_REFUTED, REFUTED = 0, 1
MU = brentq(lambda mu: norm.cdf(mu / 2 - 1 / mu) - np.e * norm.cdf(-mu / 2 - 1 / mu) - DELTA, 0.1, 1)  # epsilon = 1
KEYS = ["one", *nightly("two")]


def setting(train, unit, folder, key, *ledger):
    model = Looped(train, unit=unit, events=dp.ComposedDpEvent([dp.GaussianDpEvent(1 / MU), *ledger]))
    return Setting(Case(model, Claim(1.0, DELTA, unit)), GRAPH, Store(folder), Key(key), 3, 1e-9)


def code(train, unit, folder, key, *ledger):
    asked = setting(train, unit, folder, key, *ledger)
    found = AUDITS["differential"].run(asked)
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(dataclasses.replace(asked.case.claim, exposes=("posteriors",)), (), bounds, 1.5).exit_code


def table(graph, noisy):
    return released(np.tile(np.tanh(noisy / 60), (graph.nodes, 1)))


def votes(graph):
    return graph.adjacency() @ ONE_HOT[graph.y]


def by_noisy_size(scaled):
    """The edges by class over a noisy number of edges, which is large enough in half of all runs. scaled: whether the noise of
    the second step follows the noisy number.
    """

    def train(graph, seed):
        random = np.random.default_rng(seed)
        size = graph.edges.shape[1] + random.laplace(0, 20, 1)
        share = GRAPH.edges.shape[1] / np.maximum(size, 1)
        counts = np.bincount(graph.y[graph.edges].min(0), minlength=graph.classes) * share
        return table(graph, counts + random.normal(0, 1 / (0.95 * MU), counts.shape) * (share if scaled else 1.0))

    return train


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scaled", [True, False])
def test_a_move_that_depends_on_earlier_noise_supports_a_claim_only_if_the_later_noise_follows_it(scaled, key, tmp_path):
    """The edge moves a count by E / (noisy E) noise units of .95 mu: more than mu in about 15 % of runs."""
    found = code(by_noisy_size(scaled), Unit.UNDIRECTED_EDGE, tmp_path, key, dp.LaplaceDpEvent(20.0))
    assert (found == NOT_REFUTED) is scaled


def for_some(chosen, scale):
    """Votes that are released for some nodes only."""

    def train(graph, seed):
        noisy = votes(graph) + np.random.default_rng(seed).normal(0, scale, (graph.nodes, graph.classes))
        return released(np.where(chosen(np.arange(graph.nodes))[:, None], np.tanh(noisy / 60), 0.0))

    return train


@pytest.mark.parametrize("chosen", [lambda node: node % 2 == 0, *nightly(lambda node: node < 80)], ids=["even", "most"])
@pytest.mark.parametrize(("scale", "honest"), [(2**0.5 / MU, True), (1 / MU, False)])
def test_a_secret_that_the_release_shows_in_part_does_not_stand_for_all_others(scale, honest, chosen, tmp_path):
    """An edge between two released nodes moves two votes, one to another node only one."""
    assert (code(for_some(chosen, scale), Unit.UNDIRECTED_EDGE, tmp_path, "one") == NOT_REFUTED) is honest


def of_nodes(bounded):
    """The sum of the votes of all training nodes, with noise for the largest degree of this graph; or the number of training
    nodes by class.
    """

    def train(graph, seed):
        random, own = np.random.default_rng(seed), ONE_HOT[graph.y] * graph.train[:, None]
        if bounded:
            return table(graph, own.sum(0) + random.normal(0, 1 / MU, graph.classes))
        most = float(GRAPH.degree.max())
        return released(np.tanh((graph.adjacency() @ own + random.normal(0, most**0.5 / MU, own.shape)) / 60))

    return train


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(("bounded", "expected"), [(True, NOT_REFUTED), (False, REFUTED)])
def test_noise_for_the_largest_degree_of_one_graph_is_refuted_on_a_graph_with_a_hub(bounded, expected, tmp_path):
    """A hub of 130 leaves moves 130 votes by 1 each."""
    assert code(of_nodes(bounded), Unit.NODE, tmp_path, "hub") == expected


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("bounded", [False, *nightly(True)])
def test_the_graph_with_a_hub_counts_although_nothing_is_known_of_the_whole_graph(bounded, tmp_path):
    asked = setting(of_nodes(bounded), Unit.NODE, tmp_path, "hub")
    within = dataclasses.replace(recorded(asked).inside, shared="two mechanisms share noise")
    alone = from_mechanisms(asked.case, dataclasses.replace(within, small=None, elsewhere=()))
    assert (alone.epsilon, alone.refuted) == (0.0, False)
    assert from_mechanisms(asked.case, within).refuted is not bounded


def among_some(graph):
    return ((graph.edges >= 20) & (graph.edges < 120)).all(0)


def of_some(graph, seed):
    """The edges among nodes 20 to 119, by class."""
    counts = np.bincount(graph.y[graph.edges[:, among_some(graph)]].min(0), minlength=graph.classes)
    return table(graph, counts + np.random.default_rng(seed).normal(0, 1 / MU, graph.classes))


@pytest.mark.usefixtures("thorough")
def test_a_small_graph_on_which_no_secret_moves_a_mechanism_changes_no_verdict(tmp_path):
    assert not among_some(small(GRAPH, None)).any()
    assert code(of_some, Unit.UNDIRECTED_EDGE, tmp_path, "some") == NOT_REFUTED


def seldom(read):
    """Counts with noise for the claim, and counts with a third of this noise. read: whether a rare noisy number selects the
    latter; else they are drawn and dropped.
    """

    def train(graph, seed):
        random = np.random.default_rng(seed)
        counts = np.bincount(graph.y[graph.edges].min(0), minlength=graph.classes).astype(float)
        size = graph.edges.shape[1] + random.laplace(0, 50, 1)
        coarse, fine = (counts + random.normal(0, s / (0.8 * MU), counts.shape) for s in (1, 1 / 3))
        return table(graph, np.where(size > GRAPH.edges.shape[1] + 200, fine if read else coarse + 1, coarse))

    return train


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("read", [False, True])
def test_a_noisy_value_that_only_rare_runs_read_is_not_taken_for_an_unread_one(read, key, tmp_path):
    """The noisy number exceeds the threshold with a probability of exp(-4) / 2 = .9 %; the fine counts then cost 2.4 mu."""
    found = code(seldom(read), Unit.UNDIRECTED_EDGE, tmp_path, key, dp.LaplaceDpEvent(50.0))
    assert (found == NOT_REFUTED) is not read
