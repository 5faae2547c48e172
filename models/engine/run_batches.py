"""Groups runs that train together. All runs of a group train on the same nodes, and their activations fit the cache."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..graph.degree_cap import bounded
from ..graph.graph import Worlds
from ..kernels.compiler import compiled
from ..sparse.neighbour_sums import Aggregation
from .features import Shared
from .network import Rows

# most bytes of one layer's activations in all runs that train together; several such arrays are in memory at a time
CACHE = 2**20
# the same limit for the compiled kernel. It is larger, because the kernel trains one run at a time
ROOM = 2**22


def companies(worlds: Worlds, units: int, batch: int | None = None) -> Iterator[slice]:
    """Slices of consecutive runs that train on the same nodes. A slice has one run, or so few that `units` float32 activations
    for each node and run take at most CACHE bytes (ROOM for the compiled kernel on full batches).

    batch: how many nodes a step uses; None means all training nodes. With a batch, four times as many nodes are counted, because
    each run also holds its own graph.
    """
    room = ROOM if batch is None and compiled.used() else CACHE
    nodes = max(1, int(worlds.graph.train.sum())) if batch is None else 4 * batch
    size = max(1, room // (4 * units * nodes))
    rows = None if worlds.nodes is None and worlds.labels is None else worlds.trained()
    first = 0
    for run in range(1, worlds.runs + 1):
        if run == worlds.runs or run - first == size or (rows is not None and not np.array_equal(rows[run], rows[first])):
            yield slice(first, run)
            first = run


class RunGroup:
    """Worlds that train on the same nodes, and their network inputs.

    nodes: the ids of the nodes to train on ("train"), to validate on ("check") and to release ("watch"), and of all nodes
    ("all"). features(which): the features of these nodes.
    """

    def __init__(self, worlds: Worlds, device: str) -> None:
        graph = worlds.graph
        self.worlds, self.device = worlds, device
        self.nodes: dict[str, NDArray[np.int64]] = {
            "train": worlds.trained()[0].nonzero()[0],
            "check": graph.val.nonzero()[0],
            "watch": worlds.watch,
            "all": np.arange(graph.nodes),
        }
        self.features = cache(lambda which: Shared(graph.x, self.nodes[which], device))

    def aggregation(self, max_degree: int | None = None) -> Aggregation:
        """Neighbour sums in these worlds. If max_degree is given, random arcs of larger out-degrees are removed."""
        if max_degree is None:
            return Aggregation.of(self.worlds, self.device)
        graph = self.worlds.graph
        return Aggregation.over(graph.nodes, [graph.arcs[:, kept] for kept in bounded(self.worlds, max_degree)], self.device)

    def rows(self, which: str, inputs: Sequence[Tensor | None]) -> Rows:
        """The inputs and labels of the nodes `which`. inputs: for each branch (runs, nodes, units), or None for the features."""
        nodes = torch.from_numpy(self.nodes[which]).to(self.device)
        parts: list[Any] = [
            self.features(which) if x is None else x.index_select(1, nodes).transpose(1, 2).contiguous() for x in inputs
        ]
        labels = torch.from_numpy(self.worlds.graph.y[self.nodes[which]]).to(self.device)
        return Rows(parts, labels)
