"""VESPER's small networks, one run after the other: unit rows of an encoder, and a decoder's gradients.

No loop writes to an array that it reads, because the compiler would then generate no vector code.
"""

import numpy as np
from numba import float32, int64, void
from numpy.typing import NDArray

from .compiler.compiled import compiled, helper
from .layers import (
    BLOCK,
    ONE,
    ZERO,
    add_outer,
    add_product,
    add_squares,
    entropy_slope,
    fill,
    load_units,
    row,
    save_units,
    selu,
    selu_slope,
    total,
    unit_slope,
)

Floats = NDArray[np.float32]

PLANE, CUBE = float32[:, ::1], float32[:, :, ::1]


@helper
def to_unit(y: Floats, made: Floats, inverse: Floats, least: np.float32) -> None:
    """Divides each node's vector in y by its length, or by sqrt(least) if the length is smaller. Writes the result into `made`
    and the factors into `inverse`, (BLOCK,).
    """
    add_squares(y, inverse, ZERO)
    for n in range(BLOCK):
        inverse[n] = ONE / np.sqrt(max(inverse[n], least))
    for u in range(y.size // BLOCK):
        own, to = row(y, u), row(made, u)
        for n in range(BLOCK):
            to[n] = own[n] * inverse[n]


@compiled(void(CUBE, CUBE, float32))
def unit_selu(before: Floats, rows: Floats, least: np.float32) -> None:
    """rows = selu(before), with each node's vector divided by its length, or by sqrt(least) if the length is smaller.

    before, rows: (K, units, nodes).
    """
    size = before.shape[1] * BLOCK
    x, y, made = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
    inverse = np.empty(BLOCK, np.float32)
    for run in range(before.shape[0]):
        for first in range(0, before.shape[2], BLOCK):
            load_units(before[run], first, x)
            selu(x, y)
            to_unit(y, made, inverse, least)
            save_units(made, first, rows[run])


@compiled(void(CUBE, CUBE, CUBE, float32))
def unit_selu_slope(before: Floats, slope: Floats, to: Floats, least: np.float32) -> None:
    """The backward pass of `unit_selu`. slope: the gradient of its `rows`. Writes the gradient of `before` into `to`."""
    size = before.shape[1] * BLOCK
    x, y, made = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
    d, through = np.empty(size, np.float32), np.empty(size, np.float32)
    inverse, along = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for run in range(before.shape[0]):
        for first in range(0, before.shape[2], BLOCK):
            load_units(before[run], first, x)
            selu(x, y)
            to_unit(y, made, inverse, least)
            load_units(slope[run], first, d)
            unit_slope(made, inverse, d, through, along)
            selu_slope(y, through, d)
            save_units(d, first, to[run])


@compiled(void(CUBE, int64[::1], PLANE, *(PLANE,) * 4, *(PLANE,) * 4, CUBE))
def decoder_slope(
    rows: Floats,
    labels: NDArray[np.int64],
    share: Floats,
    inner: Floats,
    inner_bias: Floats,
    outer: Floats,
    outer_bias: Floats,
    inner_slope: Floats,
    inner_bias_slope: Floats,
    outer_slope: Floats,
    outer_bias_slope: Floats,
    back: Floats,
) -> None:
    """The gradients of each run's cross-entropy, for the logits outer relu(inner rows + inner_bias) + outer_bias.

    rows: (K, units, nodes). labels: (nodes,). share: (K, nodes), the weight of each node's loss. inner, outer: (K, outputs *
    inputs); their biases: (K, outputs). A linear decoder has inner arrays of shape (K, 0), and `outer` reads the rows.
    The function writes the gradients of the parameters into the four slopes. It writes the gradient of the rows into back, (K,
    units, nodes), unless back has the shape (K, 0, nodes).
    """
    runs, units, nodes = rows.shape
    hidden, classes = inner_bias.shape[1], outer_bias.shape[1]
    wide = hidden if hidden else units
    x, dx = np.empty(units * BLOCK, np.float32), np.empty(units * BLOCK, np.float32)
    middle, slope = np.empty(hidden * BLOCK, np.float32), np.empty(hidden * BLOCK, np.float32)
    logits, d = np.empty(classes * BLOCK, np.float32), np.empty(classes * BLOCK, np.float32)
    spare = np.empty(2 * BLOCK, np.float32)
    for to in (inner_slope, inner_bias_slope, outer_slope, outer_bias_slope):
        to[:] = ZERO
    for run in range(runs):
        for first in range(0, nodes, BLOCK):
            here = min(BLOCK, nodes - first)
            load_units(rows[run], first, x)
            if hidden:
                fill(inner_bias[run], middle)
                add_product(inner[run], units, 1, x, middle)
                for i in range(middle.size):
                    middle[i] = max(middle[i], ZERO)
            read = middle if hidden else x
            fill(outer_bias[run], logits)
            add_product(outer[run], wide, 1, read, logits)
            entropy_slope(logits, labels[first : first + here], ONE, d, spare)
            for c in range(classes):
                own = row(d, c)
                for n in range(here):
                    own[n] *= share[run, first + n]
                outer_bias_slope[run, c] += total(own)
            add_outer(d, read, outer_slope[run])
            if hidden:
                slope[:] = ZERO
                add_product(outer[run], 1, wide, d, slope)
                for i in range(slope.size):
                    slope[i] = slope[i] if middle[i] > ZERO else ZERO
                for h in range(hidden):
                    inner_bias_slope[run, h] += total(row(slope, h))
                add_outer(slope, x, inner_slope[run])
            if back.shape[1]:
                dx[:] = ZERO
                if hidden:
                    add_product(inner[run], 1, units, slope, dx)
                else:
                    add_product(outer[run], 1, units, d, dx)
                save_units(dx, first, back[run])
