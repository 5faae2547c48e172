"""Sums over neighbours with weights that are computed from degrees, for K runs. No weight is stored for an arc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..graph.graph import Worlds
from ..graph.neighbour_lists import incoming
from .attention import attend
from .neighbour_sums import Bags


@dataclass(frozen=True, eq=False)
class Weighted:
    """For each run the matrix left (A + loops I) right, where A sums over senders, and left and right are diagonal.

    bags, back: the lists of A and of its transpose, one for all runs or one for each. left, right: the diagonals, (nodes,)
    float32 each, one for all runs or one for each. Gradients do not reach the weights.
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
        """left * right: the factor of each row between two consecutive multiplications with A."""
        return [left * right for left, right in zip(self.left, self.right, strict=True)]

    def __matmul__(self, rows: Tensor) -> Tensor:
        return self.power(rows, 1)

    def power(self, rows: Tensor, steps: int) -> Tensor:
        """The matrix, applied `steps` times: (K, nodes, units) -> the same shape."""
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

    bags, back: the senders to every receiver, and the receivers of every sender; one for all runs or one for each. In an
    undirected graph `back` is `bags`. In a directed graph it takes 4 more bytes for each arc.
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
        """The number of arcs into each node, (nodes,) float64, one tensor for all runs or one for each."""
        return [torch.from_numpy(np.diff(bags.lists.starts).astype(np.float64)).to(self.device) for bags in self.bags]

    @cached_property
    def total(self) -> Weighted:
        """Computes, for every node, the sum over the arcs into it."""
        ones = [torch.ones_like(degree, dtype=torch.float32) for degree in self.degrees]
        return Weighted(self.bags, self.back, ones, ones)

    @cached_property
    def mean(self) -> Weighted:
        """Computes, for every node, the mean over the arcs into it; zero if there are none."""
        left = [(1 / degree.clamp(min=1)).float() for degree in self.degrees]
        return Weighted(self.bags, self.back, left, [torch.ones_like(own) for own in left])

    @cached_property
    def symmetric(self) -> Weighted:
        """D^-1/2 (A + I) D^-1/2 with D the degrees of A + I (Kipf and Welling 2017, equation 2)."""
        root = [(degree + 1).rsqrt().float() for degree in self.degrees]
        return Weighted(self.bags, self.back, root, root, loops=True)

    @cached_property
    def normalised(self) -> Weighted:
        """D^-1/2 A D^-1/2 without self loops, as in LPGNN's KProp. The row of a node without edges is zero."""
        root = [degree.clamp(min=1).rsqrt().float() for degree in self.degrees]
        return Weighted(self.bags, self.back, root, root)

    def attend(self, rows: Tensor, to: Tensor, fro: Tensor) -> Tensor:
        """`attention.attend` for every run. rows: (K, nodes, heads, units); to, fro: (K, nodes, heads)."""
        bags = self.bags if len(self.bags) > 1 else [self.bags[0]] * self.runs
        return torch.stack([attend(*run) for run in zip(rows, to, fro, bags, strict=True)])
