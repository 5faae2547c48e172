"""Runs a compiled loop on a few numbers, in a child process, because faulty machine code may crash it."""

import numpy as np

from .arithmetic import adam


def run() -> None:
    """Raises ArithmeticError unless the first step of Adam changes every number by the learning rate."""
    x, gradient, mean, square = (np.full(5, value, dtype=np.float32) for value in (1, 1, 0, 0))
    adam(x, gradient, mean, square, np.float32(0.1 / 0.1), np.float32(1 / np.sqrt(0.001)), np.float32(1))
    if not np.allclose(x, 0.9, atol=1e-4):
        raise ArithmeticError(f"a step of Adam gave {x}")
