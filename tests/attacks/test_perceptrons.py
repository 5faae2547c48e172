"""Perceptrons trained together: derivatives by autograd, each as if it were alone, and as good as scikit-learn's."""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from gnnaudit.attacks.membership.shadow_classifier import decision, perceptron
from gnnaudit.attacks.perceptrons import Perceptrons, perceptrons


def planted(runs=3, rows=600, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(runs, rows, dim)) * 3 + 1
    logit = x[..., 0] - 1 + np.abs(x[..., 1] - 1) - 2.4
    return x, rng.random((runs, rows)) < 1 / (1 + np.exp(-2 * logit))


def test_slopes_are_those_of_autograd():
    x, bits = planted(rows=20)
    rng = np.random.default_rng(1)
    layers = tuple((rng.normal(size=(3, a, b)), rng.normal(size=(3, 1, b))) for a, b in ((6, 5), (5, 4), (4, 1)))
    numbers = [torch.from_numpy(n).requires_grad_() for layer in layers for n in layer]
    out = torch.from_numpy(x)
    for i in range(3):
        out = out @ numbers[2 * i] + numbers[2 * i + 1]
        out = out.relu() if i < 2 else out
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        out[..., 0], torch.from_numpy(bits.astype(float)), reduction="none"
    )
    penalty = sum((w**2).sum() for w in numbers[::2]) * 1e-4 / 2 / 20
    (loss.mean(1).sum() + penalty).backward()
    ours = list(Perceptrons(np.zeros(1), np.ones(1), layers).slopes(x, bits))[::-1]
    for number, slope in zip(numbers, [s for pair in ours for s in pair], strict=True):
        np.testing.assert_allclose(slope, number.grad.numpy(), atol=1e-10)


def test_a_run_does_not_depend_on_the_others():
    x, bits = planted()
    recipe = {"hidden": (8,), "rate": 0.01, "epochs": 3, "batch": 64, "seed": 0}
    together = perceptrons(x, bits, **recipe).decisions(x)
    alone = perceptrons(x[1:2], bits[1:2], **recipe).decisions(x[1:2])
    np.testing.assert_allclose(together[1:2], alone, rtol=1e-4, atol=1e-5)


def test_they_learn_what_scikit_learns():
    x, bits = planted()
    more, truth = planted(seed=1)
    net = perceptrons(x, bits, (16, 16), 0.01, 40, 64, 0)
    for k in range(3):
        theirs = decision(perceptron(x[k], bits[k], (16, 16), 0.01, 40, 64, 0), more[k])
        ours = roc_auc_score(truth[k], net.decisions(more)[k])
        assert ours > 0.85
        assert abs(ours - roc_auc_score(truth[k], theirs)) < 0.03  # either differs by its start and its shuffles


def test_a_constant_column_does_no_harm():
    x, bits = planted()
    x[..., 3] = 2.0
    assert np.isfinite(perceptrons(x, bits, (4,), 0.01, 2, 64, 0).decisions(x)).all()
