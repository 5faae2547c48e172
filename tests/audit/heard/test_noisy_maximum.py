"""A noisy maximum over many nodes, whose epsilon is that of its probabilities."""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from .votes import counts, released

GRAPH = load("campus:n=120:degree=6")


def audited(train, tmp_path, claim, releases=("posteriors",)):
    case = Case(Looped(train, releases=releases), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("remarks"), 3, 1e-4))


def anchors(factor):
    """One node for each class, by the exponential mechanism over all nodes: an edge moves the scores of two classes by 1 each."""

    def train(graph, seed):
        scores = counts(graph).T
        chosen = np.argmax(factor * scores + np.random.default_rng(seed).gumbel(size=scores.shape), axis=1)
        return released(graph.x @ graph.x[chosen].T) | {"anchors": chosen.astype(float)}

    return train


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_noisy_maximum_over_all_nodes_is_judged(factor, tmp_path):
    """The probabilities of one class change by at most e^factor, so the claim 2 holds for factor 1 and is broken for factor 2."""
    outcome = audited(anchors(factor), tmp_path, Claim(2.0, 0.0), ("posteriors", "anchors"))
    worst = max(b.epsilon for b in outcome.bounds)
    assert any(b.refuted for b in outcome.bounds) == (factor > 1)
    assert 0.9 * 2 * factor < worst <= 2 * factor
