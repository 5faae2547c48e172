"""DP-SGD that a user writes by hand: its secret samples are found in the run, and their cost is the closed form's."""

from functools import cache

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.overview.observed import observe
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
RATE, SIGMA, STEPS, DELTA = 0.2, 1.5, 3, 1e-5


@cache
def epsilon(rate=RATE, sigma=SIGMA, steps=STEPS, plain=()):
    """The PLD accountant's epsilon of sampled steps and of Gaussian mechanisms on all nodes."""
    event = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), steps)]
        + [dp.GaussianDpEvent(each) for each in plain]
    )
    return float(dp.pld.PLDAccountant().compose(event).get_epsilon(DELTA))


def honest_claim():
    return Claim(epsilon(), DELTA, Unit.NODE)


def clipped(graph, weights):
    """The gradient of each node's squared error, scaled to norm 1."""
    x = np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, dtype=float)
    error = x @ weights - np.eye(graph.classes)[graph.y]
    each = x[:, :, None] * error[:, None, :]
    return each / np.maximum(np.linalg.norm(each, axis=(1, 2), keepdims=True), 1e-9)


def unclipped(graph, weights):
    """As `clipped`, but nothing scales the gradients of nodes with one feature of 1 or more of them."""
    x = np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, dtype=float)
    return clipped(graph, weights) * np.maximum(x.sum(1), 1)[:, None, None] / graph.dim


def sampled(coins, sigma=SIGMA, before=lambda graph, rng, out: None, gradients=clipped):
    """Training on samples. coins(rng, nodes): the nodes in each batch, as booleans. before: what the run does first."""

    def train(graph, seed):
        rng, out = np.random.default_rng(seed), {}
        before(graph, rng, out)
        weights = np.zeros((graph.dim, graph.classes))
        for mask in coins(rng, graph.nodes):
            batch = gradients(graph, weights)[mask & graph.train].sum(0)
            weights = weights - 0.1 * (batch + rng.normal(0, sigma, weights.shape))
        return {"weights": weights, **out}

    return train


def fresh(rng, nodes, rate=RATE):
    for _ in range(STEPS):
        yield rng.random(nodes) < rate


def high_side(rng, nodes):
    for _ in range(STEPS):
        yield rng.random(nodes) >= 1 - RATE


def bernoulli(rng, nodes):
    for _ in range(STEPS):
        yield rng.binomial(1, RATE, nodes) == 1


def too_often(rng, nodes):
    return fresh(rng, nodes, 2 * RATE)


def one_sample(rng, nodes):
    mask = rng.random(nodes) < RATE
    return [mask] * STEPS


def sampled_again(graph, seed):
    """The sampler gets its seed again in each step, so one batch serves all of them."""

    def again(rng, nodes):
        for _ in range(STEPS):
            yield np.random.default_rng([seed, 1]).random(nodes) < RATE

    return sampled(again)(graph, seed)


def noised_again(graph, seed):
    """The noise gets its seed again in each step."""
    rng, weights, kept = np.random.default_rng([seed, 1]), np.zeros((graph.dim, graph.classes)), []
    for mask in fresh(rng, graph.nodes):
        noise = np.random.default_rng(seed).normal(0, SIGMA, weights.shape)
        weights = weights - 0.1 * (clipped(graph, weights)[mask & graph.train].sum(0) + noise)
        kept.append(weights)
    return {"weights": np.array(kept)}


def growing(rng, nodes):
    for step in range(STEPS):
        yield rng.random(nodes) < RATE * (1 + step / STEPS)


def two_coins(rng, nodes):
    for _ in range(STEPS):
        yield (rng.random(nodes) < RATE**0.5) & (rng.random(nodes) < RATE**0.5)


def shuffled(rng, nodes):
    for _ in range(STEPS):
        yield np.isin(np.arange(nodes), rng.permutation(nodes)[: int(RATE * nodes)])


LEDGER = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(RATE, dp.GaussianDpEvent(SIGMA)), STEPS)


