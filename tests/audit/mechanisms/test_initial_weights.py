"""Normal numbers with which a training starts are no noise; noise that looks like them is."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.recorded_runs import recorded
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
STEPS, SIGMA, DELTA = 3, 2.0, 1e-5


def epsilon(multiplier, steps=1):
    event = dp.SelfComposedDpEvent(dp.GaussianDpEvent(multiplier), steps)
    return float(dp.pld.PLDAccountant().compose(event).get_epsilon(DELTA))


CLAIM = Claim(epsilon(SIGMA, STEPS), DELTA, Unit.NODE)


def features(graph):
    return np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, dtype=float)


def in_numpy(graph, seed, sigma=SIGMA, rate=0.1):
    rng, x = np.random.default_rng(seed), features(graph)
    weights = rng.normal(0, 0.1, (graph.dim, graph.classes))
    for _ in range(STEPS):
        error = np.tanh(x @ weights) - np.eye(graph.classes)[graph.y]
        each = x[:, :, None] * error[:, None, :]
        each /= np.maximum(np.linalg.norm(each, axis=(1, 2), keepdims=True), 1e-9)
        weights = weights - rate * (each[graph.train].sum(0) + rng.normal(0, sigma, weights.shape))
    return {"weights": weights}


def in_torch(graph, seed, sigma=SIGMA, rate=0.1):
    generator, x = torch.Generator().manual_seed(seed), torch.as_tensor(features(graph))
    target, train = torch.nn.functional.one_hot(torch.as_tensor(graph.y), graph.classes).double(), torch.as_tensor(graph.train)
    weights = 0.1 * torch.randn(graph.dim, graph.classes, generator=generator, dtype=torch.float64)
    for _ in range(STEPS):
        each = torch.einsum("ni,nj->nij", x, torch.tanh(x @ weights) - target)
        each = each / each.flatten(1).norm(dim=1).clamp(min=1e-9)[:, None, None]
        noise = sigma * torch.randn(weights.shape, generator=generator, dtype=torch.float64)
        weights = weights - rate * (each[train].sum(0) + noise)
    return {"weights": weights.numpy()}


def setting(train, tmp_path, claim=CLAIM, events=None, releases=("weights",)):
    model = Looped(train, unit=Unit.NODE, releases=releases, events=events or dp.GaussianDpEvent(SIGMA / STEPS**0.5))
    return Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("initial weights"), 2, 1e-4)


@pytest.mark.parametrize("train", [in_numpy, *nightly(in_torch)])
def test_honest_steps_from_normal_weights_cost_what_the_accountant_says(train, tmp_path):
    found = AUDITS["differential"].run(setting(train, tmp_path))
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.99 * CLAIM.epsilon < bound.epsilon <= CLAIM.epsilon
    assert bound.reach < 1.02 * CLAIM.epsilon
    assert "weights" in found.covers


@pytest.mark.parametrize("train", [in_numpy, *nightly(in_torch)])
def test_too_little_noise_on_steps_from_normal_weights_is_refuted(train, tmp_path):
    truth = epsilon(SIGMA / 2, STEPS)
    found = AUDITS["differential"].run(setting(lambda graph, seed: train(graph, seed, SIGMA / 2), tmp_path))
    bound = next(b for b in found.bounds if b.refuted)
    assert 0.97 * truth < bound.epsilon <= truth * (1 + 1e-3)


def test_weights_that_hide_a_sum_without_noise_of_its_own_are_noise(tmp_path):
    """One step of output perturbation: the weights are the noise of a sum of rows, and all that hides it."""

    def train(graph, seed):
        rng, rows = np.random.default_rng(seed), np.eye(graph.classes)[graph.y]
        return {"weights": rng.normal(0, SIGMA, graph.classes) + rows[graph.train].sum(0)}

    found = AUDITS["differential"].run(setting(train, tmp_path, Claim(epsilon(SIGMA), DELTA, Unit.NODE)))
    assert not any(b.refuted for b in found.bounds)
    assert max(b.epsilon for b in found.bounds) == pytest.approx(epsilon(SIGMA), rel=1e-3)


def between_classes(graph, seed):
    """Noisy counts of the classes. A part of their noise adds up to 0, so the program subtracts from normal numbers what they
    have in common; the recorder sees a sum of noise and of a value that no secret moves, as with initial weights.
    """
    rng, ones = np.random.default_rng(seed), np.full((graph.classes, 1), graph.classes**-0.5)
    noise = rng.normal(0, 3.0, graph.classes)
    noise = noise - (ones @ (ones.T @ noise[:, None]))[:, 0]
    counts = np.eye(graph.classes)[graph.y][graph.train].sum(0)
    return {"weights": counts + noise + rng.normal(0, 4.0, graph.classes)}


def test_noise_of_which_a_part_was_subtracted_is_not_taken_for_weights(tmp_path):
    """The counts have noise of covariance 25 I - 9 J / classes, J all ones. Without the first part of the noise a node would cost
    more than the claim.
    """
    squared = (1 - 1 / GRAPH.classes) / 25 + 1 / GRAPH.classes / 16
    claim = Claim(epsilon(squared**-0.5) * 1.001, DELTA, Unit.NODE)
    made = setting(between_classes, tmp_path, claim, dp.GaussianDpEvent(squared**-0.5))
    assert claim.epsilon < epsilon(4.0)
    found = AUDITS["differential"].run(made)
    assert recorded(made).inside.entangled
    assert not any(b.refuted for b in found.bounds)


def sizes_of_clusters(graph, seed, noise=4.0, **more):
    """How many nodes are nearest to each of five centres that every run draws alike."""
    centres = np.random.default_rng(7).normal(size=(5, graph.dim))
    nearest = np.square(features(graph)[:, None, :] - centres).sum(2).argmin(1)
    sizes = np.bincount(nearest[graph.train], minlength=5)
    return {"sizes": sizes + np.random.default_rng(seed).normal(0, noise, 5), **more}


OTHER_CLUSTER = Claim(epsilon(4.0 / 2**0.5), DELTA, Unit.FEATURES)  # another row moves one size down and another one up


def of_features(train, tmp_path, *more):
    model = Looped(train, unit=Unit.FEATURES, releases=("sizes", *more), events=dp.GaussianDpEvent(4.0 / 2**0.5))
    return AUDITS["differential"].run(Setting(Case(model, OTHER_CLUSTER), GRAPH, Store(tmp_path), Key("public numbers"), 2, 1e-4))


@pytest.mark.parametrize("noise", [4.0, 2.0])
def test_random_centres_that_no_seed_changes_are_public_and_no_noise(noise, tmp_path):
    found = of_features(lambda graph, seed: sizes_of_clusters(graph, seed, noise), tmp_path)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    truth = epsilon(noise / 2**0.5)
    assert bound.refuted == (noise < 4.0)
    assert 0.99 * truth < bound.epsilon <= truth * (1 + 1e-3)


def test_noise_that_no_seed_changes_hides_nothing_beside_noise_that_does(tmp_path):
    def train(graph, seed):
        means = features(graph)[graph.train].mean(0) + np.random.default_rng(8).normal(size=graph.dim)
        return sizes_of_clusters(graph, seed, means=means)

    assert any(b.refuted and np.isinf(b.epsilon) for b in of_features(train, tmp_path, "means").bounds)


def layer(clipped, sigma=SIGMA):
    """Steps of gradient descent on a layer with PyTorch's initial weights. A gradient is often shorter than the norm 4."""

    def train(graph, seed):
        torch.manual_seed(seed)
        x, y = torch.as_tensor(features(graph)).float(), torch.as_tensor(graph.y)
        there, layer = torch.as_tensor(graph.train).float(), torch.nn.Linear(graph.dim, graph.classes, bias=False)
        weights = layer.weight
        for _ in range(STEPS):
            error = torch.softmax(x @ weights.T, 1) - torch.nn.functional.one_hot(y, graph.classes)
            each = error[:, :, None] * x[:, None, :] * there[:, None, None]
            if clipped:
                each = each * (4 / each.flatten(1).norm(dim=1).clamp(min=4))[:, None, None]
            total = each.sum(0)
            total = total if clipped else 4 * total / total.norm().clamp(min=4) * graph.nodes
            weights = (weights - 0.05 * (total + 4 * sigma * torch.randn(weights.shape)) / graph.nodes).detach()
        return {"weights": weights.numpy()}

    return train


