"""DP-SGD on short lists of nodes. Each list is one example, over whose nodes the outputs of a perceptron are averaged."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.adam import Adam
from ..engine.dropout import Dropout, draw
from ..engine.features import limited
from ..graph.graph import Graph
from ..kernels.compiler import compiled
from ..random import witness
from ..random.streams import normal32, stream
from ..sparse.block_diagonal import Operator, features, multiply
from .row_products import Lists, Products, dense_gram


@dataclass(frozen=True)
class How:
    """The hyper-parameters. noise_std: std of the noise on the sum of the gradients, each clipped to norm `clip`. expected: the
    public number by which the noisy sum is divided. hidden: the width of the hidden layer.

    dropout, input_dropout: the probabilities that a hidden unit and a feature are dropped. weight_decay: that of the first layer.
    """

    noise_std: float
    clip: float
    expected: float
    hidden: int
    dropout: float
    learning_rate: float
    input_dropout: float = 0.0
    weight_decay: float = 0.0


class Trainer:
    """Trains K runs with the same number of rows. `first`, (K, dim, hidden), and `second`, (K, hidden, classes), are the weights;
    there are no biases. Raises ValueError for a label that is no class of the graph.
    """

    def __init__(self, graph: Graph, lists: list[Lists], seeds: NDArray[np.uint64], how: How, device: str = "cpu") -> None:
        self.how, self.device, self.lists = how, device, lists
        self.x = features(limited(graph.x), [own.nodes for own in lists], device)
        self.alive = self._tensor(np.stack([own.alive for own in lists])[..., None])
        self.weights = self._tensor(np.stack([own.weights for own in lists]))
        runs, rows, entries = self.weights.shape
        places = np.stack([own.index + k * rows for k, own in enumerate(lists)])
        self.places = torch.from_numpy(places.reshape(runs * rows, entries)).to(device)
        self.index = torch.from_numpy(np.stack([own.index for own in lists])).to(device)
        if isinstance(self.x, Operator):
            self.products = Products.of(self.x, lists, device)
        self.gram = self._gram(self.x)
        y = np.stack([graph.y[own.nodes] for own in lists])
        if y.size and not 0 <= y.min() <= y.max() < graph.classes:  # the kernel would write beyond its memory
            raise ValueError(f"labels {y.min()} … {y.max()} of {graph.name}: must be in 0 … {graph.classes - 1}, its classes.")
        self.y = torch.from_numpy(y).to(device)
        self.first, self.second = start(seeds, graph.dim, how.hidden, graph.classes, device)
        self.adams = [Adam(w, how.learning_rate) for w in (self.first, self.second)]
        self.drops = [stream(s, "dropout") for s in seeds]
        self.inputs = Dropout.of(how.input_dropout, seeds, [rows] * runs, "input dropout", device)

    @cached_property
    def average(self) -> Operator:
        """Computes, for every row of every run, the weighted mean over the row's list."""
        return Operator.of(sp.csr_array(sp.block_diag([_matrix(own) for own in self.lists], format="csr")), self.device)

    def step(self, batch: NDArray[np.bool_], noises: list[np.random.Generator]) -> Tensor:
        """Takes one step on the noisy sum of clipped gradients, and returns this sum: (K, parameters). batch: (K, rows) bool.
        noises: the generator of each run's noise.
        """
        witness.sampled("steps", batch)
        sums = self.gradient(self._tensor(batch), self._dropped(), self.inputs.features(self.x))
        witness.clean("steps", *sums)
        released = [_noisy(g, self.how.noise_std, noises) for g in sums]
        witness.released("steps", *released, scale=self.how.noise_std)
        for adam, gradient in zip(self.adams, released, strict=True):
            decay = self.how.weight_decay * self.first if adam.flat is self.first else 0.0
            adam.step(gradient / self.how.expected + decay)
        return torch.cat([g.flatten(1) for g in released], dim=1)

    def gradient(self, batch: Tensor, dropped: Tensor | None = None, x: Operator | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """For each run, the sum over its batch of the gradients of single rows, each scaled to norm `clip` at most: (K, dim,
        hidden) and (K, hidden, classes). batch: (K, rows) float32. dropped: the factors of dropout on the hidden layer. x: the
        features after dropout, or None.

        The gradient of a row with respect to the first layer is a sum of outer products x_j (m_j q)ᵀ over its entries j, where q
        is the gradient at the hidden layer and m_j the mask of ReLU and dropout, times the weight of the entry. The squared norm
        follows from the products x_j · x_l, so no row's gradient is built.
        """
        x = self.x if x is None else x
        gram = self.gram if x is self.x else self._gram(x)
        before = x @ self.first
        into, second = self._clipped(before, batch, dropped, gram)
        if isinstance(x, Operator):
            return multiply(x.transpose, into), second
        return x.transpose(1, 2) @ into, second

    def _clipped(self, before: Tensor, batch: Tensor, dropped: Tensor | None, gram: Tensor) -> tuple[Tensor, Tensor]:
        """The clipped gradients of the first layer's output `before`, (K, rows, hidden), and of the second layer's weights."""
        lists = (self.index, self.y, self.weights, gram, self.second)
        found = clipped_in_kernel(self.how.clip, before, dropped, self.alive[..., 0], batch, *lists)
        if found is not None:
            return found
        passes = (before > 0) * self.alive
        if dropped is not None:
            passes = passes * dropped
        averaged = self.average @ (before * passes)  # (K, rows, hidden)
        slope = torch.softmax(averaged @ self.second, dim=2)
        slope.scatter_add_(2, self.y[..., None], torch.full_like(slope[..., :1], -1.0))
        back = slope @ self.second.transpose(1, 2)
        runs, rows, hidden = back.shape
        through = passes.view(-1, hidden)[self.places].view(runs, rows, -1, hidden) * self.weights[..., None] * back[:, :, None]
        squares = (gram * (through @ through.transpose(2, 3))).sum(dim=(2, 3))
        squares += averaged.square().sum(2) * slope.square().sum(2)
        scale = (self.how.clip / squares.sqrt().clamp(min=1e-12)).clamp(max=1) * batch * self.alive[..., 0]
        second = averaged.transpose(1, 2) @ (slope * scale[..., None])
        return multiply(self.average.transpose, back * scale[..., None]) * passes, second

    def _gram(self, x: Operator | Tensor) -> Tensor:
        """(K, rows, entries, entries): the inner products of the features of all pairs of nodes in a row's list."""
        if isinstance(x, Tensor):
            return dense_gram(x, self.index)
        return self.products.gram(x.matrix.values())

    def _dropped(self) -> Tensor | None:
        """(K, rows, hidden) factors of dropout: 0, or 1 / (1 - share). None without dropout. Each run has its own stream."""
        share = self.how.dropout
        if not share:
            return None
        shape = (self.weights.shape[1], self.how.hidden)
        factors = [draw(rng, shape[0] * shape[1], share).reshape(shape) for rng in self.drops]
        return torch.from_numpy(np.stack(factors)).to(self.device)

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array.astype(np.float32)).to(self.device)