def outcome(train, tmp_path, claim=None, releases=("weights",), events=LEDGER):
    model = Looped(train, unit=Unit.NODE, releases=releases, events=events)
    return AUDITS["differential"].run(
        Setting(Case(model, claim or honest_claim()), GRAPH, Store(tmp_path), Key("samples"), 2, 1e-4)
    )


@pytest.mark.parametrize(
    "train",
    [sampled(fresh), *nightly(*map(sampled, (high_side, bernoulli)))],
    ids=["below a bar", "above a bar", "Bernoulli"],
)
def test_honest_samples_cost_what_the_accountant_says(train, tmp_path):
    found = outcome(train, tmp_path)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.98 * epsilon() < bound.epsilon <= epsilon()
    assert epsilon() <= bound.reach < 1.05 * epsilon()
    assert "weights" in found.covers


def every_node(rng, nodes):
    yield from np.ones((STEPS, nodes), dtype=bool)


@pytest.mark.parametrize(("coins", "secret"), [(fresh, True), (every_node, False)])
def test_the_cost_of_recorded_mechanisms_says_where_it_takes_secret_samples_as_seen(coins, secret):
    """Samples that nobody sees cost `epsilon()`. The recorded run counts each step that read the node as a whole mechanism."""
    model = Looped(sampled(coins), unit=Unit.NODE, releases=("weights",), events=LEDGER)
    found = observe(Recorded(Case(model, honest_claim()), GRAPH, Key("samples")))
    assert found.costs > 1.5 * epsilon()
    assert ("for an adversary who sees all that is random" in found.compared[-1]) == secret
    assert found.agrees is (None if secret else False)


@pytest.mark.parametrize(
    ("train", "steps"),
    [
        (sampled(fresh, SIGMA / 1.5), {"sigma": SIGMA / 1.5}),
        (sampled(one_sample), {"sigma": SIGMA / STEPS**0.5, "steps": 1}),
        *nightly((sampled_again, {"sigma": SIGMA / STEPS**0.5, "steps": 1})),
        *nightly((sampled(too_often), {"rate": 2 * RATE})),
    ],
    ids=["noise too small", "one sample for all steps", "the sampler is seeded in each step", "rate too large"],
)
def test_samples_that_cost_more_than_the_claim_are_refuted_with_their_own_cost(train, steps, tmp_path):
    """One sample for all steps is one sampled Gaussian mechanism whose value moves sqrt(steps) times as far."""
    truth = epsilon(**steps)
    found = [b for b in outcome(train, tmp_path).bounds if b.refuted]
    assert found
    assert truth > 1.1 * epsilon()
    assert 0.97 * truth < found[0].epsilon <= truth * (1 + 1e-3)


@pytest.mark.nightly
def test_noise_that_is_seeded_in_each_step_is_refuted_without_limit(tmp_path):
    assert max(b.epsilon for b in outcome(noised_again, tmp_path).bounds if b.refuted) == np.inf


@pytest.mark.nightly
def test_steps_that_no_ledger_names_are_not_refuted(tmp_path):
    """A proof of what comes after the steps, such as the last weights alone, need not release each of them."""
    found = outcome(sampled(fresh, SIGMA / 1.5), tmp_path, events=None)
    assert not any(b.refuted for b in found.bounds)
    assert "weights" not in (found.covers or {})


@pytest.mark.nightly
def test_a_node_with_large_features_is_tried(tmp_path):
    """On the graph no node has more than a few features, so its gradient is short; one with all features has the full length."""
    assert any(b.refuted for b in outcome(sampled(fresh, SIGMA / 1.5, gradients=unclipped), tmp_path).bounds)


@pytest.mark.parametrize(
    ("coins", "sigma"),
    [
        (two_coins, SIGMA / 4),
        *nightly((shuffled, SIGMA / 4), (growing, SIGMA), (growing, SIGMA / 4), (two_coins, SIGMA), (shuffled, SIGMA)),
    ],
)
def test_samples_of_other_kinds_are_neither_passed_nor_refuted(coins, sigma, tmp_path):
    found = outcome(sampled(coins, sigma), tmp_path)
    assert not any(b.refuted for b in found.bounds)
    assert "weights" not in (found.covers or {})


