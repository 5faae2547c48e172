"""A GraphSAGE network of two layers and its loss on randomised labels, for one run, forward and backward. Torch computes the sums
over arcs between these functions, and a first layer whose inputs are wide.

Every pass computes two sets of hidden rows: without dropout, to validate the weights, and with dropout, to train the weights.
A block has a row for each unit, as in `layers`.
"""

import numpy as np
from numba import boolean, float32, float64, int64, types, void
from numpy.typing import NDArray

from .compiler.compiled import compiled, helper
from .layers import BLOCK, ZERO, add_outer, add_product, exponentials, fill, load_units, row, save_units, selu, selu_slope, total

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

LEAST = np.float32(1e-20)  # added to a probability before its logarithm
FLAT, PLANE = float32[::1], float32[:, ::1]


@helper
def load(rows: Floats, first: int, to: Floats) -> None:
    """to[u * BLOCK + n] = rows[first + n, u], or zero if there is no such row."""
    here = min(BLOCK, rows.shape[0] - first)
    to[:] = ZERO
    for n in range(here):
        for u in range(rows.shape[1]):
            to[u * BLOCK + n] = rows[first + n, u]


@helper
def save(block: Floats, first: int, column: int, rows: Floats) -> None:
    """rows[first + n, column + u] = block[u * BLOCK + n], as far as there are such rows."""
    for n in range(min(BLOCK, rows.shape[0] - first)):
        for u in range(block.size // BLOCK):
            rows[first + n, column + u] = block[u * BLOCK + n]


@compiled(void(PLANE, FLAT, FLAT, PLANE))
def ahead(inputs: Floats, weight: Floats, bias: Floats, before: Floats) -> None:
    """Writes the output of a linear first layer into before, (hidden, nodes). inputs: (blocks, dim * BLOCK). weight: (dim *
    hidden,), input after input.
    """
    y = np.empty(bias.size * BLOCK, np.float32)
    for block in range(inputs.shape[0]):
        fill(bias, y)
        add_product(weight, 1, bias.size, inputs[block], y)
        save_units(y, block * BLOCK, before)


@compiled(void(PLANE, PLANE, FLAT, FLAT))
def ahead_slope(inputs: Floats, before_slope: Floats, weight_slope: Floats, bias_slope: Floats) -> None:
    """Writes the gradients of the weight and the bias of `ahead`, given that of its output."""
    d = np.empty(bias_slope.size * BLOCK, np.float32)
    weight_slope[:] = ZERO
    bias_slope[:] = ZERO
    for block in range(inputs.shape[0]):
        load_units(before_slope, block * BLOCK, d)
        add_outer(inputs[block], d, weight_slope)
        for u in range(bias_slope.size):
            bias_slope[u] += total(row(d, u))


@compiled(void(PLANE, PLANE, FLAT, FLAT, PLANE, PLANE, PLANE, PLANE))
def spread(
    before: Floats, mask: Floats, neighbours: Floats, own: Floats, hidden: Floats, dropped: Floats, sent: Floats, kept: Floats
) -> None:
    """Computes the rows that every node sends to its neighbours, and those that it adds to its own sum.

    before: (hidden, nodes), the first layer's output before SELU. mask: (hidden, nodes), factors of dropout. neighbours, own:
    (hidden * classes,), weights.
    The function writes hidden and dropped, (blocks, hidden * BLOCK), which `pull` reads, the rows sent, (nodes, 2 * classes), and
    kept, (2 * classes, nodes). The first half of the classes is computed without dropout, the second half with dropout.
    """
    classes = sent.shape[1] // 2
    x, y = np.empty(hidden.shape[1], np.float32), np.empty(classes * BLOCK, np.float32)
    for block in range(hidden.shape[0]):
        first, plain, some = block * BLOCK, hidden[block], dropped[block]
        load_units(before, first, x)
        selu(x, plain)
        load_units(mask, first, some)
        for i in range(x.size):
            some[i] *= plain[i]
        for part in range(2):
            rows = some if part else plain
            y[:] = ZERO
            add_product(neighbours, 1, classes, rows, y)
            save(y, first, part * classes, sent)
            y[:] = ZERO
            add_product(own, 1, classes, rows, y)
            save_units(y, first, kept[part * classes : (part + 1) * classes])


@helper
def probabilities(logits: Floats, to: Floats, top: Floats, sums: Floats) -> None:
    """to = the softmax of every node. Writes the largest logits into `top`, (BLOCK,). sums: scratch memory for one row."""
    exponentials(logits, to, top, sums)
    for c in range(logits.size // BLOCK):
        own = row(to, c)
        for n in range(BLOCK):
            own[n] /= sums[n]


@compiled(
    types.UniTuple(float64, 3)(PLANE, PLANE, FLAT, FLAT, int64[::1], boolean[::1], boolean[::1], float32, float32, PLANE, PLANE)
)
def judge(
    sums: Floats,
    kept: Floats,
    scale: Floats,
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

    sums: (nodes, 2 * classes), the sums of the rows that the neighbours sent. kept: as `spread` wrote it. scale: (nodes,), the
    factor of a node's sums. A node sends its label unchanged with probability `keep`, and each other label with probability
    `other`. The loss is -log(P(sent label) + 1e-20).
    The function writes the logits into scores, (2 * classes, nodes), first without and then with dropout. It writes into slope,
    (nodes, classes), the gradient of the trained nodes' summed loss with respect to their logits with dropout, 0 for other nodes.
    """
    nodes, classes = slope.shape
    logits, chances = np.empty(classes * BLOCK, np.float32), np.empty(classes * BLOCK, np.float32)
    top, spare = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    loss, right, learned = 0.0, 0.0, 0.0
    for first in range(0, nodes, BLOCK):
        here = min(BLOCK, nodes - first)
        for part in range(2):
            load_units(kept[part * classes : (part + 1) * classes], first, logits)
            for n in range(here):
                factor, at = scale[first + n], first + n
                for c in range(classes):
                    logits[c * BLOCK + n] += sums[at, part * classes + c] * factor + bias[c]
            save_units(logits, first, scores[part * classes : (part + 1) * classes])
            probabilities(logits, chances, top, spare)
            for n in range(here):
                at = first + n
                label = labels[at] * BLOCK + n
                seen, hit = other + (keep - other) * chances[label] + LEAST, logits[label] == top[n]
                if not part and valid[at]:
                    loss -= np.log(seen)
                    right += hit
                if not part:
                    continue
                learned += hit and trained[at]
                pull = (keep - other) * chances[label] / seen if trained[at] else ZERO
                for c in range(classes):
                    slope[at, c] = pull * chances[c * BLOCK + n]
                slope[at, labels[at]] -= pull
    return loss, right, learned


@compiled(void(PLANE, PLANE, PLANE, FLAT, FLAT, PLANE, PLANE, FLAT, FLAT, FLAT, PLANE))
def pull(
    back: Floats,
    slope: Floats,
    mask: Floats,
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

    back: (nodes, classes), the gradient of the row that each node sent. slope: (nodes, classes), the gradient of its logits with
    dropout. The other arguments are those of `spread`.
    """
    classes = slope.shape[1]
    sent, scored = np.empty(classes * BLOCK, np.float32), np.empty(classes * BLOCK, np.float32)
    size = hidden.shape[1]
    d, through, factors = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.float32)
    neighbours_slope[:] = ZERO
    own_slope[:] = ZERO
    bias_slope[:] = ZERO
    for block in range(hidden.shape[0]):
        first = block * BLOCK
        load(back, first, sent)
        load(slope, first, scored)
        add_outer(dropped[block], sent, neighbours_slope)
        add_outer(dropped[block], scored, own_slope)
        for c in range(classes):
            bias_slope[c] += total(row(scored, c))
        d[:] = ZERO
        add_product(neighbours, classes, 1, sent, d)
        add_product(own, classes, 1, scored, d)
        load_units(mask, first, factors)
        for i in range(d.size):
            through[i] = d[i] * factors[i]
        selu_slope(hidden[block], through, d)
        save_units(d, first, before_slope)
