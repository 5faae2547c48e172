"""Sums of noise and data in other forms than `data + noise`. The truth is the closed form of the Gaussian mechanism: an edge
moves two counts by 1. Faulty twins have half the noise, or use one array of noise for two values.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ..heard.votes import counts, released

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


SUMS = [after_a_number, scattered, in_parts]


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


@pytest.mark.parametrize("read", [np.array, np.tanh, lambda v: np.asarray(v).copy(), lambda v: np.asarray(v) > 30.0])
def test_a_sum_that_is_read_before_its_last_term_is_refuted_or_gets_no_verdict(read, tmp_path):
    outcome = audited(shown_on_the_way(read), tmp_path, scale=2 * SCALE, twice=True)
    assert any(b.refuted for b in outcome.bounds) or "posteriors" not in outcome.covers