def counted(graph, rng, out):
    """A noisy count of the training nodes, which reads all of them."""
    out["count"] = np.array([graph.train.sum() + rng.normal(0, 2.0)])


@pytest.mark.nightly
@pytest.mark.parametrize("paid", [False, True])
def test_mechanisms_on_all_nodes_are_composed_with_the_samples(paid, tmp_path):
    truth = epsilon(plain=(2.0,))
    claim = Claim(truth if paid else epsilon(), DELTA, Unit.NODE)
    found = outcome(sampled(fresh, before=counted), tmp_path, claim, ("weights", "count"))
    assert any(b.refuted for b in found.bounds) == (not paid)
    assert 0.97 * truth < max(b.epsilon for b in found.bounds) <= truth * (1 + 1e-3)


def test_a_release_of_the_sample_is_not_passed(tmp_path):
    """The samples that the release names are no secret, so they do not amplify."""

    def train(graph, seed):
        rng, weights = np.random.default_rng(seed), np.zeros((graph.dim, graph.classes))
        masks = []
        for mask in fresh(rng, graph.nodes):
            masks.append((mask & graph.train).astype(float))
            weights = weights - 0.1 * (clipped(graph, weights)[mask & graph.train].sum(0) + rng.normal(0, SIGMA, weights.shape))
        return {"weights": weights, "batches": np.array(masks)}

    found = outcome(train, tmp_path, releases=("weights", "batches"))
    assert "weights" not in (found.covers or {}) or any(b.refuted for b in found.bounds)


def of_training_nodes(order, sigma=SIGMA, shape=(-1,)):
    """Training on samples for which each step draws one number for each training node. order(graph, ids): the nodes in the order
    of their numbers. shape: that of the drawn numbers, with -1 for the nodes.
    """

    def train(graph, seed):
        rng, weights = np.random.default_rng(seed), np.zeros((graph.dim, graph.classes))
        ids = order(graph, np.flatnonzero(graph.train))
        for _ in range(STEPS):
            batch = ids[rng.random([len(ids) if size < 0 else size for size in shape]).ravel() < RATE]
            weights = weights - 0.1 * (clipped(graph, weights)[batch].sum(0) + rng.normal(0, sigma, weights.shape))
        return {"weights": weights}

    return train


def as_they_are(graph, ids):
    return ids


def by_features(graph, ids):
    return ids[np.argsort(np.asarray(graph.x[ids]).sum(1), kind="stable")]


@pytest.mark.parametrize("shape", [(1, -1), *nightly(((-1,),), ((-1, 1),))])
def test_samples_of_one_number_for_each_training_node_cost_what_the_accountant_says(shape, tmp_path):
    found = outcome(of_training_nodes(as_they_are, shape=shape), tmp_path)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.98 * epsilon() < bound.epsilon <= epsilon()
    assert bound.reach < 1.05 * epsilon()


def test_too_little_noise_on_such_samples_is_refuted(tmp_path):
    assert any(b.refuted for b in outcome(of_training_nodes(as_they_are, SIGMA / 1.5), tmp_path).bounds)


@pytest.mark.parametrize("sigma", [*nightly(SIGMA), SIGMA / 4])
def test_numbers_whose_order_depends_on_the_data_are_neither_passed_nor_refuted(sigma, tmp_path):
    """Without a node the others get other numbers, so the node does not move the sums alone."""
    found = outcome(of_training_nodes(by_features, sigma), tmp_path)
    assert not any(b.refuted for b in found.bounds)
    assert "weights" not in (found.covers or {})


