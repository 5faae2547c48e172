"""Adam on one buffer, in place, as torch.optim computes it."""

import math

import numpy as np
import torch
from torch import Tensor

from ..kernels.compiler import compiled


class Adam:
    """torch.optim.Adam with its default betas and epsilon. This class replaces torch's own, because importing torch's class loads
    torch._dynamo, which takes a second.
    """

    def __init__(self, flat: Tensor, learning_rate: float) -> None:
        self.flat, self.learning_rate, self.steps = flat, learning_rate, 0
        self.mean, self.square = torch.zeros_like(flat), torch.zeros_like(flat)
        in_one_pass = flat.device.type == "cpu" and flat.is_contiguous() and compiled.used()
        self._arrays = [a.reshape(-1).numpy() for a in (flat, self.mean, self.square)] if in_one_pass else []  # the same memory

    def step(self, gradient: Tensor, share: float = 1.0) -> None:
        """One step with `share` times the gradient, which has the size of `flat`."""
        self.steps += 1
        rate, below = self.learning_rate / (1 - 0.9**self.steps), 1 / math.sqrt(1 - 0.999**self.steps)
        if self._arrays:
            from ..kernels.arithmetic import adam

            x, mean, square = self._arrays
            adam(x, gradient.reshape(-1).numpy(), mean, square, np.float32(rate), np.float32(below), np.float32(share))
            return
        gradient = gradient if share == 1 else gradient * share
        self.mean.lerp_(gradient, 1 - 0.9)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        self.flat.addcdiv_(self.mean, self.square.sqrt().mul_(below).add_(1e-8), value=-rate)
