"""The compiled kernel against the layers in torch, which other tests compare with autograd and Opacus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnaudit.models.engine import compiled_mlp
from gnnaudit.models.engine.adam import Adam
from gnnaudit.models.engine.dpsgd import Private, private_gradient, train_privately
from gnnaudit.models.engine.features import Shared
from gnnaudit.models.engine.layers import BatchNorm, GroupNorm, Layer, Linear, Selu, UnitLength, UnitLinear
from gnnaudit.models.engine.network import Network, Rows, Weights, draw
from gnnaudit.models.engine.training import hit_count, one_hot, train
from gnnaudit.models.kernels.compiler import compiled

pytestmark = pytest.mark.skipif(not compiled.used(), reason="no numba here: there is no kernel to test")

NODES, DIM, HIDDEN, CLASSES = 150, 40, 16, 6  # two blocks of 64 nodes and a bit


def between(units: int) -> tuple[Layer, ...]:
    return BatchNorm(units), Selu()


def after(units: int, norm: type) -> tuple[Layer, ...]:
    return Selu(), norm(units)


H, N = HIDDEN, BatchNorm
BATCH: dict[str, tuple[Network, list[int]]] = {  # a network, and the units of its inputs; 0 stands for the features
    "mlp": (Network(((Linear(DIM, H, True), *between(H), Linear(H, 9, True), *between(9), Linear(9, 6)),), (), 6), [0]),
    "gap, encoder": (Network(((Linear(DIM, H), *between(H), Linear(H, H), UnitLength()),), (*between(H), Linear(H, 6)), 6), [0]),
    "gap, classifier": (Network(((Linear(7, H),), (Linear(H, H),)), (UnitLength(), *between(32), Linear(32, 6)), 6), [7, 16]),
    "gap, deep": (
        Network(((Linear(7, H), *between(H), Linear(H, 9)), (Linear(H, H),)), (UnitLength(), *between(25), Linear(25, 6)), 6),
        [7, 16],
    ),
    "progap": (Network(((Linear(DIM, H), *after(H, N)), (Linear(H, H), *after(H, N))), (UnitLinear(32, 6),), 6), [0, 16]),
    "progap, deep": (
        Network(
            ((Linear(DIM, H), *after(H, N), Linear(H, 21), *after(21, N)), (Linear(7, H), *after(H, N))), (UnitLinear(37, 6),), 6
        ),
        [0, 7],
    ),
}
GROUP: dict[str, tuple[Network, list[int]]] = {
    "mlp": (Network(((Linear(DIM, H), Selu(), Linear(H, 9), Selu(), Linear(9, 6)),), (), 6), [0]),
    "gap, encoder": (Network(((Linear(DIM, H), Selu(), Linear(H, H), UnitLength()),), (Selu(), Linear(H, 6)), 6), [0]),
    "gap, classifier": (Network(((Linear(7, H),), (Linear(H, H),)), (UnitLength(), Selu(), Linear(32, 6)), 6), [7, 16]),
    "progap": (
        Network(((Linear(DIM, H), *after(H, GroupNorm)), (Linear(H, H), *after(H, GroupNorm))), (UnitLinear(32, 6),), 6),
        [0, 16],
    ),
    "progap, deep": (
        Network(((Linear(DIM, H), *after(H, GroupNorm), Linear(H, 9), *after(9, GroupNorm)),), (UnitLinear(9, 6),), 6),
        [0],
    ),
}


def nodes(inputs: list[int], entries: tuple[float, ...] = (1.0,), runs: int = 1, dense: bool = False) -> Rows:
    random = np.random.default_rng(0)
    x = (random.random((NODES, DIM)) < 0.1) * random.choice(entries, (NODES, DIM))
    x[3] = 0  # a node without features
    parts = [random.standard_normal((runs, units, NODES)).astype(np.float32) if units else None for units in inputs]
    x = x.astype(np.float32)
    shared = Shared(x if dense else sp.csr_array(x), np.arange(NODES))
    labels = torch.from_numpy(random.integers(CLASSES, size=NODES))
    return Rows([shared if part is None else torch.from_numpy(part) for part in parts], labels)


def numbers(net: Network) -> tuple[Weights, Weights]:
    """Parameters without special values such as 1, which could hide a mistake, and gradients that must be overwritten."""
    weights = Weights(draw(net.layers, np.array([4]), "test"))
    for layer in weights.trained:
        for a in layer:
            a.add_(torch.linspace(-0.3, 0.3, a.numel()).view_as(a))
    gradients = weights.copy()
    gradients.flat.fill_(9)
    return weights, gradients


@pytest.mark.parametrize(("entries", "dense"), [((1.0,), False), ((1.0, 2.0), False), ((1.0, 2.0), True)])
@pytest.mark.parametrize("name", BATCH)
def test_the_kernel_finds_the_gradient_the_moments_and_the_hits_of_the_layers(
    name: str, entries: tuple[float, ...], dense: bool
) -> None:
    net, inputs = BATCH[name]
    rows, (weights, gradients) = nodes(inputs, entries, dense=dense), numbers(net)
    theirs, expected = weights.copy(), gradients.copy()
    assert compiled_mlp.expressible(net, rows)
    one = compiled_mlp.Pass(net, weights, gradients, rows)
    for _ in range(2):  # the second pass must not remember the first one's sums
        logits, tape = net.forward(theirs.numbers, rows.inputs, training=True)
        slope = torch.softmax(logits, 1).sub_(one_hot(rows.labels, net)).div_(NODES)
        net.backward(theirs.numbers, tape, slope, expected.trained)
        one.clipped_gradient(np.arange(NODES, dtype=np.int32), 0)
        torch.testing.assert_close(gradients.flat, expected.flat, rtol=1e-4, atol=1e-6)
        for mine, own in zip(weights.numbers, theirs.numbers, strict=True):
            torch.testing.assert_close(mine, own, rtol=1e-5, atol=1e-6)
    assert one.hits() == int(hit_count(net, theirs, rows))


@pytest.mark.parametrize("clip", [1e-2, 0.5, 100.0])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", GROUP)
def test_the_kernel_clips_each_gradient_as_the_layers_do(name: str, dense: bool, clip: float) -> None:
    net, inputs = GROUP[name]
    rows, (weights, gradients) = nodes(inputs, (1.0, 2.0), dense=dense), numbers(net)
    expected = gradients.copy()
    assert compiled_mlp.expressible(net, rows)
    one = compiled_mlp.Pass(net, weights, gradients, rows, drawn=True)
    for drawn in (np.arange(0, NODES, 2), np.array([3, 7, 3]), np.arange(0)):
        index = torch.from_numpy(drawn)[None]
        given = [x.gather(index) if isinstance(x, Shared) else x[:, :, drawn] for x in rows.inputs]
        target = one_hot(rows.labels, net)[None, :, drawn]
        private_gradient(net, weights, given, target, torch.ones(1, len(drawn)), clip, expected)
        one.clipped_gradient(drawn.astype(np.int32), clip)
        torch.testing.assert_close(gradients.flat, expected.flat, rtol=1e-4, atol=1e-5)


def test_wide_dense_features_and_those_in_a_file_are_left_to_torch(tmp_path: Any) -> None:
    net, labels = Network(((Linear(300, H),),), (), H), torch.zeros(9, dtype=torch.int64)
    wide = np.ones((9, 300), dtype=np.float32)
    np.save(tmp_path / "x.npy", wide[:, :40])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert not compiled_mlp.expressible(net, Rows([Shared(wide, np.arange(9))], labels))
    assert not compiled_mlp.expressible(net, Rows([Shared(mapped, np.arange(9))], labels))
    assert compiled_mlp.expressible(net, Rows([Shared(wide[:, :40], np.arange(9))], labels))


@pytest.mark.parametrize("label", [-1, CLASSES, 2**31])
def test_a_label_of_no_class_is_refused_before_it_becomes_an_address(label: int) -> None:
    net, inputs = BATCH["mlp"]
    rows, (weights, gradients) = nodes(inputs), numbers(net)
    rows.labels[7] = label
    with pytest.raises(ValueError, match=f"label {label}: must be in 0 … 5"):
        compiled_mlp.Pass(net, weights, gradients, rows)


@pytest.mark.parametrize("column", [-1, DIM])
def test_a_column_that_there_is_not_is_refused_before_it_becomes_an_address(column: int) -> None:
    net, inputs = BATCH["mlp"]
    rows, (weights, gradients) = nodes(inputs), numbers(net)
    rows.inputs[0].x.indices[5] = column
    with pytest.raises(ValueError, match="columns outside of 0 … 39"):
        compiled_mlp.Pass(net, weights, gradients, rows)


def test_its_adam_is_torch_adam() -> None:
    weights, gradients = numbers(Network(((Linear(5, 7),),), (), 7))
    theirs = weights.flat.clone().requires_grad_()
    mine, reference = Adam(weights.flat, 0.01), torch.optim.Adam([theirs], 0.01)
    random = torch.Generator().manual_seed(3)
    for _ in range(50):
        gradients.flat.normal_(std=0.02, generator=random)
        mine.step(gradients.flat, 0.5)
        theirs.grad = gradients.flat * 0.5
        reference.step()
    torch.testing.assert_close(weights.flat, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_a_whole_training_is_that_of_the_layers() -> None:
    net, inputs = BATCH["progap"]
    rows, seeds = nodes(inputs, runs=3), np.arange(3, dtype=np.uint64)

    def trained() -> list[Any]:
        return [train(net, draw(net.layers, seeds, "test"), rows, 30, 0.01, check).numbers for check in (None, rows)]

    fast = trained()
    with compiled.unused():
        slow = trained()
    for mine, theirs in zip(fast, slow, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_whole_private_training_is_that_of_the_layers(fixed: bool) -> None:
    net, inputs = GROUP["progap"]
    rows, seeds = nodes(inputs, runs=3), np.arange(3, dtype=np.uint64)
    how = Private(sigma=1.0, rate=0.2, batch=30, epochs=2, steps=5, fixed=fixed)

    def trained() -> list[Any]:
        parts = draw(net.layers, seeds, "test")
        return train_privately(net, parts, rows, np.arange(NODES), NODES, seeds, "test", how).numbers

    fast = trained()
    with compiled.unused():
        slow = trained()
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("private", [False, True])
def test_a_run_is_trained_bit_for_bit_the_same_alone_and_in_a_chunk_of_64(private: bool) -> None:
    net, inputs = (GROUP if private else BATCH)["progap"]
    rows, seeds = nodes(inputs, runs=64), np.arange(64, dtype=np.uint64)
    how = Private(sigma=1.0, rate=0.2, batch=30, epochs=2, steps=3)

    def trained(some: np.ndarray, given: Rows) -> Weights:
        parts = draw(net.layers, some, "test")
        if private:
            return train_privately(net, parts, given, np.arange(NODES), NODES, some, "test", how, given)
        return train(net, parts, given, 6, 0.01, given)

    many, one = trained(seeds, rows), trained(seeds[17:18], rows.of(17))
    for a, b in zip(many.numbers, one.numbers, strict=True):
        for chunk, alone in zip(a, b, strict=True):
            assert torch.equal(chunk[17], alone[0])


def test_batch_norm_remembers_the_moments_of_many_nodes_far_from_zero() -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((1, 7, 9000)) + 100  # more than the 4096 nodes that are summed before they are merged
    x[:, :, :64] += 30  # the first block lies far from the others
    net = Network(((Linear(7, H),),), (BatchNorm(H), Linear(H, 6)), 6)
    weights, gradients = numbers(net)
    rows = Rows([torch.from_numpy(x.astype(np.float32))], torch.arange(9000) % 6)
    weight, bias = (a[0].double().numpy() for a in weights.numbers[0])
    compiled_mlp.Pass(net, weights, gradients, rows).clipped_gradient(np.arange(9000, dtype=np.int32), 0)
    y = weight @ x[0].astype(np.float32) + bias.reshape(-1, 1)
    mean, variance = (a.flatten().double().numpy() for a in weights.numbers[1][2:])
    np.testing.assert_allclose(mean, 0.1 * y.mean(1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(variance, 0.9 + 0.1 * y.var(1, ddof=1), rtol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65])
def test_batch_norm_over_few_nodes_far_from_zero_is_that_of_the_layers_in_float64(count: int) -> None:
    x = torch.from_numpy((30 + np.random.default_rng(count).random((1, 7, count))).astype(np.float32))
    net = Network(((Linear(7, H), BatchNorm(H), Selu(), Linear(H, H)),), (BatchNorm(H), Linear(H, 6)), 6)
    (weights, gradients), labels = numbers(net), torch.arange(count) % CLASSES
    theirs = Weights([(tuple(a.double() for a in t), tuple(a.double() for a in r)) for t, r in weights.parts])
    expected = theirs.copy()
    compiled_mlp.Pass(net, weights, gradients, Rows([x], labels)).clipped_gradient(np.arange(count, dtype=np.int32), 0)
    logits, tape = net.forward(theirs.numbers, [x.double()], training=True)
    slope = torch.softmax(logits, 1).sub_(one_hot(labels, net)).div_(count)
    net.backward(theirs.numbers, tape, slope, expected.trained)
    torch.testing.assert_close(gradients.flat, expected.flat.float(), rtol=1e-2, atol=1e-2)  # float32 loses that much at 30
    for mine, own in zip(weights.numbers, theirs.numbers, strict=True):
        torch.testing.assert_close(mine, tuple(a.float() for a in own), rtol=1e-3, atol=1e-4)
