"""DP-SGD with dropout on the rows of nodes: its proof holds for every mask, so known masks support a claim; they refute nothing.

Softmax regression on unit rows; the gradient of each node is clipped to norm 1, and each of STEPS sums gets noise SIGMA.
"""

import math

import dp_accounting as dp
import numpy as np
import pytest
import torch
from torch.nn import functional

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH = load("campus:n=120:degree=6")
STEPS, SIGMA, SHARE, DELTA = 5, 6.0, 0.3, 1e-4
CLAIM = Claim(1.001 * float(epsilon_of(STEPS**0.5 / SIGMA, DELTA)), DELTA, Unit.NODE)
LEDGER = dp.SelfComposedDpEvent(dp.GaussianDpEvent(SIGMA), STEPS)


def of_training_nodes(graph):
    """Rows, one-hot labels, and the weights with which training starts."""
    x = functional.normalize(torch.as_tensor(np.asarray(graph.x), dtype=torch.float32))[graph.train]
    return (
        x,
        functional.one_hot(torch.as_tensor(graph.y), graph.classes).float()[graph.train],
        torch.zeros(x.shape[1], graph.classes),
    )


def clipped_sum(rows, y, weights, clip):
    gradients = rows[:, :, None] * ((rows @ weights).softmax(1) - y)[:, None, :]
    return (gradients * (clip / gradients.flatten(1).norm(dim=1)).clamp(max=1)[:, None, None]).sum(0)


def trained(masked, clip=1.0, less=1.0, noise=None):
    """A training whose rows `masked` returns. less: the factor by which the noise is too small. noise: by default a new one."""

    def train(graph, seed):
        torch.manual_seed(seed)
        numpy = np.random.default_rng(seed)
        x, y, weights = of_training_nodes(graph)
        for _ in range(STEPS):
            rows = masked(4 * x, numpy)
            drawn = torch.randn(weights.shape) if noise is None else noise(weights.shape)
            weights = weights - 0.05 * (clipped_sum(rows, y, weights, clip) + SIGMA / less * drawn)
        return {"weights": weights.numpy()}

    return train


def of_torch(rows, numpy):
    return functional.dropout(rows, SHARE)


def bernoulli(rows, numpy):
    return rows * torch.bernoulli(torch.full(rows.shape, 1 - SHARE)) / (1 - SHARE)


def of_numpy(rows, numpy):
    """The masks have a row for each training node, so a world without a training node draws fewer."""
    return rows * torch.as_tensor(numpy.random(tuple(rows.shape)) >= SHARE).float() / (1 - SHARE)


def of_the_batch(rows, numpy):
    return rows * functional.dropout(torch.ones(rows.shape[1]), SHARE)


MASKS = [of_torch, bernoulli, of_numpy, of_the_batch]


def judged(train, tmp_path, claim=CLAIM, ledger=LEDGER):
    model = Looped(train, releases=("weights",), unit="node", events=ledger)
    return AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("masks"), 2, 1e-4))


@pytest.mark.parametrize("masked", MASKS)
def test_dp_sgd_with_dropout_that_costs_what_it_claims_is_not_refuted_and_has_a_reach(masked, tmp_path):
    found = judged(trained(masked), tmp_path)
    bound = max(found.bounds, key=lambda b: -b.reach)
    assert not bound.refuted
    assert not bound.failed
    assert bound.epsilon == 0  # the masks are secret, and may hide some of what a node changes
    assert CLAIM.epsilon < bound.reach < 1.5 * CLAIM.epsilon
    assert found.covers == {
        "weights": "too little noise on a value within the run (perhaps only as an inconclusive verdict), or a path past "
        "the noise that is open on one of the two tested graphs, to"
    }
    assert any("masks of dropout" in granted for granted in bound.granted)


@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize(("clip", "less"), [(1.0, 2**0.5), (math.inf, 1.0)])
def test_too_little_noise_or_no_clipping_beside_dropout_has_no_reach_and_a_reason_with_a_way_out(masked, clip, less, tmp_path):
    found = judged(trained(masked, clip, less), tmp_path)
    assert not found.covers
    assert not any(b.refuted for b in found.bounds)
    (why,) = {why for b in found.bounds for why in b.failed}
    assert "change the value to which noise is added, as dropout" in why
    assert "audited without dropout, too little noise may refute the claim" in why
    assert "for an adversary who knows these draws, the moves cost" in why


