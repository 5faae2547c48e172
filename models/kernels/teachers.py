"""Trains one GraphSAGE network on a small graph for many epochs in one call, so that all data stays in the nearest caches.

Activations are (rows, units). The inputs of the first layer, sparse or dense, already contain the mean over the neighbours. Every
further layer reads a node's own row and, if the node has neighbours, the mean over their rows.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, int32, int64, types, void
from numpy.typing import NDArray

from .arithmetic import adam_step, power
from .compiler.compiled import compiled, helper
from .lanes import WIDTH
from .layers import add_product

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]

EPSILON, MOMENTUM = np.float32(1e-5), np.float32(0.1)  # constants of batch norm
ZERO, ONE = np.float32(0), np.float32(1)
INPUTS, OUTPUTS = 0, 1  # columns of `layers`: the numbers of units that a layer reads and writes
# columns of `layers`: where the parameters of a layer begin in `numbers`, and its running moments in `running`. OWN and
# NEIGHBOURS: weights of a node's own row and of the mean of its neighbours' rows; the first layer has no NEIGHBOURS. SCALE,
# SHIFT, RUNNING: batch norm; the last layer has no batch norm, and its SHIFT is a bias
NEIGHBOURS, OWN, SCALE, SHIFT, RUNNING = range(2, 7)
CHUNK = 64  # columns of the first layer that are updated at a time, so that their gradient stays in the nearest cache


class Sparse(NamedTuple):
    """One network's block of a larger sparse matrix, which holds the blocks of many networks and is stored by rows. starts,
    which, entries: the row starts, column numbers and entries of the larger matrix. rows, columns: where the block begins.
    """

    starts: NDArray[np.int32]
    which: NDArray[np.int32]
    entries: Floats
    rows: int
    columns: int


class Teacher(NamedTuple):
    """One network and its graph."""

    inputs: Sparse  # what the first layer reads, (rows, columns)
    back: Sparse  # the transpose of `inputs`
    arcs: Sparse  # the mean over the neighbours
    dense: Floats  # (rows, columns): the first layer reads it instead of `inputs`, unless it is (0, 0)
    receivers: NDArray[np.int64]  # rows that have neighbours
    wanted: Floats  # (rows, classes): each row's label distribution times its weight
    layers: NDArray[np.int64]  # (layers, 7), with the columns INPUTS to RUNNING
    numbers: Floats
    mean: Floats  # Adam's moments of the numbers
    square: Floats
    running: Floats


FLOATS, PLANE = float32[::1], float32[:, ::1]
SPARSE = types.NamedTuple((int32[::1], int32[::1], FLOATS, int64, int64), Sparse)
TEACHER = types.NamedTuple((SPARSE, SPARSE, SPARSE, PLANE, int64[::1], PLANE, int64[:, ::1], *(FLOATS,) * 4), Teacher)


@helper
def gather(m: Sparse, row: int, lines: Floats, to: Floats) -> None:
    """to = one row of the sparse matrix, times the dense matrix `lines`."""
    to[:] = ZERO
    for k in range(m.starts[m.rows + row], m.starts[m.rows + row + 1]):
        line, entry = lines[m.which[k] - m.columns], m.entries[k]
        for u in range(to.size):
            to[u] += entry * line[u]


@helper
def scatter(m: Sparse, row: int, line: Floats, to: Floats) -> None:
    """Adds to `to` the outer product of one row of the sparse matrix and the dense row `line`."""
    for k in range(m.starts[m.rows + row], m.starts[m.rows + row + 1]):
        other, entry = to[m.which[k] - m.columns], m.entries[k]
        for u in range(line.size):
            other[u] += entry * line[u]


@helper
def matrix(of: Floats, at: int, high: int, wide: int) -> Floats:
    """The numbers from `at` on as a matrix (high, wide)."""
    return of[at : at + high * wide].reshape(high, wide)


@helper
def step(t: Teacher, at: int, gradient: Floats, rate: np.float32, below: np.float32) -> None:
    """A step of Adam for the numbers from `at` on."""
    own = slice(at, at + gradient.size)
    adam_step(t.numbers[own], gradient, t.mean[own], t.square[own], rate, below, ONE)


@helper
def standardise(t: Teacher, layer: Whole, z: Floats, inverse: Floats) -> None:
    """Batch norm of z without scale and shift, in place. Updates the running moments, and writes one over the standard deviations
    into `inverse`, (units,).
    """
    rows, units = z.shape
    count = max(rows, 1)
    mean, variance = np.zeros(units, np.float32), np.zeros(units, np.float32)
    for r in range(rows):
        line = z[r]
        for u in range(units):
            mean[u] += line[u]
    for u in range(units):
        mean[u] /= np.float32(count)
    for r in range(rows):
        line = z[r]
        for u in range(units):
            line[u] -= mean[u]
            variance[u] += line[u] * line[u]
    running = t.running[layer[RUNNING] : layer[RUNNING] + 2 * units]
    for u in range(units):
        running[u] += MOMENTUM * (mean[u] - running[u])
        running[units + u] += MOMENTUM * (variance[u] / np.float32(max(count - 1, 1)) - running[units + u])
        inverse[u] = ONE / np.sqrt(variance[u] / np.float32(count) + EPSILON)
    for r in range(rows):
        line = z[r]
        for u in range(units):
            line[u] *= inverse[u]


@helper
def activate(scale: Floats, shift: Floats, z: Floats, kept: NDArray[np.uint8], factor: np.float32, y: Floats) -> None:
    """y = ReLU and dropout of scale z + shift. kept: (rows, units), 0 for a dropped unit, else 1. factor: of kept units."""
    for r in range(z.shape[0]):
        line, to, keeps = z[r], y[r], kept[r]
        for u in range(line.size):
            to[u] = max(shift[u] + line[u] * scale[u], ZERO) * factor * np.float32(keeps[u])


@helper
def activate_slope(
    t: Teacher,
    layer: Whole,
    z: Floats,
    inverse: Floats,
    y: Floats,
    factor: np.float32,
    d: Floats,
    rate: np.float32,
    below: np.float32,
) -> None:
    """Turns the gradient of y into that of the input of `standardise`, in place, and updates scale and shift."""
    rows, units = z.shape
    along, level = np.zeros(units, np.float32), np.zeros(units, np.float32)
    for r in range(rows):
        slope, out, line = d[r], y[r], z[r]
        for u in range(units):
            slope[u] = slope[u] * factor if out[u] > ZERO else ZERO
            level[u] += slope[u]
            along[u] += slope[u] * line[u]
    share = ONE / np.float32(max(rows, 1))
    scale = t.numbers[layer[SCALE] : layer[SCALE] + units]
    for r in range(rows):
        slope, line = d[r], z[r]
        for u in range(units):
            slope[u] = scale[u] * inverse[u] * (slope[u] - (level[u] + along[u] * line[u]) * share)
    step(t, layer[SHIFT], level, rate, below)
    step(t, layer[SCALE], along, rate, below)


@helper
def softmax_slope(logits: Floats, wanted: Floats, slope: Floats) -> None:
    """slope = the gradient of the cross-entropy with respect to the logits. wanted: as in `Teacher`."""
    for r in range(logits.shape[0]):
        z, label = slope[r], wanted[r]
        top, total, weight = logits[r].max(), ZERO, ZERO
        for c in range(z.size):
            z[c] = power(logits[r, c] - top)
            total += z[c]
            weight += label[c]
        for c in range(z.size):
            z[c] = z[c] * (weight / total) - label[c]


@helper
def product(w: Floats, down: int, right: int, x: Floats, y: Floats) -> None:
    """y = W x for matrices x and y, with W[o, i] = w[o * down + i * right]."""
    wide = y.shape[1]
    y[:] = ZERO
    add_product(w, down, right, x.reshape(-1), y.reshape(-1), wide)
    for o in range(y.shape[0]):
        for i in range(x.shape[0]):
            for u in range(wide - wide % WIDTH, wide):
                y[o, u] += w[o * down + i * right] * x[i, u]


@helper
def read_features(t: Teacher, weight: Floats, z: Floats) -> None:
    """z = the first layer's inputs times its weights."""
    if t.dense.shape[1]:
        product(t.dense.reshape(-1), t.dense.shape[1], 1, weight, z)
        return
    for r in range(z.shape[0]):
        gather(t.inputs, r, weight, z[r])


