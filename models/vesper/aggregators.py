"""Aggregation rules of perturbed message passing, each with its sensitivity to one undirected edge.

Tensors have the nodes last, (runs, dim, nodes). Every rule acts on rows of norm at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..graph.graph import Graph, Mask, Worlds
from ..graph.neighbour_lists import Lists, degrees
from ..sparse.neighbour_sums import Aggregation
from .published import gcn_sensitivity, gcn_sensitivity_printed, gin_sensitivity

PROVED = ("gin", "gcn-floor", "mean-floor")  # for these rules sensitivity() is an upper bound on every graph
PUBLISHED = ("gin", "gcn-min-degree", "gcn-truncated")
TINY = 1e-30  # rows are divided by their length, or by the square root of TINY if that is larger


def normalise(rows: Tensor) -> Tensor:
    """Divides every row by its Euclidean norm; a zero row stays zero. (runs, dim, nodes) -> the same shape."""
    return rows * (rows * rows).sum(1, keepdim=True).clamp_min(TINY).rsqrt()  # many times faster than Tensor.norm


def floor_mean(floor: int) -> float:
    """The sensitivity of sum / max(d, floor) to one undirected edge, on any graph.

    The row of an end of degree d <= floor changes by at most 1/floor, the row of an end of larger degree by at most 2/d.
    """
    return math.sqrt(2) * max(1 / floor, 2 / (floor + 1))


def sensitivity(aggregator: str, floor: int) -> float:
    """The sensitivity of one layer: the Frobenius norm by which one undirected edge changes its rows, for fixed inputs and
    weights of norm 1.

    Exact for gin; an upper bound for gcn-floor and mean-floor; the printed value for gcn-min-degree and gcn-truncated. The
    printed value is an upper bound for gcn-min-degree. It is no bound for gcn-truncated, where a node whose degree is `floor`
    with the edge and below `floor` without it is computed in two different ways.
    """
    if aggregator == "gin":
        return gin_sensitivity()
    if aggregator == "gcn-floor":
        return gcn_sensitivity(floor)
    return floor_mean(floor) if aggregator == "mean-floor" else gcn_sensitivity_printed(floor)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The neighbours of every node in K subgraphs. total: sums over neighbours. degree: (K, 1, nodes) float32."""

    total: Aggregation
    degree: Tensor

    @staticmethod
    def of(
        edges: NDArray[np.int64], present: NDArray[np.bool_], nodes: int, device: str = "cpu", lists: Lists | None = None
    ) -> Neighbours:
        """edges: (2, m), undirected, each listed once. present: (K, m) bool, the edges of each run. lists: the neighbour lists of
        all edges; None means that they are built.
        """
        no_nodes = np.zeros(nodes, dtype=bool)
        bare = Graph(np.empty((nodes, 0), dtype=np.float32), no_nodes.astype(np.int64), edges, no_nodes, no_nodes, no_nodes)
        items = np.flatnonzero(~present.all(axis=0))
        vars(bare).update({} if lists is None else {"incoming": lists})
        worlds = Worlds.of(bare, list(range(len(present))), np.empty(0, dtype=np.int64))
        worlds = replace(worlds, edges=Mask(items, present[:, items]) if items.size else None)
        shared = degrees(edges, nodes, directed=False) - degrees(edges[:, items], nodes, directed=False)
        run, which = np.nonzero(present[:, items])
        own = np.bincount((edges[:, items[which]] + run * nodes).ravel(), minlength=len(present) * nodes)
        degree = (shared + own.reshape(len(present), 1, nodes)).astype(np.float32)
        return Neighbours(Aggregation.of(worlds, device), torch.from_numpy(degree).to(device))

    def sum(self, rows: Tensor) -> Tensor:
        """For each run, the sum of the neighbours' rows. (K, dim, nodes) -> (K, dim, nodes); no gradient."""
        return self.total(rows.transpose(1, 2)).transpose(1, 2).contiguous()


def aggregate(aggregator: str, floor: int, neighbours: Neighbours, rows: Tensor) -> Tensor:
    """The part of a layer that depends on the edges, before noise and weight. (K, dim, nodes) -> (K, dim, nodes).

    gin and mean-floor leave out the node's own row: it does not depend on edges and is added after the noise (`own_term`). The
    GCN rules weight the own row by the degree, so it is part of the sum. For gcn-truncated the result is the plain GCN row.
    """
    if aggregator == "gin":
        return neighbours.sum(rows)
    if aggregator == "mean-floor":
        return neighbours.sum(rows) / neighbours.degree.clamp_min(floor)
    degree = neighbours.degree.clamp_min(floor) if aggregator == "gcn-floor" else neighbours.degree
    coefficient = degree.add(1).rsqrt()
    scaled = coefficient * rows
    return coefficient * (neighbours.sum(scaled) + scaled)


def own_term(aggregator: str, rows: Tensor) -> Tensor | float:
    """The part of a layer that depends on no edge and is added after the noise: (K, dim, nodes), or 0.0."""
    return rows if aggregator in ("gin", "mean-floor") else 0.0


def spectral_scale(weight: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """A weight divided by its spectral norm, which one power iteration estimates, and the new vector.

    weight: (out, in). vector: (out,), of length 1, the current estimate of the left singular vector.
    """
    with torch.no_grad():
        right = torch.nn.functional.normalize(weight.T @ vector, dim=0)
        vector = torch.nn.functional.normalize(weight @ right, dim=0)
    return weight / (vector @ weight @ right), vector
