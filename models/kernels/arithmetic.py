"""Functions that several kernels use: exp, and a step of Adam."""

import numpy as np
from numba import float32, void
from numpy.typing import NDArray

from .compiler.compiled import compiled, helper

ONE = np.float32(1)


@helper
def power(x: np.float32) -> np.float32:
    """exp(x) for a number x <= 0, to one unit in the last place (Cephes). Numbers below -87 count as -87."""
    x = max(x, np.float32(-87))
    whole = np.int32(x * np.float32(1.44269504) - np.float32(0.5))
    rest = x - np.float32(whole) * np.float32(0.693359375) + np.float32(whole) * np.float32(2.12194440e-4)
    p = rest * np.float32(1.9875691500e-4) + np.float32(1.3981999507e-3)
    p = p * rest + np.float32(8.3334519073e-3)
    p = p * rest + np.float32(4.1665795894e-2)
    p = p * rest + np.float32(1.6666665459e-1)
    p = p * rest + np.float32(5.0000001201e-1)
    return (p * rest * rest + rest + ONE) * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)


@helper
def adam_step(
    x: NDArray[np.float32],
    gradient: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    rate: np.float32,
    below: np.float32,
    share: np.float32,
) -> None:
    """A step of Adam with torch.optim's betas and epsilon, on `share` times the gradient.

    rate: learning rate / (1 - 0.9^steps). below: 1 / √(1 - 0.999^steps).
    """
    for i in range(x.size):
        g = gradient[i] * share
        mean[i] += np.float32(0.1) * (g - mean[i])
        square[i] = np.float32(0.999) * square[i] + np.float32(0.001) * g * g
        x[i] -= rate * mean[i] / (np.sqrt(square[i]) * below + np.float32(1e-8))


@compiled(void(*(float32[::1],) * 4, *(float32,) * 3))
def adam(
    x: NDArray[np.float32],
    gradient: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    rate: np.float32,
    below: np.float32,
    share: np.float32,
) -> None:
    """`adam_step` as a function that Python can call."""
    adam_step(x, gradient, mean, square, rate, below, share)
