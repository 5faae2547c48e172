"""Noise that the recorder cannot follow may hide a secret, so it must not count as absent."""

import dp_accounting as dp
import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, audit, load
from gnnaudit.models.recorder.mechanisms.followed import noise

from ....nightly import nightly
from ...recorded.votes import counts, released

GRAPH = load("campus:n=120:degree=6")
CLAIM = Claim(2.0, 1e-6)  # noise of std 3.2 on sums that an edge moves by sqrt(2) costs 1.97


def verdict(train, std=3.2):
    model = Looped(train, events=dp.GaussianDpEvent(std / 2**0.5))
    return audit(model, GRAPH, CLAIM, attacks="none", audits="differential", repeats=1).run.verdict


def after_public_offsets(std, rotated):
    """Public random offsets, then noise that a rotation mixes, so that the recorder does not follow it."""

    def train(graph, seed):
        clean = counts(graph)
        offsets = np.random.default_rng(0).standard_normal(clean.shape)
        rotation = np.linalg.qr(np.random.default_rng(7).standard_normal((graph.classes, graph.classes)))[0]
        z = np.random.default_rng(seed).standard_normal(clean.shape)
        return released(clean + offsets + (std * z @ rotation if rotated else std * z))

    return train


@pytest.mark.parametrize("std", [0.5, *nightly(3.2)])
def test_lost_noise_refutes_nothing(std):
    assert verdict(after_public_offsets(std, rotated=True)) not in {"refuted"}


def test_noise_that_is_drawn_as_weights_of_a_layer_refutes_nothing():
    """The recorder takes such numbers for initial weights, and the release shows the sum of both noises alone."""

    def train(graph, seed):
        torch.manual_seed(seed % 2**63)
        clean, layer = counts(graph), torch.nn.Embedding(graph.nodes, graph.classes)
        noisy = clean + 0.5 * np.random.default_rng(seed).standard_normal(clean.shape)
        return released(noisy @ np.eye(graph.classes) + 3.2 * layer.weight.detach().numpy())

    assert verdict(train) == "inconclusive"


@pytest.mark.parametrize(("std", "expected"), [(3.2, "not refuted"), (0.5, "refuted")])
def test_noise_that_is_followed_after_public_offsets_is_judged_by_its_size(std, expected):
    assert verdict(after_public_offsets(std, rotated=False)) == expected


@pytest.mark.parametrize(("least", "expected"), [(0.5, {"refuted"}), *nightly((3.2, {"not refuted", "inconclusive"}))])
def test_noise_of_pytorch_with_one_scale_for_each_column_is_judged_by_its_size(least, expected):
    def train(graph, seed):
        place = 0.1 * torch.randn(graph.nodes, graph.classes, generator=torch.Generator().manual_seed(0))
        z = torch.randn(2, graph.nodes, graph.classes, generator=torch.Generator().manual_seed(seed % 2**63))
        h = torch.from_numpy(counts(graph)) + place + z[0] * torch.linspace(least, least + 1, graph.classes)
        return released(h.numpy())

    assert verdict(train, least) in expected


def test_a_failure_of_the_recorder_is_inconclusive(monkeypatch):
    def fails(*args, **options):
        raise RuntimeError("broken")

    monkeypatch.setattr(noise, "_after", fails)
    model = Looped(after_public_offsets(3.2, rotated=False))
    found = audit(model, GRAPH, CLAIM, attacks="none", audits="differential", repeats=1)
    assert found.run.verdict == "inconclusive"
