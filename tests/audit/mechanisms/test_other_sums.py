"""Sums of noise and data in other forms than `data + noise`. The truth is the closed form of the Gaussian mechanism: an edge
moves two counts by 1. Faulty twins have half the noise, or use one array of noise for two values.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly
from ..recorded.votes import counts, released

GRAPH, DELTA, SCALE = load("campus:n=120:degree=6"), 1e-5, 5.4
TRUTH = float(epsilon_of(2**0.5 / SCALE, DELTA))


def normal(graph, seed, scale):
    return scale * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))


def after_a_number(graph, seed, scale, twice):
    noise = normal(graph, seed, scale) + 3.0
    return [noise + times * counts(graph) for times in ((1.0, 0.5) if twice else (1.0,))]


def of_edges(graph):
    """Places and amounts of the counts: one entry for each directed edge."""
    v, u = graph.arcs
    return (u, graph.y[v]), graph.train[v].astype(float)


def scattered(graph, seed, scale, twice):
    (u, label), amounts = of_edges(graph)
    noise = normal(graph, seed, scale)
    np.add.at(noise, (u, label), amounts)
    return [noise, noise - counts(graph) / 2] if twice else [noise]


def in_parts(graph, seed, scale, twice):
    noise = normal(graph, seed, scale)
    values = [noise.copy() for _ in range(1 + twice)]
    (u, label), amounts = of_edges(graph)
    for size, value in enumerate(values, 1):
        for part in range(5):
            np.add.at(value, (u[part::5], label[part::5]), amounts[part::5] / size)
    return values


SUMS = [scattered, *nightly(after_a_number, in_parts)]


def audited(values, tmp_path, scale=SCALE, twice=False):
    def train(graph, seed):
        noisy = values(graph, seed, scale, twice)
        return released(sum(np.tanh(v / 8) for v in noisy)) | ({"half": noisy[1]} if twice else {})

    case = Case(Looped(train, releases=("posteriors", "half")[: 1 + twice]), Claim(1.02 * TRUTH, DELTA))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("sums"), 3, 1e-4))


@pytest.mark.parametrize("values", SUMS)
def test_the_honest_sum_is_covered_with_the_reach_of_its_closed_form(values, tmp_path):
    outcome = audited(values, tmp_path)
    assert "posteriors" in outcome.covers
    assert not any(b.refuted for b in outcome.bounds)
    (reach,) = (b.reach for b in outcome.bounds if np.isfinite(b.reach))
    assert 1.02 * TRUTH <= reach < 1.1 * TRUTH


@pytest.mark.parametrize("values", SUMS)
def test_half_the_noise_is_refuted(values, tmp_path):
    assert any(b.refuted for b in audited(values, tmp_path, SCALE / 2).bounds)


@pytest.mark.parametrize("values", SUMS)
def test_one_array_of_noise_for_two_values_is_refuted_or_gets_no_verdict(values, tmp_path):
    outcome = audited(values, tmp_path, twice=True)
    assert any(b.refuted for b in outcome.bounds) or not {"posteriors", "half"} & set(outcome.covers)


def shown_on_the_way(read):
    """The noisy sum without its last term is released too: the difference of both has no noise."""

    def values(graph, seed, scale, twice):
        value, half = normal(graph, seed, scale), counts(graph) / 2
        value += half
        seen = read(value)
        value += half
        return [value, seen]

    return values


@pytest.mark.parametrize("read", [np.array, np.tanh, *nightly(lambda v: np.asarray(v).copy(), lambda v: np.asarray(v) > 30.0)])
def test_a_sum_that_is_read_before_its_last_term_is_refuted_or_gets_no_verdict(read, tmp_path):
    outcome = audited(shown_on_the_way(read), tmp_path, scale=2 * SCALE, twice=True)
    assert any(b.refuted for b in outcome.bounds) or "posteriors" not in outcome.covers


def answers(graph, seed, scale):
    """Five answers to the same question, each with its own noise."""
    random = np.random.default_rng(seed)
    return [counts(graph) + scale * random.standard_normal((graph.nodes, graph.classes)) for _ in range(5)]


def moving_average(graph, seed, scale, twice):
    value, shares = np.zeros((graph.nodes, graph.classes)), 0.3 * 0.7 ** np.arange(5)
    for answer in answers(graph, seed, scale * shares.sum() / np.linalg.norm(shares)):
        value = 0.7 * value + 0.3 * answer
    return [value]


def one_of_two(graph, seed, scale, twice):
    """The larger one of a noisy count and of noise alone, which no secret moves."""
    random, shape = np.random.default_rng(seed), (graph.nodes, graph.classes)
    answers = [data + 0.98 * scale * random.standard_normal(shape) for data in (counts(graph), 0 * counts(graph))]
    return [np.maximum(*answers)]


@pytest.mark.parametrize("values", [moving_average, *nightly(one_of_two)])
def test_a_function_of_several_answers_is_not_charged_for_all_of_them(values, tmp_path):
    """A moving average has mu = sqrt(2) / scale exactly; all five answers together would have a larger epsilon than the claim."""
    outcome = audited(values, tmp_path)
    assert not any(b.refuted for b in outcome.bounds)
    assert "posteriors" not in outcome.covers


def by_class(graph, seed, scale):
    """Edges within classes with Laplace noise of epsilon .95, edges between classes with Gaussian noise of this scale."""
    random = np.random.default_rng(seed)
    one, other = graph.y[graph.edges]
    within = np.bincount(one[one == other], minlength=graph.classes) + random.laplace(0, 1 / 0.95, graph.classes)
    between = np.bincount((one * graph.classes + other)[one != other], minlength=graph.classes**2)
    between = (between + random.normal(0, scale, graph.classes**2)).reshape(graph.classes, graph.classes)
    return released((between + np.diag(np.tanh(within)))[graph.y] / 10) | {"between": np.tanh(between / 20)}


@pytest.mark.parametrize(("scale", "refuted"), [(1 / 0.26, False), (1 / 0.9, True)])
def test_moves_under_different_laws_are_compared_by_their_cost(scale, refuted, tmp_path):
    """An edge between classes moves the Gaussian by 1 / scale, which costs .97 or 3.9; one within a class costs .95."""
    model = Looped(lambda graph, seed: by_class(graph, seed, scale), releases=("posteriors", "between"))
    case = Case(model, Claim(1.0, DELTA))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("laws"), 3, 1e-4))
    assert any(b.refuted for b in outcome.bounds) == refuted
    assert ("posteriors" in outcome.covers) != refuted
    if refuted:
        assert max(b.epsilon for b in outcome.bounds) == pytest.approx(float(epsilon_of(0.9, DELTA)), rel=0.02)


def quotient(graph, seed, scale):
    """Sums over classes, divided by noisy counts: the noise of a released number has another size without a node."""
    random, member = np.random.default_rng(seed), np.eye(graph.classes)[graph.y] * graph.train[:, None]
    rows = np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x, dtype=float)[:, :5]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    sums = member.T @ rows + scale * random.standard_normal((graph.classes, rows.shape[1]))
    totals = member.sum(0) + scale * random.standard_normal(graph.classes)
    centres = sums / np.maximum(totals, 1.0)[:, None]
    return released(rows @ centres.T) | {"centres": centres}


@pytest.mark.parametrize(("scale", "refuted"), [(SCALE, False), (SCALE / 2, True)])
def test_sums_that_are_divided_by_noisy_counts_are_judged_by_their_mechanisms(scale, refuted, tmp_path):
    """A node moves one sum by at most 1 and one count by 1."""
    model = Looped(lambda graph, seed: quotient(graph, seed, scale), unit="node", releases=("posteriors", "centres"))
    case = Case(model, Claim(1.02 * TRUTH, DELTA, unit=Unit.NODE))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("quotient"), 3, 1e-4))
    assert any(b.refuted for b in outcome.bounds) == refuted
    assert ("centres" in outcome.covers) != refuted


@pytest.mark.parametrize(("epsilon", "refuted"), [(1.0, False), (2.0, True)])
def test_geometric_noise_on_a_triangle_has_the_cost_of_its_closed_form(epsilon, refuted, tmp_path):
    """An edge moves one entry by 1."""

    def train(graph, seed):
        random, size = np.random.default_rng(seed), graph.classes**2
        ends = np.sort(graph.y[graph.edges], axis=0)
        table = np.bincount(ends[0] * graph.classes + ends[1], minlength=size)
        noise = [random.geometric(1 - np.exp(-epsilon), size) for _ in range(2)]
        upper = np.triu((table + noise[0] - noise[1]).reshape(graph.classes, graph.classes)).astype(float)
        return released(upper[graph.y] / 10) | {"mixing": upper}

    case = Case(Looped(train, releases=("posteriors", "mixing")), Claim(1.0, 0.0))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("triangle"), 3, 1e-4))
    assert any(b.refuted for b in outcome.bounds) == refuted
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(epsilon, rel=2e-3)
    assert refuted or min(b.reach for b in outcome.bounds) < 1.01
