"""Samples edges and neighbours by a keyed hash of their two nodes, so that an absent edge changes no other draw."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .streams import fold


def ticket(path: tuple[int | str, ...], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """One number in [0, 1) for each pair of nodes: a function of the path, which holds the secret seed, and of the pair."""
    return (_bits(path, first, second) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bits(path: tuple[int | str, ...], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each pair, keyed by a hash of the path. It uses the finaliser of SplitMix64 (Steele, Lea & Flood 2014)."""
    key = fold("ticket", *path)
    with np.errstate(over="ignore"):
        mixed = _mix(first.astype(np.uint64) + np.uint64(key & (2**64 - 1)))
        return _mix(mixed ^ _mix(second.astype(np.uint64) + np.uint64(key >> 64)))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return finalised(z + np.uint64(0x9E3779B97F4A7C15))


def finalised(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: a bijection of 64-bit numbers in which every input bit affects every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def few(
    adjacency: Any, nodes: NDArray[np.int64], most: int, path: tuple[int | str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draws `most` neighbours of each node, uniformly without replacement, or takes all if there are no more.

    adjacency: (nodes, nodes) scipy CSR, row = receiver. nodes: ascending ids. Returns the senders and the receivers, (arcs,)
    int64 each.
    """
    start, count = adjacency.indptr[nodes], np.diff(adjacency.indptr)[nodes]
    receive = np.repeat(nodes, count)
    ends = np.cumsum(count)
    at = np.arange(ends[-1] if ends.size else 0) + np.repeat(start - (ends - count), count)
    send = adjacency.indices[at].astype(np.int64)
    crowded = np.repeat(count > most, count)
    if crowded.any():
        order = np.lexsort((_bits(path, receive[crowded], send[crowded]), receive[crowded]))
        sizes = count[count > most]
        rank = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        keep = ~crowded
        keep[np.flatnonzero(crowded)[order[rank < most]]] = True
        send, receive = send[keep], receive[keep]
    return send, receive
