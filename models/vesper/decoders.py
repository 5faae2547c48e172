"""Party B's networks, for K runs at once: CONCAT and GRU decoders over the rows of all layers, and a linear head.

Tensors are nodes last: rows (runs, slots, dim, nodes) in, logits (runs, classes, nodes) out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..random.streams import stream

if TYPE_CHECKING:
    from collections.abc import Sequence

DECODERS = ("concat", "gru")


def uniform(seeds: Sequence[int], shape: tuple[int, ...], fan_in: int, *path: int | str) -> Tensor:
    """Weights uniform in +-1/sqrt(fan_in), one stream a run. -> (runs, *shape) float32."""
    bound = 1 / math.sqrt(fan_in)
    draws = [torch.from_numpy(stream(s, *path).uniform(-bound, bound, shape)) for s in seeds]
    return torch.stack(draws).float()


def start(kind: str, seeds: Sequence[int], slots: int, dim: int, hidden: int, classes: int) -> list[Tensor]:
    """Parameters of a decoder at its start, run axis first. kind: "concat", "gru" or "linear"."""
    shapes = {
        "concat": [(hidden, slots * dim), (hidden, 1), (classes, hidden), (classes, 1)],
        "gru": [(3 * hidden, dim), (3 * hidden, hidden), (3 * hidden, 1), (hidden, 1), (classes, hidden), (classes, 1)],
        "linear": [(classes, slots * dim), (classes, 1)],
    }[kind]
    fans = {
        "concat": [slots * dim, slots * dim, hidden, hidden],
        "gru": [hidden] * 6,
        "linear": [slots * dim] * 2,
    }[kind]
    return [uniform(seeds, s, f, "weights", kind, i) for i, (s, f) in enumerate(zip(shapes, fans, strict=True))]


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
    """The layers as a sequence, first layer first; gates in the order reset, update, new, as torch.nn.GRU has them."""
    inner, recurrent, bias, new_bias, outer, outer_bias = weights
    runs, slots, _, nodes = rows.shape
    hidden = new_bias.shape[1]
    state = rows.new_zeros(runs, hidden, nodes)
    for slot in range(slots):
        seen = inner @ rows[:, slot] + bias
        kept = recurrent @ state
        reset, update = torch.sigmoid(seen[:, : 2 * hidden] + kept[:, : 2 * hidden]).split(hidden, 1)
        new = torch.tanh(seen[:, 2 * hidden :] + reset * (kept[:, 2 * hidden :] + new_bias))
        state = new + update * (state - new)
    return outer @ state + outer_bias


def loss(logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Sum over the runs of the weighted mean cross entropy, so that each run gets its own gradient.

    logits: (runs, classes, nodes). labels: (nodes,) int64. weight: (runs, nodes) float32, 0 for rows not trained on.
    """
    picked = torch.log_softmax(logits, 1).gather(1, labels.expand(logits.shape[0], 1, -1)).squeeze(1)
    return -(picked * weight).sum(1).div(weight.sum(1).clamp_min(1)).sum()
