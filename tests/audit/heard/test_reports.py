"""Models whose only protection is randomised response: their epsilon is the closed form ln(p / (1 - p))."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.events.types import PureDpEvent
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH, DELTA, KEEP = load("campus:n=120:degree=6"), 1e-9, 0.8
TRUTH = float(np.log(KEEP / (1 - KEEP)))
RESPONSE = dp.RandomizedResponseDpEvent(2 * (1 - KEEP), 2)


def read_out(adjacency, graph):
    return shares(adjacency @ np.eye(graph.classes)[graph.y] / 4)


def shares(scores):
    return {"posteriors": scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)}


def on_pairs(graph, seed):
    edges = graph.adjacency().toarray() > 0
    flips = np.triu(np.random.default_rng(seed).random(edges.shape) > KEEP, 1)
    return read_out(edges ^ (flips | flips.T), graph)


def upper_half_only(graph, seed):
    edges = graph.adjacency().toarray() > 0
    stays = np.random.default_rng(seed).random(edges.shape) < KEEP
    told = np.triu(np.where(stays, edges, ~edges), 1)
    return read_out(told | told.T, graph)


def of_torch(graph, seed):
    import torch

    edges = torch.tensor(graph.adjacency().toarray() > 0)
    torch.manual_seed(int(seed) % 2**31)
    flips = torch.triu(torch.rand(edges.shape) > KEEP, 1)
    return read_out((edges ^ (flips | flips.t())).numpy(), graph)


def of_own_chances(graph, seed):
    edges = graph.adjacency().toarray() > 0
    told = np.triu(np.random.default_rng(seed).binomial(1, np.where(edges, KEEP, 1 - KEEP)), 1)
    return read_out(told + told.T, graph)


def each_direction(graph, seed):
    """An edge is two bits here, each with a coin of its own."""
    edges = graph.adjacency().toarray() > 0
    return read_out(edges ^ (np.random.default_rng(seed).random(edges.shape) > KEEP), graph)


def audited(train, tmp_path, epsilon, ledger=RESPONSE):
    case = Case(Looped(train, events=ledger), Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("reports"), 3, 1e-4))


@pytest.mark.parametrize("train", [on_pairs, upper_half_only, of_torch, of_own_chances])
def test_randomised_response_on_pairs_has_the_epsilon_of_its_closed_form(train, tmp_path):
    outcome = audited(train, tmp_path, 1.02 * TRUTH)
    assert not any(b.refuted for b in outcome.bounds)
    (bound,) = (b for b in outcome.bounds if np.isfinite(b.reach))
    assert bound.epsilon == pytest.approx(TRUTH, rel=1e-4)
    assert 1.02 * TRUTH <= bound.reach < 1.05 * TRUTH
    assert any(b.refuted for b in audited(train, tmp_path, 0.98 * TRUTH).bounds)


def test_two_coins_for_one_edge_cost_twice(tmp_path):
    assert any(b.refuted for b in audited(each_direction, tmp_path, 1.9 * TRUTH).bounds)
    assert not any(b.refuted for b in audited(each_direction, tmp_path, 2.1 * TRUTH).bounds)


def test_reports_that_only_a_sum_shows_refute_no_ledger_that_does_not_charge_for_them(tmp_path):
    """The shuffle model proves a smaller epsilon for the sum of many reports than for the reports."""
    outcome = audited(on_pairs, tmp_path, 0.5 * TRUTH, PureDpEvent(0.5 * TRUTH))
    assert not any(b.refuted for b in outcome.bounds)
    assert any("are not released" in b.method or "are not released" in str(b.conditions) for b in outcome.bounds)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)


def sampled(graph, seed):
    """Edges are sampled, then their sums get Gaussian noise: the sample may hide an edge, and nothing is refuted."""
    rng = np.random.default_rng(seed)
    edges = graph.adjacency().toarray() * (rng.random((graph.nodes, graph.nodes)) < 0.5)
    sums = edges @ np.eye(graph.classes)[graph.y]
    return shares(np.tanh(sums + rng.standard_normal(sums.shape)))


def thinned_by_degree(graph, seed):
    """The same, where each node keeps its edges with a probability of its own."""
    rng = np.random.default_rng(seed)
    rates = np.broadcast_to((0.9 / (1 + np.arange(graph.nodes) % 3))[:, None], (graph.nodes, graph.nodes))
    edges = graph.adjacency().toarray() * (rng.random((graph.nodes, graph.nodes)) < rates)
    sums = edges @ np.eye(graph.classes)[graph.y]
    return shares(np.tanh(sums + rng.standard_normal(sums.shape)))


@pytest.mark.parametrize("train", [sampled, thinned_by_degree])
def test_a_sample_is_no_randomised_response(train, tmp_path):
    outcome = audited(train, tmp_path, 0.1, dp.GaussianDpEvent(20.0))
    assert not any(b.refuted for b in outcome.bounds)
    assert not any(np.isfinite(b.reach) for b in outcome.bounds)