@pytest.mark.nightly
def test_initial_weights_that_change_how_far_a_node_moves_a_step_hide_nothing(tmp_path):
    """The gradient of the cross-entropy is shorter for a node that the weights already classify."""
    rate, sigma, steps = 0.15, 1.2, 10

    def train(graph, seed):
        rng, x = np.random.default_rng(seed), np.asarray(graph.x, dtype=float)
        ids, weights = np.flatnonzero(graph.train), rng.normal(0, 0.1, (graph.dim, graph.classes))
        for _ in range(steps):
            batch = ids[rng.random(len(ids)) < rate]
            scores = np.exp(x[batch] @ weights)
            error = scores / scores.sum(1, keepdims=True) - np.eye(graph.classes)[graph.y[batch]]
            each = x[batch][:, :, None] * error[:, None, :]
            each /= np.maximum(1, np.linalg.norm(each, axis=(1, 2), keepdims=True))
            weights = weights - 0.1 * (each.sum(0) + rng.normal(0, sigma, weights.shape))
        return {"weights": weights}

    claim = Claim(epsilon(rate, sigma, steps), DELTA, Unit.NODE)
    ledger = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), steps)
    model = Looped(train, unit=Unit.NODE, releases=("weights",), events=ledger)
    for number in range(3):
        found = AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key(f"fa{number}"), 2, 1e-4))
        assert not any(b.refuted for b in found.bounds)
        assert "weights" in found.covers


def test_batches_in_an_order_from_a_constant_seed_are_no_samples(tmp_path):
    """Everybody knows the order. Without a node it is another one, and all batches change."""

    def train(graph, seed):
        rng, weights = np.random.default_rng(seed), np.zeros((graph.dim, graph.classes))
        order = np.random.default_rng(42).permutation(np.flatnonzero(graph.train))
        for batch in np.array_split(order, STEPS):
            weights = weights - 0.1 * (clipped(graph, weights)[batch].sum(0) + rng.normal(0, SIGMA, weights.shape))
        return {"weights": weights}

    assert max(b.epsilon for b in outcome(train, tmp_path).bounds if b.refuted) > 3 * epsilon()


@pytest.mark.nightly
def test_noise_on_each_parameter_of_a_step_shares_its_coin(tmp_path):
    """PyTorch programs add noise to each parameter; the coin of a step decides for all of them."""

    def train(graph, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.as_tensor(np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x), dtype=torch.float64)
        target = torch.nn.functional.one_hot(torch.as_tensor(graph.y), graph.classes).double()
        weights, bias = torch.zeros(graph.dim, graph.classes).double(), torch.zeros(graph.classes).double()
        for _ in range(STEPS):
            batch = (torch.rand(graph.nodes, generator=generator) < RATE) & torch.as_tensor(graph.train)
            error = x[batch] @ weights + bias - target[batch]
            norm = torch.sqrt((x[batch].pow(2).sum(1) + 1) * error.pow(2).sum(1)).clamp(min=1e-9)
            error = error / norm[:, None]
            noise = [SIGMA * torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in (weights, bias)]
            weights = weights - 0.1 * (x[batch].T @ error + noise[0])
            bias = bias - 0.1 * (error.sum(0) + noise[1])
        return {"weights": weights.numpy(), "bias": bias.numpy()}

    found = outcome(train, tmp_path, releases=("weights", "bias"))
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.97 * epsilon() < bound.epsilon <= epsilon()


def test_rows_of_a_batch_that_sum_over_neighbours_are_named_as_the_reason_why_samples_are_not_followed(tmp_path):
    """A node moves a step through its neighbours too, whose own coins decide whether the step reads them."""

    def with_neighbours(graph, weights):
        x = np.asarray(graph.x.toarray() if hasattr(graph.x, "toarray") else graph.x, dtype=float)
        rows = x + graph.adjacency() @ x
        each = rows[:, :, None] * (rows @ weights - np.eye(graph.classes)[graph.y])[:, None, :]
        return each / np.maximum(np.linalg.norm(each, axis=(1, 2), keepdims=True), 1e-9)

    found = outcome(sampled(fresh, gradients=with_neighbours), tmp_path)
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers
    assert "rows of a batch sum over neighbours" in found.reach
    assert "Let each row read its own node alone" in found.reach
