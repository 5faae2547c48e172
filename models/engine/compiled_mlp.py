"""Turns a network and its training rows into operations for the compiled kernel, which trains one run after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernels.compiler import compiled
from .features import Shared
from .layers import BatchNorm, GroupNorm, Linear, Selu, UnitLength, UnitLinear
from .network import Network, Rows, Weights

LINEAR, FEATURES, TAKE, SELU, UNIT, GROUP, NORM, KEEP = range(8)  # as in kernels/net.py
LINE = 16  # float32 numbers in a cache line; each part of a buffer begins at a multiple of LINE
WIDEST = 256  # largest number of inputs of a layer; for wider layers a GEMM library is faster


@dataclass
class Step:
    """One operation of the kernel. inputs, outputs: numbers of units. layer: the index of the layer whose parameters the
    operation uses. start, to: the first row of the block that it reads, and the first row that it writes.

    branch: the branch whose input the operation reads, or -1 if it reads rows of the block.
    """

    kind: int
    inputs: int
    outputs: int
    layer: int = -1
    centred: bool = False
    branch: int = -1
    start: int = 0
    to: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that the step writes. UNIT writes the inverse length into one more row, after the unit vector."""
        return self.outputs + (self.kind == UNIT)


@dataclass
class Plan:
    """The segments that kernels/net.py expects; all but the last end with a KEEP. again: for each segment, how many steps the
    backward pass computes again. rows: how many rows a block needs.
    """

    segments: list[list[Step]] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    rows: int = 0


def expressible(network: Network, *parts: Rows | None) -> bool:
    """Whether the compiled kernel can be used, for all layers of this network and all inputs of these rows."""
    layers = (Linear, Selu, BatchNorm, GroupNorm, UnitLength, UnitLinear)
    return (
        all(isinstance(layer, layers) for layer in network.layers)
        and all(branch and isinstance(branch[0], Linear) for branch in network.branches)
        and (len(network.branches) == 1 or not any(isinstance(branch[-1], UnitLength) for branch in network.branches))
        and max((layer.inputs for layer in network.layers[1:] if isinstance(layer, Linear | UnitLinear)), default=0) <= WIDEST
        and all(_readable(rows) for rows in parts if rows is not None)
        and compiled.used()
    )


def _readable(rows: Rows) -> bool:
    """Whether the kernel reads these inputs. It does not read wide dense features, for which a GEMM library is faster, features
    in a mapped file, rows of which only some are counted, and rows on an accelerator.
    """
    shared = [x for x in rows.inputs if isinstance(x, Shared)]
    own = [x for x in rows.inputs if not isinstance(x, Shared)]
    known = all(x.sparse or (x.dim <= WIDEST and not x.mapped) for x in shared) and all(x.dtype == torch.float32 for x in own)
    return known and rows.counted is None and rows.labels.device.type == "cpu"


def why_torch(*parts: Rows | None) -> str:
    """Which stage torch trains, and why, if it is not `expressible`."""
    rows = [r for r in parts if r is not None]
    dense = [x for r in rows for x in r.inputs if isinstance(x, Shared) and not x.sparse]
    if any(r.labels.device.type != "cpu" for r in rows):
        return "perceptron: on an accelerator"
    if any(x.mapped for x in dense):
        return "perceptron: dense features in a mapped file"
    if any(x.dim > WIDEST for x in dense):
        return f"perceptron: more than {WIDEST} dense features"
    if any(r.counted is not None for r in rows):
        return "perceptron: rows of which only some are counted"
    return f"perceptron: a layer with more than {WIDEST} inputs, or of a kind that no compiled loop has"


def planned(network: Network, inputs: Sequence[Any], drawn: bool = False) -> Plan:
    """Cuts branches and trunk at the batch norms, and assigns rows of a block to every output. drawn: whether every pass draws
    its own nodes.
    """
    plan, layer, tails, widths = Plan(), 0, [], []
    for number, (branch, x) in enumerate(zip(network.branches, inputs, strict=True)):
        units, count = (x.dim, x.nodes) if isinstance(x, Shared) else x.shape[1:]
        first = FEATURES if isinstance(x, Shared) and x.sparse else LINEAR
        *closed, tail = _cut(branch, layer, units)
        begin = (closed or [tail])[0]
        begin[0].kind, begin[0].branch = first, number
        if drawn and first == LINEAR:
            begin.insert(0, Step(TAKE, count, units, branch=number))
        for steps in closed:
            _chain(plan, steps, 0)
        plan.segments += closed
        tails.append(tail)
        widths.append(tail[-1].rows)
        layer += len(branch)
    ahead = [step for tail in tails for step in tail]
    joint, *rest = _cut(network.trunk, layer, sum(tail[-1].outputs for tail in tails), sum(widths))
    free = sum(widths)
    for tail, end in zip(tails, np.cumsum(widths).tolist(), strict=True):
        free = _chain(plan, tail, free)
        tail[-1].to = end - tail[-1].rows
        for before, after in pairwise(tail):
            after.start = before.to
    if joint:
        _chain(plan, joint, free)
        joint[0].start = 0
    for steps in rest:
        _chain(plan, steps, 0)
    plan.segments += [ahead + joint, *rest]
    plan.rows = max(plan.rows, sum(widths))
    plan.again = [_again(steps) for steps in plan.segments]
    return plan


