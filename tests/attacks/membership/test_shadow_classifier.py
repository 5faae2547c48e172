"""Classifier attacks: their logits, what they learn from, and link stealing's inputs against loops."""

import dataclasses

import numpy as np
import pytest

from gnnaudit.attacks.base import Challenge, Pilot
from gnnaudit.attacks.links.link_stealing import LinkClassifier, known_pairs
from gnnaudit.attacks.links.pair_features import entropies, of_model, of_public, operators, reference
from gnnaudit.attacks.links.similarity import ReferenceGap
from gnnaudit.attacks.membership.shadow_classifier import ShadowMlp, decision, perceptron


def planted():
    rng = np.random.default_rng(0)
    rows, bits = rng.normal(size=(400, 5)), rng.random(400) < 0.5
    rows[:, 2] += 2 * bits
    return rows, bits


def test_decisions_are_the_logits_of_scikit_learns_probabilities():
    rows, bits = planted()
    net = perceptron(rows, bits, (8, 4), 0.01, 20, 32, 0)
    p = net.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(1 / (1 + np.exp(-decision(net, rows))), p, atol=1e-9)
    assert (net.predict_proba(rows * 1000)[:, 1] == 1).sum() > 100
    assert len(np.unique(decision(net, rows * 1000))) > 390


def test_the_scaler_never_sees_what_is_scored(noise_release):
    release, challenge, bits = noise_release
    fitted = ShadowMlp(epochs=2).fit(Pilot(release.part(slice(0, 10)), challenge, bits[:10]))
    alone = fitted.score(release.part(slice(20, 21)), challenge)
    np.testing.assert_allclose(fitted.score(release.part(slice(20, 40)), challenge)[:1], alone, rtol=1e-9)


def test_ranked_posteriors_do_not_say_which_class(noise_release):
    release, challenge, _ = noise_release
    rows = ShadowMlp.he(("posteriors",))._rows(release, challenge)
    np.testing.assert_allclose(rows, -np.sort(-np.exp(release["posteriors"].astype(float)), axis=-1), atol=1e-6)
    assert ShadowMlp.gap()._rows(release, challenge).shape == (40, 80, 8)


def test_a_pilot_of_another_graph_serves_an_attack_on_this_one(noise_release):
    release, challenge, bits = noise_release
    other = Challenge("node", challenge.known, np.arange(30))
    fitted = ShadowMlp(epochs=2).fit(Pilot(release, other, bits[:, :30]))
    assert fitted.score(release, challenge).shape == (40, 80)


def test_operators_and_entropies_are_he_et_als():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(3), (2, 6))
    ea, eb = (-(p * np.log(p + 1e-5)).sum(-1) for p in (a, b))
    np.testing.assert_allclose(
        operators(a, b)[4], np.concatenate([(a[4] + b[4]) / 2, a[4] * b[4], abs(a[4] - b[4]), (a[4] - b[4]) ** 2])
    )
    np.testing.assert_allclose(entropies(a, b)[:, 2], abs(ea - eb))


@pytest.mark.parametrize(("attack", "width"), [(1, 12), (3, 28), (4, 12), (5, 32), (6, 64), (7, 32)])
def test_inputs_have_the_published_width_and_no_direction(attack, width, graph):
    rng = np.random.default_rng(0)
    posteriors, guess = rng.dirichlet(np.ones(4), (2, graph.nodes))
    pairs = np.array([[0, 1], [5, 7], [30, 2]])

    def inputs(asked):
        public = [of_public(graph, guess, asked)] if attack >= 5 else []
        return np.concatenate([of_model(attack, posteriors, guess, asked), *public], axis=-1)

    forth, back = inputs(pairs), inputs(pairs[:, ::-1])
    assert forth.shape == (3, width)
    np.testing.assert_allclose(forth, back, atol=1e-12)


