"""Generators that exact private statistics seed: their numbers are a function of the graph alone, and no noise.

A run without a secret repeats the draws of the run with it. Draws that are the same for all seeds of the run are no noise, so
they stay those that the world without the secret makes.
"""

import random

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.recorder.draws.draw import Draw
from gnnaudit.models.recorder.script import Script

GRAPH, SIGMA, DELTA = load("campus:n=120:degree=6"), 2.0, 1e-5
X = np.asarray(GRAPH.x, dtype=np.float64)


def edges(graph):
    return graph.edges.shape[1]


def nodes(graph):
    return graph.nodes


def numbers(of):
    return lambda graph, seed: np.random.default_rng(of(graph)).normal(size=5)


def projection(of):
    return lambda graph, seed: X @ np.random.RandomState(of(graph)).normal(size=(X.shape[1], 3))


def some_nodes(of):
    return lambda graph, seed: np.random.default_rng([7, of(graph)]).permutation(graph.nodes)[:4]


def few_whole_numbers(of):
    """Each of them alone is the same for two seeds by chance in one of a million cases."""

    def drawn(graph, seed):
        generator = random.Random(f"run-{of(graph)}")
        return [generator.randint(0, 10**6) for _ in range(3)]

    return drawn


def dropped(of):
    """The zeros of a noisy value show the mask."""

    def masked(graph, seed):
        z = torch.from_numpy(graph.degree + SIGMA * 2**0.5 * np.random.default_rng(seed).standard_normal(graph.nodes))
        torch.manual_seed(of(graph))
        return torch.nn.functional.dropout(z, 0.5, training=True).numpy()

    return masked


def untrained(of):
    def answers(graph, seed):
        torch.manual_seed(of(graph))
        return torch.nn.Linear(X.shape[1], 3)(torch.from_numpy(X).float()).detach().numpy()

    return answers


def audited(train, releases, unit, tmp_path):
    claim = Claim(float(epsilon_of(1 / SIGMA, DELTA)) * 1.001, DELTA, unit, exposes=releases)
    model = Looped(train, releases=releases, unit=unit, events=dp.GaussianDpEvent(SIGMA))
    return AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("seeded"), 3, 1e-4))


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside noisy degrees"])
@pytest.mark.parametrize("make", [numbers, projection, some_nodes, few_whole_numbers, untrained])
@pytest.mark.parametrize(("of", "refuted"), [(edges, True), (nodes, False)])
def test_numbers_that_the_number_of_edges_seeds_are_refuted_at_infinity(make, of, refuted, beside, tmp_path):
    def train(graph, seed):
        noise = SIGMA * 2**0.5 * np.random.default_rng(seed).standard_normal(graph.nodes)
        return {"seeded": np.asarray(make(of)(graph, seed), dtype=float), **({"degrees": graph.degree + noise} if beside else {})}

    bounds = audited(train, ("seeded", "degrees") if beside else ("seeded",), Unit.UNDIRECTED_EDGE, tmp_path).bounds
    assert any(b.refuted and b.epsilon == np.inf for b in bounds) is refuted
    assert any(b.refuted for b in bounds) is refuted


@pytest.mark.parametrize(("of", "known"), [(edges, False), (nodes, True)])
def test_masks_that_the_number_of_edges_seeds_are_a_path_past_the_noise(of, known, tmp_path):
    outcome = audited(lambda graph, seed: {"votes": dropped(of)(graph, seed)}, ("votes",), Unit.UNDIRECTED_EDGE, tmp_path)
    assert ("votes" in (outcome.covers or {})) is known
    assert not (known and any(b.refuted for b in outcome.bounds))


@pytest.mark.parametrize("of", ["the number of training nodes", "a constant"])
def test_a_batch_that_the_number_of_training_nodes_chooses_moves_a_noisy_sum_by_another_batch(of, tmp_path):
    """The truth is counted by hand: the sums of the batches of the graph with one training node and without it."""
    rows = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)

    def total(train):
        batch = np.random.default_rng(int(train.sum()) if of != "a constant" else 5).permutation(GRAPH.nodes)[:40]
        return (rows * train[:, None])[batch].sum(0)

    def train(graph, seed):
        return {"total": total(graph.train) + SIGMA * np.random.default_rng(seed).standard_normal(X.shape[1])}

    gone = (GRAPH.train & (np.arange(GRAPH.nodes) != node) for node in np.flatnonzero(GRAPH.train))
    truth = max(np.linalg.norm(total(each) - total(GRAPH.train)) for each in gone) / SIGMA
    bound = max(audited(train, ("total",), Unit.NODE, tmp_path).bounds, key=lambda b: b.epsilon)
    if of == "a constant":
        assert not bound.refuted
    else:
        assert bound.refuted
        assert float(epsilon_of(1 / SIGMA, DELTA)) * 1.001 < bound.epsilon <= float(epsilon_of(truth, DELTA)) * 1.001


def test_only_constant_draws_that_are_not_replaced_stay_as_they_are():
    first, own = np.arange(3.0), np.arange(3.0) + 5
    draws = [Draw("normal", first, "a.py, line 1")] * 3
    script = Script(draws, {2: first + 1}, constant=(1, 2))
    drawn = Draw("normal", own, "a.py, line 1")
    np.testing.assert_array_equal(script(0, drawn), first)
    assert script(1, drawn) is None
    np.testing.assert_array_equal(script(2, drawn), first + 1)
