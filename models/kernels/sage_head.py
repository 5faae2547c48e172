"""A GraphSAGE network of two layers and its loss on randomised labels, for one run, forward and backward. Torch computes a first
layer whose inputs are wide.

Every pass computes two sets of hidden rows: without dropout, to validate the weights, and with dropout, to train the weights.
A block has a row for each unit, as in `layers`. A row that a node sends to its neighbours is padded to a multiple of WIDTH
numbers, so that the sums over neighbours stay in registers.
"""

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint8, void
from numpy.typing import NDArray

from .compiler.compiled import compiled, helper
from .lanes import WIDTH, added, load, store, zeros
from .layers import BLOCK, ZERO, add_outer, add_product, exponentials, fill, row, save_units, selu, selu_slope, total

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Starts = NDArray[np.int64]
Senders = NDArray[np.int32]

LEAST = np.float32(1e-20)  # added to a probability before its logarithm
FLAT, PLANE, BOOLS = float32[::1], float32[:, ::1], boolean[::1]
STARTS, SENDERS = (types.Array(number, 1, "C", readonly=True) for number in (int64, int32))  # they may be in a mapped file


@helper
def send(block: Floats, first: int, column: int, rows: Floats) -> None:
    """rows[first + n, column + u] = block[u * BLOCK + n], as far as there are such rows."""
    for n in range(min(BLOCK, rows.shape[0] - first)):
        for u in range(block.size // BLOCK):
            rows[first + n, column + u] = block[u * BLOCK + n]


@helper
def drop(block: Floats, kept: NDArray[np.uint8], factor: np.float32, first: int, to: Floats) -> None:
    """to = block, times the factor where a unit is kept, 0 where it is dropped or there is no node."""
    here = min(BLOCK, kept.shape[1] - first)
    for u in range(kept.shape[0]):
        read, write, keeps = row(block, u), row(to, u), kept[u, first : first + here]
        for n in range(here):
            write[n] = read[n] * (factor * np.float32(keeps[n]))
        for n in range(here, BLOCK):
            write[n] = ZERO


@helper
def add_up(rows: Floats, starts: Starts, senders: Senders, node: int, to: Floats) -> None:
    """to = the sum of the rows of the node's senders. rows: one row of to.size numbers after the other, flat."""
    for column in range(0, to.size, WIDTH):
        one, other, last = zeros(), zeros(), starts[node + 1]
        for k in range(starts[node], last - 1, 2):  # two sums, because an addition must wait for the one before
            one = added(one, load(rows, senders[k] * to.size + column))
            other = added(other, load(rows, senders[k + 1] * to.size + column))
        if (last - starts[node]) % 2:
            one = added(one, load(rows, senders[last - 1] * to.size + column))
        store(added(one, other), to, column)


@compiled(void(PLANE, FLAT, FLAT, PLANE))
def ahead(inputs: Floats, weight: Floats, bias: Floats, before: Floats) -> None:
    """Writes the output of a linear first layer into before, (blocks, hidden * BLOCK). inputs: (blocks, dim * BLOCK). weight:
    (dim * hidden,), input after input.
    """
    for block in range(inputs.shape[0]):
        fill(bias, before[block])
        add_product(weight, 1, bias.size, inputs[block], before[block])


@compiled(void(PLANE, PLANE, FLAT, FLAT))
def ahead_slope(inputs: Floats, slope: Floats, weight_slope: Floats, bias_slope: Floats) -> None:
    """Writes the gradients of the weight and the bias of `ahead`, given that of its output, (blocks, hidden * BLOCK)."""
    weight_slope[:] = ZERO
    bias_slope[:] = ZERO
    for block in range(inputs.shape[0]):
        add_outer(inputs[block], slope[block], weight_slope)
        for u in range(bias_slope.size):
            bias_slope[u] += total(row(slope[block], u))


@compiled(void(PLANE, uint8[:, ::1], float32, FLAT, PLANE, PLANE, PLANE))
def spread(
    before: Floats,
    kept: NDArray[np.uint8],
    factor: np.float32,
    neighbours: Floats,
    hidden: Floats,
    dropped: Floats,
    sent: Floats,
) -> None:
    """Computes the rows that every node sends to its neighbours.

    before: (blocks, hidden * BLOCK), the first layer's output before SELU. kept: (hidden, nodes), 0 for a dropped unit, else 1.
    factor: the factor of kept units. neighbours: (hidden * classes,), weights.
    The function writes the hidden rows without and with dropout into hidden and dropped, (blocks, hidden * BLOCK), and the rows
    sent into the first 2 * classes columns of sent, (nodes, columns): the first half without dropout, the second half with it.
    """
    classes = neighbours.size // kept.shape[0]
    y = np.empty(classes * BLOCK, np.float32)
    for block in range(hidden.shape[0]):
        first, plain, some = block * BLOCK, hidden[block], dropped[block]
        selu(before[block], plain)
        drop(plain, kept, factor, first, some)
        for part in range(2):
            y[:] = ZERO
            add_product(neighbours, 1, classes, some if part else plain, y)
            send(y, first, part * classes, sent)


@helper
def probabilities(logits: Floats, to: Floats, top: Floats, sums: Floats) -> None:
    """to = the softmax of every node. Writes the largest logits into `top`, (BLOCK,). sums: scratch memory for one row."""
    exponentials(logits, to, top, sums)
    for c in range(logits.size // BLOCK):
        own = row(to, c)
        for n in range(BLOCK):
            own[n] /= sums[n]


@compiled(
    types.UniTuple(float64, 3)(
        *(PLANE, PLANE, PLANE, STARTS, SENDERS, BOOLS, FLAT, FLAT, FLAT, int64[::1], BOOLS, BOOLS, float32, float32, PLANE, PLANE)
    )
)
def judge(
    hidden: Floats,
    dropped: Floats,
    sent: Floats,
    starts: Starts,
    senders: Senders,
    asked: Bools,
    scale: Floats,
    own: Floats,
    bias: Floats,
    labels: NDArray[np.int64],
    trained: Bools,
    valid: Bools,
    keep: np.float32,
    other: np.float32,
    scores: Floats,
    slope: Floats,
) -> tuple[float, float, float]:
    """Returns three numbers: the summed loss of the validation nodes without dropout; how many validation nodes are classified as
    the label that they sent, without dropout; and how many trained nodes are, with dropout.

    hidden, dropped, sent: as `spread` wrote them. starts, senders: the senders of every node. asked: (nodes,), the nodes whose
    logits are computed; trained and validation nodes must be among them. scale: (nodes,), the factor of a node's sums. own:
    (hidden * classes,), the weights of a node's own row. A node sends its label unchanged with probability `keep`, and each other
    label with probability `other`. The loss is -log(P(sent label) + 1e-20).
    The function writes the logits of the nodes asked into scores, (2 * classes, nodes), first without and then with dropout. It
    writes into slope, (blocks, classes * BLOCK), the gradient of the trained nodes' summed loss with respect to their logits with
    dropout, 0 for other nodes.
    """
    classes, nodes = bias.size, asked.size
    logits, chances = np.empty((2, classes * BLOCK), np.float32), np.empty(classes * BLOCK, np.float32)
    top, spare, pulls = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    sums, rows = np.empty(sent.shape[1], np.float32), sent.reshape(-1)
    loss, right, learned = 0.0, 0.0, 0.0
    for block in range(hidden.shape[0]):
        first = block * BLOCK
        here = min(BLOCK, nodes - first)
        for part in range(2):
            fill(bias, logits[part])
            add_product(own, 1, classes, dropped[block] if part else hidden[block], logits[part])
        for n in range(here):
            if asked[first + n]:
                add_up(rows, starts, senders, first + n, sums)
                for part in range(2):
                    for c in range(classes):
                        logits[part, c * BLOCK + n] += sums[part * classes + c] * scale[first + n]
        for part in range(2):
            save_units(logits[part], first, scores[part * classes : (part + 1) * classes])
            probabilities(logits[part], chances, top, spare)
            pulls[:] = ZERO
            for n in range(here):
                at = first + n
                label = labels[at] * BLOCK + n
                seen, hit = other + (keep - other) * chances[label] + LEAST, logits[part, label] == top[n]
                if part and trained[at]:
                    learned += hit
                    pulls[n] = (keep - other) * chances[label] / seen
                elif not part and valid[at]:
                    loss -= np.log(seen)
                    right += hit
        for c in range(classes):
            to, chance = row(slope[block], c), row(chances, c)
            for n in range(BLOCK):
                to[n] = pulls[n] * chance[n]
        for n in range(here):
            slope[block, labels[first + n] * BLOCK + n] -= pulls[n]
    return loss, right, learned


@compiled(void(PLANE, PLANE, FLAT, STARTS, SENDERS, uint8[:, ::1], float32, FLAT, FLAT, PLANE, PLANE, FLAT, FLAT, FLAT, PLANE))
def pull(
    slope: Floats,
    returned: Floats,
    scale: Floats,
    starts: Starts,
    senders: Senders,
    kept: NDArray[np.uint8],
    factor: np.float32,
    neighbours: Floats,
    own: Floats,
    hidden: Floats,
    dropped: Floats,
    neighbours_slope: Floats,
    own_slope: Floats,
    bias_slope: Floats,
    before_slope: Floats,
) -> None:
    """Writes the gradients of the second layer's weights and bias, and of the first layer's output (before_slope).

    slope: (blocks, classes * BLOCK), the gradient of the logits with dropout. returned: (nodes, columns), scratch memory. scale:
    (nodes,), the factor of a node's sums. starts, senders: for every node, the nodes to which it sends, as far as their slope is
    not 0. The other arguments are those of `spread` and `judge`.
    """
    classes, nodes, columns = bias_slope.size, returned.shape[0], returned.shape[1]
    gone, sums, rows = np.empty(classes * BLOCK, np.float32), np.empty(columns, np.float32), returned.reshape(-1)
    size = hidden.shape[1]
    d, through = np.empty(size, np.float32), np.empty(size, np.float32)
    neighbours_slope[:] = ZERO
    own_slope[:] = ZERO
    bias_slope[:] = ZERO
    for block in range(hidden.shape[0]):
        first = block * BLOCK
        for n in range(min(BLOCK, nodes - first)):
            for c in range(classes):
                returned[first + n, c] = slope[block, c * BLOCK + n] * scale[first + n]
    for block in range(hidden.shape[0]):
        first, scored = block * BLOCK, slope[block]
        here = min(BLOCK, nodes - first)
        gone[:] = ZERO
        for n in range(here):
            add_up(rows, starts, senders, first + n, sums)
            for c in range(classes):
                gone[c * BLOCK + n] = sums[c]
        add_outer(dropped[block], gone, neighbours_slope)
        add_outer(dropped[block], scored, own_slope)
        for c in range(classes):
            bias_slope[c] += total(row(scored, c))
        d[:] = ZERO
        add_product(neighbours, classes, 1, gone, d)
        add_product(own, classes, 1, scored, d)
        drop(d, kept, factor, first, through)
        selu_slope(hidden[block], through, before_slope[block])
