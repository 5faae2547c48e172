"""Trains small GraphSAGE networks one after the other in the compiled kernel, so that each fits the nearest caches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.adam import Adam
from ..engine.dropout import kept
from ..engine.gnn_layers import Values
from ..engine.subnormal import subnormals_are_zero
from ..kernels.compiler import compiled
from ..sparse.block_diagonal import Operator
from .graphsage_recipe import Recipe
from .small_graphs import Prepared

if TYPE_CHECKING:
    from ..kernels import teachers

# the kernel was measured for dense features of at most this many columns; it was three times as fast as torch
DENSE = 1024
MASKS = 1 << 20  # bytes of dropout masks that are drawn at a time; a mask has one byte for each unit

Shapes = list[tuple[int, int]]


def expressible(graphs: Prepared) -> bool:
    """Whether the compiled kernel can be used, for these features on this device."""
    narrow = isinstance(graphs.inputs, Operator) or graphs.inputs.shape[2] <= DENSE
    return narrow and graphs.real.device.type == "cpu" and compiled.used()


def train(
    recipe: Recipe,
    values: list[Values],
    trained: list[Tensor],
    graphs: Prepared,
    target: NDArray[np.float32],
    randoms: list[np.random.Generator],
    adams: list[Adam],
) -> None:
    """Does the same as `teachers.train`, with the same random draws. trained: the parameters that have gradients, in order."""
    from ..kernels import teachers

    units, moments = [*recipe.hidden, recipe.classes], [v[name] for v in values[:-1] for name in ("mean", "variance")]
    there: Tensor | None = None
    back: Tensor | None = None
    if isinstance(graphs.inputs, Operator):
        there, back = graphs.inputs.matrix, graphs.inputs.transpose
    for run, random in enumerate(randoms):
        first, size, columns, begin = run * graphs.blocks.size, int(graphs.real[run].sum()), None, 0
        dense = np.empty((0, 0), dtype=np.float32)
        if isinstance(graphs.inputs, Operator):
            columns = slice(*graphs.begins[run : run + 2].tolist())
            begin, dim = columns.start, columns.stop - columns.start
        else:
            dense, dim = graphs.inputs[run, :size].numpy(), graphs.inputs.shape[2]
        shapes, arcs = shapes_of(units, dim), graphs.blocks.mean.matrix
        copies = [Copy([v.detach() for v in trained], run, columns, shapes)]
        copies += [Copy([getattr(a, name) for a in adams], run, columns, shapes) for name in ("mean", "square")]
        copies.append(Copy(moments, run, None, [(1, u) for u in units[:-1] for _ in "mv"]))
        teacher = teachers.Teacher(
            _sparse(there, first, begin),
            _sparse(back, begin, first),
            _sparse(arcs, first, first),
            dense,
            np.flatnonzero(np.diff(arcs.crow_indices()[first : first + size + 1].numpy())),
            np.ascontiguousarray(target[run].T[:size]),
            layers_of(units, dim),
            *(copy.flat.numpy() for copy in copies),
        )
        with subnormals_are_zero():  # moments of columns without gradients shrink towards zero and become subnormal
            _epochs(teacher, recipe, random, adams[0].steps)
        for copy in copies:
            copy.write_back()
    for adam in adams:
        adam.steps += recipe.epochs


def _sparse(matrix: Tensor | None, rows: int, columns: int) -> teachers.Sparse:
    """A matrix in the kernel's format; an empty one for None. rows, columns: the first row and column of this network's block."""
    from ..kernels import teachers

    if matrix is None:
        return teachers.Sparse(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.float32), 0, 0)
    starts, which, entries = matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()
    return teachers.Sparse(starts, which, entries, rows, columns)


def _epochs(teacher: teachers.Teacher, recipe: Recipe, random: np.random.Generator, steps: int) -> None:
    """Runs all epochs of one network, as many at a time as have at most MASKS bytes of dropout masks."""
    from ..kernels import teachers

    rows, factor = len(teacher.wanted), np.float32(1 / (1 - recipe.dropout))
    most = max(1, MASKS // max(1, rows * sum(recipe.hidden)))
    for first in range(0, recipe.epochs, most):
        kept = masks(random, rows, recipe.hidden, recipe.dropout, min(most, recipe.epochs - first))
        teachers.teach(teacher, kept, factor, np.float32(recipe.learning_rate), steps + first)


class Copy:
    """A copy of one network's part of some tensors, in one buffer `flat`.

    run: the index of the network on the first axis of the tensors. columns: the network's part of the first tensor, if that
    tensor holds all networks side by side; else None.
    """

    def __init__(self, stacks: list[Tensor], run: int, columns: slice | None, shapes: Shapes) -> None:
        self.places = (
            [stack[run] for stack in stacks] if columns is None else [stacks[0][0, columns], *(s[run] for s in stacks[1:])]
        )
        self.flat = torch.empty(sum(a * b for a, b in shapes))
        parts = self.flat.split([a * b for a, b in shapes])
        self.parts = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        for part, place in zip(self.parts, self.places, strict=True):
            part.copy_(place)

    def write_back(self) -> None:
        for part, place in zip(self.parts, self.places, strict=True):
            place.copy_(part)


def shapes_of(units: Sequence[int], columns: int) -> Shapes:
    """The shapes of all parameters of a network, layer after layer.

    The first layer has weights (columns, units); any other layer has two weights (inputs, units), for the neighbours' rows and
    for the node's own row. Scale and shift follow the weights of a hidden layer; the bias follows the last weights.
    """
    shapes = [(columns, units[0])]
    for before, after in pairwise(units):
        shapes += [(1, before), (1, before), (before, after), (before, after)]
    return [*shapes, (1, units[-1])]


def layers_of(units: Sequence[int], columns: int) -> NDArray[np.int64]:
    """(layers, 7) int64: for each layer, the numbers of units that it reads and writes, and the offsets of its parameters.
    kernels/teachers.py names the columns.
    """
    begins = [0, *np.cumsum([a * b for a, b in shapes_of(units, columns)]).tolist()]
    inputs, last, found = [columns, *units], len(units) - 1, []
    for i, outputs in enumerate(units):
        neighbours, own, scale, shift = begins[4 * i - 1] if i else 0, begins[4 * i], begins[4 * i + 1], begins[4 * i + 2]
        found.append((inputs[i], outputs, neighbours, own, scale, shift if i < last else scale, 2 * sum(units[:i])))
    return np.array(found)


def masks(random: np.random.Generator, rows: int, hidden: Sequence[int], share: float, epochs: int) -> NDArray[np.uint8]:
    """(epochs, rows * hidden units): the masks of `dropout.draw`, layer after layer, 0 for dropped units and 1 for kept ones."""
    if not share:
        return np.ones((epochs, rows * sum(hidden)), dtype=np.uint8)
    # a multiple of the generator's block, so that one call draws the same bits as several calls
    if share == 0.5 and all(u % 32 == 0 for u in hidden):
        drawn = np.frombuffer(random.bytes(epochs * rows * sum(hidden) // 8), dtype=np.uint8)
        return np.unpackbits(drawn).reshape(epochs, -1)
    found = [kept(random, rows * units, share) for units in [*hidden] * epochs]
    return np.concatenate(found).reshape(epochs, -1)
