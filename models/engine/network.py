"""Many copies of one small network: layers, parameters, forward and backward pass.

The "numbers" of a layer are its trained parameters and its running moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..random.streams import stream
from .features import Shared
from .layers import Layer, Numbers, UnitLinear

Input = Any  # a Tensor (runs, units, nodes), or Shared features
# for each layer its trained numbers and its running moments, runs first
Parts = list[tuple[tuple["Tensor", ...], tuple["Tensor", ...]]]


@dataclass(frozen=True)
class Tape:
    """The data for the backward pass. saved: the values that each layer saved. widths: the number of units of each branch's
    output.
    """

    saved: list[Any]
    widths: list[int]


@dataclass(frozen=True)
class Network:
    """A network with one branch of layers for each input. The trunk reads the outputs of all branches."""

    branches: tuple[tuple[Layer, ...], ...]
    trunk: tuple[Layer, ...]
    classes: int

    @property
    def joined(self) -> bool:
        """Whether the trunk reads the branches' outputs as a list. If not, it reads them stacked."""
        return bool(self.trunk) and isinstance(self.trunk[0], UnitLinear)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return (*(layer for branch in self.branches for layer in branch), *self.trunk)

    def forward(self, numbers: Sequence[Numbers], inputs: Sequence[Input], training: bool = False) -> tuple[Tensor, Tape]:
        """(runs, classes, nodes) logits, and the tape for `backward`."""
        tape, parts, left = Tape([], []), [], list(numbers)
        for branch, given in zip(self.branches, inputs, strict=True):
            parts.append(through(branch, [left.pop(0) for _ in branch], given, training, tape.saved))
            tape.widths.append(parts[-1].shape[1])
        x: Any = parts
        if not self.joined:
            x = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return through(self.trunk, left, x, training, tape.saved), tape

    def backward(
        self, numbers: Sequence[Numbers], tape: Tape, dy: Tensor, gradients: Sequence[Numbers] | None
    ) -> list[tuple[Layer, Tensor, Any]]:
        """Writes the gradients of all trained numbers into `gradients`. If `gradients` is None, computes only the values from
        which they follow.

        Returns (layer, dy, saved values) for each layer, last layer first.
        """
        mechanism = []
        layers, last = self.layers, len(self.layers)

        def down(count: int, dy: Tensor, leaf: bool) -> Tensor:
            nonlocal last
            for i in range(last - 1, last - count - 1, -1):
                into = None if gradients is None else gradients[i]
                mechanism.append((layers[i], dy, tape.saved[i]))
                dx = layers[i].backward(numbers[i], dy, tape.saved[i], into, not (leaf and i == last - count))
                dy = dy if dx is None else dx
            last -= count
            return dy

        slope: Any = down(len(self.trunk), dy, False)
        parts = slope if self.joined else [part.contiguous() for part in slope.split(tape.widths, 1)]
        for branch, part in reversed(list(zip(self.branches, parts, strict=True))):
            down(len(branch), part, True)
        return mechanism


def through(
    layers: Sequence[Layer], numbers: Sequence[Numbers], x: Any, training: bool = False, saved: list[Any] | None = None
) -> Tensor:
    """The forward pass of consecutive layers. Appends the values that their backward passes need to `saved`, if given."""
    for layer, own in zip(layers, numbers, strict=True):
        x, kept = layer.forward(own, x, training)
        if saved is not None:
            saved.append(kept)
    return x


def draw(layers: Sequence[Layer], seeds: NDArray[np.uint64], *path: int | str, device: str = "cpu") -> Parts:
    """The initial numbers of some layers. Each run draws them from its own stream, named "start" and `path`."""
    streams = [stream(seed, "start", *path) for seed in seeds]
    parts: Parts = []
    for layer in layers:
        starts = [layer.start(random) for random in streams]
        trained, remembered = ([_stacked(runs, device) for runs in zip(*kind, strict=True)] for kind in zip(*starts, strict=True))
        parts.append((tuple(trained), tuple(remembered)))
    return parts


def _stacked(runs: Sequence[NDArray[Any]], device: str) -> Tensor:
    return torch.from_numpy(np.stack(runs).astype(np.float32)).to(device)


def apart(parts: Parts) -> list[Parts]:
    """For each run its own numbers, with a run axis of length 1."""
    runs = range(len(parts[0][0][0]))
    return [[(tuple(a[k : k + 1] for a in t), tuple(a[k : k + 1] for a in r)) for t, r in parts] for k in runs]


def together(parts: Sequence[Parts]) -> Parts:
    """The numbers of several runs, concatenated along the run axis."""
    layers = zip(*parts, strict=True)
    return [tuple(tuple(torch.cat(a) for a in zip(*kind, strict=True)) for kind in zip(*runs, strict=True)) for runs in layers]  # type: ignore[misc]


class Weights:
    """The numbers of K copies of a network, in one flat buffer, so that an optimiser step or a copy is a single pass.

    buffer: (all numbers,). flat: the first part of the buffer, (all trained numbers,). trained, remembered: for each layer its
    trained tensors and its running moments, runs first. numbers: for each layer both. All are views of the buffer.
    """

    def __init__(self, parts: Parts) -> None:
        tensors = [a for kind in (0, 1) for part in parts for a in part[kind]]
        self.buffer = torch.cat([a.reshape(-1) for a in tensors])
        pieces = self.buffer.split([a.numel() for a in tensors])
        views = iter([piece.view_as(a) for piece, a in zip(pieces, tensors, strict=True)])
        self.trained = [tuple(next(views) for _ in part[0]) for part in parts]
        self.remembered = [tuple(next(views) for _ in part[1]) for part in parts]
        self.numbers = [(*t, *r) for t, r in zip(self.trained, self.remembered, strict=True)]
        self.flat = self.buffer[: sum(a.numel() for layer in self.trained for a in layer)]

    @property
    def parts(self) -> Parts:
        return list(zip(self.trained, self.remembered, strict=True))

    def copy(self) -> Weights:
        return Weights(self.parts)

    def overwrite(self, other: Weights) -> None:
        """Copies all numbers of `other` into this buffer."""
        self.buffer.copy_(other.buffer)

    @cached_property
    def _owner(self) -> Tensor:
        """For every number, the index of its run."""
        tensors = [a for kind in (self.trained, self.remembered) for layer in kind for a in layer]
        return torch.cat([torch.arange(len(a), device=a.device).repeat_interleave(a[0].numel()) for a in tensors])

    def take(self, other: Weights, runs: Tensor) -> None:
        """Overwrites some runs with the numbers that they have in `other`. runs: (runs,) bool."""
        if bool(runs.any()):
            torch.where(runs[self._owner], other.buffer, self.buffer, out=self.buffer)


@dataclass(frozen=True)
class Rows:
    """The inputs of every branch for some nodes, and the labels of these nodes."""

    inputs: Sequence[Input]
    labels: Tensor  # (nodes,) int64
    counted: Tensor | None = None  # int64, the positions of the labelled nodes in the inputs; None means all nodes, in order

    def of(self, run: int) -> Rows:
        """The rows of one run, with a run axis of length 1."""
        return replace(self, inputs=[x if isinstance(x, Shared) else x[run : run + 1] for x in self.inputs])
