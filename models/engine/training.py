"""Trains K networks at once by full-batch Adam, and keeps the best epoch of each run.

All runs of one call train on the same nodes, so nothing is padded or masked. The compiled kernel trains one run after the other.
If the kernel does not support the network, the layers in torch train all runs at once.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..kernels.compiler import compiled
from . import compiled_mlp
from .adam import Adam
from .network import Network, Parts, Rows, Weights, apart, together


def train(network: Network, parts: Parts, rows: Rows, epochs: int, learning_rate: float, check: Rows | None = None) -> Weights:
    """Minimises each run's mean cross-entropy over `rows`, and returns the weights of its last epoch.

    With `check`, returns the weights of the first epoch with the highest accuracy on the rows `check`.
    """
    if compiled_mlp.expressible(network, rows, check):

        def teach(run: int, on_rows: compiled_mlp.Pass, on_check: compiled_mlp.Pass | None) -> Weights:
            return on_rows.train(epochs, learning_rate, on_check)

        return one_by_one(network, parts, rows, check, teach)
    compiled.in_torch(compiled_mlp.why_torch(rows, check))
    weights, gradients = Weights(parts), Weights(parts)
    optimiser = Adam(weights.flat, learning_rate)
    best = weights.copy() if check is not None else weights
    record = torch.full((len(parts[0][0][0]),), -1, device=weights.flat.device)
    target = one_hot(rows.labels, network)
    for _ in range(epochs):
        logits, tape = network.forward(weights.numbers, rows.inputs, training=True)
        counted = logits if rows.counted is None else logits.index_select(2, rows.counted)
        slope = torch.softmax(counted, 1).sub_(target).div_(counted.shape[2])
        if rows.counted is not None:
            slope = torch.zeros_like(logits).index_copy_(2, rows.counted, slope)
        network.backward(weights.numbers, tape, slope, gradients.trained)
        optimiser.step(gradients.flat)
        if check is None:
            continue
        hits = hit_count(network, weights, check)
        best.take(weights, hits > record)
        record = torch.maximum(record, hits)
    return best


def one_by_one(
    network: Network,
    parts: Parts,
    rows: Rows,
    check: Rows | None,
    teach: Callable[[int, compiled_mlp.Pass, compiled_mlp.Pass | None], Weights],
    drawn: bool = False,
) -> Weights:
    """Trains one run after the other with the compiled kernel. teach: trains the run with this number, given the passes over its
    rows and over the rows `check`, and returns its weights. drawn: as in `compiled_mlp.Pass`.
    """
    trained = []
    for run, own in enumerate(apart(parts)):
        weights, gradients = Weights(own), Weights(own)
        on_rows = compiled_mlp.Pass(network, weights, gradients, rows.of(run), drawn)
        on_check = compiled_mlp.Pass(network, weights, gradients, check.of(run)) if check is not None else None
        trained.append(teach(run, on_rows, on_check).parts)
    return Weights(together(trained))


def hit_count(network: Network, weights: Weights, rows: Rows) -> Tensor:
    """(runs,) int64: how many of the rows each run classifies correctly. A tie for the largest logit counts as correct."""
    logits, _ = network.forward(weights.numbers, rows.inputs)
    if rows.counted is not None:
        logits = logits.index_select(2, rows.counted)
    own = logits.gather(1, rows.labels.expand(logits.shape[0], 1, -1))
    return (own[:, 0] == logits.amax(1)).sum(1)


def one_hot(labels: Tensor, network: Network) -> Tensor:
    """(classes, nodes) float32."""
    return torch.nn.functional.one_hot(labels, network.classes).t().to(torch.float32)
