"""Trains one GraphSAGE on randomised labels. The compiled kernel computes everything but sums over arcs and wide first layers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..engine.adam import Adam
from ..engine.compiled_mlp import blocked
from ..engine.dropout import Dropout
from ..engine.gnn_layers import Values, WithMean, sage
from ..kernels.compiler import compiled
from ..sparse.normalised_sums import Whole
from . import drop
from .training import Task

Learn = Callable[[Tensor], object]  # writes a gradient


def expressible(backbone: str, device: str) -> bool:
    """Whether the compiled kernel can be used, for this backbone and device."""
    return backbone == "sage" and device == "cpu" and compiled.used()


def train(task: Task, x: Any, first: Values, second: Values, dropout: Dropout, choice: drop.Choice) -> None:
    """`training.train` for a task of one run, with the same random draws. x: the input of `sage`. Raises ValueError for a label
    that is no class of the network.
    """
    from ..kernels import sage_head

    values = [*first.values(), *second.values()]
    flat, sizes = torch.cat([value.detach().reshape(-1) for value in values]), [value.numel() for value in values]
    adam, gradient, at = Adam(flat, task.learning_rate), torch.empty_like(flat), sum(sizes[: len(first)])
    neighbours, own, bias = (part.numpy() for part in flat[at:].split(sizes[len(first) :]))
    neighbours_slope, own_slope, bias_slope = (part.numpy() for part in gradient[at:].split(sizes[len(first) :]))
    leaves = [part.view(v.shape) for part, v in zip(flat[:at].split(sizes[: len(first)]), first.values(), strict=True)]
    ahead = (narrow if isinstance(x, WithMean) else wide)(x, dict(zip(first, leaves, strict=True)), gradient[:at], task.blocks)

    nodes, hidden, classes = task.blocks.size, first["bias"].shape[2], bias.size
    blocks = -(-nodes // sage_head.BLOCK)
    plain, dropped = (np.empty((blocks, hidden * sage_head.BLOCK), np.float32) for _ in range(2))
    sent, sums, kept = (np.empty(shape, np.float32) for shape in ((nodes, 2 * classes),) * 2 + ((2 * classes, nodes),))
    slope, back = (np.empty((nodes, classes), np.float32) for _ in range(2))
    before_slope, mask = np.empty((hidden, nodes), np.float32), np.ones((hidden, nodes), np.float32)
    scores = torch.empty(2, classes, nodes)

    mean = task.blocks.mean
    there, returned, scale = mean.bags[0], mean.back[0], mean.left[0]
    y, trained, val = (a[0].numpy() for a in (task.y, task.trained, task.val))
    strange = y[(y < 0) | (y >= classes)]
    if strange.size:  # the kernel would write beyond its memory
        raise ValueError(f"label {strange[0]}: must be in 0 … {classes - 1}, the classes of the network.")
    learned, known = max(1, int(trained.sum())), max(1, int(val.sum()))
    keep, other = np.float32(task.keep), np.float32((1 - task.keep) / max(classes - 1, 1))
    train_accuracy, least = 0.0, math.inf
    for epoch in range(task.epochs + 1):
        before, learn = ahead()
        if dropout.share and epoch < task.epochs:
            mask = dropout.mask((1, nodes, hidden))[0].view(hidden, nodes).numpy()  # independent factors, in whatever order
        sage_head.spread(before.numpy(), mask, neighbours, own, plain, dropped, sent, kept)
        there.add_up(torch.from_numpy(sent), torch.from_numpy(sums))
        weights = (y, trained, val, keep, other)
        loss, right, hits = sage_head.judge(sums, kept, scale.numpy(), bias, *weights, scores.view(-1, nodes).numpy(), slope)
        if epoch and loss <= least:  # validates the weights after the previous step; an epoch with a higher loss is never kept
            one, rate, other_rate = (torch.tensor([value]) for value in (loss / known, 100 * right / known, train_accuracy))
            choice.offer(one, rate, other_rate, lambda: drop.watched(scores[:1], task.watch))
            least = known * float(choice.loss[0]) * (1 + 1e-6)
        if epoch == task.epochs:
            return
        train_accuracy = 100 * hits / learned
        pulls = torch.from_numpy(slope).div_(learned) if not task.label_steps else propagated_slope(task, scores[1:])
        returned.add_up(pulls * scale[:, None], torch.from_numpy(back))
        slopes = (neighbours_slope, own_slope, bias_slope, before_slope)
        sage_head.pull(back, pulls.numpy(), mask, neighbours, own, plain, dropped, *slopes)
        learn(torch.from_numpy(before_slope))
        adam.step(gradient.add(flat, alpha=task.weight_decay))


def narrow(x: WithMean, values: Values, gradient: Tensor, blocks: Whole) -> Callable[[], tuple[Tensor, Learn]]:
    """The first layer, for inputs that training does not change. Returns a function `ahead`, which returns the layer's output,
    (hidden, nodes), and a function that writes the gradient of the parameters, given that of the output.

    values: the layer's parameters, (1, …) each, adjacent in memory and in the order of `gradient`.
    """
    from ..kernels import sage_head

    rows, bias = x.rows[0], values["bias"].view(-1)
    inputs = blocked(rows.t(), sage_head.BLOCK)
    inputs = inputs.reshape(len(inputs), -1)
    size, before = rows.shape[1] * bias.numel(), torch.empty(bias.numel(), len(rows))
    weight = values["neighbours"].as_strided((size,), (1,))
    to, bias_to = gradient[:size].numpy(), gradient[size:].numpy()

    def ahead() -> tuple[Tensor, Learn]:
        sage_head.ahead(inputs, weight.numpy(), bias.numpy(), before.numpy())
        return before, learn

    def learn(slope: Tensor) -> None:
        sage_head.ahead_slope(inputs, slope.numpy(), to, bias_to)

    return ahead


def wide(x: Any, values: Values, gradient: Tensor, blocks: Whole) -> Callable[[], tuple[Tensor, Learn]]:
    """The same as `narrow`, for features that are summed over neighbours in every pass."""
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}

    def ahead() -> tuple[Tensor, Learn]:
        rows = sage(leaves, x, blocks)[0]

        def learn(slope: Tensor) -> None:
            torch.cat([grad.reshape(-1) for grad in torch.autograd.grad(rows, list(leaves.values()), slope.t())], out=gradient)

        return rows.detach().t().contiguous(), learn

    return ahead


def propagated_slope(task: Task, scores: Tensor) -> Tensor:
    """(nodes, classes): the gradient of the training loss with respect to the logits `scores`, (1, classes, nodes), if labels are
    propagated.
    """
    scores = scores.clone().requires_grad_()
    (found,) = torch.autograd.grad(task.training_loss(scores).sum(), scores)
    return found[0].t().contiguous()
