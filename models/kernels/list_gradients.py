"""Clipped gradients of a two-layer perceptron, one run after the other. Each row averages the perceptron's logits over a short
list of nodes.

A list usually holds at most five nodes, so a row's activations stay in the nearest cache.
"""

import numpy as np
from numba import float32, int64, void
from numpy.typing import NDArray

from .arithmetic import power
from .compiler.compiled import compiled, helper

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LEAST = np.float32(1e-12)  # a gradient is divided by its norm or by this number, whichever is larger
PLANE, CUBE = float32[:, ::1], float32[:, :, ::1]


@helper
def dot(a: Floats, b: Floats) -> np.float32:
    """The sum of a[h] b[h]."""
    found = ZERO
    for h in range(a.size):
        found += a[h] * b[h]
    return found


@helper
def add_times(factor: np.float32, a: Floats, to: Floats) -> None:
    """to += factor a."""
    for h in range(to.size):
        to[h] += factor * a[h]


@helper
def softmax_slope(label: int, z: Floats) -> np.float32:
    """Turns the logits z into the gradient of the cross-entropy, in place. Returns the squared length of this gradient."""
    top, total, square = z.max(), ZERO, ZERO
    for c in range(z.size):
        z[c] = power(z[c] - top)
        total += z[c]
    for c in range(z.size):
        z[c] /= total
    z[label] -= ONE
    for c in range(z.size):
        square += z[c] * z[c]
    return square


@helper
def passed(weight: np.float32, before: Floats, kept: Floats, through: Floats, averaged: Floats) -> None:
    """For one listed node, writes into `through` the factors of ReLU and dropout times the node's weight, and adds through *
    before to `averaged`. kept: the factors of dropout, empty without dropout.
    """
    for h in range(before.size):
        through[h] = weight if before[h] > ZERO else ZERO
    for h in range(kept.size):
        through[h] *= kept[h]
    for h in range(before.size):
        averaged[h] += through[h] * before[h]


@compiled(void(float32, CUBE, CUBE, PLANE, PLANE, int64[:, :, ::1], int64[:, ::1], CUBE, float32[:, :, :, ::1], CUBE, CUBE, CUBE))
def clipped_rows(
    clip: np.float32,
    before: Floats,
    kept: Floats,
    alive: Floats,
    counted: Floats,
    index: Whole,
    labels: Whole,
    weights: Floats,
    gram: Floats,
    second: Floats,
    into: Floats,
    slope: Floats,
) -> None:
    """For each run, the sum of the gradients of single rows, each scaled to norm `clip` at most.

    before: (K, rows, hidden), the first layer's output for each node, before ReLU. kept: factors of dropout, the same shape, or
    (K, rows, 0). alive: (K, rows), 0 for an absent node. counted: (K, rows), 0 for a row outside the batch. index, weights: (K,
    rows, entries), the rows of the listed nodes, and their weights. labels: (K, rows). gram: (K, rows, entries, entries), inner
    products of the listed nodes' features. second: (K, hidden, classes), the weights of the second layer.
    The function writes into `into`, (K, rows, hidden), the gradient of `before`, and into `slope`, (K, hidden, classes), the
    gradient of `second`.
    """
    runs, rows, hidden = before.shape
    entries, classes = index.shape[2], second.shape[2]
    averaged, back = np.empty(hidden, np.float32), np.empty(hidden, np.float32)
    through, some, z = np.empty((entries, hidden), np.float32), np.empty(entries, np.int64), np.empty(classes, np.float32)
    turned, steep = np.empty((classes, hidden), np.float32), np.empty((classes, hidden), np.float32)
    into[:] = ZERO
    for run in range(runs):
        for c in range(classes):
            for h in range(hidden):
                turned[c, h] = second[run, h, c]
        steep[:] = ZERO
        for r in range(rows):
            here, count = alive[run, r] * counted[run, r], 0
            averaged[:] = ZERO
            back[:] = ZERO
            for e in range(entries if here != 0 else 0):
                at, weight = index[run, r, e], weights[run, r, e]
                if weight != 0 and alive[run, at] != 0:
                    passed(weight, before[run, at], kept[run, at], through[count], averaged)
                    some[count] = e
                    count += 1
            if not count:
                continue  # an empty list has no gradient
            for c in range(classes):
                z[c] = dot(averaged, turned[c])
            squares = softmax_slope(labels[run, r], z) * dot(averaged, averaged)
            for c in range(classes):
                add_times(z[c], turned[c], back)
            for a in range(count):
                for h in range(hidden):
                    through[a, h] *= back[h]
                for b in range(a + 1):
                    twice = ONE if a == b else TWO
                    squares += twice * gram[run, r, some[a], some[b]] * dot(through[a], through[b])
            norm = max(np.float32(np.sqrt(max(squares, ZERO))), LEAST)
            scale = min(clip / norm, ONE) * here
            for c in range(classes):
                add_times(scale * z[c], averaged, steep[c])
            for a in range(count):
                add_times(scale, through[a], into[run, index[run, r, some[a]]])
        for c in range(classes):
            for h in range(hidden):
                slope[run, h, c] = steep[c, h]
