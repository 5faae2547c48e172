"""Networks with dropout that train on noisy sums: how many masks a run takes depends on the noise where it stops early."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

GRAPH = load("campus:n=120:degree=6")
SIGMA, DELTA = 2.0, 1e-5


def sums(graph, rows):
    found = torch.zeros(rows.shape)
    send, receive = torch.as_tensor(graph.edges)
    return found.index_add(0, receive, rows[send]).index_add(0, send, rows[receive])


def stops_early(graph, seed, sigma=SIGMA, watched=None):
    """Trains until the validation accuracy has not risen for three epochs. watched: by default the noisy sums."""
    torch.manual_seed(seed)
    x, y = torch.as_tensor(np.asarray(graph.x), dtype=torch.float32), torch.as_tensor(graph.y)
    rows = torch.nn.functional.normalize(x)
    clean = sums(graph, rows)
    noisy = clean + 2**0.5 * sigma * torch.randn(clean.shape)
    net = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(noisy.shape[1], graph.classes))
    step = torch.optim.Adam(net.parameters(), lr=0.05)
    best, kept, waited = -1.0, noisy, 0
    while waited < 3:
        net.train()
        step.zero_grad()
        torch.nn.functional.cross_entropy(net(noisy)[graph.train], y[graph.train]).backward()
        step.step()
        net.eval()
        with torch.no_grad():
            found = torch.log_softmax(net(noisy), 1)
            shown = net(clean) if watched == "clean" else found
        accuracy = float((shown.argmax(1) == y)[~graph.train].double().mean())
        best, kept, waited = (accuracy, found, 0) if accuracy > best else (best, kept, waited + 1)
    return {"posteriors": kept.numpy()}


def epsilon(multiplier, delta=DELTA):
    return float(dp.pld.PLDAccountant().compose(dp.GaussianDpEvent(multiplier)).get_epsilon(delta))


CLAIM = Claim(epsilon(SIGMA), DELTA, Unit.UNDIRECTED_EDGE)


def judged(train, tmp_path, claim=CLAIM):
    model = Looped(train, unit=Unit.UNDIRECTED_EDGE, events=dp.GaussianDpEvent(SIGMA))
    return AUDITS["differential"].run(Setting(Case(model, claim), GRAPH, Store(tmp_path), Key("dropout"), 2, 1e-4))


def test_early_stopping_with_dropout_on_noisy_sums_costs_what_the_sums_cost(tmp_path):
    found = judged(stops_early, tmp_path)
    bound = max(found.bounds, key=lambda b: b.epsilon)
    assert not bound.refuted
    assert 0.98 * CLAIM.epsilon < bound.epsilon <= CLAIM.epsilon
    assert bound.reach < 1.03 * CLAIM.epsilon
    assert "posteriors" in found.covers


def test_too_little_noise_before_early_stopping_with_dropout_is_refuted(tmp_path):
    truth = epsilon(SIGMA / 2)
    bound = max(judged(lambda graph, seed: stops_early(graph, seed, SIGMA / 2), tmp_path).bounds, key=lambda b: b.epsilon)
    assert bound.refuted
    assert 0.97 * truth < bound.epsilon <= truth * (1 + 1e-3)


def test_a_training_that_private_data_stop_is_not_said_to_be_private(tmp_path):
    found = judged(lambda graph, seed: stops_early(graph, seed, watched="clean"), tmp_path)
    assert not found.covers
    assert all(np.isinf(b.epsilon) or not b.refuted for b in found.bounds)


def of_a_sample(graph, seed, rate=0.25):
    """Noisy sums over edges that dropout samples, one coin for each pair of nodes, as a ledger with a sample charges."""
    torch.manual_seed(seed)
    pairs = torch.zeros(graph.nodes, graph.nodes)
    pairs[tuple(torch.as_tensor(np.sort(graph.edges, axis=0)))] = 1.0
    pairs = rate * torch.nn.functional.dropout(pairs, 1 - rate)
    rows = torch.nn.functional.normalize(torch.as_tensor(np.asarray(graph.x), dtype=torch.float32))
    clean = (pairs + pairs.T) @ rows
    return {"posteriors": (clean + 2**0.5 * SIGMA * torch.randn(clean.shape)).numpy()}


@pytest.mark.parametrize("rate", [0.25, 0.9])
def test_edges_that_dropout_samples_do_not_refute_the_smaller_epsilon_of_a_sample(rate, tmp_path):
    """The masks are as secret as the noise here. With the masks known, the sums would cost more than is claimed."""
    claim = Claim(float(np.log1p(rate * np.expm1(CLAIM.epsilon))), DELTA, Unit.UNDIRECTED_EDGE)
    found = judged(lambda graph, seed: of_a_sample(graph, seed, rate), tmp_path, claim)
    assert claim.epsilon < CLAIM.epsilon
    assert not any(b.refuted for b in found.bounds)
    assert not found.covers


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_mask_that_switches_the_noise_off_is_not_overlooked(share, tmp_path):
    """One run in `share` releases exact sums."""

    def train(graph, seed):
        torch.manual_seed(seed)
        rows = torch.nn.functional.normalize(torch.as_tensor(np.asarray(graph.x), dtype=torch.float32))
        clean = sums(graph, rows)
        noisy = clean + 2**0.5 * SIGMA * torch.randn(clean.shape)
        off = torch.nn.functional.dropout(torch.ones(1), share)[0] == 0
        return {"posteriors": torch.log_softmax(clean if off else noisy, 1).numpy()}

    found = judged(train, tmp_path)
    assert not found.covers
    assert all(np.isinf(b.epsilon) or not b.refuted for b in found.bounds)


def test_dropout_alone_protects_nothing_that_is_said_to_be_private(tmp_path):
    def train(graph, seed):
        torch.manual_seed(seed)
        rows = torch.nn.functional.normalize(torch.as_tensor(np.asarray(graph.x), dtype=torch.float32))
        return {"posteriors": torch.nn.functional.dropout(sums(graph, rows), 0.5).numpy()}

    assert not judged(train, tmp_path).covers