def test_known_pairs_are_the_edges_and_as_many_pairs_that_nobody_asked_about(graph):
    asked = np.array([[0, 1], [2, 3]])
    known = dataclasses.replace(graph, edges=graph.edges[:, 50:])
    pairs, bits = known_pairs(Challenge("edge", known, asked), np.arange(graph.nodes), 10_000, 0)
    assert (pairs[bits] == known.edges.T).all()
    negatives = {frozenset(p) for p in pairs[~bits].tolist()}
    assert all(len(p) == 2 for p in negatives)
    assert not negatives & {frozenset(p) for p in [*known.edges.T.tolist(), *asked.tolist()]}
    assert bits.sum() == (~bits).sum()


def test_only_watched_nodes_are_learnt_from_and_no_more_than_the_limit(graph):
    watch = np.arange(0, graph.nodes, 2)
    pairs, bits = known_pairs(Challenge("edge", graph, np.array([[0, 2]])), watch, 20, 0)
    assert len(pairs) == 20
    assert bits.sum() == 10
    assert np.isin(pairs, watch).all()


def test_watched_nodes_without_a_pair_to_stand_for_no_edge_are_refused(graph):
    triangle = dataclasses.replace(graph, edges=np.array([[0, 0], [1, 2]]))
    asked = Challenge("edge", triangle, np.array([[2, 1]]))
    with pytest.raises(ValueError, match="all pairs of watched nodes"):
        known_pairs(asked, np.arange(3), 100, 0)
    pairs, bits = known_pairs(asked, np.arange(4), 100, 0)
    assert (pairs[~bits] == 3).any(1).all()


def test_learning_from_no_known_edge_is_refused(graph, noise_release):
    bare = dataclasses.replace(graph, edges=graph.edges[:, :0])
    with pytest.raises(ValueError, match="the known graph has no edges"):
        LinkClassifier(3).score(noise_release[0], Challenge("edge", bare, np.array([[0, 1]])))


def test_shadow_data_is_asked_for_where_it_is_needed(graph, noise_release):
    with pytest.raises(ValueError, match="needs shadow data"):
        LinkClassifier(5).fit(None)
    with pytest.raises(ValueError, match="must be 1 or 3 to 7"):
        LinkClassifier(2)


def test_the_reference_knows_features_and_no_edges(graph):
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=graph.nodes)
    known = dataclasses.replace(graph, y=y, x=(np.eye(4)[y] + 0.1 * rng.normal(size=(graph.nodes, 4))).astype(np.float32))
    p = reference(known)
    assert (p.argmax(1) == y).mean() > 0.95
    np.testing.assert_array_equal(p, reference(dataclasses.replace(known, edges=known.edges[:, :0])))


def test_a_reference_on_a_large_graph_learns_from_some_of_its_nodes(graph, monkeypatch):
    monkeypatch.setattr("gnnaudit.attacks.links.pair_features.LEARNT", 20)
    rng = np.random.default_rng(1)
    x = (np.eye(4)[graph.y] + 0.1 * rng.normal(size=(graph.nodes, 4))).astype(np.float32)
    some = reference(dataclasses.replace(graph, x=x), seed=1)
    assert (some.argmax(1) == graph.y).mean() > 0.9
    half = graph.train & (np.arange(graph.nodes) < 20)
    assert not np.allclose(some, reference(dataclasses.replace(graph, x=x, train=half), seed=1))  # not merely the first ones


def test_the_gap_to_the_reference_is_a_difference_of_distances(graph, noise_release):
    release, _, _ = noise_release
    challenge = Challenge("edge", graph, np.array([[0, 1]]))
    p, guess = np.exp(release["posteriors"].astype(float)), reference(graph)
    expected = np.linalg.norm(guess[0] - guess[1]) - np.linalg.norm(p[:, 0] - p[:, 1], axis=-1)
    np.testing.assert_allclose(ReferenceGap("euclidean").score(release, challenge)[:, 0], expected, atol=1e-6)
