"""Groups runs that train together. All runs of a group train on the same nodes, and the group fits the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..graph.degree_cap import bounded
from ..kernels import compiled
from ..sparse.neighbour_sums import Aggregation
from .features import Shared
from .network import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from ..graph.graph import Worlds

# largest size in bytes of one layer's activations in all runs that train together; several such arrays are in memory at a time
CACHE = 2**20
# the same limit for the compiled kernel, which trains one run at a time, so the activations of all runs need not fit the cache
ROOM = 2**22


def companies(worlds: Worlds, units: int, batch: int | None = None) -> Iterator[slice]:
    """Slices of consecutive runs that train on the same nodes. The slices are so short that `units` activations for each node and
    run fit the cache.

    batch: how many nodes a step uses; None for all training nodes. A private run also holds its own graph, so it counts as four
    times the batch.
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


class Company:
    """For some worlds, the nodes to train on, to validate on, to release and to compute, and the network inputs for these
    nodes.
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
        """Neighbour sums in these worlds, with out-degrees cut at random if there is a bound."""
        if max_degree is None:
            return Aggregation.of(self.worlds, self.device)
        graph = self.worlds.graph
        return Aggregation.over(graph.nodes, [graph.arcs[:, kept] for kept in bounded(self.worlds, max_degree)], self.device)

    def rows(self, which: str, inputs: Sequence[Tensor | None]) -> Rows:
        """The rows of one kind of nodes (`which`) in every input. inputs: (runs, nodes, units), or None for the features."""
        nodes = torch.from_numpy(self.nodes[which]).to(self.device)
        parts: list[Any] = [
            self.features(which) if x is None else x.index_select(1, nodes).transpose(1, 2).contiguous() for x in inputs
        ]
        labels = torch.from_numpy(self.worlds.graph.y[self.nodes[which]]).to(self.device)
        return Rows(parts, labels)
