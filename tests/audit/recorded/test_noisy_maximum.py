"""A noisy maximum over many nodes, whose epsilon is that of its probabilities."""

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import mu_of_claim
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly
from .votes import counts, released

GRAPH = load("campus:n=120:degree=6")


def audited(train, tmp_path, claim, releases=("posteriors",)):
    case = Case(Looped(train, unit=claim.unit, releases=releases), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("remarks"), 3, 1e-4))


def anchors(factor):
    """One node for each class, by the exponential mechanism over all nodes: an edge moves the scores of two classes by 1 each."""

    def train(graph, seed):
        scores = counts(graph).T
        chosen = np.argmax(factor * scores + np.random.default_rng(seed).gumbel(size=scores.shape), axis=1)
        return released(graph.x @ graph.x[chosen].T) | {"anchors": chosen.astype(float)}

    return train


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_noisy_maximum_over_all_nodes_is_judged(factor, tmp_path):
    """The probabilities of one class change by at most e^factor, so the claim 2 holds for factor 1 and is broken for factor 2."""
    outcome = audited(anchors(factor), tmp_path, Claim(2.0, 0.0), ("posteriors", "anchors"))
    worst = max(b.epsilon for b in outcome.bounds)
    assert any(b.refuted for b in outcome.bounds) == (factor > 1)
    assert 0.9 * 2 * factor < worst <= 2 * factor


def by_numpy(scores, seed):
    return np.argmax(scores + np.random.default_rng(seed).gumbel(size=scores.shape))


def by_torch(scores, seed):
    uniform = torch.distributions.Gumbel(0.0, 1.0)
    torch.manual_seed(seed)
    return int((torch.from_numpy(scores) + uniform.sample(scores.shape)).argmax())


def by_hand(scores, seed):
    return np.argmax(scores - np.log(-np.log(np.random.default_rng(seed).random(scores.shape))))


def by_hand_in_torch(scores, seed):
    uniform = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return int((torch.from_numpy(scores) + -torch.log(-torch.log(uniform))).argmax())


def by_exponential_numbers(scores, seed):
    return np.argmax(scores - np.log(3.0 * np.random.default_rng(seed).exponential(size=scores.shape)))


LARGEST = [(1.0, by_numpy), (1.5, by_torch), (1.0, by_hand), (1.5, by_hand_in_torch)]
LARGEST += nightly((1.0, by_torch), (1.5, by_numpy), (1.5, by_hand), (1.0, by_hand_in_torch))
LARGEST += nightly((1.0, by_exponential_numbers), (1.5, by_exponential_numbers))


@pytest.mark.parametrize(("factor", "largest"), LARGEST)
def test_one_answer_of_the_exponential_mechanism_is_judged(factor, largest, tmp_path):
    """One class is chosen by the number of its nodes. A node moves one score by `factor`, so the claim is broken for 1.5."""

    def train(graph, seed):
        scores = factor * np.bincount(graph.y[graph.train], minlength=graph.classes)
        chosen = largest(scores, seed % 2**63)
        return released(np.tile(np.eye(graph.classes)[chosen], (graph.nodes, 1)))

    outcome = audited(train, tmp_path, Claim(1.0, 0.0, "node"))
    assert any(b.refuted for b in outcome.bounds) == (factor > 1)
    assert ("posteriors" in (outcome.covers or {})) == (factor == 1)


def of_the_wrong_sign(scores, seed):
    return np.argmax(scores - np.random.default_rng(seed).gumbel(size=scores.shape))


def of_the_wrong_sign_by_hand(scores, seed):
    return np.argmax(scores + np.log(-np.log(np.random.default_rng(seed).random(scores.shape))))


def of_the_wrong_sign_in_torch(scores, seed):
    torch.manual_seed(seed)
    gumbel = torch.distributions.Gumbel(0.0, 1.0).sample(scores.shape)
    return int((torch.from_numpy(scores) + -0.5 * gumbel).argmax())


