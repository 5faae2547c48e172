"""K small perceptrons of one shape, trained together with the algorithm and constants of scikit-learn's MLPClassifier."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..models.random.streams import stream

Numbers = NDArray[np.float32]

DECAY, FIRST, SECOND, TINY = 1e-4, 0.9, 0.999, 1e-8  # scikit-learn's penalty and Adam's constants


@dataclass(frozen=True, eq=False)
class Perceptrons:
    """K perceptrons. centre, scale: (K, 1, dim), which standardise the rows. layers: (K, in, out) weights and (K, 1, out) biases,
    float32.
    """

    centre: Numbers
    scale: Numbers
    layers: tuple[tuple[Numbers, Numbers], ...]

    def decisions(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logits of class True, (K, c, dim) -> (K, c)."""
        return np.asarray(self._forward(self.scaled(rows))[-1][..., 0], dtype=np.float64)

    def scaled(self, rows: NDArray[np.float64]) -> Numbers:
        return np.asarray((rows - self.centre) / self.scale, dtype=np.float32)

    def _forward(self, rows: Numbers) -> list[Numbers]:
        """The input of each layer, and the output of the last one."""
        seen = [rows]
        for i, (weight, bias) in enumerate(self.layers):
            out = seen[-1] @ weight + bias
            seen.append(np.maximum(out, 0, out=out) if i + 1 < len(self.layers) else out)
        return seen

    def slopes(self, rows: Numbers, bits: NDArray[np.bool_]) -> Iterator[tuple[Numbers, Numbers]]:
        """The gradients of each perceptron's mean log-loss and penalty, for weights and biases, last layer first. rows: (K, b,
        dim). bits: (K, b).
        """
        seen = self._forward(rows)
        slope = (expit(seen[-1]) - bits[..., None]) / bits.shape[1]
        for (weight, _), entered in zip(reversed(self.layers), reversed(seen[:-1]), strict=True):
            yield entered.transpose(0, 2, 1) @ slope + DECAY / bits.shape[1] * weight, slope.sum(1, keepdims=True)
            slope = (slope @ weight.transpose(0, 2, 1)) * (entered > 0)


def perceptrons(
    rows: NDArray[np.float64], bits: NDArray[np.bool_], hidden: tuple[int, ...], rate: float, epochs: int, batch: int, seed: int
) -> Perceptrons:
    """K perceptrons with ReLU units, trained by Adam on shuffled batches. Each perceptron standardises its features by their mean
    and standard deviation over its own rows.

    rows: (K, n, dim). bits: (K, n). All perceptrons have the same initial weights and the same order of rows, so the result of
    one does not depend on the others.
    """
    random = stream(seed, "perceptrons")
    sizes = [rows.shape[2], *hidden, 1]
    shapes = [shape for size in itertools.pairwise(sizes) for shape in (size, (1, size[1]))]
    numbers, parts = views(len(rows), shapes)
    gradient, places = views(len(rows), shapes)
    for i, (into, out) in enumerate(itertools.pairwise(sizes)):
        for part in parts[2 * i : 2 * i + 2]:  # Glorot and Bengio 2010
            part[:] = random.uniform(-1, 1, size=part.shape[1:]) * np.sqrt(6 / (into + out))
    deviation = rows.std(1, keepdims=True)
    scale = np.where(deviation > 0, deviation, 1)
    centre = rows.mean(1, keepdims=True)
    net = Perceptrons(centre, scale, tuple(zip(parts[::2], parts[1::2], strict=True)))
    x, first, second, step = net.scaled(rows), np.zeros_like(numbers), np.zeros_like(numbers), 0
    for _ in range(epochs):
        order = random.permutation(bits.shape[1])
        for start in range(0, len(order), batch):
            chosen, step = order[start : start + batch], step + 1
            for i, pair in enumerate(net.slopes(x[:, chosen], bits[:, chosen])):
                for place, slope in zip(places[len(places) - 2 * i - 2 :], pair, strict=False):
                    place[:] = slope
            first += (1 - FIRST) * (gradient - first)
            second += (1 - SECOND) * (gradient * gradient - second)
            pace = rate * np.sqrt(1 - SECOND**step) / (1 - FIRST**step)
            numbers -= np.float32(pace) * first / (np.sqrt(second) + np.float32(TINY))
    return net


def views(runs: int, shapes: list[tuple[int, int]]) -> tuple[Numbers, list[Numbers]]:
    """A buffer (runs, numbers) of float32 zeros, and for each shape a view (runs, *shape) of its part of the buffer."""
    ends = np.cumsum([0, *(a * b for a, b in shapes)])
    flat = np.zeros((runs, ends[-1]), dtype=np.float32)
    return flat, [flat[:, a:b].reshape(runs, *shape) for (a, b), shape in zip(itertools.pairwise(ends), shapes, strict=True)]
