"""A run that computes a noisy value several times, as a function does that starts its generator from the same seed again. It has
several mechanisms with the same noise, and they cost as much as one.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

pytestmark = pytest.mark.usefixtures("built_graphs")
GRAPH = load("campus:n=120:degree=6")


def degrees(graph, seed, scale):
    return graph.degree + np.random.default_rng(seed).laplace(0, scale, graph.nodes)


def of_torch(graph, seed, scale):
    torch.manual_seed(seed)
    return (torch.tensor(graph.degree).float() + 2 * scale * torch.randn(graph.nodes)).numpy()


def neighbours(graph, seed, scale):
    noise = 2 * scale * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes))
    return graph.adjacency().toarray() @ np.eye(graph.classes)[graph.y] + noise


def answers(graph, seed, scale):
    """Randomised response on each pair of nodes, with epsilon 2 / scale."""
    bits = np.triu(graph.adjacency().toarray() > 0, 1)
    lies = np.random.default_rng(seed).random(bits.shape) < 1 / (1 + np.exp(2 / scale))
    told = np.triu(bits ^ lies, 1)
    return (told | told.T).astype(float)


def labels(graph, seed, scale):
    """Randomised response on labels, with epsilon 2 / scale."""
    rng, k = np.random.default_rng(seed), graph.classes
    lie = rng.random(graph.nodes) < (k - 1) / (np.exp(2 / scale) + k - 1)
    return np.where(lie, (graph.y + rng.integers(1, k, graph.nodes)) % k, graph.y)


# of each noisy value two functions, and none shows the value itself
FUNCTIONS = {
    degrees: (np.round, lambda noisy: 1 / np.maximum(noisy, 1)),
    of_torch: (np.round, lambda noisy: 1 / np.maximum(noisy, 1)),
    neighbours: (lambda noisy: log_softmax(noisy, axis=1), lambda noisy: noisy.argmax(1)),
    answers: (lambda told: told.sum(1), lambda told: told @ np.eye(GRAPH.classes)[GRAPH.y]),
    labels: (lambda told: told % 2, lambda told: told % 3),
}
GAUSSIAN = float(epsilon_of(2**0.5 / 4, 1e-5))  # sums and degrees of two nodes move by 1, and the noise has size 4
CLAIMS = {
    degrees: Claim(1.0, 0.0),
    of_torch: Claim(GAUSSIAN * 1.001, 1e-5),
    neighbours: Claim(GAUSSIAN * 1.001, 1e-5),
    answers: Claim(1.0, 0.0),
    labels: Claim(1.0, 0.0, Unit.FEATURES),
}


def audited(train, claim, tmp_path):
    case = Case(Looped(train, releases=("one", "two")), replace(claim, exposes=("one", "two")))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("again"), 3, 1e-4)).bounds


def twice(noisy, scale, other=None):
    """Releases a function of the noisy value, and another one of the value that is computed again; with `other`, of a value with
    the same noise that `other` computes.
    """
    first, second = FUNCTIONS[noisy]

    def train(graph, seed):
        return {"one": first(noisy(graph, seed, scale)), "two": second((other or noisy)(graph, seed, scale))}

    return train


@pytest.mark.parametrize("noisy", [degrees, labels, *nightly(of_torch, neighbours, answers)])
def test_a_value_that_is_computed_again_costs_nothing_more(noisy, tmp_path):
    bounds = audited(twice(noisy, 2.0), CLAIMS[noisy], tmp_path)
    assert not any(bound.refuted for bound in bounds)
    assert any(np.isfinite(bound.reach) for bound in bounds)


@pytest.mark.parametrize("noisy", [degrees, *nightly(of_torch, labels)])
def test_half_the_noise_is_refuted_at_the_closed_form(noisy, tmp_path):
    truth = float(epsilon_of(2**0.5 / 2, 1e-5)) if noisy is of_torch else 2.0
    found = [bound.epsilon for bound in audited(twice(noisy, 1.0), CLAIMS[noisy], tmp_path) if bound.refuted]
    assert found == [pytest.approx(truth, rel=1e-3)]


def of_other_data(graph, seed, scale):
    return degrees(graph, seed, scale) + graph.degree


def of_training_neighbours(graph, seed, scale):
    return degrees(graph, seed, scale) + graph.adjacency() @ graph.train - graph.degree


def with_a_path(graph, seed, scale):
    return degrees(graph, seed, scale) + 0.25 * (graph.edges.shape[1] % 2)


@pytest.mark.parametrize("other", [of_other_data, *nightly(of_training_neighbours, with_a_path)])
def test_the_same_noise_on_other_data_is_refuted_at_infinity(other, tmp_path):
    found = audited(twice(degrees, 2.0, other), CLAIMS[degrees], tmp_path)
    assert max(bound.epsilon for bound in found if bound.refuted) == np.inf


def capped(least, most):
    return lambda graph, seed, scale: np.clip(degrees(graph, seed, 0.0), least, most) + degrees(graph, seed, scale) - graph.degree


def classes(least):
    """The sizes of the training classes, at least `least`."""
    return lambda graph, seed, scale: (
        np.maximum(np.bincount(graph.y[graph.train], minlength=graph.classes), least)
        + np.random.default_rng(seed).laplace(0, scale, graph.classes)
    )


def both(one, other, scale):
    return lambda graph, seed: {"one": one(graph, seed, scale), "two": other(graph, seed, scale)}


@pytest.mark.parametrize(
    ("train", "unit"),
    [
        (both(classes(0), classes(2), 1.0), Unit.NODE),
        *nightly((both(capped(0, 20), capped(0, 40), 2.0), Unit.UNDIRECTED_EDGE)),
    ],
)
def test_the_same_noise_on_data_that_only_built_graphs_tell_apart_is_refuted_at_infinity(train, unit, tmp_path):
    found = audited(train, Claim(1.01, 0.0, unit), tmp_path)
    assert max(bound.epsilon for bound in found if bound.refuted) == np.inf


@pytest.mark.parametrize(
    ("one", "other", "scale", "unit"),
    [(classes(0), classes(2), 1.0, Unit.NODE), *nightly((capped(0, 20), capped(0, 40), 2.0, Unit.UNDIRECTED_EDGE))],
)
def test_a_copy_on_such_data_that_is_not_released_refutes_nothing(one, other, scale, unit, tmp_path):
    def train(graph, seed):
        other(graph, seed, scale)
        noisy = one(graph, seed, scale)
        return {"one": noisy, "two": np.round(noisy)}

    assert not any(bound.refuted for bound in audited(train, Claim(1.01, 0.0, unit), tmp_path))
