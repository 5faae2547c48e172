"""Turns a network and its nodes into a program for the compiled kernel, which trains one run after the other."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..kernels import library
from .features import Shared
from .layers import BatchNorm, GroupNorm, Linear, Selu, UnitLength, UnitLinear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from .network import Network, Rows, Weights

LANES, BLOCK = 16, 64  # the most that vectors.h chooses, which fixes how much room is needed; as in layers.h
LINEAR, FEATURES, TAKE, SELU, UNIT, GROUP, NORM, KEEP = range(8)  # as in operations.h
WIDEST = 256  # units; for wider layers a GEMM library is faster


@dataclass
class Step:
    """One operation. layer: the index of its numbers. start, to: rows of the block where it reads and writes.

    branch: whose input it reads, where that is no row of the block.
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
        """A unit vector is kept with its inverse length."""
        return self.outputs + (self.kind == UNIT)


@dataclass
class Plan:
    """Segments as kernel.c wants them, each but the last with a KEEP at its end. rows: how many a block needs."""

    segments: list[list[Step]] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    rows: int = 0


def expressible(network: Network, *parts: Rows | None) -> bool:
    """Whether there is a kernel that knows all layers and the memory in which those nodes lie."""
    layers = (Linear, Selu, BatchNorm, GroupNorm, UnitLength, UnitLinear)
    return (
        all(isinstance(layer, layers) for layer in network.layers)
        and all(branch and isinstance(branch[0], Linear) for branch in network.branches)
        and (len(network.branches) == 1 or not any(isinstance(branch[-1], UnitLength) for branch in network.branches))
        and max((layer.inputs for layer in network.layers[1:] if isinstance(layer, Linear | UnitLinear)), default=0) <= WIDEST
        and all(_readable(rows) for rows in parts if rows is not None)
        and library.library() is not None
    )


def _readable(rows: Rows) -> bool:
    """Wide dense features are left to a GEMM library, those that lie in a file, a graph or an accelerator to torch."""
    shared = [x for x in rows.inputs if isinstance(x, Shared)]
    own = [x for x in rows.inputs if not isinstance(x, Shared)]
    known = all(x.sparse or (x.dim <= WIDEST and not x.mapped) for x in shared) and all(x.dtype == torch.float32 for x in own)
    return known and rows.counted is None and rows.labels.device.type == "cpu"


def planned(network: Network, inputs: Sequence[Any], drawn: bool = False) -> Plan:
    """Cuts branches and trunk where batch norms lie, and gives every output its rows. drawn: nodes are drawn for every pass."""
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
    """Steps of some layers in a row, a new list behind every batch norm. rows: what a norm that comes first has to keep."""
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
    """Lets each step read what the one before wrote, into rows from `free` on; returns the first row that is left."""
    for i, step in enumerate(steps):
        step.start = steps[i - 1].to if i else 0
        if step.kind != KEEP:
            step.to, free = free, free + step.rows
    plan.rows = max(plan.rows, free)
    return free