@helper
def learn_features(t: Teacher, layer: Whole, dz: Floats, rate: np.float32, below: np.float32) -> None:
    """Takes a step with the first layer's weights, for some columns at a time, so that their whole gradient is never stored."""
    columns, units = layer[INPUTS], layer[OUTPUTS]
    slope = np.empty((CHUNK, units), np.float32)
    for first in range(0, columns, CHUNK):
        some = slope[: min(CHUNK, columns - first)]
        if t.dense.shape[1]:
            product(t.dense.reshape(-1)[first:], 1, columns, dz, some)
        else:
            for c in range(some.shape[0]):
                gather(t.back, first + c, dz, some[c])
        step(t, layer[OWN] + first * units, some.reshape(-1), rate, below)


@helper
def read_rows(t: Teacher, layer: Whole, y: Floats, around: Floats, z: Floats) -> None:
    """z = the output of a layer after the first, before batch norm and bias. y: the rows that it reads. Writes the means over
    their neighbours into `around`.
    """
    inputs, units = layer[INPUTS], layer[OUTPUTS]
    np.dot(y, matrix(t.numbers, layer[OWN], inputs, units), z)
    for j in range(t.receivers.size):
        gather(t.arcs, t.receivers[j], y, around[j])
    far = np.dot(around, matrix(t.numbers, layer[NEIGHBOURS], inputs, units))
    for j in range(t.receivers.size):
        line, more = z[t.receivers[j]], far[j]
        for u in range(units):
            line[u] += more[u]


