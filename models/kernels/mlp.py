"""Computes the gradients of one small network for one block of nodes after the other, so that activations stay in the nearest
cache.

A network is cut into segments. The operations of a segment need only their own block. Between two segments is a batch norm, whose
moments need every node. A block holds its activations in `x` and their gradients in `d`, a row for each unit. The input of a
batch norm is stored for all nodes, (blocks, units, BLOCK), because the backward pass needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, from_dtype, int32, int64, types, void
from numpy.typing import NDArray

from . import layers
from .arithmetic import adam_step
from .borrowed import borrowed
from .compiled import compiled, helper
from .layers import BLOCK

LINEAR, FEATURES, TAKE, SELU, UNIT, GROUP, NORM, KEEP = range(8)
MOMENTUM, EPSILON = 0.1, 1e-5  # constants of batch norm
PIVOT, SUM, SQUARES, MEAN, INVERSE, FACTOR, SHIFT, ALONG, TOTAL = range(9)  # columns of moments
ZERO = np.float32(0)

Floats = NDArray[np.float32]

FIELDS = (  # the fields of an operation
    # inputs, outputs: numbers of units. For NORM and KEEP, `inputs` is the number of stored rows
    *("kind", "inputs", "outputs"),
    *("start", "to"),  # the first row of the block that the operation reads, and the first that it writes
    *("centred", "leaf"),  # centred: a batch norm follows, so the bias has no gradient. leaf: the gradient of x is not needed
    # offsets in `numbers`: of weight and bias, or of scale and shift; and of the running moments
    *("first", "second", "mean", "variance"),
    # offsets in `room`, in rows. NORM and KEEP: of the norm's input, and of the gradient of its output. LINEAR: `kept` is the
    # offset of the input, if the layer reads its input from `room` and not from the block
    *("kept", "slope"),
    # offsets in `tables`. FEATURES: of two tables, the weights and their gradients. TAKE: of the inputs. For NORM and KEEP, the
    # first row of `moments`
    "sums",
    "matrix",  # FEATURES: the offset in `starts` of its sparse matrix
)
OPERATION = np.dtype([(name, np.int64) for name in FIELDS])


class Net(NamedTuple):
    """One network and its nodes. In `operations`, -1 means that an operation does not use the field."""

    operations: NDArray[np.void]  # an array of type OPERATION
    ends: NDArray[np.int64]  # for each segment, the index after its last operation
    again: NDArray[np.int64]  # for each segment, the index after the last operation that the backward pass computes again
    numbers: Floats  # all numbers of the network, running moments included
    slopes: Floats  # the gradients of `numbers`, at the same offsets
    room: Floats  # (rows * BLOCK,) stored for all blocks: see `kept` and `slope` in FIELDS
    moments: NDArray[np.float64]  # (units of all batch norms, 9)
    tables: Floats  # see `sums` in FIELDS
    x: Floats  # (rows * BLOCK,) activations of a block
    d: Floats  # the gradients of these activations
    spare: Floats  # (4 * BLOCK,)
    line: Floats  # scratch memory for the widest layer
    starts: NDArray[np.int64]  # sparse features of all branches: where the entries of each node begin and end
    columns: NDArray[np.int32]
    entries: Floats
    labels: NDArray[np.int32]
    classes: int
    logits: int  # the row of the block where the logits begin


FLOATS, INTS = float32[::1], int64[::1]
NET = types.NamedTuple(
    (
        *(from_dtype(OPERATION)[::1], INTS, INTS, FLOATS, FLOATS, FLOATS, float64[:, ::1], *(FLOATS,) * 5),
        *(INTS, int32[::1], FLOATS, int32[::1], int64, int64),
    ),
    Net,
)


@helper
def rows(of: Floats, first: int, count: int) -> Floats:
    """(count * BLOCK,): `count` rows of a block, from row `first` on."""
    return of[first * BLOCK : (first + count) * BLOCK]


@helper
def kept_rows(net: Net, op: Any, block: int) -> Floats:
    """(inputs * BLOCK,): the stored input of an operation, for one block."""
    return rows(net.room, op.kept + block * op.inputs, op.inputs)


@helper
def kept_slope(net: Net, op: Any, block: int) -> Floats:
    """(outputs * BLOCK,): the stored gradient of a batch norm's output, for one block."""
    return rows(net.room, op.slope + block * op.outputs, op.outputs)


