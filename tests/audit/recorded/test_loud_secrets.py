"""One secret moves a noisy value farther than most secrets do. The value is a report, or has no row for each node.

Truths are sums of log-ratios and the closed form of the Gaussian mechanism.
"""

import dataclasses
import math

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import released

GRAPH, DELTA = load("campus:n=120:degree=6"), 1e-5
MU = 0.25  # of a claim of 1 at DELTA: 1.08
NOT_REFUTED, REFUTED = 0, 1
COMMON = (GRAPH.x.max() + GRAPH.x.min()) / 2  # a feature above this number is a bit 1


def code(train, claim, key, folder):
    model = Looped(train, unit=claim.unit, events=dp.LaplaceDpEvent(1.0))
    found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(folder), Key("loud", key), 3, 1e-9))
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(dataclasses.replace(claim, exposes=("posteriors",)), (), bounds, 1.5).exit_code


def at(nodes, usual, unusual):
    """For each node a number: `unusual` for these nodes."""
    return np.where(np.isin(np.arange(GRAPH.nodes), nodes), unusual, usual)


def one_hot(graph):
    return np.eye(graph.classes)[graph.y]


def sums(graph, weights):
    return graph.adjacency() @ (one_hot(graph) * weights[:, None])


def told(random, bits, budgets):
    """Randomised response of bits, each with a budget of its own."""
    return random.binomial(1, np.where(bits, 1, np.exp(-budgets)) / (1 + np.exp(-budgets)))


def flipped_pairs(loud):
    """Randomised response of each pair of nodes, as a list; pairs with a node of three have the budget `loud`. Truth: `loud`."""

    def train(graph, seed):
        pairs = np.triu_indices(graph.nodes, 1)
        budgets = at([31, 64, 90], 0.9, loud)[np.array(pairs)].max(0)
        upper = np.zeros((graph.nodes, graph.nodes))
        upper[pairs] = told(np.random.default_rng(seed), (graph.adjacency().toarray() > 0)[pairs], budgets)
        return released((upper + upper.T) @ one_hot(graph) / 10)

    return train


def flipped_features(loud):
    """Randomised response of a feature of the training nodes; three of them have the budget `loud`. Truth: `loud`."""

    def train(graph, seed):
        values = graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x
        budgets = at(np.flatnonzero(GRAPH.train)[[11, 17, 23]], 0.9, loud)[graph.train]
        bits = told(np.random.default_rng(seed), values[graph.train, 0] > COMMON, budgets)
        return released(graph.adjacency()[:, graph.train] @ np.stack([bits, 1 - bits], 1) @ np.eye(2, graph.classes) / 5)

    return train


def columns_of_batches(heavy):
    """Sums in shuffled batches, a column for each node, with Laplace noise; a node weighs `heavy`. Truth: .95 (heavy + 1) / 2"""

    def train(graph, seed):
        random, parts = np.random.default_rng(seed), np.zeros((graph.nodes, graph.classes))
        values = sums(graph, at([77], 1.0, heavy))
        for batch in np.array_split(np.random.default_rng(3).permutation(graph.nodes), 5):
            parts[batch] = (values[batch].T + random.laplace(0, 2 / 0.95, (graph.classes, batch.size))).T
        return released(parts / 10)

    return train


def quiet_training_rows(share):
    """Normal noise for the rows of the training nodes, in PyTorch; two of them get `share` of it. Truth: MU / share / 2^.5"""

    def train(graph, seed):
        random = torch.Generator().manual_seed(seed)
        factor = torch.tensor(at(np.flatnonzero(GRAPH.train)[[34, 51]], 1.0, share)[graph.train])[:, None, None]
        rows = torch.tensor(sums(graph, np.ones(graph.nodes))[graph.train])
        both = rows.reshape(len(rows), 2, -1)
        noise = torch.randn(both.shape, generator=random, dtype=both.dtype)
        values = np.zeros((graph.nodes, graph.classes))
        values[graph.train] = (both + noise * factor * 2**0.5 / MU).flatten(1).numpy()
        return released(values / 20)

    return train


def totals(heavy):
    """The weights of the edges, summed by class; the edges of a node weigh `heavy`. Truth: .95 heavy."""

    def train(graph, seed):
        weights = at([58], 1.0, heavy)
        u, v = graph.edges
        total = np.bincount(np.minimum(graph.y[u], graph.y[v]), np.maximum(weights[u], weights[v]), graph.classes)
        total = total + np.random.default_rng(seed).laplace(0, 1 / 0.95, graph.classes)
        return released(np.tile(np.tanh(total / 60), (graph.nodes, 1)))

    return train


EDGE, FEATURE = Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE), Claim(1.0, 0.0, Unit.FEATURES)
ROUNDED = Claim(1.1, DELTA, Unit.UNDIRECTED_EDGE)
FAULTS = [
    (quiet_training_rows(0.2), ROUNDED),
    (totals(4.0), EDGE),
    *nightly((flipped_pairs(3.0), EDGE), (flipped_features(4.0), FEATURE), (columns_of_batches(3.0), EDGE)),
]
TWINS = [
    (quiet_training_rows(1.5), ROUNDED),
    (totals(1.0), EDGE),
    *nightly((flipped_pairs(0.4), EDGE), (flipped_features(0.4), FEATURE), (columns_of_batches(1.0), EDGE)),
]


@pytest.mark.parametrize("key", [*nightly(0), 1])
@pytest.mark.parametrize(("train", "claim"), FAULTS, ids=lambda each: getattr(each, "__qualname__", "").split(".")[0])
def test_a_secret_that_moves_a_value_farther_than_most_is_found(train, claim, key, tmp_path):
    assert code(train, claim, key, tmp_path) == REFUTED


@pytest.mark.parametrize(("train", "claim"), TWINS, ids=lambda each: getattr(each, "__qualname__", "").split(".")[0])
def test_honest_twins_are_not_refuted(train, claim, tmp_path):
    assert code(train, claim, 0, tmp_path) == NOT_REFUTED


def test_the_budget_of_quiet_rows_is_above_the_claim():
    def gaussian(mu, epsilon):
        def phi(x):
            return 0.5 * math.erfc(-x / 2**0.5)

        return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)

    assert gaussian(MU, ROUNDED.epsilon) < DELTA < gaussian(MU / 0.2 / 2**0.5, 3.5)
