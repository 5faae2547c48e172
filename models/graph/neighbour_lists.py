"""Builds one list of senders for every receiver, in time and memory linear in the number of arcs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 18  # edges that are turned into arcs and sorted at a time: about 20 MiB


@dataclass(frozen=True, eq=False)
class Lists:
    """The senders to every node. Node i receives from senders[starts[i] : starts[i + 1]]; a sender appears once for each arc.

    starts: (nodes + 1,) int64. senders: (arcs,) int32, perhaps mapped from a file.
    """

    starts: NDArray[np.int64]
    senders: NDArray[np.int32]


def degrees(edges: NDArray[np.int64], nodes: int, directed: bool) -> NDArray[np.int64]:
    """(nodes,) int64: the number of arcs into each node. edges: (2, m); an undirected edge is two arcs."""
    received = np.bincount(edges[1], minlength=nodes)
    return received if directed else received + np.bincount(edges[0], minlength=nodes)


def incoming(edges: NDArray[np.int64], nodes: int, directed: bool, senders: NDArray[np.int32] | None = None) -> Lists:
    """The lists of a graph. edges: (2, m) int64, arcs (from, to) if directed. senders: (arcs,) int32, the array to write the
    senders into, or None for a new one.

    Edges are read in blocks, so they may lie in a file that is larger than the memory. Raises ValueError for 2^31 nodes or more.
    """
    if nodes >= 2**31:
        raise ValueError(f"{nodes} nodes: neighbour lists hold 32-bit numbers. Use fewer than 2147483648.")
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(degrees(edges, nodes, directed), out=starts[1:])
    if senders is None:
        senders = np.empty(starts[-1], dtype=np.int32)
    free = starts[:-1].copy()
    for keys in blocks(edges, directed):
        receivers = keys >> 32
        first = np.flatnonzero(np.diff(receivers, prepend=-1))
        counts = np.diff(first, append=len(keys))
        places = np.arange(len(keys)) + np.repeat(free[receivers[first]] - first, counts)
        senders[places] = keys & 0xFFFFFFFF
        free[receivers[first]] += counts
    return Lists(starts, senders)


def blocks(edges: NDArray[np.int64], directed: bool) -> Iterator[NDArray[np.int64]]:
    """For each block of edges, its arcs as the numbers receiver * 2^32 + sender, ascending."""
    for at in range(0, edges.shape[1], BLOCK):
        send, receive = (np.asarray(end[at : at + BLOCK], dtype=np.int64) for end in edges)
        keys = (receive << 32) | send
        keys = keys if directed else np.concatenate([keys, (send << 32) | receive])
        keys.sort()
        yield keys


def received(lists: Lists, nodes: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int32]]]:
    """The lists of `nodes`, in blocks of about BLOCK arcs. A block is a slice of `nodes`, and the `starts` and `senders` of the
    lists of these nodes.
    """
    begin, counts = lists.starts[nodes], lists.starts[nodes + 1] - lists.starts[nodes]
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // BLOCK, prepend=0)) + 1
    for first, stop in pairwise([0, *cuts.tolist(), len(nodes)]):
        starts = np.concatenate([[0], np.cumsum(counts[first:stop])])
        at = np.arange(starts[-1]) + np.repeat(begin[first:stop] - starts[:-1], counts[first:stop])
        yield slice(first, stop), starts, lists.senders[at]
