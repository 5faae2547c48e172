"""DP-SGD for K networks at once. Gradients are clipped without building per-node gradients; each run has its own noise stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernels.compiler import compiled
from ..random import witness
from ..random.draws import heads
from ..random.streams import normal32, stream
from . import compiled_mlp
from .adam import Adam
from .features import Shared
from .layers import Separable
from .network import Network, Parts, Rows, Weights
from .training import hit_count, one_by_one, one_hot


@dataclass(frozen=True)
class Private:
    """How a private training samples, clips and adds noise.

    sigma: std of the noise on the sum of the clipped gradients / clip. rate: the probability that a node joins a batch. batch:
    the public, expected batch size, by which the noisy sum is divided. epochs, steps: the training has `epochs` epochs of `steps`
    batches.
    """

    sigma: float
    rate: float
    batch: int
    epochs: int
    steps: int
    clip: float = 1.0
    learning_rate: float = 0.01
    fixed: bool = False  # whether every batch has exactly `batch` nodes, instead of a Poisson sample


def train_privately(
    network: Network,
    parts: Parts,
    rows: Rows,
    nodes: NDArray[np.int64],
    population: int,
    seeds: NDArray[np.uint64],
    purpose: str,
    how: Private,
    check: Rows | None = None,
) -> Weights:
    """DP-Adam on each run's own batches. Returns the weights of the last epoch, or, with `check`, those of the epoch with the
    highest accuracy on these rows.

    rows: the training rows. nodes: (n,) their ids among the `population` nodes of the graph. In every step the run draws one
    uniform number for each id, so two neighbouring worlds sample the nodes that both have in the same way. purpose: the name of
    the random streams.
    """
    draws = [stream(seed, "batch", purpose) for seed in seeds]
    noises = [stream(seed, "gradient", purpose) for seed in seeds]
    places = np.full(population, -1, dtype=np.int32)
    places[nodes] = np.arange(nodes.size)
    if compiled_mlp.expressible(network, rows, check):

        def teach(run: int, on_rows: compiled_mlp.Pass, on_check: compiled_mlp.Pass | None) -> Weights:
            weights, gradients = on_rows.weights, on_rows.gradients
            optimiser, best, record = Adam(weights.flat, how.learning_rate), weights.copy(), -1
            for _ in range(how.epochs):
                for _ in range(how.steps):
                    on_rows.clipped_gradient(sampled([draws[run]], places, purpose, how)[0], how.clip)
                    make_noisy(gradients, [noises[run]], purpose, how)
                    optimiser.step(gradients.flat, 1 / how.batch)
                if on_check is not None and (hits := on_check.hits()) > record:
                    record = hits
                    best.overwrite(weights)
            return weights if on_check is None else best

        return one_by_one(network, parts, rows, check, teach, drawn=True)
    compiled.in_torch(compiled_mlp.why_torch(rows, check))
    weights, gradients = Weights(parts), Weights(parts)
    optimiser = Adam(weights.flat, how.learning_rate)
    best, record = weights.copy(), torch.full((len(seeds),), -1, device=weights.flat.device)
    target = one_hot(rows.labels, network).t()
    for _ in range(how.epochs):
        for _ in range(how.steps):
            index, real = _padded(sampled(draws, places, purpose, how), weights.flat.device)
            private_gradient(
                network, weights, gather(rows.inputs, index), target[index].transpose(1, 2), real, how.clip, gradients
            )
            make_noisy(gradients, noises, purpose, how)
            optimiser.step(gradients.flat.div_(how.batch))
        if check is not None:
            hits = hit_count(network, weights, check)
            best.take(weights, hits > record)
            record = torch.maximum(record, hits)
    return weights if check is None else best


def sampled(
    draws: Sequence[np.random.Generator], places: NDArray[np.int32], purpose: str, how: Private
) -> list[NDArray[np.int32]]:
    """The row numbers of the next batch of each run. places: (population,) the row of each node, or -1 if it has none."""
    drawn = [_fixed(draw, places, how.batch) if how.fixed else heads(draw, how.rate, places) for draw in draws]
    if witness.WITNESS.get() is not None:
        joined = np.zeros((len(drawn), places.max() + 1), dtype=bool)
        for own, rows in zip(joined, drawn, strict=True):
            own[rows] = True
        witness.sampled(purpose, joined)
        return [own.nonzero()[0].astype(np.int32) for own in joined]  # the witness may have replaced the sample
    return drawn


def _fixed(draw: np.random.Generator, places: NDArray[np.int32], batch: int) -> NDArray[np.int32]:
    """The rows with the `batch` lowest random numbers, or all rows if there are no more than `batch`."""
    there = places >= 0
    coins = draw.random(places.size)[there]
    return places[there] if coins.size <= batch else places[there][coins <= np.partition(coins, batch - 1)[batch - 1]]


def make_noisy(gradients: Weights, noises: Sequence[np.random.Generator], purpose: str, how: Private) -> None:
    """Adds the noise of one step, if sigma is not 0, and reports the sums before and after the noise to the witness."""
    if not how.sigma:
        return
    summed = [a for layer in gradients.trained for a in layer]
    witness.clean(purpose, *summed)
    add_noise(gradients, noises, how.sigma * how.clip)
    witness.released(purpose, *summed, scale=how.sigma * how.clip)


def private_gradient(
    network: Network, weights: Weights, inputs: Sequence[Any], target: Tensor, real: Tensor, clip: float, into: Weights
) -> None:
    """Writes into `into`, for each run, the sum over its batch of the per-node gradients of the cross-entropy, each scaled to
    norm `clip` at most.

    inputs: (runs, units, batch) each. target: (runs, classes, batch) one-hot. real: (runs, batch), 0 for the padding of a batch.
    The norm of a node's gradient follows from the inputs of the layers and the gradients of their outputs (Goodfellow 2015).
    Scaling the gradients of the outputs scales the node's gradient, so one backward pass is enough.
    """
    logits, tape = network.forward(weights.numbers, inputs, training=True)
    mechanism = network.backward(weights.numbers, tape, torch.softmax(logits, 1).sub_(target), None)
    trained = [(i, *what) for i, what in zip(reversed(range(len(mechanism))), mechanism, strict=True) if weights.trained[i]]
    squares = cast("Tensor", sum(cast("Separable", layer).square_norms(dy, saved) for _, layer, dy, saved in trained))
    scale = (clip / (squares.sqrt() + 1e-6)).clamp_(max=1).mul_(real).unsqueeze(1)
    for i, layer, dy, saved in trained:
        cast("Separable", layer).gradient(dy * scale, saved, into.trained[i])


def add_noise(gradients: Weights, random: Sequence[np.random.Generator], std: float) -> None:
    """Adds Gaussian noise to every trained number. Each run draws its noise from its own generator."""
    size = gradients.flat.numel() // len(random)
    drawn = [torch.from_numpy(normal32(r, size)) for r in random]
    if len(drawn) == 1:  # with one run, the order of the numbers is the order of the draws
        gradients.flat.add_(drawn[0].to(gradients.flat.device), alpha=std)
        return
    noise, first = torch.stack(drawn).mul_(std).to(gradients.flat.device), 0
    for layer in gradients.trained:
        for a in layer:
            count = a[0].numel()
            a.add_(noise[:, first : first + count].view_as(a))
            first += count


def gather(inputs: Sequence[Any], index: Tensor) -> list[Any]:
    """The inputs of each run's own batch. index: (runs, batch) row numbers. Returns (runs, units, batch) or `Drawn` for each
    input.
    """
    wide = index.unsqueeze(1)
    return [x.gather(index) if isinstance(x, Shared) else x.gather(2, wide.expand(-1, x.shape[1], -1)) for x in inputs]


def _padded(drawn: list[NDArray[np.int32]], device: torch.device) -> tuple[Tensor, Tensor]:
    """The row numbers of each run, (runs, batch) int64, padded with 0; and a float32 mask of this shape, 0 for padding."""
    sizes = np.array([rows.size for rows in drawn])
    real = np.arange(max(1, sizes.max())) < sizes[:, None]
    index = np.zeros(real.shape, dtype=np.int64)
    index[real] = np.concatenate(drawn)
    return torch.from_numpy(index).to(device), torch.from_numpy(real.astype(np.float32)).to(device)
