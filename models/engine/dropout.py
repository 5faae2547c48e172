"""Dropout for K runs at once. Every run draws its masks from its own stream, independently of the other runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..random.streams import stream
from ..sparse.block_diagonal import Operator

# For each share a table with a row for every byte b. The row holds the factors of eight units, one for each bit of b: 0 for a
# dropped unit, 1 / (1 - share) for a kept one.
BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
TABLES = {share: BITS * np.float32(1 / (1 - share)) for share in (0.25, 0.5, 0.75)}


@dataclass(eq=False)
class Dropout:
    """Sets each unit of one layer to zero with probability `share`, and divides the others by 1 - share.

    Each call draws a new mask, which overwrites the last one. rows: how many nodes each run has; padding stays zero.
    """

    share: float
    rows: list[int]
    randoms: list[np.random.Generator]
    device: str
    buffer: NDArray[np.float32] | None = None

    @staticmethod
    def of(share: float, seeds: NDArray[np.uint64], rows: list[int], purpose: str, device: str) -> Dropout:
        return Dropout(share, rows, [stream(seed, purpose) for seed in seeds], device)

    def relu(self, x: Tensor) -> Tensor:
        """ReLU and then dropout, in place. x: (K, size, units)."""
        if not self.share:
            return torch.relu_(x)
        y: Tensor = ReluTimes.apply(x, self.mask(x.shape), 1 / (1 - self.share))
        return y

    def features(self, x: Operator | Tensor) -> Operator | Tensor:
        """Dropout of features: (K, size, dim), or a block-diagonal matrix, of which only the stored entries need factors."""
        if not self.share:
            return x
        if isinstance(x, Tensor):
            return x * self.mask(x.shape)
        size = x.matrix.shape[0] // len(self.rows)
        stored = torch.diff(x.matrix.crow_indices()[::size]).tolist()
        factors = [draw(random, count, self.share) for random, count in zip(self.randoms, stored, strict=True)]
        return x.scaled(torch.from_numpy(np.concatenate(factors)).to(self.device))

    def mask(self, shape: tuple[int, ...]) -> Tensor:
        """(K, size, units) float32: zero with probability `share`, else 1 / (1 - share)."""
        if self.buffer is None:
            # the buffer is kept for the next call, because allocating memory takes three times as long as the draw
            self.buffer = np.zeros(shape, dtype=np.float32)
        for mask, random, rows in zip(self.buffer, self.randoms, self.rows, strict=True):
            mask[:rows] = draw(random, rows * shape[2], self.share).reshape(rows, shape[2])
        return torch.from_numpy(self.buffer).to(self.device)

    def kept(self, shape: tuple[int, int]) -> NDArray[np.uint8]:
        """For a single run, the coins of its next mask: 0 with probability `share`, else 1."""
        return kept(self.randoms[0], shape[0] * shape[1], self.share).reshape(shape)


def draw(random: np.random.Generator, count: int, share: float) -> NDArray[np.float32]:
    """`count` factors: zero with probability `share`, else 1 / (1 - share). A share of 1/2 takes one random bit for each factor,
    a share of 1/4 or 3/4 takes two, any other share takes 16.
    """
    if share not in TABLES:
        return coins(random, count, share) * np.float32(1 / (1 - share))
    return TABLES[share].take(eights(random, count, share), axis=0).reshape(-1)[:count]


def kept(random: np.random.Generator, count: int, share: float) -> NDArray[np.uint8]:
    """`draw` without the factor of kept units: 0 with probability `share`, else 1. It takes the same random bits."""
    return np.unpackbits(eights(random, count, share))[:count] if share in TABLES else coins(random, count, share).view(np.uint8)


def coins(random: np.random.Generator, count: int, share: float) -> NDArray[np.bool_]:
    """`count` coins: False with probability `share`, else True. One coin in 65,536 takes a number of its own, because 16 bits do
    not decide it.
    """
    cut, rest = divmod(share * 65536, 1)
    numbers = random.bit_generator.random_raw(-(-count // 4)).view(np.uint16)[:count]
    found = numbers > int(cut)
    undecided = np.flatnonzero(numbers == int(cut))
    found[undecided] = random.random(undecided.size) >= rest
    return found


def eights(random: np.random.Generator, count: int, share: float) -> NDArray[np.uint8]:
    """At least `count` coins, eight in a byte: a bit is 0 with probability `share`, which is one of TABLES."""

    def fair() -> NDArray[np.uint8]:
        return np.frombuffer(random.bytes(-(-count // 8)), dtype=np.uint8)

    if share == 0.5:
        return fair()
    return fair() & fair() if share == 0.75 else fair() | fair()


class ReluTimes(torch.autograd.Function):
    """relu(x) * mask, written over x. Entries of the mask are 0 or `factor`. The backward pass does not need the mask: a unit
    passes its gradient on if and only if the result is above zero.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, factor: float) -> Tensor:
        y = x.relu_().mul_(mask)
        ctx.factor = factor
        ctx.mark_dirty(y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return torch.ops.aten.threshold_backward(grads[0], *ctx.saved_tensors, 0).mul_(ctx.factor), None, None
