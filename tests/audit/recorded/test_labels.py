"""Locally randomised labels, each sent with the features' claim: epsilon is the closed form of k-ary randomised response, and of
optimised unary encoding (Wang et al. 2017), whose faulty twins keep the label as if epsilon were twice as large.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly
from .votes import released

GRAPH, TRUTH = load("campus:n=120:degree=6"), 3.0


def other_class(rng, graph, epsilon):
    """The truth with probability e^epsilon / (e^epsilon + classes - 1), else another class."""
    c, n = graph.classes, graph.nodes
    lie = rng.random(n) > np.exp(epsilon) / (np.exp(epsilon) + c - 1)
    return np.eye(c)[np.where(lie, (graph.y + rng.integers(1, c, n)) % c, graph.y)]


def shift(rng, graph, epsilon):
    c = graph.classes
    weights = np.exp([epsilon] + [0.0] * (c - 1))
    return np.eye(c)[(graph.y + rng.choice(c, graph.nodes, p=weights / weights.sum())) % c]


def other_class_in_torch(rng, graph, epsilon):
    import torch

    torch.manual_seed(int(rng.integers(2**31)))
    c, y = graph.classes, torch.tensor(graph.y)
    lie = torch.rand(graph.nodes, dtype=torch.float64) > np.exp(epsilon) / (np.exp(epsilon) + c - 1)
    return np.eye(c)[torch.where(lie, (y + torch.randint(1, c, y.shape)) % c, y).numpy()]


def unary(rng, graph, epsilon):
    """The bit of the label is kept with probability 1/2, each other one is set with probability 1 / (1 + e^epsilon)."""
    bits = np.eye(graph.classes)[graph.y] > 0
    return np.where(bits, rng.random(bits.shape) < 0.5, rng.random(bits.shape) < 1 / (1 + np.exp(epsilon))).astype(float)


WAYS = [other_class, *nightly(unary, shift, other_class_in_torch)]


def audited(way, tmp_path, epsilon, claim):
    def train(graph, seed):
        told = way(np.random.default_rng(seed), graph, epsilon)
        return released(graph.adjacency() @ told) | {"told": told}

    case = Case(Looped(train, unit=Unit.FEATURES, releases=("posteriors", "told")), Claim(claim, 0.0, Unit.FEATURES))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("labels"), 3, 1e-4))


@pytest.mark.parametrize("way", WAYS)
def test_honest_reports_of_labels_have_the_epsilon_of_their_closed_form(way, tmp_path):
    outcome = audited(way, tmp_path, TRUTH, 1.02 * TRUTH)
    assert {"posteriors", "told"} <= set(outcome.covers)
    assert not any(b.refuted for b in outcome.bounds)
    assert max(b.epsilon for b in outcome.bounds) == pytest.approx(TRUTH, rel=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_reports_that_tell_the_truth_too_often_are_refuted(way, tmp_path):
    outcome = audited(way, tmp_path, 2 * TRUTH, TRUTH)
    assert any(b.refuted and b.epsilon == pytest.approx(2 * TRUTH, rel=1e-3) for b in outcome.bounds)
