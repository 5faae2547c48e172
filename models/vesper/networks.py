"""The networks of both parties, for K runs at once: party A's encoder, which reads no edges, and party B's decoders.

Tensors have the nodes last: a decoder takes rows (runs, slots, dim, nodes), with one slot for each layer, and returns logits
(runs, classes, nodes).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.features import Shared
from ..graph.graph import Features
from ..kernels.compiler import compiled
from ..random.streams import stream
from .aggregators import TINY, normalise
from .learner import Learner, Pull, pull_through

DECODERS = ("concat", "gru")
COMPILED = ("linear", "concat")


def uniform(seeds: Sequence[int], shape: tuple[int, ...], fan_in: int, *path: int | str) -> Tensor:
    """Weights drawn uniformly from ±1/√fan_in, with one stream for each run: (runs, *shape) float32."""
    bound = 1 / math.sqrt(fan_in)
    draws = [torch.from_numpy(stream(s, *path).uniform(-bound, bound, shape)) for s in seeds]
    return torch.stack(draws).float()


def start(kind: str, seeds: Sequence[int], slots: int, dim: int, hidden: int, classes: int) -> list[Tensor]:
    """The initial parameters of a decoder, run axis first. kind: "concat", "gru" or "linear"."""
    wide, gates = slots * dim, 3 * hidden
    made = {  # the shape of each parameter, and its fan-in
        "concat": [((hidden, wide), wide), ((hidden, 1), wide), ((classes, hidden), hidden), ((classes, 1), hidden)],
        "gru": [(s, hidden) for s in ((gates, dim), (gates, hidden), (gates, 1), (hidden, 1), (classes, hidden), (classes, 1))],
        "linear": [((classes, wide), wide), ((classes, 1), wide)],
    }[kind]
    return [uniform(seeds, shape, fan, "weights", kind, i) for i, (shape, fan) in enumerate(made)]


def decode(kind: str, weights: list[Tensor], rows: Tensor) -> Tensor:
    """(runs, slots, dim, nodes) -> (runs, classes, nodes) logits."""
    return {"concat": _concat, "gru": _gru, "linear": _linear}[kind](weights, rows)


def _linear(weights: list[Tensor], rows: Tensor) -> Tensor:
    weight, bias = weights
    return weight @ rows.flatten(1, 2) + bias


def _concat(weights: list[Tensor], rows: Tensor) -> Tensor:
    inner, inner_bias, outer, outer_bias = weights
    return outer @ torch.relu(inner @ rows.flatten(1, 2) + inner_bias) + outer_bias


def _gru(weights: list[Tensor], rows: Tensor) -> Tensor:
    """A GRU over the layers, first layer first. The gates are in the order of torch.nn.GRU: reset, update, new."""
    inner, recurrent, bias, new_bias, outer, outer_bias = weights
    runs, slots, _, nodes = rows.shape
    hidden = new_bias.shape[1]
    state = rows.new_zeros(runs, hidden, nodes)
    for slot in range(slots):
        gates = inner @ rows[:, slot] + bias
        kept = recurrent @ state
        reset, update = torch.sigmoid(gates[:, : 2 * hidden] + kept[:, : 2 * hidden]).split(hidden, 1)
        new = torch.tanh(gates[:, 2 * hidden :] + reset * (kept[:, 2 * hidden :] + new_bias))
        state = new + update * (state - new)
    return outer @ state + outer_bias


def loss(logits: Tensor, labels: Tensor, share: Tensor) -> Tensor:
    """The sum over runs of the cross-entropy, weighted by `share`. No parameter belongs to two runs, so the gradient of the sum
    is the gradient of every run.

    logits: (runs, classes, nodes). labels: (nodes,) int64. share: (runs, nodes) float32, 0 for a row on which a run does not
    train.
    """
    picked = torch.log_softmax(logits, 1).gather(1, labels.expand(logits.shape[0], 1, -1)).squeeze(1)
    return -(picked * share).sum()


def step(kind: str, network: Learner, rows: Tensor, labels: Tensor, share: Tensor, back: bool) -> Tensor | None:
    """One optimiser step of a decoder. Returns the gradient of the loss with respect to the rows if `back`, else None."""
    if kind in COMPILED and rows.device.type == "cpu" and compiled.used():
        return _compiled_step(network, rows, labels, share, back)
    compiled.in_torch("decoder: on an accelerator" if kind in COMPILED else f"decoder {kind}: no compiled loop has it")
    received, weights = rows.requires_grad_(back), network.weights
    value = loss(decode(kind, weights, received), labels, share)
    grads = torch.autograd.grad(value, [*weights, received] if back else weights)
    network.step(grads[: len(weights)])
    return grads[-1] if back else None


def _compiled_step(network: Learner, rows: Tensor, labels: Tensor, share: Tensor, back: bool) -> Tensor | None:
    """`step` for the decoders "linear" and "concat" in the compiled kernel. Raises ValueError for a label that is no class of the
    decoder.
    """
    from ..kernels import decoders

    classes, known = network.weights[-1].shape[1], labels.numpy()
    strange = known[(known < 0) | (known >= classes)]
    if strange.size:  # the kernel would write beyond its memory
        raise ValueError(f"label {strange[0]}: must be in 0 … {classes - 1}, the classes of the decoder.")
    flat = rows.flatten(1, 2)
    none = [np.empty((len(rows), 0), np.float32)] * (4 - len(network.weights))
    to = torch.empty(len(rows), flat.shape[1] if back else 0, flat.shape[2])
    numbers, slopes = network.matrices
    inner, inner_bias, outer, outer_bias = none + numbers
    into, into_bias, out_of, out_of_bias = none + slopes
    weights = (inner, inner_bias, outer, outer_bias, into, into_bias, out_of, out_of_bias)
    decoders.decoder_slope(flat.numpy(), known, share.numpy(), *weights, to.numpy())
    network.adam.step(network.gradient)
    return to.view(rows.shape) if back else None


class _Product(torch.autograd.Function):
    """W X^T + b, for shared features X. Gradients reach W and b."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, shared: Shared) -> Tensor:
        ctx.shared, ctx.shape = shared, weight.shape
        return shared.product(weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        out = grads[0].new_empty(ctx.shape)
        ctx.shared.gradient(grads[0].contiguous(), out)
        return out, grads[0].sum(2, keepdim=True), None


@dataclass(eq=False)
class Encoder:
    """The part of party A's network that reads no edges: a linear map of the features, SELU, and scaling of rows to length 1.

    x: (nodes, dim), dense or csr_array. The features of the last requested nodes are cached, because training requests the same
    nodes again.
    """

    x: Features
    device: str = "cpu"
    _nodes: NDArray[np.int64] | None = None
    _kept: Shared | None = None

    def start(self, seeds: Sequence[int], width: int) -> list[Tensor]:
        """The initial weight (K, width, dim) and bias (K, width, 1)."""
        dim = self.x.shape[1]
        return [uniform(seeds, (width, dim), dim, "encoder", 0), uniform(seeds, (width, 1), dim, "encoder", 1)]

    def __call__(self, weights: list[Tensor], nodes: NDArray[np.int64] | None) -> Tensor:
        """(K, width, rows): the encoded features of these nodes, or of all nodes for None."""
        weight, bias = weights
        product: Tensor = _Product.apply(weight, bias, self._rows(nodes))
        return normalise(torch.selu(product))

    def sent(self, weights: list[Tensor], nodes: NDArray[np.int64]) -> tuple[Tensor, Pull]:
        """The encoded features (K, 1, width, rows) of these nodes, and a Pull for all `weights`, of which the encoder uses only
        the first two.
        """
        if self.device != "cpu" or not compiled.used():
            with torch.enable_grad():
                made = self(weights[:2], nodes)[:, None]
            return made.detach(), pull_through(made, weights)
        from ..kernels import decoders

        weight, bias = (w.detach() for w in weights[:2])
        shared, least = self._rows(nodes), np.float32(TINY)
        before = shared.product(weight, bias)
        rows = torch.empty_like(before)
        decoders.unit_selu(before.numpy(), rows.numpy(), least)

        def pull(slope: Tensor) -> list[Tensor | None]:
            through, to = torch.empty_like(before), torch.empty_like(weight)
            decoders.unit_selu_slope(before.numpy(), slope[:, 0].contiguous().numpy(), through.numpy(), least)
            shared.gradient(through, to)
            return [to, through.sum(2, keepdim=True), *[None] * (len(weights) - 2)]

        return rows[:, None], pull

    def _rows(self, nodes: NDArray[np.int64] | None) -> Shared:
        if nodes is None:
            nodes = np.arange(self.x.shape[0])
        if self._kept is None or not np.array_equal(nodes, self._nodes if self._nodes is not None else ()):
            self._kept, self._nodes = Shared(self.x, nodes, self.device), nodes.copy()
        return self._kept


@dataclass(eq=False)
class Sender:
    """Party A's network. It computes rows from the graph, and learns from B's gradients.

    encode: (weight and bias, node ids or None for all) -> (runs, width, rows). learner: the encoder's weight and bias, then the
    weights of a subclass.
    """

    encode: Encoder
    learner: Learner
    _pull: Pull | None = field(default=None, init=False)

    def layer0(self, nodes: NDArray[np.int64]) -> NDArray[np.float32]:
        """(runs, 1, width, rows) float32: the encoded features of these nodes, rows of length 1."""
        rows, self._pull = self.encode.sent(self.learner.weights, nodes)
        return rows.cpu().numpy()

    def refresh(self) -> None:
        """Makes a new noisy pass over the whole graph, and keeps the result for later requests."""
        raise NotImplementedError

    def rows(self, nodes: NDArray[np.int64], learn: bool) -> NDArray[np.float32]:
        """(runs, layers, width, rows) float32: the rows of these nodes in all layers. learn: whether a gradient for them will
        follow.
        """
        raise NotImplementedError

    def learn(self, gradient: NDArray[np.float32]) -> None:
        """Takes one step from the gradient with respect to the rows that were sent last. Raises ValueError if B did not ask to
        learn from them.
        """
        if self._pull is None:
            raise ValueError("party B sent a gradient for rows that it did not ask to learn from.")
        pull, self._pull = self._pull, None
        self.learner.follow(gradient, pull)
