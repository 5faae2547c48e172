"""Randomised response on the pairs of nodes; only sums of reports, or a function of the two reports on an edge, are released. At
delta = 0 a sum has one largest value, which only one choice of the reports gives, so it costs as much as its reports. A parity or
a noisy sum costs less.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ....nightly import nightly
from ...recorded.votes import released

GRAPH = load("campus:n=120:degree=6")
LABELS = np.eye(GRAPH.classes)[GRAPH.y]


def audited(read, epsilon, tmp_path, claimed=2.0, delta=0.0):
    def train(graph, seed):
        random = np.random.default_rng(seed)
        bits = graph.adjacency().toarray() > 0
        told = np.triu(bits ^ (random.random(bits.shape) < 1 / (1 + np.exp(epsilon))), 1).astype(float)
        return released(read(told + told.T, random) / 8)

    case = Case(Looped(train), Claim(claimed, delta))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("sums"), 3, 1e-4))


def per_class(told, random):
    return told @ LABELS


def with_signs(told, random):
    return told @ (LABELS * np.where(np.arange(len(told)) % 2, 1, -1)[:, None])


def in_all(told, random):
    return np.outer(np.full(len(told), told.sum()), np.arange(GRAPH.classes))


def parities(told, random):
    return told @ LABELS % 2


def thresholds(told, random):
    return (told @ LABELS > 2).astype(float)


def noisy(told, random):
    return told @ LABELS + random.laplace(0, 4.0, LABELS.shape)


def shuffled(told, random):
    return (told @ LABELS)[random.permutation(len(told))]


def sampled(told, random):
    return (told * (random.random(told.shape) < 0.3)) @ LABELS


READS = [per_class, *nightly(with_signs, in_all)]


@pytest.mark.parametrize("read", READS)
def test_a_sum_of_reports_costs_as_much_as_one_report_without_delta(read, tmp_path):
    outcome = audited(read, 2.0, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert "posteriors" in outcome.covers
    assert min(b.reach for b in outcome.bounds) < 2.01


@pytest.mark.parametrize("read", READS)
def test_a_sum_of_reports_that_keep_too_much_is_refuted(read, tmp_path):
    (bound,) = (b for b in audited(read, 3.0, tmp_path).bounds if b.refuted)
    assert bound.epsilon == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("read", [parities, *nightly(sampled, thresholds, noisy, shuffled)])
def test_functions_that_may_cost_less_than_a_report_refute_nothing(read, tmp_path):
    outcome = audited(read, 3.0, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert "posteriors" not in outcome.covers


def test_with_delta_a_sum_of_reports_refutes_nothing(tmp_path):
    outcome = audited(per_class, 3.0, tmp_path, delta=1e-6)
    assert not any(b.refuted for b in outcome.bounds)
    assert "posteriors" not in outcome.covers


def of_both_directions(read, epsilon, tmp_path):
    """Two coins for each edge, one in each direction; a function of both reports is released."""

    def train(graph, seed):
        bits = graph.adjacency().toarray() > 0
        told = bits ^ (np.random.default_rng(seed).random(bits.shape) < 1 / (1 + np.exp(epsilon)))
        return {"adjacency": read(told, told.T).astype(float)}

    case = Case(Looped(train, releases=("adjacency",)), Claim(2.0, 0.0))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("both"), 3, 1e-4))


BOTH = [np.logical_or, *nightly(np.logical_and, np.add)]


@pytest.mark.parametrize("read", BOTH)
def test_a_matrix_that_is_made_symmetric_from_two_reports_on_each_edge_costs_as_much_as_both(read, tmp_path):
    """Without the edge both reports say so with probability (1 - f)^2, and with it with probability f^2."""
    (bound,) = (b for b in of_both_directions(read, 2.0, tmp_path).bounds if b.refuted)
    assert bound.epsilon == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("read", BOTH)
def test_half_of_epsilon_for_each_of_both_reports_is_enough(read, tmp_path):
    outcome = of_both_directions(read, 1.0, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert min(b.reach for b in outcome.bounds) < 2.01


def test_whether_two_reports_on_an_edge_differ_does_not_depend_on_the_edge(tmp_path):
    assert not any(b.refuted for b in of_both_directions(np.logical_xor, 2.0, tmp_path).bounds)


@pytest.mark.parametrize("per_class", [False, True])
def test_a_sum_of_one_report_that_becomes_more_probable_and_one_that_becomes_less_probable_shows_neither(per_class, tmp_path):
    """Another label exchanges the chances of two bits. The sum of all bits keeps its law; a sum for each class shows both."""

    def train(graph, seed):
        bits = np.eye(graph.classes)[graph.y] > 0
        told = bits ^ (np.random.default_rng(seed).random(bits.shape) < 1 / (1 + np.exp(2.0)))
        return {"count": told.sum(0).astype(float) if per_class else np.full(graph.classes, float(told.sum()))}

    case = Case(Looped(train, unit="features", releases=("count",)), Claim(1.0, 0.0, Unit.FEATURES))
    bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("exchanged"), 3, 1e-4)).bounds
    assert [b.epsilon for b in bounds if b.refuted] == pytest.approx([4.0] if per_class else [], rel=1e-3)
