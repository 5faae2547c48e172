"""A graph without some of its edges. It reads the arrays of the whole graph, and copies them only when it must."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .graph import Graph


class Without(Graph):
    """The graph `whole` without the edges `gone`, made by `without`.

    Reading `edges` or `incoming` copies the edges that are left. Until then, `edge_blocks` and `into` read the whole graph.
    """

    whole: Graph
    gone: NDArray[np.int64]

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        keep = np.ones(self.whole.edges.shape[1], dtype=bool)
        keep[self.gone] = False
        return self.whole.edges[:, keep]

    def edge_blocks(self) -> Iterator[NDArray[np.int64]]:
        if "edges" in vars(self):
            yield from super().edge_blocks()
            return
        at = 0
        for block in self.whole.edge_blocks():
            first, stop = np.searchsorted(self.gone, [at, at + block.shape[1]])
            yield np.delete(block, self.gone[first:stop] - at, axis=1)
            at += block.shape[1]

    def into(self, nodes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int32]]]:
        if "edges" in vars(self):
            yield from super().into(nodes)
            return
        send, receive = self.whole.edges[:, self.gone]
        numbers = receive * self.nodes + send
        numbers = np.sort(numbers if self.directed else np.concatenate([numbers, send * self.nodes + receive]))
        for some, starts, senders in self.whole.into(nodes):
            own = np.repeat(nodes[some], np.diff(starts)) * self.nodes + senders
            keep = np.searchsorted(numbers, own) == np.searchsorted(numbers, own, side="right")
            yield some, np.concatenate([[0], np.cumsum(keep)])[starts], senders[keep]


def without(graph: Graph, gone: NDArray[np.int64]) -> Graph:
    """The graph without the edges `gone`, (g,) int64: ascending indices into graph.edges. The graph lists each edge once."""
    made = object.__new__(Without)
    kept = {field.name: getattr(graph, field.name) for field in fields(Graph) if field.name != "edges"}
    vars(made).update(kept, whole=graph, gone=gone)
    return made