@pytest.mark.parametrize("largest", [of_the_wrong_sign, *nightly(of_the_wrong_sign_by_hand, of_the_wrong_sign_in_torch)])
def test_gumbel_noise_of_the_wrong_sign_is_not_the_exponential_mechanism(largest, tmp_path):
    """A score that lies far below k - 1 equal ones is the largest with a probability of about exp(-(k - 1) gap), because all of
    these must be low: a move of the score by 1 costs about k - 1.
    """

    def train(graph, seed):
        scores = 1.0 * np.bincount(graph.y[graph.train], minlength=graph.classes)
        return released(np.tile(np.eye(graph.classes)[largest(scores, seed % 2**63)], (graph.nodes, 1)))

    assert "posteriors" not in (audited(train, tmp_path, Claim(2.0, 0.0, "node")).covers or {})


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_maximum_over_counts_that_are_far_apart_depends_on_its_noise(share, tmp_path):
    """Laplace noise of scale 1 on counts that differ by 1,000: no usual noise changes the index, but other counts would. An edge
    moves one count by 1, so the claim 1 holds. With half the noise the noisy values cost 2; the index may cost less.
    """

    def train(graph, seed):
        far = 1000.0 * np.arange(graph.classes)
        within = graph.y[graph.edges[0]][graph.y[graph.edges[0]] == graph.y[graph.edges[1]]]
        noisy = far + np.bincount(within, minlength=graph.classes) + np.random.default_rng(seed).laplace(0, share, graph.classes)
        return {"index": np.array([noisy.argmax()])}

    outcome = audited(train, tmp_path, Claim(1.0, 0.0), ("index",))
    assert not any(b.refuted for b in outcome.bounds)
    assert ("index" in (outcome.covers or {})) == (share == 1.0)


@pytest.mark.parametrize(("share", "clean", "passes"), [(1.0, 0.0, True), (1.0, 0.1, False), *nightly((0.5, 0.0, False))])
def test_comparisons_cost_at_most_as_much_as_the_noisy_values(share, clean, passes, tmp_path):
    """The Gaussian noisy maximum of each node. With half of the noise the values cost more than the claim, and the comparisons
    may not; the clean maximum is a path past the noise.
    """
    std = share * 2**0.5 / mu_of_claim(Claim(3.0, 1e-5))

    def train(graph, seed):
        exact = counts(graph)
        noisy = exact + np.random.default_rng(seed).normal(0, std, exact.shape)
        classes = np.eye(graph.classes)
        return released(classes[noisy.argmax(1)] + clean * classes[exact.argmax(1)])

    outcome = audited(train, tmp_path, Claim(3.01, 1e-5))
    assert not any(b.refuted and np.isfinite(b.epsilon) for b in outcome.bounds)
    assert any(np.isfinite(b.reach) and not b.failed for b in outcome.bounds) == passes


def peeled(factor, same):
    """Two of the classes, by their numbers of labelled neighbours: an edge moves the scores of two classes by `factor` each."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        scores = factor * counts(graph).sum(0)
        chosen = list[int]()
        noisy = scores + random.gumbel(size=scores.size)
        for _ in range(2):
            noisy = noisy if same or not chosen else scores + random.gumbel(size=scores.size)
            noisy[chosen] = -np.inf
            chosen.append(int(np.argmax(noisy)))
        return released(np.zeros((graph.nodes, graph.classes))) | {"chosen": np.array(chosen, dtype=np.float64)}

    return train


@pytest.mark.parametrize("same", [False, *nightly(True)], ids=["fresh noise", "one noise"])
def test_peeling_costs_no_more_than_its_rounds(same, tmp_path):
    """Each round moves a log-probability by at most 2 * factor."""
    outcome = audited(peeled(0.05, same), tmp_path, Claim(0.2, 0.0), ("posteriors", "chosen"))
    assert not any(b.refuted for b in outcome.bounds)
    assert any(0 < b.epsilon <= 0.2 and np.isfinite(b.reach) for b in outcome.bounds)


@pytest.mark.parametrize("same", [True, *nightly(False)], ids=["one noise", "fresh noise"])
def test_peeling_with_too_little_noise_is_refuted(same, tmp_path):
    found = audited(peeled(0.05, same), tmp_path, Claim(0.02, 0.0), ("posteriors", "chosen"))
    assert any(b.refuted for b in found.bounds)
