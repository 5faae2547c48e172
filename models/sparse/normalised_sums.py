"""Sums over neighbours with weights computed from degrees, for K runs. The only number stored for an arc is its sender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..graph.neighbour_lists import incoming
from .attention import attend
from .neighbour_sums import Bags

if TYPE_CHECKING:
    from ..graph.graph import Worlds


@dataclass(frozen=True, eq=False)
class Weighted:
    """For each run the matrix left (A + loops I) right, where A sums over senders, and left and right are diagonal.

    bags, back: the lists of A and of its transpose, one for all runs or one for each. left, right: one or one for each run,
    (nodes,) float32. The backward pass multiplies by the transpose. Gradients do not reach the weights.
    """

    bags: Sequence[Bags]
    back: Sequence[Bags]
    left: Sequence[Tensor]
    right: Sequence[Tensor]
    loops: bool = False

    @property
    def transposed(self) -> Weighted:
        return Weighted(self.back, self.bags, self.right, self.left, self.loops)

    @cached_property
    def between(self) -> list[Tensor]:
        """The factor of each row between two consecutive multiplications with A."""
        return [left * right for left, right in zip(self.left, self.right, strict=True)]

    def __matmul__(self, rows: Tensor) -> Tensor:
        return self.power(rows, 1)

    def power(self, rows: Tensor, steps: int) -> Tensor:
        """The matrix `steps` times over: (K, nodes, units) -> the same shape."""
        if not steps:
            return rows
        out: Tensor = Power.apply(rows, self, steps)
        return out

    def multiplied(self, rows: Tensor, steps: int) -> Tensor:
        """`power` without gradients, for at least one step."""
        rows = rows.contiguous()
        out = torch.empty_like(rows)
        for run, (x, to) in enumerate(zip(rows, out, strict=True)):
            own = run if len(self.bags) > 1 else 0
            left, between, right = (scale[own][:, None] for scale in (self.left, self.between, self.right))
            x = x * right
            for step in range(steps):
                self.bags[own].add_up(x, to)
                if self.loops:
                    to.add_(x)
                to.mul_(left if step + 1 == steps else between)
                x = to.clone() if step + 1 < steps else x
        return out


class Power(torch.autograd.Function):
    """A constant matrix applied several times to the rows of all runs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Weighted, steps: int) -> Tensor:
        ctx.matrix, ctx.steps = matrix, steps
        return matrix.multiplied(rows, steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.transposed.multiplied(grads[0], ctx.steps), None, None


@dataclass(frozen=True, eq=False)
class Whole:
    """K runs on all nodes of a graph, each with its own edges. It has the interface of `Blocks`, but stores no weight for an arc.

    bags, back: the senders of every receiver, and the receivers of every sender; one for all runs or one for each. `bags` and
    `back` are equal if the graph is undirected. Otherwise `back` is built, at 4 bytes for each arc.
    """

    runs: int
    size: int
    bags: Sequence[Bags]
    back: Sequence[Bags]
    device: str

    @staticmethod
    def of(worlds: Worlds, device: str = "cpu") -> Whole:
        graph = worlds.graph
        every = worlds.edges is None and worlds.nodes is None
        edges = [graph.edges] if every else [graph.edges[:, kept] for kept in worlds.edge_present()]
        lists = [graph.incoming] if every else [incoming(own, graph.nodes, graph.directed) for own in edges]
        bags = back = [Bags(own, device) for own in lists]
        if graph.directed:
            back = [Bags(incoming(own[::-1], graph.nodes, directed=True), device) for own in edges]
        return Whole(len(worlds), graph.nodes, bags, back, device)

    @property
    def nodes(self) -> int:
        return self.runs * self.size

    @cached_property
    def degrees(self) -> list[Tensor]:
        """How many arcs each node receives, (nodes,) float64."""
        return [torch.from_numpy(np.diff(bags.lists.starts).astype(np.float64)).to(self.device) for bags in self.bags]

    @cached_property
    def total(self) -> Weighted:
        """Row i: the sum over the arcs into i."""
        ones = [torch.ones_like(degree, dtype=torch.float32) for degree in self.degrees]
        return Weighted(self.bags, self.back, ones, ones)

    @cached_property
    def mean(self) -> Weighted:
        """Row i: the mean over the arcs into i, zero without any."""
        left = [(1 / degree.clamp(min=1)).float() for degree in self.degrees]
        return Weighted(self.bags, self.back, left, [torch.ones_like(own) for own in left])

    @cached_property
    def symmetric(self) -> Weighted:
        """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I (Kipf and Welling 2017, equation 2)."""
        root = [(degree + 1).rsqrt().float() for degree in self.degrees]
        return Weighted(self.bags, self.back, root, root, loops=True)

    @cached_property
    def normalised(self) -> Weighted:
        """D^-1/2 A D^-1/2 without self loops; the row of a node without edges is zero (KProp)."""
        root = [degree.clamp(min=1).rsqrt().float() for degree in self.degrees]
        return Weighted(self.bags, self.back, root, root)

    def attend(self, rows: Tensor, to: Tensor, fro: Tensor) -> Tensor:
        """For every head, a softmax over the arcs into each node and its self loop: see `attention.attend`."""
        bags = self.bags if len(self.bags) > 1 else [self.bags[0]] * self.runs
        return torch.stack([attend(*run) for run in zip(rows, to, fro, bags, strict=True)])
