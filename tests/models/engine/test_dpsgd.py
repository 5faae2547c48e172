"""DP-SGD for many runs against Opacus, and the law of its batches and noise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats

from gnnaudit.models.engine import dpsgd
from gnnaudit.models.engine.dpsgd import Private, add_noise, private_gradient, train_privately
from gnnaudit.models.engine.features import Drawn, Shared
from gnnaudit.models.engine.layers import GroupNorm, Linear, Selu, UnitLinear
from gnnaudit.models.engine.network import Network, Rows, Weights, draw
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.models.random.streams import stream

DIM, HIDDEN, CLASSES, BATCH = 7, 5, 3, 11
LAYERS = (Linear(DIM, HIDDEN), Selu(), GroupNorm(HIDDEN), Linear(HIDDEN, HIDDEN), Selu())
NETWORK = Network((LAYERS,), (UnitLinear(HIDDEN, CLASSES),), CLASSES)


class UnitRows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, dim=1)


def torch_twin(weights: Weights, run: int) -> torch.nn.Sequential:
    modules = [
        torch.nn.Linear(DIM, HIDDEN),
        torch.nn.SELU(),
        torch.nn.GroupNorm(1, HIDDEN),
        torch.nn.Linear(HIDDEN, HIDDEN),
        torch.nn.SELU(),
        UnitRows(),
        torch.nn.Linear(HIDDEN, CLASSES),
    ]
    with torch.no_grad():
        for module, numbers in zip(modules[:5] + modules[6:], weights.trained, strict=True):
            for parameter, value in zip(module.parameters(), numbers, strict=True):
                parameter.copy_(value[run].view_as(parameter))
    return torch.nn.Sequential(*modules)


@pytest.mark.parametrize("clip", [1e-2, 0.5, 100.0])
def test_one_private_step_is_that_of_opacus(clip: float) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    runs, rate = 2, 0.1
    random = torch.Generator().manual_seed(0)
    x = torch.randn(runs, DIM, BATCH, generator=random)
    labels = torch.randint(CLASSES, (runs, BATCH), generator=random)
    real = torch.ones(runs, BATCH)
    real[1, 8:] = 0  # the second run drew fewer nodes
    weights = Weights(draw(NETWORK.layers, np.arange(runs), "test"))
    before, gradients = weights.copy(), weights.copy()
    target = torch.nn.functional.one_hot(labels, CLASSES).transpose(1, 2).float()
    private_gradient(NETWORK, weights, [x], target, real, clip, gradients)
    weights.flat.sub_(gradients.flat / 256, alpha=rate)
    for run, count in ((0, BATCH), (1, 8)):
        twin = GradSampleModule(torch_twin(before, run))
        optimizer = DPOptimizer(
            torch.optim.SGD(twin.parameters(), rate), noise_multiplier=0.0, max_grad_norm=clip, expected_batch_size=256
        )
        torch.nn.functional.cross_entropy(twin(x[run, :, :count].t()), labels[run, :count]).backward()
        optimizer.step()
        ours = [a[run].flatten() for layer in weights.trained for a in layer]
        theirs = [p.detach().flatten() for p in twin.parameters()]
        torch.testing.assert_close(torch.cat(ours), torch.cat(theirs), rtol=1e-5, atol=1e-6)


def test_rows_that_stay_sparse_give_the_step_of_dense_ones() -> None:
    random = np.random.default_rng(2)
    x = (random.random((30, 64)) < 0.05) * random.standard_normal((30, 64))
    x[4] = 0  # a row without features
    sparse, dense = (Shared(a, np.arange(30)) for a in (sp.csr_array(x.astype(np.float32)), x.astype(np.float32)))
    net = Network(((Linear(64, HIDDEN), Selu()),), (Linear(HIDDEN, CLASSES),), CLASSES)
    index = torch.from_numpy(random.integers(30, size=(3, 8)))
    index[:, 0] = 4
    target = torch.nn.functional.one_hot(index % CLASSES, CLASSES).transpose(1, 2).float()
    steps = []
    for shared in (sparse, dense):
        weights = Weights(draw(net.layers, np.arange(3), "test"))
        gradients = weights.copy()
        private_gradient(net, weights, [shared.gather(index)], target, torch.ones(3, 8), 0.5, gradients)
        steps.append(gradients.flat)
    assert isinstance(sparse.gather(index), Drawn)
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-5, atol=1e-6)


def test_noise_has_the_wanted_std_and_a_stream_for_each_run() -> None:
    gradients = Weights(draw([Linear(99, 50)], np.arange(4), "test"))
    gradients.flat.zero_()
    add_noise(gradients, [stream(s, "gradient") for s in range(4)], 3.0)
    weight, bias = gradients.trained[0]
    for run in range(4):
        values = torch.cat([weight[run].flatten(), bias[run].flatten()]).double().numpy()
        total = float((values**2).sum())
        for std, accepted in ((3.0, True), (2.0, False), (4.5, False)):
            p = 2 * min(stats.chi2.cdf(total / std**2, values.size), stats.chi2.sf(total / std**2, values.size))
            assert bool(p > 1e-7) == accepted  # an honest run fails once in 2.5 million times
    alone = Weights(draw([Linear(99, 50)], np.arange(1), "test"))
    alone.flat.zero_()
    add_noise(alone, [stream(2, "gradient")], 3.0)
    assert torch.equal(alone.trained[0][0][0], weight[2])


def rows(nodes: int) -> Rows:
    x = np.random.default_rng(1).standard_normal((nodes, DIM)).astype(np.float32)
    return Rows([Shared(x, np.arange(nodes))], torch.arange(nodes) % CLASSES)


def test_every_node_joins_a_batch_with_the_stated_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, how = 400, Private(sigma=0.0, rate=0.1, batch=40, epochs=5, steps=10)
    joined = np.zeros((2, nodes))

    def count(inputs: list[Shared], index: torch.Tensor) -> list[torch.Tensor]:
        for run in range(2):
            joined[run, np.unique(index[run])] += 1
        return gather(inputs, index)

    gather = dpsgd.gather
    monkeypatch.setattr(dpsgd, "gather", count)
    parts = draw(NETWORK.layers, np.arange(2), "test")
    with compiled.unused():  # the compiled kernel, which is sent the same batches, gathers nothing
        train_privately(NETWORK, parts, rows(nodes), np.arange(nodes), nodes, np.arange(2, dtype=np.uint64), "test", how)
    joined = joined[:, 1:]  # node 0 also stands for padding
    assert not np.array_equal(joined[0], joined[1])
    for run in joined:
        p = stats.binomtest(int(run.sum()), 50 * (nodes - 1), 0.1).pvalue
        assert p > 1e-6  # an honest run fails once in a million times
        expected = stats.binom.pmf(np.arange(16), 50, 0.1)
        seen = np.bincount(run.astype(int), minlength=16)[:16]
        pooled = [(seen[:3].sum(), expected[:3].sum()), *zip(seen[3:8], expected[3:8], strict=True), (seen[8:].sum(), 0.0)]
        chances = np.array([e for _, e in pooled[:-1]] + [1 - sum(e for _, e in pooled[:-1])])
        assert stats.chisquare([s for s, _ in pooled], chances * run.size).pvalue > 1e-6


def test_an_empty_batch_is_a_step_of_noise_alone() -> None:
    how = Private(sigma=1.0, rate=0.0, batch=5, epochs=1, steps=1, learning_rate=0.1)
    seeds = np.arange(3, dtype=np.uint64)
    parts = draw(NETWORK.layers, seeds, "test")
    moved = train_privately(NETWORK, parts, rows(9), np.arange(9), 9, seeds, "test", how)
    change = (moved.flat - Weights(parts).flat).abs()
    assert bool(torch.isfinite(change).all())
    torch.testing.assert_close(change, torch.full_like(change, 0.1), rtol=1e-3, atol=1e-5)  # Adam's first step: one rate


def test_a_run_is_the_same_alone_and_in_company() -> None:
    how = Private(sigma=1.0, rate=0.3, batch=9, epochs=2, steps=4)
    seeds = np.array([5, 6, 7], dtype=np.uint64)

    def trained(some: np.ndarray) -> Weights:
        parts = draw(NETWORK.layers, some, "test")
        return train_privately(NETWORK, parts, rows(30), np.arange(30), 30, some, "test", how)

    together, alone = trained(seeds), trained(seeds[1:2])
    for many, one in zip(together.trained, alone.trained, strict=True):
        for a, b in zip(many, one, strict=True):
            torch.testing.assert_close(a[1], b[0], rtol=1e-5, atol=1e-5)