def test_the_way_out_leads_to_a_refutation(tmp_path):
    found = judged(trained(lambda rows, numpy: rows, less=2.0), tmp_path)
    assert any(b.refuted for b in found.bounds)


def test_dropout_that_falls_on_the_noise_is_not_passed(tmp_path):
    dropped = trained(of_torch, noise=lambda shape: functional.dropout(torch.randn(shape), SHARE))
    assert not judged(dropped, tmp_path).covers


def test_a_node_that_only_some_masks_make_loud_is_not_passed(tmp_path):
    """A row of which dropout removes the first two numbers counts twenty times: one row in eleven in each step."""

    def train(graph, seed):
        torch.manual_seed(seed)
        x, y, weights = of_training_nodes(graph)
        for _ in range(STEPS):
            kept = functional.dropout(torch.ones(x.shape), SHARE)
            loud = 1 + 19 * (kept[:, :2] == 0).all(1).float()
            rows = 4 * x * kept
            gradients = rows[:, :, None] * ((rows @ weights).softmax(1) - y)[:, None, :]
            clipped = gradients * (1 / gradients.flatten(1).norm(dim=1)).clamp(max=1)[:, None, None]
            weights = weights - 0.05 * ((clipped * loud[:, None, None]).sum(0) + SIGMA * torch.randn(weights.shape))
        return {"weights": weights.numpy()}

    found = judged(train, tmp_path)
    assert not found.covers
    assert not any(b.refuted for b in found.bounds)


def test_a_mask_that_decides_whether_a_node_is_read_at_all_supports_no_claim_of_a_smaller_sample(tmp_path):
    """Each step reads a node with probability 1/4; the claim and the ledger are those of 1/20."""
    ledger = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent(SIGMA)), STEPS)
    claim = Claim(float(dp.pld.PLDAccountant().compose(ledger).get_epsilon(DELTA)), DELTA, Unit.NODE)

    def coins(rows, numpy):
        return rows * 0.25 * functional.dropout(torch.ones(len(rows), 1), 0.75)

    assert not judged(trained(coins), tmp_path, claim, ledger).covers


RATE, POISSON = 0.5, dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.5, dp.GaussianDpEvent(SIGMA)), STEPS)


@pytest.mark.parametrize("less", [1.0, 2**0.5])
def test_sampled_steps_with_dropout_have_a_reach_only_if_they_cost_what_they_claim(less, tmp_path):
    claim = Claim(1.001 * dp.pld.PLDAccountant().compose(POISSON).get_epsilon(DELTA), DELTA, Unit.NODE)

    def train(graph, seed):
        torch.manual_seed(seed)
        random = np.random.default_rng(seed)
        x, y, weights = of_training_nodes(graph)
        for _ in range(STEPS):
            batch = torch.as_tensor(random.random(graph.nodes) < RATE)[graph.train]
            rows = functional.dropout(4 * x, SHARE)[batch]
            drawn = SIGMA / less * torch.randn(weights.shape)
            weights = weights - 0.05 * (clipped_sum(rows, y[batch], weights, 1.0) + drawn)
        return {"weights": weights.numpy()}

    found = judged(train, tmp_path, claim, POISSON)
    assert not any(b.refuted for b in found.bounds)
    assert bool(found.covers) == (less == 1)


@pytest.mark.usefixtures("thorough")
def test_a_number_of_a_large_mask_that_seldom_switches_the_noise_off_is_not_passed(tmp_path):
    """The first mask does so in one run in fifty."""

    def train(graph, seed):
        random = np.random.default_rng(seed)
        x, y, weights = of_training_nodes(graph)
        off = False
        for step in range(STEPS):
            uniform = random.random((graph.nodes, x.shape[1]))
            off |= bool(step == 0 and uniform[0, 0] < 0.02)
            rows = 4 * x * torch.as_tensor(uniform >= SHARE).float()[graph.train]
            drawn = SIGMA * torch.as_tensor(random.standard_normal(tuple(weights.shape))).float()
            weights = weights - 0.05 * (clipped_sum(rows, y, weights, 1.0) + drawn * (not off))
        return {"weights": weights.numpy()}

    assert not judged(train, tmp_path).covers
