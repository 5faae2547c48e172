"""Trains small GraphSAGE networks one after the other in the compiled kernel, each of them within the nearest caches."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..engine.dropout import draw
from ..engine.subnormal import subnormals_are_zero
from ..kernels import library
from ..sparse.block_diagonal import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from ..engine.adam import Adam
    from ..engine.gnn_layers import Values
    from .graphsage_recipe import Recipe
    from .small_graphs import Prepared

LAYERS, WIDEST = 8, 4096  # as in teachers.c; the latter in units
DENSE = 1024  # columns of dense features, up to which it is three times as fast as torch; more were not tried
BITS = 4 << 20  # bytes of dropout masks, a bit for every unit, that are drawn at a time

Shapes = list[tuple[int, int]]


class Sparse(ctypes.Structure):
    """`struct sparse` of teachers.c."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("starts", "which", "entries"))

    @staticmethod
    def of(matrix: Tensor) -> Sparse:
        """Addresses within a CSR matrix, which has to outlive this."""
        return Sparse(*(part.data_ptr() for part in (matrix.crow_indices(), matrix.col_indices(), matrix.values())))


class Teacher(ctypes.Structure):
    """`struct teacher` of teachers.c."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("hidden", "classes", "rows", "first_row", "columns", "first_column")),
        *((name, ctypes.c_int32) for name in ("epochs", "steps", "epoch_bits")),
        *((name, ctypes.c_float) for name in ("rate", "factor")),
        ("widths", ctypes.c_void_p),
        *((name, Sparse) for name in ("inputs", "back", "arcs")),
        ("dense", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("wanted", "kept", "numbers", "mean", "square", "running", "room", "receivers")),
    )


def expressible(recipe: Recipe, graphs: Prepared) -> bool:
    """Whether the kernel knows these features and the memory in which they lie."""
    narrow = isinstance(graphs.inputs, Operator) or graphs.inputs.shape[2] <= DENSE
    fits = len(recipe.hidden) < LAYERS and max(*recipe.hidden, recipe.classes) <= WIDEST
    return narrow and fits and graphs.real.device.type == "cpu" and library.library() is not None


def train(
    recipe: Recipe,
    values: list[Values],
    trained: list[Tensor],
    graphs: Prepared,
    target: NDArray[np.float32],
    randoms: list[np.random.Generator],
    adams: list[Adam],
) -> None:
    """What `teachers.train` does, with the same draws. trained: the values that have gradients, in their order."""
    units = [padded(u) for u in (*recipe.hidden, recipe.classes)]
    teacher = Teacher(
        hidden=len(recipe.hidden), classes=recipe.classes, rate=recipe.learning_rate, factor=1 / (1 - recipe.dropout)
    )
    if isinstance(graphs.inputs, Operator):
        teacher.inputs, teacher.back = Sparse.of(graphs.inputs.matrix), Sparse.of(graphs.inputs.transpose)
    teacher.arcs = Sparse.of(graphs.blocks.mean.matrix)
    widths = torch.tensor(units, dtype=torch.int32) // lanes()
    teacher.widths, moments = widths.data_ptr(), [v[name] for v in values[:-1] for name in ("mean", "variance")]
    for run, random in enumerate(randoms):
        columns = None
        if isinstance(graphs.inputs, Operator):
            columns = slice(*graphs.begins[run : run + 2].tolist())
            teacher.first_column, teacher.columns = columns.start, columns.stop - columns.start
        else:
            teacher.dense, teacher.columns = graphs.inputs[run].data_ptr(), graphs.inputs.shape[2]
        teacher.first_row, teacher.rows = run * graphs.blocks.size, int(graphs.real[run].sum())
        shapes = shapes_of(units, teacher.columns)
        copies = {
            "numbers": Copy([v.detach() for v in trained], run, columns, shapes),
            "mean": Copy([a.mean for a in adams], run, columns, shapes),
            "square": Copy([a.square for a in adams], run, columns, shapes),
            "running": Copy(moments, run, None, [(1, u) for u in units[:-1] for _ in "mv"]),
        }
        buffers = {name: copy.flat for name, copy in copies.items()}
        buffers["wanted"] = torch.zeros(teacher.rows, units[-1])
        buffers["wanted"][:, : recipe.classes] = torch.from_numpy(target[run].T[: teacher.rows])
        buffers["room"] = torch.empty(teacher.rows * (3 * sum(units) + 4 * max(units)) + sum(units) + max(units) ** 2)
        buffers["receivers"] = torch.empty(teacher.rows, dtype=torch.int32)
        for name, buffer in buffers.items():
            setattr(teacher, name, buffer.data_ptr())
        with subnormals_are_zero():  # moments of columns that nobody reads any more shrink for ever
            _epochs(teacher, recipe, random, adams[0].steps)
        for copy in copies.values():
            copy.write_back()
    for adam in adams:
        adam.steps += recipe.epochs


def _epochs(teacher: Teacher, recipe: Recipe, random: np.random.Generator, steps: int) -> None:
    """All epochs of one network, as many at a time as their masks have room."""
    rows = teacher.rows
    teacher.epoch_bits = rows * sum(padded(u) for u in recipe.hidden) // 8
    most = max(1, BITS // max(1, teacher.epoch_bits))
    for first in range(0, recipe.epochs, most):
        teacher.epochs, teacher.steps = min(most, recipe.epochs - first), steps + first
        kept = bits(random, rows, recipe.hidden, recipe.dropout, teacher.epochs)
        teacher.kept = None if kept is None else kept.ctypes.data
        library.loaded().teach(ctypes.byref(teacher))


class Copy:
    """The numbers of one network in one buffer, padded with zeros.

    columns: the network's part of the first tensor, where all of them lie in a row; None where it is as the others, run by run.
    """

    def __init__(self, stacks: list[Tensor], run: int, columns: slice | None, shapes: Shapes) -> None:
        self.places = (
            [stack[run] for stack in stacks] if columns is None else [stacks[0][0, columns], *(s[run] for s in stacks[1:])]
        )
        self.flat = torch.zeros(sum(a * b for a, b in shapes))
        parts = self.flat.split([a * b for a, b in shapes])
        self.parts = [
            part.view(shape)[: place.shape[0], : place.shape[1]]
            for part, shape, place in zip(parts, shapes, self.places, strict=True)
        ]
        for part, place in zip(self.parts, self.places, strict=True):
            part.copy_(place)

    def write_back(self) -> None:
        for part, place in zip(self.parts, self.places, strict=True):
            place.copy_(part)


def lanes() -> int:
    """How many numbers the kernel's vectors hold: 16 with AVX-512, else 8."""
    return int(library.loaded().lanes())


def padded(units: int) -> int:
    """Units filled up to whole vectors."""
    return -(-units // lanes()) * lanes()


def shapes_of(units: Sequence[int], columns: int) -> Shapes:
    """Of all numbers of a network, in the order of teachers.c."""
    shapes = [(columns, units[0])]
    for before, after in pairwise(units):
        shapes += [(1, before), (1, before), (before, after), (before, after)]
    return [*shapes, (1, units[-1])]


def bits(random: np.random.Generator, rows: int, hidden: Sequence[int], share: float, epochs: int) -> NDArray[np.uint8] | None:
    """What the masks of `dropout.draw` keep in some epochs: for each layer (rows, padded units), a bit each."""
    if not share:
        return None
    if share == 0.5 and all(u % 32 == 0 for u in hidden):  # whole draws of the generator: one call draws as many calls would
        return np.frombuffer(random.bytes(epochs * rows * sum(hidden) // 8), dtype=np.uint8)
    masks = []
    for units in [*hidden] * epochs:
        kept = np.zeros((rows, padded(units)), dtype=bool)
        kept[:, :units] = draw(random, rows * units, share).reshape(rows, units) > 0
        masks.append(np.packbits(kept))
    return np.concatenate(masks)