def _cut(layers: Sequence[Any], layer: int, units: int, rows: int = 0) -> list[list[Step]]:
    """The steps of consecutive layers, with a new list within every batch norm. rows: how many rows a batch norm stores if it is
    the first layer.
    """
    lists: list[list[Step]] = [[]]
    for i, what in enumerate(layers, layer):
        match what:
            case Linear():
                lists[-1].append(Step(LINEAR, units, what.outputs, i, what.centred))
                units = what.outputs
            case Selu():
                lists[-1].append(Step(SELU, units, units))
            case UnitLength():
                lists[-1].append(Step(UNIT, units, units))
            case UnitLinear():
                lists[-1] += [Step(UNIT, units, units), Step(LINEAR, units, what.outputs, i)]
                units = what.outputs
            case GroupNorm():
                lists[-1].append(Step(GROUP, units, units, i))
            case BatchNorm():
                kept = lists[-1][-1].rows if lists[-1] else rows
                lists[-1].append(Step(KEEP, kept, units, i))
                lists.append([Step(NORM, kept, units, i)])
    return lists


def _chain(plan: Plan, steps: list[Step], free: int) -> int:
    """Connects each step to the output of the one before, in rows from `free` on; returns the first unused row."""
    for i, step in enumerate(steps):
        step.start = steps[i - 1].to if i else 0
        if step.kind != KEEP:
            step.to, free = free, free + step.rows
    plan.rows = max(plan.rows, free)
    return free


def _again(steps: list[Step]) -> int:
    """How many steps the backward pass computes again: all steps up to the last one whose output it reads. The output before a
    KEEP is loaded and not computed again. 0 for the last segment.
    """
    if steps[-1].kind != KEEP:
        return 0
    read = [step.start for step in steps if step.kind == LINEAR and step.branch < 0]
    needed = [
        i
        for i, step in enumerate(steps[:-2])
        if step.kind in (SELU, UNIT) or any(step.to <= start < step.to + step.outputs for start in read)
    ]
    return max(needed, default=-1) + 1


class Pass:
    """Forward and backward passes of one run over some nodes. Keeps references to all memory that the kernel uses."""

    def __init__(self, network: Network, weights: Weights, gradients: Weights, rows: Rows, drawn: bool = False) -> None:
        """weights, gradients: of one run. drawn: whether every pass draws its own nodes. Raises ValueError for a label that is no
        class of the network.
        """
        from ..kernels import mlp, net

        strange = rows.labels[(rows.labels < 0) | (rows.labels >= network.classes)]
        if len(strange):  # the kernel would write beyond its memory
            raise ValueError(f"label {int(strange[0])}: must be in 0 … {network.classes - 1}, the classes of the network.")
        plan, self._kernel = planned(network, rows.inputs, drawn), mlp
        self.weights, self.gradients = weights, gradients
        ends = np.cumsum([len(segment) for segment in plan.segments], dtype=np.int64)
        steps = [step for segment in plan.segments for step in segment]
        memory = _Memory(weights, rows, drawn, net.BLOCK)
        operations = np.array([memory.operation(step) for step in steps], dtype=net.OPERATION)
        starts, columns, entries = memory.sparse()
        begins = ends - np.array([len(segment) for segment in plan.segments])
        self._net = net.Net(
            operations=operations,
            ends=ends,
            again=begins + np.array(plan.again),
            numbers=weights.buffer.numpy(),
            slopes=gradients.buffer.numpy(),
            room=memory.room.array(),
            moments=np.zeros((memory.moments, 9)),
            tables=memory.tables.array(),
            x=aligned(plan.rows * net.BLOCK),
            d=aligned(plan.rows * net.BLOCK),
            spare=aligned(4 * net.BLOCK),
            line=np.zeros(max(step.outputs for step in steps), dtype=np.float32),
            starts=starts,
            columns=columns,
            entries=entries,
            labels=rows.labels.numpy().astype(np.int32),
            classes=network.classes,
            logits=plan.segments[-1][-1].to,
        )
        self._nodes = np.arange(len(rows.labels), dtype=np.int32)

    def clipped_gradient(self, drawn: NDArray[np.int32], clip: float) -> None:
        """Writes the sum of the gradients of single rows into `gradients`, each scaled to norm `clip` at most. drawn: the numbers
        of the rows. If `clip` is 0, writes the gradient of their mean cross-entropy instead.
        """
        self._kernel.gradient(self._net, drawn, np.float32(clip))

    def train(self, epochs: int, learning_rate: float, check: Pass | None) -> Weights:
        """Trains the weights by Adam, with one step in every epoch, and returns them. With `check`, a pass over other rows with
        the same weights, returns the weights of the first epoch with the most hits.
        """
        best = self.weights if check is None else self.weights.copy()
        checked = (check._net, check._nodes) if check else (self._net, self._nodes[:0])
        mean, square = (np.zeros(self.weights.flat.numel(), dtype=np.float32) for _ in range(2))
        self._kernel.train(self._net, self._nodes, *checked, mean, square, best.buffer.numpy(), epochs, learning_rate)
        return best

    def hits(self) -> int:
        """How many rows are classified correctly, with the running moments of the batch norms."""
        return int(self._kernel.hits(self._net, self._nodes))


