"""The hand-written layers against autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional as F

from gnnaudit.models.engine.adam import Adam
from gnnaudit.models.engine.features import Shared
from gnnaudit.models.engine.layers import BatchNorm, GroupNorm, Linear, Selu, UnitLength, UnitLinear
from gnnaudit.models.engine.network import Network, Weights, draw

RUNS, NODES, DIM, HIDDEN, CLASSES = 3, 40, 12, 5, 4


@pytest.fixture
def features() -> np.ndarray:
    random = np.random.default_rng(0)
    return (random.random((NODES, DIM)) < 0.4).astype(np.float32) * random.choice([1, 2], (NODES, DIM)).astype(np.float32)


def network(norm: type) -> Network:
    first = (Linear(DIM, HIDDEN), Selu(), norm(HIDDEN))
    second = (Linear(6, HIDDEN, centred=norm is BatchNorm), norm(HIDDEN), Selu(), Linear(HIDDEN, HIDDEN))
    return Network((first, second), (UnitLength(), norm(2 * HIDDEN), Selu(), Linear(2 * HIDDEN, CLASSES)), CLASSES)


def joined(norm: type) -> Network:
    """As in ProGAP: the stacked outputs of the branches are scaled to length 1, then classified."""
    branches = network(norm).branches
    return Network(branches, (UnitLinear(2 * HIDDEN, CLASSES),), CLASSES)


def plain(norm: type) -> Network:
    """As in GAP at node level, with no layer between the unit rows and the activation."""
    branches = network(norm).branches
    return Network(branches, (UnitLength(), Selu(), Linear(2 * HIDDEN, CLASSES)), CLASSES)


def oracle(layers: list, numbers: list, x: torch.Tensor) -> torch.Tensor:
    """The same layers by torch.nn.functional, for one run with nodes first."""
    for layer, values in zip(layers, numbers, strict=True):
        flat = [v[:, 0] if v.shape[1] == 1 else v for v in values]
        match layer:
            case Linear():
                x = F.linear(x, values[0], values[1][:, 0])
            case Selu():
                x = F.selu(x)
            case BatchNorm():
                x = F.batch_norm(x, None, None, flat[0], flat[1], training=True)
            case GroupNorm():
                x = F.group_norm(x, 1, flat[0], flat[1])
            case UnitLength():
                x = F.normalize(x, dim=1)
            case UnitLinear():
                x = F.linear(F.normalize(x, dim=1), values[0], values[1][:, 0])
    return x


@pytest.mark.parametrize("norm", [BatchNorm, GroupNorm])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("shape", [network, joined, plain])
def test_all_gradients_are_those_of_autograd(shape: Any, norm: type, kind: str, features: np.ndarray) -> None:
    net = shape(norm)
    weights = Weights(draw(net.layers, np.arange(RUNS), "test"))
    for layer in weights.trained:  # no special values such as 1, which could hide a mistake
        for a in layer:
            a.add_(torch.linspace(-0.3, 0.3, a.numel()).view_as(a))
    gradients = weights.copy()
    own = torch.randn(RUNS, 6, NODES, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(NODES) % CLASSES
    shared = Shared(sp.csr_array(features) if kind == "sparse" else features, np.arange(NODES))
    logits, tape = net.forward(weights.numbers, [shared, own], training=True)
    slope = torch.softmax(logits, 1) - F.one_hot(labels, CLASSES).t()
    net.backward(weights.numbers, tape, slope / NODES, gradients.trained)
    for run in range(RUNS):
        numbers = [[a[run].double().requires_grad_() for a in layer] for layer in weights.trained]
        first, second = len(net.branches[0]), len(net.branches[0]) + len(net.branches[1])
        parts = [
            oracle(net.branches[0], numbers[:first], torch.from_numpy(features).double()),
            oracle(net.branches[1], numbers[first:second], own[run].t().double()),
        ]
        out = oracle(net.trunk, numbers[second:], torch.cat(parts, 1))
        torch.testing.assert_close(logits[run].t().double(), out, rtol=1e-4, atol=1e-5)
        F.cross_entropy(out, labels).backward()
        for layer, ours in zip(numbers, gradients.trained, strict=True):
            for a, b in zip(layer, ours, strict=True):
                torch.testing.assert_close(b[run].double(), a.grad, rtol=1e-4, atol=1e-6)


def test_batch_norm_evaluates_with_the_moments_that_torch_remembers() -> None:
    layer, theirs = BatchNorm(HIDDEN), torch.nn.BatchNorm1d(HIDDEN)
    weights = Weights(draw([layer], np.arange(1), "test"))
    random = torch.Generator().manual_seed(2)
    for _ in range(3):
        x = torch.randn(1, HIDDEN, NODES, generator=random) * 3 + 1
        layer.forward(weights.numbers[0], x, True)
        theirs(x[0].t())
    theirs.eval()
    x = torch.randn(1, HIDDEN, NODES, generator=random)
    torch.testing.assert_close(layer.forward(weights.numbers[0], x, False)[0][0].t(), theirs(x[0].t()), rtol=1e-5, atol=1e-6)


def test_a_zero_vector_keeps_length_zero() -> None:
    y, _ = UnitLength().forward((), torch.zeros(1, 3, 2), True)
    assert torch.equal(y, torch.zeros(1, 3, 2))


def test_fresh_numbers_have_the_law_of_torch_nn_linear() -> None:
    [((weight, bias), _)] = draw([Linear(100, 50)], np.arange(20), "test")
    for a in (weight, bias):
        assert a.abs().max() <= 0.1
        assert abs(float(a.std()) - 0.1 / 3**0.5) < 0.003  # five standard errors of the smaller tensor: 1000 uniforms
    assert torch.equal(draw([Linear(100, 50)], np.array([7]), "test")[0][0][0][0], weight[7])


def test_adam_is_torch_adam() -> None:
    start = torch.linspace(-1, 1, 30)
    ours, theirs = start.clone(), start.clone().requires_grad_()
    mine, reference = Adam(ours, 0.01), torch.optim.Adam([theirs], 0.01)
    random = torch.Generator().manual_seed(3)
    for _ in range(50):
        gradient = torch.randn(30, generator=random) * 0.01
        mine.step(gradient.clone())
        theirs.grad = gradient.clone()
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
