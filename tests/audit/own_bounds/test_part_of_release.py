"""Users release their features with Laplace noise, and randomised reports of their labels stay hidden: they only train the
posteriors. The features alone cost the number of columns over the scale of their noise, whatever is done with the labels.
"""

from __future__ import annotations

import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.case import Case
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds.within_run import from_mechanisms

from ...nightly import nightly

GRAPH, COLUMNS, FLIP = load("campus:n=120:degree=6"), 8, 0.25
CLAIM = Claim(1 + float(np.log((1 - FLIP) / FLIP)), 0.0, Unit.FEATURES)  # the features cost 1, the label the rest


def told(graph, random):
    """Whether each label is below 3, with some answers flipped."""
    return (graph.y < 3) ^ (random.random(graph.nodes) < FLIP)


def features(graph):
    return (np.asarray(graph.x)[:, :COLUMNS] > 0.5).astype(float)


def posteriors(graph, reports, labels):
    """Two classes, by the distance to the mean of each."""
    means = [reports[labels == side].mean(0) if (labels == side).any() else np.zeros(COLUMNS) for side in (False, True)]
    scores = -np.array([np.square(reports - mean).sum(1) for mean in means]).T / 100
    scores = np.hstack([scores, np.full((graph.nodes, graph.classes - 2), -9.0)])
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def nothing(reports, labels, random, scale):
    return reports


def signs(reports, labels, random, scale):
    """Whoever does not know a label does not know whether to turn the row round."""
    return np.where(labels[:, None], reports, -reports)


def shifted(reports, labels, random, scale):
    return reports + 2 * scale * labels[:, None]


def noisy_total(reports, labels, random, scale):
    """The number of labels, with noise of its own, is added to all rows."""
    return reports + labels.sum() + random.laplace(0, 5.0)


def never_alike(reports, labels, random, scale):
    """Another release where all labels are reported alike, which happens in no run that is likely to be tried."""
    return np.zeros_like(reports) if labels.all() else reports


def as_it_is(clean, labels):
    return clean, 1.0


def chosen(clean, labels):
    """A hidden report decides what gets noise."""
    return np.where(labels[:, None], clean, 0.0), 1.0


def wider(clean, labels):
    """A hidden report decides how large the noise is."""
    return clean, np.where(labels[:, None], 1.0, 20.0)


SPOILED = [(signs, as_it_is), (nothing, chosen), *nightly((shifted, as_it_is), (noisy_total, as_it_is), (nothing, wider))]


def audited(share, spoiled=nothing, before=as_it_is):
    """share: the declared range of the features over the true one. before, spoiled: what labels do before and after the noise."""

    def train(graph, seed):
        random, scale = np.random.default_rng(seed), share * COLUMNS
        labels = told(graph, random)
        clean, size = before(features(graph), labels)
        reports = clean + random.laplace(0, size * scale * np.ones((graph.nodes, COLUMNS)))
        reports = spoiled(reports, labels, random, scale)
        return {"posteriors": posteriors(graph, reports, labels), "reports": reports}

    model = Looped(train, unit=Unit.FEATURES, releases=("posteriors", "reports"))
    runs = Recorded(Case(model, CLAIM), GRAPH, Key("part"))
    return from_mechanisms(runs.case, runs.inside)


def test_features_with_noise_for_a_range_ten_times_too_small_are_refuted_at_their_exact_epsilon():
    bound = audited(0.1)
    assert bound.refuted
    assert not bound.failed
    assert 9.99 < bound.epsilon <= 10 * (1 + 1e-9)
    assert "'reports' alone does not depend on the randomised reports" in bound.method


def test_with_noise_for_the_true_range_nothing_is_refuted_and_the_reason_names_the_hidden_reports():
    bound = audited(1.0)
    assert not bound.refuted
    assert bound.epsilon == 0
    assert np.isinf(bound.reach)
    assert any("no released number shows the randomised reports" in text for text in bound.failed)


@pytest.mark.usefixtures("thorough")
def test_features_that_hidden_reports_hardly_ever_change_are_refuted_at_no_more_than_they_cost():
    bound = audited(0.1, never_alike)
    assert bound.refuted
    assert CLAIM.epsilon < bound.epsilon <= 10 * (1 + 1e-9)


@pytest.mark.parametrize(("spoiled", "before"), SPOILED)
def test_what_hidden_reports_do_with_the_features_does_not_refute_an_honest_claim(spoiled, before):
    bound = audited(1.0, spoiled, before)
    assert not bound.refuted
    assert bound.epsilon == 0
    assert np.isinf(bound.reach)


@pytest.mark.parametrize(("spoiled", "before"), SPOILED)
def test_features_that_depend_on_hidden_reports_cost_no_more_than_both(spoiled, before):
    assert audited(0.1, spoiled, before).epsilon <= 10 + CLAIM.epsilon - 1