class _Memory:
    """Lays out the inputs, tables and moments of a network's operations in buffers, and gives every operation its offsets."""

    def __init__(self, weights: Weights, rows: Rows, drawn: bool, block: int) -> None:
        self._weights, self._rows, self._drawn, self._block = weights, rows, drawn, block
        self._kept: dict[int, dict[str, int]] = {}
        self._matrices: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self.room, self.tables, self.moments = _Buffer(block), _Buffer(LINE), 0

    def operation(self, step: Step) -> tuple[int, ...]:
        """The fields of `net.OPERATION`."""
        x: Any = self._rows.inputs[step.branch] if step.branch >= 0 else None
        places: dict[str, int] = {}
        if step.layer >= 0:
            begin = self._weights.buffer.data_ptr()
            found = [(a.data_ptr() - begin) // 4 for a in self._weights.numbers[step.layer]]
            places |= zip(("first", "second", "mean", "variance"), found, strict=False)
        if step.kind == FEATURES:
            places["matrix"] = sum(starts.size for starts, _, _ in self._matrices)
            places["sums"] = self.tables.put(np.zeros(2 * step.inputs * step.outputs, dtype=np.float32))
            starts, columns, entries = x.rows32
            ones = np.ones(len(columns), dtype=np.float32)
            self._matrices.append((starts.numpy(), columns.numpy(), ones if entries is None else entries.numpy()))
        elif step.kind == LINEAR and x is not None and not self._drawn:
            places["kept"] = self.room.put(blocked(by_unit(x), self._block)) // self._block
        elif step.kind == TAKE:
            places["sums"] = self.tables.put(by_unit(x).t().numpy())
        elif step.kind == KEEP:
            whole = -(-len(self._rows.labels) // self._block) * self._block
            kept, slope = (self.room.put(np.zeros(whole * units, dtype=np.float32)) for units in (step.inputs, step.outputs))
            self._kept[step.layer] = {"kept": kept // self._block, "slope": slope // self._block, "sums": self.moments}
            self.moments += step.outputs
        places |= self._kept.get(step.layer, {})
        shape = (step.kind, step.inputs, step.outputs, step.start, step.to, step.centred, step.branch >= 0)
        names = ("first", "second", "mean", "variance", "kept", "slope", "sums", "matrix")
        return (*shape, *(places.get(name, -1) for name in names))

    def sparse(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """The sparse features of all branches, concatenated: row starts, columns and entries."""
        starts, columns, entries = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for begins, which, values in self._matrices:
            starts.append(begins.astype(np.int64) + sum(a.size for a in columns))
            columns.append(which)
            entries.append(values)
        return np.concatenate(starts), np.concatenate(columns), np.concatenate(entries)


class _Buffer:
    """Joins arrays into one flat buffer, each at an offset that is a multiple of `line`."""

    def __init__(self, line: int) -> None:
        self._line, self._size = line, 0
        self._parts: list[tuple[int, NDArray[np.float32]]] = []

    def put(self, part: NDArray[np.float32]) -> int:
        """Adds a part, and returns its offset."""
        at = self._size
        self._parts.append((at, part))
        self._size += -(-part.size // self._line) * self._line
        return at

    def array(self) -> NDArray[np.float32]:
        whole = aligned(self._size)
        for at, part in self._parts:
            whole[at : at + part.size] = part.ravel()
        return whole


def aligned(size: int) -> NDArray[np.float32]:
    """`size` zeros. They begin at a multiple of 64 bytes, so that no vector of a block lies in two cache lines."""
    found = np.zeros(size + 16, dtype=np.float32)
    first = -found.ctypes.data % 64 // 4
    return found[first : first + size]


def by_unit(x: Shared | Tensor) -> Tensor:
    """(units, nodes): dense features that all runs share, or the input of a single run."""
    return x.dense.t() if isinstance(x, Shared) else x[0]


def blocked(x: Tensor, block: int) -> NDArray[np.float32]:
    """(units, nodes) -> (blocks, units, block), padded with zeros."""
    blocks = -(-x.shape[1] // block)
    filled = torch.nn.functional.pad(x, (0, blocks * block - x.shape[1]))
    found: NDArray[np.float32] = filled.view(len(x), blocks, block).transpose(0, 1).contiguous().numpy()
    return found