@helper
def moments_of(net: Net, op: Any) -> NDArray[np.float64]:
    """(outputs, 9) float64: the moments of a batch norm."""
    return net.moments[op.sums : op.sums + op.outputs]


@helper
def read(net: Net, op: Any, block: int) -> Floats:
    """(inputs * BLOCK,): the input of an operation."""
    if op.kind == LINEAR and op.kept >= 0:
        return kept_rows(net, op, block)
    return rows(net.x, op.start, op.inputs)


@helper
def features(net: Net, op: Any, nodes: NDArray[np.int32], y: Floats) -> None:
    """y = W x + b for sparse x."""
    wide, line = op.outputs, net.line
    for n in range(nodes.size):
        for u in range(wide):
            line[u] = net.numbers[op.second + u]
        at = op.matrix + nodes[n]
        for k in range(net.starts[at], net.starts[at + 1]):
            entry, own = net.entries[k], net.tables[op.sums + net.columns[k] * wide :]
            for u in range(wide):
                line[u] += entry * own[u]
        for u in range(wide):
            y[u * BLOCK + n] = line[u]
    empty(y, nodes.size)


@helper
def empty(y: Floats, here: int) -> None:
    """Writes zeros at the positions from `here` on of every row. They hold no node."""
    for u in range(y.size // BLOCK):
        for n in range(here, BLOCK):
            y[u * BLOCK + n] = ZERO


@helper
def features_slope(net: Net, op: Any, nodes: NDArray[np.int32], dy: Floats) -> None:
    """Adds these nodes' gradients of the weights of `features` to the second of the operation's two tables."""
    wide, line, first = op.outputs, net.line, op.sums + op.inputs * op.outputs
    for n in range(nodes.size):
        for u in range(wide):
            line[u] = dy[u * BLOCK + n]
        at = op.matrix + nodes[n]
        for k in range(net.starts[at], net.starts[at + 1]):
            entry, own = net.entries[k], net.tables[first + net.columns[k] * wide :]
            for u in range(wide):
                own[u] += entry * line[u]


@helper
def take(net: Net, op: Any, nodes: NDArray[np.int32], y: Floats) -> None:
    """y = the inputs of the drawn nodes. The table holds them node by node."""
    for n in range(nodes.size):
        first = op.sums + nodes[n] * op.outputs
        for u in range(op.outputs):
            y[u * BLOCK + n] = net.tables[first + u]
    empty(y, nodes.size)


@helper
def join_moments(own: NDArray[np.float64], x: Floats, first: bool, here: int) -> None:
    """Adds a block to the sums of each unit's distances from a pivot, and of their squares. The pivot is the mean of the first
    block. here: the number of nodes in the block.
    """
    for u in range(own.shape[0]):
        values, m = layers.row(x, u)[:here], own[u]
        if first:
            for n in range(here):
                m[PIVOT] += values[n] / here
        pivot, sums, squares = np.float32(m[PIVOT]), ZERO, ZERO
        for n in range(here):
            sums += values[n] - pivot
            squares += (values[n] - pivot) * (values[n] - pivot)
        m[SUM] += sums
        m[SQUARES] += squares


@helper
def settle_moments(net: Net, op: Any, own: NDArray[np.float64], nodes: int) -> None:
    """Computes mean, factor and shift of y = (x - mean) factor + shift, and updates the running moments. If nodes is 0, takes the
    mean and the variance from the running moments instead.
    """
    for u in range(op.outputs):
        m = own[u]
        mean, variance = net.numbers[op.mean + u], net.numbers[op.variance + u]
        if nodes:
            away = m[SUM] / nodes
            spread = max(m[SQUARES] - m[SUM] * away, 0.0)
            m[MEAN] = np.float32(m[PIVOT]) + away
            net.numbers[op.mean + u] += np.float32(MOMENTUM * (m[MEAN] - mean))
            net.numbers[op.variance + u] += np.float32(MOMENTUM * (spread / max(nodes - 1, 1) - variance))
            m[INVERSE] = 1 / np.sqrt(spread / nodes + EPSILON)
        else:
            m[MEAN], m[INVERSE] = mean, 1 / np.sqrt(variance + EPSILON)
        m[FACTOR] = net.numbers[op.first + u] * m[INVERSE]
        m[SHIFT] = net.numbers[op.second + u]


@helper
def normalise(own: NDArray[np.float64], x: Floats, y: Floats) -> None:
    for u in range(own.shape[0]):
        values, to, m = layers.row(x, u), layers.row(y, u), own[u]
        mean, factor, shift = np.float32(m[MEAN]), np.float32(m[FACTOR]), np.float32(m[SHIFT])
        for n in range(BLOCK):
            to[n] = (values[n] - mean) * factor + shift


@helper
def keep_slope(own: NDArray[np.float64], x: Floats, dy: Floats, kept: Floats) -> None:
    """Stores the gradient of a batch norm's output, and adds it to the sums over all nodes that `norm_slope` needs."""
    for u in range(own.shape[0]):
        values, slope, to = layers.row(x, u), layers.row(dy, u), layers.row(kept, u)
        mean, sums, along = np.float32(own[u, MEAN]), ZERO, ZERO
        for n in range(BLOCK):
            to[n] = slope[n]
            sums += slope[n]
            along += slope[n] * (values[n] - mean)
        own[u, TOTAL] += sums
        own[u, ALONG] += along


@helper
def norm_slope(own: NDArray[np.float64], nodes: int, here: int, x: Floats, kept: Floats, dx: Floats) -> None:
    for u in range(own.shape[0]):
        values, slope, to, m = layers.row(x, u), layers.row(kept, u), layers.row(dx, u), own[u]
        mean, factor = np.float32(m[MEAN]), np.float32(m[FACTOR])
        level, tilt = np.float32(m[TOTAL] / nodes), np.float32(m[ALONG] * m[INVERSE] * m[INVERSE] / nodes)
        for n in range(BLOCK):
            to[n] = factor * (slope[n] - level - (values[n] - mean) * tilt)
    empty(dx, here)


@helper
def copy(values: Floats, to: Floats) -> None:
    for n in range(values.size):
        to[n] = values[n]


@helper
def forward(net: Net, op: Any, block: int, nodes: NDArray[np.int32]) -> None:
    """Computes the output of an operation for one block. nodes: the ids of the block's nodes."""
    x, y, kind = read(net, op, block), rows(net.x, op.to, op.outputs), op.kind
    if kind == LINEAR:
        layers.fill(net.numbers[op.second :], y)
        layers.add_product(net.numbers[op.first :], op.inputs, 1, x, y)
    elif kind == FEATURES:
        features(net, op, nodes, y)
    elif kind == TAKE:
        take(net, op, nodes, y)
    elif kind == SELU:
        layers.selu(x, y)
    elif kind == UNIT:
        layers.unit(x, y, rows(net.x, op.to + op.outputs, 1))
    elif kind == GROUP:
        layers.group(net.numbers[op.first :], net.numbers[op.second :], x, y, net.spare)
    elif kind == NORM:
        normalise(moments_of(net, op), kept_rows(net, op, block), y)
    elif kind == KEEP:
        copy(x, kept_rows(net, op, block))


@helper
def backward(net: Net, op: Any, block: int, here: int, nodes: int) -> None:
    """Computes the gradient of an operation's input from the gradient of its output. here: the number of nodes in the block.
    nodes: the number of all nodes.
    """
    y, dy, dx, kind = rows(net.x, op.to, op.outputs), rows(net.d, op.to, op.outputs), rows(net.d, op.start, op.inputs), op.kind
    if kind == LINEAR and not op.leaf:
        dx[:] = ZERO
        layers.add_product(net.numbers[op.first :], 1, op.inputs, dy, dx)
    elif kind == SELU:
        layers.selu_slope(y, dy, dx)
    elif kind == UNIT:
        layers.unit_slope(y, rows(net.x, op.to + op.outputs, 1), dy, dx, layers.row(net.spare, 0))
    elif kind == GROUP:
        layers.group_slope(net.numbers[op.first :], rows(net.x, op.start, op.inputs), dy, dx, net.spare)
    elif kind == NORM:
        keep_slope(moments_of(net, op), kept_rows(net, op, block), dy, kept_slope(net, op, block))
    elif kind == KEEP:
        norm_slope(moments_of(net, op), nodes, here, rows(net.x, op.start, op.inputs), kept_slope(net, op, block), dx)


@helper
def pull(net: Net, op: Any, block: int, nodes: NDArray[np.int32]) -> None:
    """Adds the gradients of an operation's own parameters, summed over the nodes of a block, to `slopes`."""
    x, dy, shift = read(net, op, block), rows(net.d, op.to, op.outputs), net.slopes[op.second :]
    if op.kind == GROUP:
        layers.group_numbers(x, dy, net.slopes[op.first :], shift, net.spare)
    elif op.kind == LINEAR:
        layers.add_outer(dy, x, net.slopes[op.first :])
    elif op.kind == FEATURES:
        features_slope(net, op, nodes, dy)
    if (op.kind == LINEAR or op.kind == FEATURES) and not op.centred:
        for o in range(op.outputs):
            shift[o] += layers.total(layers.row(dy, o))


@helper
def add_square_norms(net: Net, op: Any, block: int, nodes: NDArray[np.int32], squares: Floats) -> None:
    """Adds to `squares`, (BLOCK,), the squared norm of each node's gradient of an operation's parameters. A linear layer's
    gradient is an outer product, so its norm is the product of two norms.
    """
    if op.kind != LINEAR and op.kind != FEATURES and op.kind != GROUP:
        return
    x, dy = read(net, op, block), rows(net.d, op.to, op.outputs)
    lengths, pulls = layers.row(net.spare, 2), layers.row(net.spare, 3)
    layers.add_squares(dy, pulls, ZERO)
    if op.kind == LINEAR:
        layers.add_squares(x, lengths, np.float32(1))
    else:
        lengths[:] = np.float32(1)
    if op.kind == FEATURES:
        for n in range(nodes.size):
            at = op.matrix + nodes[n]
            for k in range(net.starts[at], net.starts[at + 1]):
                lengths[n] += net.entries[k] * net.entries[k]
    elif op.kind == GROUP:
        mean, inverse = layers.row(net.spare, 0), layers.row(net.spare, 1)
        layers.own_moments(x, mean, inverse)
        for u in range(op.outputs):
            values, slope = layers.row(x, u), layers.row(dy, u)
            for n in range(BLOCK):
                part = slope[n] * (values[n] - mean[n]) * inverse[n]
                squares[n] += part * part
    for n in range(BLOCK):
        squares[n] += pulls[n] * lengths[n]


@helper
def begin(net: Net, training: bool) -> None:
    """Turns the weights of sparse features into tables with a row for each feature. In training, sets all sums to zero; otherwise
    computes the batch norms' factors from the running moments.
    """
    if training:
        net.slopes[:] = ZERO
    for k in range(net.operations.size):
        op = net.operations[k]
        if op.kind == FEATURES:
            size = op.inputs * op.outputs
            turn(net.numbers[op.first : op.first + size], op.outputs, net.tables[op.sums : op.sums + size])
            if training:
                net.tables[op.sums + size : op.sums + 2 * size] = ZERO
        elif op.kind == KEEP and training:
            moments_of(net, op)[:] = 0.0
        elif op.kind == KEEP:
            settle_moments(net, op, moments_of(net, op), 0)


@helper
def end(net: Net) -> None:
    """Copies the gradients of the weights of sparse features, and of the scale and shift of batch norms, into `slopes`."""
    for k in range(net.operations.size):
        op = net.operations[k]
        if op.kind == FEATURES:
            size = op.inputs * op.outputs
            turn(net.tables[op.sums + size : op.sums + 2 * size], op.inputs, net.slopes[op.first : op.first + size])
        elif op.kind == KEEP:
            for u in range(op.outputs):
                m = net.moments[op.sums + u]
                net.slopes[op.first + u], net.slopes[op.second + u] = m[ALONG] * m[INVERSE], m[TOTAL]


@helper
def turn(a: Floats, high: int, to: Floats) -> None:
    """Writes the transpose of `a`, a matrix of `high` rows, into `to`."""
    wide = a.size // high
    for i in range(high):
        for j in range(wide):
            to[j * high + i] = a[i * wide + j]


@helper
def entropy(net: Net, nodes: NDArray[np.int32], share: float) -> None:
    """Writes the gradient of `share` times the cross-entropy of a block into the rows of `d` that belong to the logits."""
    labels = np.empty(nodes.size, np.int64)
    for n in range(nodes.size):
        labels[n] = net.labels[nodes[n]]
    logits, slope = rows(net.x, net.logits, net.classes), rows(net.d, net.logits, net.classes)
    layers.entropy_slope(logits, labels, np.float32(share), slope, net.spare)


@helper
def find_gradient(net: Net, nodes: NDArray[np.int32], clip: np.float32) -> None:
    """Writes the gradient of the mean cross-entropy over `nodes` into `slopes`.

    With a positive `clip`, for a network without batch norm, writes the sum of the gradients of single nodes, each scaled to norm
    `clip` at most. The loop visits all segments in order, and then from the last one back to the first.
    """
    begin(net, True)
    squares = np.empty(BLOCK, np.float32)
    last, count = net.ends.size - 1, nodes.size
    for way in range(2 * last + 1):
        s = last - abs(last - way)
        first, stop = net.ends[s - 1] if s else 0, net.ends[s]
        keep = net.operations[stop - 1]
        for block in range(-(-count // BLOCK)):
            own = nodes[block * BLOCK : (block + 1) * BLOCK]
            for k in range(first, stop if way <= last else net.again[s]):
                forward(net, net.operations[k], block, own)
            if way < last:
                join_moments(moments_of(net, keep), rows(net.x, keep.start, keep.outputs), block == 0, own.size)
                continue
            if way == last:
                entropy(net, own, 1.0 if clip > 0 else 1 / count)
            else:
                copy(kept_rows(net, keep, block), rows(net.x, keep.start, keep.inputs))
            squares[:] = ZERO
            for k in range(stop - 1, first - 1, -1):
                backward(net, net.operations[k], block, own.size, count)
                if clip > 0:
                    add_square_norms(net, net.operations[k], block, own, squares)
            for n in range(BLOCK):
                squares[n] = min(clip / (np.sqrt(squares[n]) + np.float32(1e-6)), np.float32(1))
            for k in range(first, stop):
                op = net.operations[k]
                if clip > 0 and op.first >= 0:
                    for o in range(op.outputs):
                        slope = layers.row(net.d, op.to + o)
                        for n in range(BLOCK):
                            slope[n] *= squares[n]
                pull(net, op, block, own)
        if way < last:
            settle_moments(net, keep, moments_of(net, keep), count)
    end(net)


@helper
def count_hits(net: Net, nodes: NDArray[np.int32]) -> int:
    """How many nodes are classified correctly, with the running moments of the batch norms."""
    begin(net, False)
    count = 0
    for block in range(-(-nodes.size // BLOCK)):
        own = nodes[block * BLOCK : (block + 1) * BLOCK]
        for k in range(net.operations.size):
            forward(net, net.operations[k], block, own)
        for n in range(own.size):
            logits, top = net.x[net.logits * BLOCK + n :], True
            for c in range(net.classes):
                top &= logits[c * BLOCK] <= logits[net.labels[own[n]] * BLOCK]
            count += top
    return count


@compiled(void(NET, int32[::1], float32))
def gradient(net: Net, nodes: NDArray[np.int32], clip: np.float32) -> None:
    """`find_gradient` as a function that Python can call."""
    find_gradient(borrowed(net), nodes, clip)


@compiled(int64(NET, int32[::1]))
def hits(net: Net, nodes: NDArray[np.int32]) -> int:
    """`count_hits` as a function that Python can call."""
    return count_hits(borrowed(net), nodes)


@compiled(void(NET, int32[::1], NET, int32[::1], FLOATS, FLOATS, FLOATS, int64, float64))
def train(
    net: Net,
    nodes: NDArray[np.int32],
    check: Net,
    checked: NDArray[np.int32],
    mean: Floats,
    square: Floats,
    best: Floats,
    epochs: int,
    learning_rate: float,
) -> None:
    """Takes a step of Adam in every epoch, with the gradient of the mean cross-entropy over `nodes`.

    check: the same numbers, with the inputs of the nodes `checked`. mean, square: zeros, for Adam's moments of the trained
    numbers, which come before the running moments. The function writes into `best` the numbers of the first epoch with the most
    hits among the nodes `checked`, if there are any.
    """
    net, check = borrowed(net), borrowed(check)
    size, record = mean.size, -1
    for epoch in range(epochs):
        find_gradient(net, nodes, ZERO)
        rate, below = learning_rate / (1 - 0.9 ** (epoch + 1)), 1 / np.sqrt(1 - 0.999 ** (epoch + 1))
        adam_step(net.numbers[:size], net.slopes[:size], mean, square, np.float32(rate), np.float32(below), np.float32(1))
        if checked.size:
            found = count_hits(check, checked)
            if found > record:
                record = found
                copy(net.numbers, best)
