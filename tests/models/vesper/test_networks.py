"""Stacked decoders against PyTorch's own layers."""

import numpy as np
import pytest
import torch

from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.vesper.learner import Learner
from gnnaudit.models.vesper.networks import Encoder, decode, loss, start, step

SEEDS = [1, 2, 3]


def rows(slots=3, dim=5, nodes=7):
    return torch.randn(3, slots, dim, nodes, generator=torch.Generator().manual_seed(0))


def test_gru_is_that_of_pytorch():
    weights, x = start("gru", SEEDS, 3, 5, 4, 2), rows()
    got = decode("gru", weights, x)
    for run in range(3):
        gru = torch.nn.GRU(5, 4)
        inner, recurrent, bias, new_bias, outer, outer_bias = (w[run] for w in weights)
        with torch.no_grad():
            gru.weight_ih_l0.copy_(inner)
            gru.weight_hh_l0.copy_(recurrent)
            gru.bias_ih_l0.copy_(bias[:, 0])
            gru.bias_hh_l0.copy_(torch.cat([torch.zeros(8), new_bias[:, 0]]))
            state = gru(x[run].permute(0, 2, 1))[1][0]
        assert torch.allclose(got[run], outer @ state.T + outer_bias, atol=1e-6)


def test_concat_is_a_perceptron_over_all_layers():
    weights, x = start("concat", SEEDS, 3, 5, 4, 2), rows()
    inner, bias, outer, outer_bias = (w[1] for w in weights)
    hidden = torch.relu(x[1].permute(2, 0, 1).reshape(7, 15) @ inner.T + bias.T)
    assert torch.allclose(decode("concat", weights, x)[1], outer @ hidden.T + outer_bias, atol=1e-6)


def test_the_loss_is_the_mean_cross_entropy_of_the_rows_that_a_run_trains_on():
    logits = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    weight = torch.tensor([[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1.0]])
    expected = sum(torch.nn.functional.cross_entropy(logits[k].T[weight[k] > 0], labels[weight[k] > 0]) for k in range(2))
    assert torch.allclose(loss(logits, labels, weight / weight.sum(1, keepdim=True)), expected)


@pytest.mark.skipif(not compiled.found(), reason="no numba here: nothing is compiled")
@pytest.mark.parametrize("kind", ["linear", "concat"])
@pytest.mark.parametrize("back", [True, False])
def test_a_compiled_step_of_a_decoder_is_that_of_autograd(kind, back):
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.standard_normal((3, 3, 5, 150)).astype(np.float32))
    labels = torch.from_numpy(random.integers(4, size=150))
    share = torch.from_numpy(random.random((3, 150)).astype(np.float32))
    fast, slow = (Learner.of(start(kind, SEEDS, 3, 5, 7, 4), 0.01) for _ in range(2))
    got = step(kind, fast, x.clone(), labels, share, back)
    with compiled.unused():
        expected = step(kind, slow, x.clone(), labels, share, back)
    assert (got is None) == (not back)
    if got is not None and expected is not None:
        assert torch.allclose(got, expected, atol=1e-5)
    for one, other in zip(fast.weights, slow.weights, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.skipif(not compiled.found(), reason="no numba here: nothing is compiled")
def test_the_compiled_encoder_sends_and_learns_as_autograd_does():
    encoder = Encoder(np.random.default_rng(0).standard_normal((150, 9)).astype(np.float32))
    weights = [w.requires_grad_() for w in encoder.start(SEEDS, 4)]
    slope = torch.randn(len(SEEDS), 1, 4, 100, generator=torch.Generator().manual_seed(2))
    rows, pull = encoder.sent(weights, np.arange(100))
    with compiled.unused():
        plain, by_autograd = encoder.sent(weights, np.arange(100))
    assert torch.allclose(rows, plain, atol=1e-6)
    for one, other in zip(pull(slope), by_autograd(slope), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_the_learner_is_adam_of_pytorch_on_every_tensor():
    first, second = torch.ones(2, 3), torch.arange(4.0).view(4, 1)
    ours = Learner.of([first, second], 0.1)
    theirs = [torch.nn.Parameter(first.clone()), torch.nn.Parameter(second.clone())]
    reference = torch.optim.Adam(theirs, lr=0.1)
    for turn in range(20):
        for p, at in zip(theirs, (0.0, 1.0), strict=True):
            p.grad = torch.sin(p.detach() + at + turn)
        ours.step([torch.sin(w.detach() + at + turn) for w, at in zip(ours.weights, (0.0, 1.0), strict=True)])
        reference.step()
    for mine, reference_weight in zip(ours.weights, theirs, strict=True):
        assert torch.allclose(mine, reference_weight, atol=1e-5)
