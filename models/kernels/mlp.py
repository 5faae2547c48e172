"""Trains one small network, one block of nodes after the other, so that activations stay in the nearest cache."""

import numpy as np
from numba import float32, float64, int32, int64, void
from numpy.typing import NDArray

from . import layers
from .arithmetic import adam_step
from .compiler.borrowed import borrowed
from .compiler.compiled import compiled, helper
from .layers import BLOCK
from .net import ALONG, FEATURES, FLOATS, INVERSE, KEEP, NET, TOTAL, ZERO, Floats, Net, kept_rows, moments_of, rows
from .operations import add_square_norms, backward, copy, forward, join_moments, pull, settle_moments


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