def _again(steps: list[Step]) -> int:
    """How many steps the backward pass repeats: up to the last one whose output it reads. What is kept at the end is loaded."""
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
    """Forward and backward passes of one run over some nodes. Holds on to all memory that the kernel works in."""

    def __init__(self, network: Network, weights: Weights, gradients: Weights, rows: Rows, drawn: bool = False) -> None:
        """weights, gradients: of one run. drawn: nodes are drawn for every pass. Raises ValueError for a label of no class."""
        strange = rows.labels[(rows.labels < 0) | (rows.labels >= network.classes)]
        if len(strange):  # the kernel would write beyond its memory
            raise ValueError(f"label {int(strange[0])}: must be in 0 … {network.classes - 1}, the classes of the network.")
        plan, self._alive = planned(network, rows.inputs, drawn), [weights, gradients]
        self._weights, self._gradients, kept = weights, gradients, dict[int, dict[str, int]]()
        operations = [self._operation(step, rows, kept, drawn) for steps in plan.segments for step in steps]
        ends = np.cumsum([len(steps) for steps in plan.segments])
        again = ends - [len(steps) for steps in plan.segments] + plan.again
        self._program = library.Program(
            self._at((library.Operation * len(operations))(*operations)),
            *(self._at(torch.from_numpy(a.astype(np.int32))) for a in (ends, again)),
            self._at(rows.labels.to(torch.int32)),
            None,
            len(plan.segments),
            len(rows.labels),
            network.classes,
            plan.segments[-1][-1].to,
            *(self._fresh(plan.rows * BLOCK) for _ in "xd"),
        )

    def gradient(self) -> None:
        """Writes the gradient of the mean cross-entropy, and lets batch norms remember what they saw."""
        library.loaded().gradient(self._program)

    def clipped_gradient(self, drawn: NDArray[np.int32], clip: float) -> None:
        """Writes the sum over the drawn rows of each one's gradient, scaled to norm `clip` at most."""
        self._program.nodes, self._program.drawn = len(drawn), drawn.ctypes.data
        library.loaded().clipped_gradient(self._program, clip)

    def hits(self) -> int:
        """How many nodes are classified rightly, with the moments that batch norms remember."""
        return int(library.loaded().hits(self._program))

    def _operation(self, step: Step, rows: Rows, kept: dict[int, dict[str, int]], drawn: bool) -> library.Operation:
        op = library.Operation(step.kind, step.inputs, step.outputs, step.start, step.to, step.centred, step.branch >= 0)
        x: Any = rows.inputs[step.branch] if step.branch >= 0 else None
        addresses: dict[str, int | None] = {}
        if step.layer >= 0:
            numbers, slopes = self._weights.numbers[step.layer], self._gradients.trained[step.layer]
            addresses |= zip(("first", "second", "mean", "variance"), (a.data_ptr() for a in numbers), strict=False)
            addresses |= zip(("first_slope", "second_slope"), (a.data_ptr() for a in slopes), strict=True)
        if step.kind == FEATURES:
            starts, columns, entries = x.rows32
            addresses |= {"starts": self._at(starts), "columns": self._at(columns)}
            addresses["entries"] = None if entries is None else self._at(entries)
            addresses["sums"] = self._fresh((2 * step.inputs * -(-step.outputs // LANES) + step.outputs) * LANES)
        elif step.kind == LINEAR:
            addresses["sums"] = self._fresh(step.outputs * (step.inputs + 1) * LANES)
            if x is not None and not drawn:
                addresses["kept"] = self._at(blocked(by_unit(x)))
        elif step.kind == TAKE:
            addresses["kept"] = self._at(by_unit(x).contiguous())
        elif step.kind == GROUP:
            addresses["sums"] = self._fresh(2 * step.outputs * LANES)
        elif step.kind == KEEP:
            nodes = -(-len(rows.labels) // BLOCK) * BLOCK
            kept[step.layer] = {"kept": self._fresh(nodes * step.inputs), "slope": self._fresh(nodes * step.outputs)}
            kept[step.layer]["sums"] = self._fresh(3 * step.outputs * LANES)
        for name, address in (addresses | kept.get(step.layer, {})).items():
            setattr(op, name, address)
        return op

    def _fresh(self, numbers: int) -> int:
        return self._at(torch.empty(numbers))

    def _at(self, a: Any) -> int:
        self._alive.append(a)
        return int(a.data_ptr() if isinstance(a, torch.Tensor) else ctypes.addressof(a))


class Adam:
    """optim.Adam in one pass over memory."""

    def __init__(self, weights: Weights, gradients: Weights, learning_rate: float) -> None:
        self._size, self._learning_rate, self._steps = weights.flat.numel(), learning_rate, 0
        self._alive = [weights.flat, gradients.flat, torch.zeros_like(weights.flat), torch.zeros_like(weights.flat)]
        self._places = [a.data_ptr() for a in self._alive]

    def step(self, share: float = 1.0) -> None:
        """One step along `share` times the gradient."""
        self._steps += 1
        rate, below = self._learning_rate / (1 - 0.9**self._steps), 1 / math.sqrt(1 - 0.999**self._steps)
        library.loaded().adam(self._size, *self._places, share, rate, below)


def by_unit(x: Shared | Tensor) -> Tensor:
    """Dense features of all runs, or what the only run reads: (units, nodes)."""
    return x.dense.t() if isinstance(x, Shared) else x[0]


def blocked(x: Tensor) -> Tensor:
    """(units, nodes) -> (blocks, units, BLOCK), filled up with zeros."""
    blocks = -(-x.shape[1] // BLOCK)
    filled = torch.nn.functional.pad(x, (0, blocks * BLOCK - x.shape[1]))
    return filled.view(len(x), blocks, BLOCK).transpose(0, 1).contiguous()