def test_moves_that_initial_weights_change_count_as_far_as_the_smallest(tmp_path):
    """Honest: each move is at most the clipping norm, and often smaller."""
    found = AUDITS["differential"].run(setting(layer(clipped=True), tmp_path))
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not any(b.refuted for b in found.bounds)
    assert 0.2 * CLAIM.epsilon < bound.epsilon < CLAIM.epsilon
    assert np.isfinite(bound.reach)
    assert "weights" in found.covers


def test_a_clipped_batch_gradient_from_random_initial_weights_is_refuted(tmp_path):
    assert any(b.refuted for b in AUDITS["differential"].run(setting(layer(clipped=False), tmp_path)).bounds)


def network(graph, seed):
    """One step of a network with ReLU units, by the clipped gradient of the whole batch. Only answers are released."""
    torch.manual_seed(seed)
    x, y = torch.as_tensor(features(graph)).float(), torch.as_tensor(graph.y)
    there = torch.as_tensor(graph.train).float()
    net = torch.nn.Sequential(torch.nn.Linear(graph.dim, 6), torch.nn.ReLU(), torch.nn.Linear(6, graph.classes))
    for _ in range(1):
        net.zero_grad()
        ((torch.nn.functional.cross_entropy(net(x), y, reduction="none") * there).sum() / there.sum().clamp(min=1)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for weights in net.parameters():
            weights.data -= 0.5 * (weights.grad + 0.5 * torch.randn_like(weights) / graph.nodes)
    with torch.no_grad():
        return {"posteriors": torch.log_softmax(net(x), 1).numpy()}


@pytest.mark.nightly
def test_initial_weights_do_not_hide_noisy_gradients_that_only_the_answers_show(tmp_path):
    assert any(b.refuted for b in AUDITS["differential"].run(setting(network, tmp_path, releases=("posteriors",))).bounds)
