"""One network and its nodes, in the flat arrays that the compiled loops read.

A network is cut into segments. The operations of a segment need only their own block. Between two segments is a batch norm, whose
moments need every node. A block holds its activations in `x` and their gradients in `d`, a row for each unit. The input of a
batch norm is stored for all nodes, (blocks, units, BLOCK), because the backward pass needs it.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, from_dtype, int32, int64, types
from numpy.typing import NDArray

from .compiler.compiled import helper
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
