"""Adam and plain gradient descent on one flat buffer, in place, as torch.optim computes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


class Adam:
    """torch.optim.Adam with its default betas and epsilon. Importing that one costs a second of torch._dynamo."""

    def __init__(self, flat: Tensor, learning_rate: float) -> None:
        self.flat, self.learning_rate, self.steps = flat, learning_rate, 0
        self.mean, self.square = torch.zeros_like(flat), torch.zeros_like(flat)

    def step(self, gradient: Tensor) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 1 - 0.9)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        below = self.square.sqrt().div_(math.sqrt(1 - 0.999**self.steps)).add_(1e-8)
        self.flat.addcdiv_(self.mean, below, value=-self.learning_rate / (1 - 0.9**self.steps))