@helper
def learn_rows(
    t: Teacher, layer: Whole, y: Floats, around: Floats, dz: Floats, dy: Floats, rate: np.float32, below: np.float32
) -> None:
    """Writes the gradient of y into dy, and takes a step with the weights of a layer after the first."""
    inputs, units = layer[INPUTS], layer[OUTPUTS]
    received = np.empty((t.receivers.size, units), np.float32)
    for j in range(t.receivers.size):
        for u in range(units):
            received[j, u] = dz[t.receivers[j], u]
    np.dot(dz, matrix(t.numbers, layer[OWN], inputs, units).T, dy)
    far = np.dot(received, matrix(t.numbers, layer[NEIGHBOURS], inputs, units).T)
    for j in range(t.receivers.size):
        scatter(t.arcs, t.receivers[j], far[j], dy)
    step(t, layer[OWN], np.dot(y.T, dz).reshape(-1), rate, below)
    step(t, layer[NEIGHBOURS], np.dot(around.T, received).reshape(-1), rate, below)


@compiled(void(TEACHER, types.uint8[:, ::1], float32, float32, int64))
def teach(t: Teacher, kept: NDArray[np.uint8], factor: np.float32, learning_rate: np.float32, taken: int) -> None:
    """Trains for as many epochs as `kept` has rows, after `taken` steps.

    kept: (epochs, units of all hidden layers of all rows), 0 for dropped units, else 1. factor: the factor of kept units. taken:
    how many steps of Adam came before.
    """
    last, rows = t.layers.shape[0] - 1, t.wanted.shape[0]
    widest, sums = t.layers[:, OUTPUTS].max(), t.layers[:, OUTPUTS].sum()
    z_room, y_room = np.empty(rows * sums, np.float32), np.empty(rows * sums, np.float32)
    far_room, inverses = np.empty(t.receivers.size * sums, np.float32), np.empty(sums, np.float32)
    d_room, other_room = np.empty(rows * widest, np.float32), np.empty(rows * widest, np.float32)
    for epoch in range(kept.shape[0]):
        steps = taken + epoch + 1
        rate, below = np.float32(learning_rate / (1 - 0.9**steps)), np.float32(1 / np.sqrt(1 - 0.999**steps))
        at, before = 0, 0
        for i in range(last + 1):
            layer = t.layers[i]
            inputs, units = layer[INPUTS], layer[OUTPUTS]
            z = matrix(z_room, rows * at, rows, units)
            if i:
                around = matrix(far_room, t.receivers.size * before, t.receivers.size, inputs)
                read_rows(t, layer, matrix(y_room, rows * before, rows, inputs), around, z)
            else:
                read_features(t, matrix(t.numbers, layer[OWN], inputs, units), z)
            if i < last:
                inverse = inverses[at : at + units]
                standardise(t, layer, z, inverse)
                scale, shift = t.numbers[layer[SCALE] : layer[SCALE] + units], t.numbers[layer[SHIFT] : layer[SHIFT] + units]
                mask = kept[epoch, rows * at : rows * (at + units)].reshape(rows, units)
                activate(scale, shift, z, mask, factor, matrix(y_room, rows * at, rows, units))
            else:
                for r in range(rows):
                    for u in range(units):
                        z[r, u] += t.numbers[layer[SHIFT] + u]
            at, before = at + units, at
        units = t.layers[last, OUTPUTS]
        dz = matrix(d_room, 0, rows, units)
        softmax_slope(matrix(z_room, rows * before, rows, units), t.wanted, dz)
        bias = np.zeros(units, np.float32)
        for r in range(rows):
            for u in range(units):
                bias[u] += dz[r, u]
        step(t, t.layers[last, SHIFT], bias, rate, below)
        for i in range(last, 0, -1):
            layer, units = t.layers[i], t.layers[i, INPUTS]
            before -= units
            y, z = matrix(y_room, rows * before, rows, units), matrix(z_room, rows * before, rows, units)
            around = matrix(far_room, t.receivers.size * before, t.receivers.size, units)
            dy = matrix(other_room if (last - i) % 2 == 0 else d_room, 0, rows, units)
            learn_rows(t, layer, y, around, dz, dy, rate, below)
            activate_slope(t, t.layers[i - 1], z, inverses[before : before + units], y, factor, dy, rate, below)
            dz = dy
        learn_features(t, t.layers[0], dz, rate, below)
