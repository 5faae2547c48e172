"""Released numbers that a run computes from released weights, which are sums of noisy gradients, and from private data."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.absence import history
from gnnaudit.audit.own_bounds.released_sums import determined, released_sums, with_same_sums
from gnnaudit.audit.recorded.study import study
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
CLAIM = Claim(5.0, 1e-6)
STEPS, NOISE, RATE = 6, 40.0, 0.02


def rows(graph):
    """One hop of neighbours, exact: (nodes, columns)."""
    own = graph.x / np.maximum(np.linalg.norm(graph.x, axis=1, keepdims=True), 1e-9)
    return np.concatenate([own, graph.adjacency() @ own], axis=1)


def log_softmax(scores):
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def descent(graph, seed, momentum=0.0, noise=NOISE):
    """All weights of gradient descent with clipped rows and noise, (steps + 1, columns, classes)."""
    rng, x, y = np.random.default_rng(seed), rows(graph), np.eye(graph.classes)[graph.y]
    weights, step = [np.zeros((x.shape[1], graph.classes))], 0.0
    for _ in range(STEPS):
        errors = (np.exp(log_softmax(x @ weights[-1])) - y) * graph.train[:, None]
        errors = errors / np.maximum(1, np.linalg.norm(errors, axis=1) * np.linalg.norm(x, axis=1))[:, None]
        step = momentum * step + x.T @ errors + noise * rng.standard_normal(weights[-1].shape)
        weights.append(weights[-1] - RATE * step)
    return np.array(weights)


def beside_weights(graph, seed):
    weights = descent(graph, seed, momentum=0.5)[-1]
    return {"posteriors": log_softmax(rows(graph) @ weights), "weights": weights}


def accuracy_beside_weights(graph, seed):
    weights = descent(graph, seed)[-1]
    right = (rows(graph) @ weights).argmax(1) == graph.y
    return {"weights": weights, "confusion": np.bincount(2 * graph.y + right, minlength=2 * graph.classes).astype(float)}


def of_all_weights(graph, seed):
    """The posteriors are those of the mean of all weights, of which the release has only the last."""
    weights = descent(graph, seed)
    return {"posteriors": log_softmax(rows(graph) @ weights.mean(0)), "weights": weights[-1]}


def half_of_the_weights(graph, seed):
    weights = descent(graph, seed)[-1]
    return {"posteriors": log_softmax(rows(graph) @ weights), "weights": weights[::2]}


def with_own_noise(graph, seed):
    """Noise that is added last, to what is computed exactly; the recorder follows it into the release."""
    weights = descent(graph, seed)[-1]
    scores = rows(graph) @ weights
    return {"posteriors": scores + np.random.default_rng(seed + 1).standard_normal(scores.shape), "weights": weights}


def network(graph, seed):
    """A network of PyTorch with random initial weights, momentum and noisy gradients."""
    torch.manual_seed(seed)
    x, y = torch.tensor(rows(graph), dtype=torch.float32), torch.tensor(graph.y)
    layer = torch.nn.Linear(x.shape[1], graph.classes)
    optimizer = torch.optim.SGD(layer.parameters(), lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layer(x)[graph.train], y[graph.train], reduction="sum").backward()
        for parameter in layer.parameters():
            parameter.grad = parameter.grad + NOISE * torch.randn(parameter.shape)
        optimizer.step()
    found = {name: p.detach().numpy() for name, p in layer.named_parameters()}
    return {"posteriors": torch.log_softmax(layer(x), 1).detach().numpy(), **found}


def all_weights(graph, seed):
    return {"weights": descent(graph, seed)[1:]}


def weights_of_every_second_step(graph, seed):
    return {"weights": descent(graph, seed)[2::2]}


def audited(train, releases, tmp_path, key):
    case = Case(Looped(train, releases=releases, events=dp.SelfComposedDpEvent(dp.GaussianDpEvent(NOISE), STEPS)), CLAIM)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), key, 3, 1e-4)).bounds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize(
    ("train", "releases"),
    [
        (beside_weights, ("posteriors", "weights")),
        (accuracy_beside_weights, ("weights", "confusion")),
        (network, ("posteriors", "weight", "bias")),
    ],
)
def test_what_is_computed_exactly_from_released_weights_and_private_edges_is_refuted(train, releases, seed, tmp_path):
    (found,) = (b for b in audited(train, releases, tmp_path, Key("sums", seed)) if b.refuted)
    assert np.isinf(found.epsilon)
    assert "all else that these entries depend on is released too" in found.method
    assert any("released sums" in c.what for c in found.conditions)


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
@pytest.mark.parametrize("train", [of_all_weights, half_of_the_weights, with_own_noise])
def test_weights_that_the_release_shows_in_part_and_noise_of_its_own_are_no_released_sums(train, seed, tmp_path):
    """Posteriors without noise of their own are refuted by nodes with equal rows, and not by the weights."""
    bounds = [b for b in audited(train, ("posteriors", "weights"), tmp_path, Key("parts", seed)) if np.isinf(b.epsilon)]
    assert not any("released sums" in c.what for b in bounds for c in b.conditions)
    assert not bounds or train is not with_own_noise


@pytest.mark.parametrize(("train", "steps"), [(all_weights, range(1, STEPS + 1)), (weights_of_every_second_step, (2, 4, 6))])
def test_each_released_iterate_is_a_sum_of_all_gradients_before_it_and_all_iterates_determine_every_gradient(train, steps):
    first = history(study(Looped(train, releases=("weights",)), GRAPH, Key("iterates"), probed=False), 0)
    sums = released_sums(first, tuple(first.play.cells))
    assert [sorted(weights) for weights in sums] == [list(range(step)) for step in steps]
    assert all(np.allclose(list(weights.values()), 1.0, atol=1e-3) for weights in sums)  # relative to the first
    assert determined(first, sums) == (len(steps) == STEPS)
    moved = with_same_sums(first, sums, 1.0, np.random.default_rng(0))
    for weights in sums:
        shift = sum(moved[i].noisy - first.mechanisms[i].noisy if i in moved else 0.0 for i in weights)
        assert np.abs(shift).max() < 1e-2 * NOISE


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_weights_of_several_noisy_steps_are_judged_by_the_steps_and_not_by_how_far_the_weights_move(factor, tmp_path):
    """The weights also move by what earlier noise passed on. At half the noise the smallest detectable violation is smaller."""

    def trained(graph, seed):
        return {"weights": descent(graph, seed, momentum=0.5, noise=factor * NOISE)[-1]}

    case = Case(Looped(trained, releases=("weights",), events=dp.SelfComposedDpEvent(dp.GaussianDpEvent(NOISE), STEPS)), CLAIM)
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("steps"), 3, 1e-4))
    assert not any(b.refuted for b in outcome.bounds)
    for array, sort in (outcome.covers or {}).items():
        assert sort.startswith("too little noise on a value within the run"), array
    reach = min(b.reach for b in outcome.bounds)
    moved = 4 * STEPS**0.5 / (factor * NOISE)  # two rows of at most length 1, each of which may turn round
    assert reach > epsilon_of(mu_of_claim(CLAIM) ** 2 / moved, CLAIM.delta)
