"""Runs a compiled loop on a few numbers, in a process that it may crash."""

from __future__ import annotations

import numpy as np

from .arithmetic import adam


def run() -> None:
    """One step of Adam from zero moves every number by the learning rate. Raises ArithmeticError otherwise."""
    x, gradient, mean, square = (np.full(5, value, dtype=np.float32) for value in (1, 1, 0, 0))
    adam(x, gradient, mean, square, np.float32(0.1 / 0.1), np.float32(1 / np.sqrt(0.001)), np.float32(1))
    if not np.allclose(x, 0.9, atol=1e-4):
        raise ArithmeticError(f"a step of Adam gave {x}")
