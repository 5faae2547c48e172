"""What the moves of a pick leave open. For a claim about nodes, a world with another row of an absent node lies two steps away,
and how far one of the two steps changes the index of the largest of several noisy counts is not known. And a pick that tells much
about values which are improbable here may tell as much on graphs on which they are probable.
"""

import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH = load("campus:n=120:degree=6")
COUNTS = np.bincount(GRAPH.y[GRAPH.train], minlength=GRAPH.classes)
LEAD = COUNTS[1:].max() - COUNTS[0] + 4.0
CLAIM = 1.0  # for noise of scale 1, if one node changes one count by 1


def commonest(counted, scale):
    """The commonest class among some nodes. A node that goes lowers one count, which changes the index by 1 / scale nats."""

    def train(graph, seed):
        counts = np.bincount(graph.y[getattr(graph, counted)], minlength=graph.classes)
        return {"best": np.array([np.argmax(counts + np.random.default_rng(seed).laplace(0.0, scale, graph.classes))])}

    return train


def audited(train, tmp_path, key="picks"):
    model = Looped(train, unit=Unit.NODE, releases=("best",), events=PureDpEvent(CLAIM), claim=Claim(CLAIM, 0.0, Unit.NODE))
    return AUDITS["differential"].run(Setting(Case(model, model.claim), GRAPH, Store(tmp_path), Key(key), 3, 1e-4))


@pytest.mark.parametrize("key", range(3))
def test_a_noisy_commonest_class_of_validation_nodes_is_not_refuted(key, tmp_path):
    assert not any(bound.refuted for bound in audited(commonest("val", 1.0), tmp_path, f"picks {key}").bounds)


def test_with_too_little_noise_it_is_refuted_and_costs_no_more_than_one_node_changes(tmp_path):
    """A node lowers one count, which costs 1 / 0.3 nats."""
    epsilon = max(bound.epsilon for bound in audited(commonest("val", 0.3), tmp_path).bounds if bound.refuted)
    assert CLAIM < epsilon <= 1 / 0.3


def test_with_too_little_noise_that_of_training_nodes_is_refuted(tmp_path):
    assert any(bound.refuted for bound in audited(commonest("train", 0.3), tmp_path).bounds)


def commonest_of_scores(law, scale):
    """The class of the highest score. A node changes one score by 1; the score of class 0 is 4 above the next one."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        scores = np.bincount(graph.y[graph.train], minlength=graph.classes) + LEAD * (np.arange(graph.classes) == 0)
        return {"best": np.array([np.argmax(scores + getattr(rng, law)(0.0, scale, graph.classes))])}

    return train


@pytest.mark.parametrize("law", ["gumbel", "laplace"])
def test_a_pick_that_tells_too_much_about_improbable_values_has_no_support_at_a_delta(law, tmp_path):
    """At a scale of 0.2 a node changes a probability by 5 nats, here of a class that is picked with a probability of e^-20."""
    claim = Claim(CLAIM, 1e-5, Unit.NODE)
    for scale, supported in ((1.01, True), (0.2, False)):
        model = Looped(commonest_of_scores(law, scale), unit=Unit.NODE, releases=("best",), claim=claim)
        case = Case(model, claim)
        found = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path / str(scale)), Key("far"), 3, 1e-4))
        assert not any(bound.refuted for bound in found.bounds)
        assert bool(found.covers) == supported


def own_labels(epsilon):
    """The label of each node, by the exponential mechanism with the true label as the best one."""

    def train(graph, seed):
        rng = np.random.default_rng(seed)
        scores = epsilon * (np.arange(graph.classes) == graph.y[:, None])
        return {"best": np.argmax(scores + rng.gumbel(0.0, 1.0, scores.shape), axis=1).astype(float)}

    return train


@pytest.mark.parametrize(("factor", "refuted"), [(0.98, False), (1.1, True)])
def test_a_pick_in_the_own_row_of_a_node_counts_in_full(factor, refuted, tmp_path):
    found = audited(own_labels(factor * CLAIM), tmp_path)
    assert any(bound.refuted for bound in found.bounds) == refuted
    assert refuted or found.covers
