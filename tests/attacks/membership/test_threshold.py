"""Threshold attacks against their formulas, evaluated with many digits or by brute force."""

import dataclasses

import numpy as np
import pytest
from scipy.special import log_softmax

from gnnaudit.attacks.base import Challenge, Pilot, missing
from gnnaudit.attacks.membership.rmia import Relative
from gnnaudit.attacks.membership.threshold import Confidence, Entropy, LabelOnly, ModifiedEntropy, best_threshold
from gnnaudit.attacks.signals import label_logit, log_rest, rows
from gnnaudit.models.base import Release


def test_confidence_is_the_logit_of_the_labels_probability(noise_release):
    release, challenge, _ = noise_release
    p = np.exp(release["posteriors"].astype(np.float64))
    own = np.take_along_axis(p, challenge.known.y[None, :, None], 2)[:, :, 0]
    np.testing.assert_allclose(Confidence().score(release, challenge), np.log(own / (1 - own)), atol=1e-4)


def test_confidence_does_not_saturate_where_float32_rounds_to_one(graph):
    margins = np.array([20.0, 30.0, 60.0, 90.0])
    logits = np.zeros((1, 4, 4))
    logits[0, :, 0] = margins
    release = Release({"posteriors": log_softmax(logits.astype(np.float32), -1)}, np.arange(4))
    known = dataclasses.replace(graph, y=np.zeros(graph.nodes, dtype=np.int64), classes=4)
    scores = label_logit(release, Challenge("node", known, np.arange(4)))
    assert (np.exp(release["posteriors"][0, :, 0]) == 1).all()
    np.testing.assert_allclose(scores[0], margins - np.log(3), rtol=1e-6)


def test_margins_that_no_float64_can_express_as_a_probability_are_kept(graph):
    """A user's network may be this certain. Its scores must be finite, because Gaussians turn infinities into NaN."""
    logits = np.array([[2000.0, 0.0, 900.0], [0.0, 800.0, 800.0]])[None]
    release = Release({"posteriors": log_softmax(logits, -1).astype(np.float32)}, np.arange(2))
    known = dataclasses.replace(graph, y=np.zeros(graph.nodes, dtype=np.int64), classes=3)
    challenge = Challenge("node", known, np.arange(2))
    np.testing.assert_allclose(label_logit(release, challenge), [[1100.0, -800.0 - np.log(2)]], rtol=1e-6)
    base = Relative(query="posteriors").fit(Pilot(release, challenge, np.ones((1, 2), dtype=bool)))
    np.testing.assert_allclose(base.score(release, challenge), 0, atol=1e-9)


def test_the_log_of_the_rest_is_exact_for_every_class():
    log_p = log_softmax(np.array([[40.0, 0.0, 1.0], [0.0, 0.0, 0.0], [5.0, 5.0, -30.0]]), -1)
    p = np.exp(log_p)
    brute = [[np.log(sum(np.delete(row, c))) for c in range(3)] for row in p]
    np.testing.assert_allclose(log_rest(log_p), brute, rtol=1e-9, atol=1e-15)


def test_entropy_ranks_by_shannons_formula(noise_release):
    release, challenge, _ = noise_release
    p = np.exp(release["posteriors"].astype(np.float64))
    np.testing.assert_allclose(Entropy().score(release, challenge), -np.log(-(p * np.log(p)).sum(-1)), atol=1e-4)


def test_modified_entropy_is_song_and_mittals_formula(noise_release):
    release, challenge, _ = noise_release
    p = np.exp(release["posteriors"].astype(np.float64))
    p /= p.sum(-1, keepdims=True)
    for k, i in [(0, 0), (3, 17), (39, 79)]:
        y = challenge.known.y[i]
        value = -(1 - p[k, i, y]) * np.log(p[k, i, y])
        value -= sum(p[k, i, c] * np.log(1 - p[k, i, c]) for c in range(4) if c != y)
        assert ModifiedEntropy().score(release, challenge)[k, i] == pytest.approx(-np.log(value), abs=1e-4)


def test_thresholds_are_learnt_for_each_class(noise_release):
    release, challenge, bits = noise_release
    fitted = ModifiedEntropy().fit(Pilot(release, challenge, bits))
    plain, shifted = ModifiedEntropy().score(release, challenge), fitted.score(release, challenge)
    np.testing.assert_allclose(plain - shifted, np.array(fitted.thresholds)[challenge.known.y][None].repeat(40, 0))
    assert len(set(fitted.thresholds)) == 4


def test_the_best_threshold_is_the_one_that_trying_all_finds():
    rng = np.random.default_rng(0)
    for _ in range(20):
        bits = rng.random(50) < 0.5
        signal = np.round(rng.normal(size=50) + bits, 1)
        cuts = np.concatenate([np.unique(signal), np.unique(signal) - 1e-6])
        most = max(((signal > c) == bits).sum() for c in cuts)
        assert ((signal > best_threshold(signal, bits)) == bits).sum() == most


def test_the_gap_attack_has_the_balanced_accuracy_of_its_formula(noise_release):
    release, challenge, bits = noise_release
    hit = LabelOnly().score(release, challenge) > 0.5
    correct = release["posteriors"].argmax(-1) == challenge.known.y
    balanced = (hit[bits].mean() + (~hit)[~bits].mean()) / 2
    assert balanced == pytest.approx(0.5 + (correct[bits].mean() - correct[~bits].mean()) / 2)


def test_rows_follow_the_watch_list_in_any_order(noise_release):
    release, _, _ = noise_release
    order = np.random.default_rng(1).permutation(80)
    shuffled = Release({"posteriors": release["posteriors"][:, order]}, order)
    nodes = np.array([3, 0, 77])
    assert (shuffled["posteriors"][:, rows(shuffled, nodes)] == release["posteriors"][:, nodes]).all()


def test_a_node_that_is_not_watched_is_named(noise_release):
    release, challenge, _ = noise_release
    some = Release({"posteriors": release["posteriors"][:, :10]}, np.arange(10))
    with pytest.raises(ValueError, match="node 10 is not among the 10 watched rows"):
        Confidence().score(some, challenge)


def test_a_query_that_is_not_exposed_is_a_reason_to_skip():
    assert missing(Entropy(query="posteriors@0-hop"), ["posteriors"]) is not None
    assert missing(Entropy(), ["posteriors"]) is None
