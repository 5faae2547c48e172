"""The operations of a network on one block of nodes: their outputs, the gradients of their inputs and of their parameters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import layers
from .compiler.compiled import helper
from .layers import BLOCK
from .net import (
    ALONG,
    EPSILON,
    FACTOR,
    FEATURES,
    GROUP,
    INVERSE,
    KEEP,
    LINEAR,
    MEAN,
    MOMENTUM,
    NORM,
    PIVOT,
    SELU,
    SHIFT,
    SQUARES,
    SUM,
    TAKE,
    TOTAL,
    UNIT,
    ZERO,
    Floats,
    Net,
    kept_rows,
    kept_slope,
    moments_of,
    read,
    rows,
)


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