def clipped_in_kernel(clip: float, before: Tensor, kept: Tensor | None, *others: Tensor) -> tuple[Tensor, Tensor] | None:
    """For each run, the clipped gradient with respect to `before`, (K, rows, hidden), and with respect to the second layer's
    weights, (K, hidden, classes), both float32. None if the compiled kernel cannot be used.

    kept: the factors of dropout, or None without dropout. others: the arguments alive, counted, index, labels, weights, gram and
    second of `list_gradients.clipped_rows`, which gives their shapes. index and labels are int64, all others float32.
    """
    if before.device.type != "cpu" or not compiled.used():
        return None
    from ..kernels import list_gradients

    into, slope = torch.empty(before.shape), torch.empty(others[-1].shape)
    factors = before.new_empty((*before.shape[:2], 0)) if kept is None else kept
    list_gradients.clipped_rows(np.float32(clip), *(a.contiguous().numpy() for a in (before, factors, *others, into, slope)))
    return into, slope


def start(seeds: NDArray[np.uint64], dim: int, hidden: int, classes: int, device: str) -> tuple[Tensor, Tensor]:
    """Glorot-uniform weights of both layers, (K, dim, hidden) and (K, hidden, classes). Each run has its own streams."""

    def layer(name: str, inputs: int, outputs: int) -> Tensor:
        bound = (6 / (inputs + outputs)) ** 0.5
        each = [stream(s, "start", name).uniform(-bound, bound, (inputs, outputs)) for s in seeds]
        return torch.from_numpy(np.stack(each).astype(np.float32)).to(device)

    return layer("first", dim, hidden), layer("second", hidden, classes)


def _matrix(own: Lists) -> sp.csr_array:
    """(rows, rows): row i holds the weights of the list of row i."""
    rows, entries = own.index.shape
    starts = np.arange(0, rows * entries + 1, entries)
    index = own.index.flatten()  # a copy, because sum_duplicates sorts in place
    matrix = sp.csr_array((own.weights.astype(np.float32).ravel(), index, starts), shape=(rows, rows))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _noisy(sums: Tensor, std: float, random: list[np.random.Generator]) -> Tensor:
    if not std:
        return sums
    drawn = np.stack([normal32(rng, sums[0].numel()).reshape(sums.shape[1:]) for rng in random])
    return sums + std * torch.from_numpy(drawn).to(sums.device)
