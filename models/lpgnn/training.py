"""Trains K graph networks on randomised labels at the same time."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..engine.adam import Adam
from ..engine.dropout import Dropout
from ..engine.gnn_layers import KINDS, Values
from ..sparse.normalised_sums import Weighted, Whole
from . import drop


@dataclass(frozen=True, eq=False)
class Task:
    """The labels, nodes and loss of K runs.

    y, target: (K, nodes) int64, the labels that users sent, and the labels to learn. They differ if `hop` propagates the labels
    `label_steps` times. trained, val: (K, nodes) bool. keep: the probability that a label is sent unchanged, for which the loss
    is corrected; 1 means no correction. watch: (w,) node ids.
    """

    backbone: str
    blocks: Whole
    hop: Weighted
    y: Tensor
    target: Tensor
    trained: Tensor
    val: Tensor
    keep: float
    label_steps: int
    watch: Tensor
    epochs: int
    learning_rate: float
    weight_decay: float

    def training_loss(self, scores: Tensor) -> Tensor:
        """(K,): the loss of each run. scores: (K, classes, nodes) logits."""
        posterior = drop.propagated(drop.corrected(scores.softmax(1), self.keep), self.hop, self.label_steps)
        return drop.cross_entropy(posterior, self.target, self.trained)


def train(task: Task, x: Any, first: Values, second: Values, dropout: Dropout, choice: drop.Choice) -> None:
    """Trains the networks, and offers every epoch to `choice`. x: the input of the first layer. first, second: the parameters of
    the layers, which are changed in place.
    """
    layer, blocks, values = KINDS[task.backbone].forward, task.blocks, [*first.values(), *second.values()]
    adams = [Adam(value.detach(), task.learning_rate) for value in values]
    train_accuracy = torch.zeros(len(task.y), device=task.y.device)
    for epoch in range(task.epochs + 1):
        hidden = torch.selu(layer(first, x, blocks))
        if epoch:  # validates the weights after the previous step; the next step uses the same first layer
            with torch.no_grad():
                scores = drop.nodes_last(layer(second, hidden.detach(), blocks))
                loss = drop.cross_entropy(drop.corrected(scores.softmax(1), task.keep), task.y, task.val)
                accuracy = drop.accuracy(scores, task.y, task.val)
                choice.offer(loss, accuracy, train_accuracy, partial(drop.watched, scores, task.watch))
        if epoch == task.epochs:
            return
        if dropout.share:  # `compiled_training` reads the masks unit by unit
            mask = dropout.mask(hidden.shape)
            dropped = hidden * mask.view(len(mask), mask.shape[2], mask.shape[1]).transpose(1, 2)
        else:
            dropped = hidden
        scores = drop.nodes_last(layer(second, dropped, blocks))
        train_accuracy = drop.accuracy(scores.detach(), task.y, task.trained)
        loss = task.training_loss(scores)
        for adam, value, grad in zip(adams, values, torch.autograd.grad(loss.sum(), values), strict=True):
            adam.step(grad.add(value.detach(), alpha=task.weight_decay))
