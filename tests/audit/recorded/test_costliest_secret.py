"""The secret that costs most decides, although other secrets move one mechanism farther, or most secrets move other mechanisms.
Truths are sums of log-ratios, closed forms of the Gaussian mechanism, and integrals.
"""

import dataclasses
from types import SimpleNamespace

import dp_accounting as dp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.laws import cost
from gnnaudit.audit.recorded.secrets.matchings import loudest
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-5
ONE_HOT = np.eye(GRAPH.classes)
NOT_REFUTED, REFUTED = 0, 1


def code(train, claim, ledger, folder):
    model = Looped(train, unit=claim.unit, events=ledger)
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(folder), Key("costliest"), 3, 1e-9))
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(dataclasses.replace(claim, exposes=("posteriors",)), (), bounds, 1.5).exit_code


def within_and_between(graph):
    """Edges within classes, by class, and edges between classes, by their smaller class: an edge is in one of the two counts."""
    labels = np.sort(graph.y[graph.edges], axis=0)
    same = labels[0] == labels[1]
    return [np.bincount(labels[0][some], minlength=graph.classes).astype(float) for some in (same, ~same)]


def shown(graph, *noisy):
    return released(np.tile(np.concatenate([np.tanh(one / 60) for one in noisy], axis=-1), (graph.nodes, 1)))


def many_small_moves(scale):
    """One Laplace answer of .97 nats, and ten answers about other edges with noise of this scale."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        inside, across = within_and_between(graph)
        answers = [across + random.laplace(0, scale, across.shape) for _ in range(10)]
        return shown(graph, inside + random.laplace(0, 1 / 0.97, inside.shape), *answers)

    return train


@pytest.mark.parametrize("delta", [0.0, *nightly(DELTA)])
@pytest.mark.parametrize(("scale", "expected"), [(10**0.5 / 0.9, REFUTED), *nightly((10 / 0.97, NOT_REFUTED))])
def test_many_small_moves_of_one_edge_cost_more_than_a_large_one_of_another(scale, expected, delta, tmp_path):
    """Noise that grows with the root of the number of answers is right for the normal law only: 10^(1/2) times .9 nats."""
    ledger = dp.ComposedDpEvent([dp.LaplaceDpEvent(1 / 0.1)] * 10)
    assert code(many_small_moves(scale), Claim(1.0, delta, Unit.UNDIRECTED_EDGE), ledger, tmp_path) == expected


def mixed_delta(epsilon, laplace, mu):
    """delta of a Laplace and a Gaussian mechanism together: the Gaussian's, averaged over the loss of the Laplace mechanism."""

    def gaussian(e):
        return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)

    inner = quad(lambda x: 0.5 * np.exp(-abs(x)) * gaussian(epsilon - (abs(x - laplace) - abs(x))), 0, laplace)[0]
    return 0.5 * gaussian(epsilon - laplace) + inner + 0.5 * np.exp(-laplace) * gaussian(epsilon + laplace)


@pytest.mark.parametrize(("laplace", "mu"), [(0.7, 0.2), (0.3, 0.5), *nightly((1.5, 0.05))])
def test_moves_under_two_laws_cost_what_their_composition_costs(laplace, mu):
    def mechanism(law):
        return SimpleNamespace(law=law, pairs=None)

    truth = brentq(lambda e: mixed_delta(e, laplace, mu) - DELTA, 1e-3, 10)
    found = cost([mechanism("laplace"), mechanism("normal")], [np.array([laplace]), np.array([mu])], DELTA)
    assert 0.985 * truth < found <= truth


def two_laws(mu):
    """Laplace and normal answers about all edges."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        both = np.sum(within_and_between(graph), axis=0)
        return shown(graph, both + random.laplace(0, 1 / 0.5, both.shape), both + random.standard_normal(both.shape) / mu)

    return train


MU = brentq(lambda mu: mixed_delta(1.0, 0.5, mu) - DELTA, 0.01, 1)  # with the Laplace answer it costs a claim of 1


@pytest.mark.parametrize(("factor", "expected"), [(0.98, NOT_REFUTED), (1.2, REFUTED)])
def test_answers_under_two_laws_are_judged_by_their_composition(factor, expected, tmp_path):
    ledger = dp.ComposedDpEvent([dp.LaplaceDpEvent(2.0), dp.GaussianDpEvent(1 / MU)])
    assert code(two_laws(factor * MU), Claim(1.0, DELTA, Unit.UNDIRECTED_EDGE), ledger, tmp_path) == expected


def test_a_loud_edge_of_a_value_with_little_noise_is_found_beside_louder_edges_of_a_value_with_much_noise():
    """In one value, the edges of many nodes are up to six times as loud as most, under a hundredth of the noise of the other."""
    loud = np.random.default_rng(5).choice([1.0, 6.0], GRAPH.nodes, p=[0.9, 0.1]) / 100
    quiet = np.where(np.arange(GRAPH.nodes) == 7, 3.0, 1.0) / 4

    def moved(edges):
        rows = []
        for weight in (loud, quiet):
            u, v = GRAPH.edges[:, edges]
            rows.append(np.bincount(u, weight[v], GRAPH.nodes) + np.bincount(v, weight[u], GRAPH.nodes))
        return rows

    found = loudest(GRAPH, np.random.default_rng(0), moved)
    assert any(7 in GRAPH.edges[:, edge] for edge in found)
    assert len(found) < 30


def weighted(heavy):
    """A histogram of the labels in which one class counts `heavy` times, with noise for a weight of 1."""

    def train(graph, seed):
        weights = np.where(np.arange(graph.classes) == 3, heavy, 1.0)
        noisy = weights * ONE_HOT[graph.y].sum(0) + np.random.default_rng(seed).laplace(0, 2.0, graph.classes)
        return shown(graph, noisy)

    return train


@pytest.mark.parametrize(("heavy", "expected"), [(1.0, NOT_REFUTED), (4.0, REFUTED)])
@pytest.mark.parametrize("key", [*nightly(0, 2), 1])
def test_a_class_that_weighs_more_than_the_others_is_among_the_secrets(key, heavy, expected, tmp_path):
    claim = Claim(1.02, 0.0, Unit.FEATURES)
    model = Looped(weighted(heavy), unit=claim.unit, events=dp.LaplaceDpEvent(1.0))
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("class", key), 3, 1e-9))
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    assert judge(dataclasses.replace(claim, exposes=("posteriors",)), (), bounds, 1.5).exit_code == expected


def by_pairs(scale):
    """The edges within each class, each count with noise of its own size: the last class has this scale."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        inside, _ = within_and_between(graph)
        scales = np.where(np.arange(graph.classes) == np.flatnonzero(inside)[inside[inside > 0].argmin()], scale, 1 / 0.97)
        return shown(graph, *(inside[c : c + 1] + random.laplace(0, scales[c], 1) for c in range(graph.classes)))

    return train


@pytest.mark.parametrize(("scale", "expected"), [(1 / 0.97, NOT_REFUTED), (0.2, REFUTED)])
def test_a_mechanism_with_less_noise_than_others_of_its_line_is_searched_for_a_secret_of_its_own(scale, expected, tmp_path):
    assert code(by_pairs(scale), Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE), dp.LaplaceDpEvent(1.0), tmp_path) == expected
