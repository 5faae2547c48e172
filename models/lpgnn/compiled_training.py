"""Trains one GraphSAGE on randomised labels. The compiled kernel computes everything but sums over arcs and wide first layers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.adam import Adam
from ..engine.compiled_mlp import blocked
from ..engine.dropout import Dropout
from ..engine.gnn_layers import Values, WithMean, sage
from ..kernels.compiler import compiled
from ..sparse.normalised_sums import Whole
from . import drop
from .training import Task

Floats = NDArray[np.float32]
Learn = Callable[[Floats], object]  # writes a gradient


def expressible(backbone: str, device: str) -> bool:
    """Whether the compiled kernel can be used, for this backbone and device."""
    return backbone == "sage" and device == "cpu" and compiled.used()


def train(task: Task, x: Any, first: Values, second: Values, dropout: Dropout, choice: drop.Choice) -> None:
    """`training.train` for a task of one run, with the same random draws. x: the input of `sage`. Raises ValueError for a label
    that is no class of the network.
    """
    from ..kernels import sage_head
    from ..kernels.lanes import WIDTH

    values = [*first.values(), *second.values()]
    flat, sizes = torch.cat([value.detach().reshape(-1) for value in values]), [value.numel() for value in values]
    adam, gradient, at = Adam(flat, task.learning_rate), torch.empty_like(flat), sum(sizes[: len(first)])
    neighbours, own, bias = (part.numpy() for part in flat[at:].split(sizes[len(first) :]))
    neighbours_slope, own_slope, bias_slope = (part.numpy() for part in gradient[at:].split(sizes[len(first) :]))
    leaves = [part.view(v.shape) for part, v in zip(flat[:at].split(sizes[: len(first)]), first.values(), strict=True)]
    ahead = (narrow if isinstance(x, WithMean) else wide)(x, dict(zip(first, leaves, strict=True)), gradient[:at], task.blocks)

    nodes, hidden, classes = task.blocks.size, first["bias"].shape[2], bias.size
    blocks, columns = -(-nodes // sage_head.BLOCK), [-(-number // WIDTH) * WIDTH for number in (2 * classes, classes)]
    plain, dropped, before_slope = (np.empty((blocks, hidden * sage_head.BLOCK), np.float32) for _ in range(3))
    sent, returned = (np.zeros((nodes, number), np.float32) for number in columns)
    slope, mask = np.empty((blocks, classes * sage_head.BLOCK), np.float32), np.ones((hidden, nodes), np.uint8)
    factor, scores = np.float32(1 / (1 - dropout.share)), torch.zeros(2, classes, nodes)

    mean = task.blocks.mean
    there, back, scale = mean.bags[0].lists, mean.back[0].lists, mean.left[0].numpy()
    y, trained, val = (a[0].numpy() for a in (task.y, task.trained, task.val))
    strange = y[(y < 0) | (y >= classes)]
    if strange.size:  # the kernel would write beyond its memory
        raise ValueError(f"label {strange[0]}: must be in 0 … {classes - 1}, the classes of the network.")
    learned, known = max(1, int(trained.sum())), max(1, int(val.sum()))
    keep, other = np.float32(task.keep), np.float32((1 - task.keep) / max(classes - 1, 1))

    def judged(asked: NDArray[np.bool_]) -> tuple[float, float, float]:
        """The results of `sage_head.judge`, which also writes the logits of these nodes into `scores`."""
        rows, weights = (plain, dropped, sent, there.starts, there.senders, asked), (scale, own, bias, y, trained, val)
        found: tuple[float, float, float] = sage_head.judge(*rows, *weights, keep, other, scores.view(-1, nodes).numpy(), slope)
        return found

    def answers() -> Tensor:
        judged(every)
        return drop.watched(scores[:1], task.watch)

    every = np.ones(nodes, dtype=bool)
    needed = trained | val if not task.label_steps else every
    train_accuracy, least = 0.0, math.inf
    for epoch in range(task.epochs + 1):
        before, learn = ahead()
        if dropout.share and epoch < task.epochs:
            mask = dropout.kept((hidden, nodes))  # independent coins, in whatever order
        sage_head.spread(before, mask, factor, neighbours, plain, dropped, sent)
        loss, right, hits = judged(needed)
        if epoch and loss <= least:  # validates the weights after the previous step; an epoch with a higher loss is never kept
            one, rate, other_rate = (torch.tensor([value]) for value in (loss / known, 100 * right / known, train_accuracy))
            choice.offer(one, rate, other_rate, answers)
            least = known * float(choice.loss[0]) * (1 + 1e-6)
        if epoch == task.epochs:
            return
        train_accuracy = 100 * hits / learned
        if task.label_steps:
            slope = blocked(propagated_slope(task, scores[1:]), sage_head.BLOCK).reshape(blocks, -1)
        else:
            slope /= learned
        slopes = (neighbours_slope, own_slope, bias_slope, before_slope)
        sage_head.pull(
            *(slope, returned, scale, back.starts, back.senders, mask, factor, neighbours, own, plain, dropped), *slopes
        )
        learn(before_slope)
        adam.step(gradient.add(flat, alpha=task.weight_decay))


def narrow(x: WithMean, values: Values, gradient: Tensor, blocks: Whole) -> Callable[[], tuple[Floats, Learn]]:
    """The first layer, for inputs that training does not change. Returns a function `ahead`, which returns the layer's output,
    (blocks, hidden * BLOCK), and a function that writes the gradient of the parameters, given that of the output.

    values: the layer's parameters, (1, …) each, adjacent in memory and in the order of `gradient`.
    """
    from ..kernels import sage_head

    rows, bias = x.rows[0], values["bias"].view(-1).numpy()
    inputs = blocked(rows.t(), sage_head.BLOCK)
    inputs = inputs.reshape(len(inputs), -1)
    size, before = rows.shape[1] * bias.size, np.empty((len(inputs), bias.size * sage_head.BLOCK), np.float32)
    weight = values["neighbours"].as_strided((size,), (1,)).numpy()
    to, bias_to = gradient[:size].numpy(), gradient[size:].numpy()

    def ahead() -> tuple[Floats, Learn]:
        sage_head.ahead(inputs, weight, bias, before)
        return before, learn

    def learn(slope: Floats) -> None:
        sage_head.ahead_slope(inputs, slope, to, bias_to)

    return ahead


def wide(x: Any, values: Values, gradient: Tensor, blocks: Whole) -> Callable[[], tuple[Floats, Learn]]:
    """The same as `narrow`, for features that are summed over neighbours in every pass."""
    from ..kernels import sage_head

    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}

    def ahead() -> tuple[Floats, Learn]:
        rows = sage(leaves, x, blocks)[0]

        def learn(slope: Floats) -> None:
            of_rows = torch.from_numpy(slope).view(len(slope), -1, sage_head.BLOCK).transpose(1, 2).reshape(-1, rows.shape[1])
            slopes = torch.autograd.grad(rows, list(leaves.values()), of_rows[: len(rows)])
            torch.cat([part.reshape(-1) for part in slopes], out=gradient)

        before = blocked(rows.detach().t(), sage_head.BLOCK)
        return before.reshape(len(before), -1), learn

    return ahead


def propagated_slope(task: Task, scores: Tensor) -> Tensor:
    """(classes, nodes): the gradient of the training loss with respect to the logits `scores`, (1, classes, nodes), if labels are
    propagated.
    """
    scores = scores.clone().requires_grad_()
    (found,) = torch.autograd.grad(task.training_loss(scores).sum(), scores)
    return found[0]
