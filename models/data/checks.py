"""Checks and repairs the contents of a graph file. Every fault raises a ValueError that names it; every repair leaves a note."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..graph.graph import Features
from ..graph.neighbour_lists import degrees
from .spooled import BLOCK, blocks

Masks = tuple[NDArray[np.bool_], ...]  # train, val, test

SPARSE_BELOW = 0.1  # features with a smaller share of non-zeros are stored as csr_array, which is then smaller and faster


@dataclass(frozen=True, eq=False)
class Raw:
    """The contents of a file, before any check.

    x: (nodes, dim) numbers, dense or sparse. y: (nodes,) whole numbers; a negative number means no label.
    edges: (2, arcs) whole numbers, as stored. masks: (train, val, test), each (nodes,) bool; None if the file has none.
    directed: whether arcs have a direction; otherwise (u, v) implies (v, u). notes: decisions of the reader, one sentence each.
    """

    x: Features
    y: NDArray[np.int64]
    edges: NDArray[np.int64]
    masks: Masks | None = None
    directed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        return int(self.y.shape[0])

    def noting(self, *sentences: str) -> Raw:
        return dataclasses.replace(self, notes=(*self.notes, *sentences))

    def subset(self, keep: NDArray[np.bool_]) -> Raw:
        """The subgraph of the nodes in `keep`, (nodes,) bool. Nodes are numbered again, in the same order."""
        number = np.cumsum(keep) - 1
        inside = keep[self.edges[0]] & keep[self.edges[1]]
        masks = None if self.masks is None else tuple(mask[keep] for mask in self.masks)
        return dataclasses.replace(self, x=self.x[keep], y=self.y[keep], edges=number[self.edges[:, inside]], masks=masks)


def check(raw: Raw) -> Raw:
    """`raw` with x as float32, y and edges as int64. Raises ValueError that names the fault and its position."""
    x = features(raw.x)
    y, edges = whole(raw.y, "y").copy(), whole(raw.edges, "edges")
    if y.ndim != 1:
        raise ValueError(f"y has shape {y.shape}: must be (nodes,), one class a node. Take the argmax of one-hot labels.")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"edges have shape {edges.shape}: must be (2, arcs), senders above receivers. Transpose them?")
    n = y.shape[0]
    if n == 0:
        raise ValueError("the graph has 0 nodes: nothing can be trained on it.")
    if x.shape[0] != n:
        raise ValueError(f"x has {x.shape[0]} rows, y has {n}: every node needs one row of features and one label.")
    if any(block.min() < 0 or block.max() >= n for block in blocks(edges)):
        outside = (edges < 0) | (edges >= n)
        first = int(edges[outside][0])
        raise ValueError(f"node id {first} in the edges: ids must be in 0 … {n - 1} ({outside.any(axis=0).sum()} such edges).")
    if raw.masks is not None:
        check_masks(raw.masks, n)
    return dataclasses.replace(raw, x=x, y=y, edges=edges)


def check_masks(masks: Masks, nodes: int) -> None:
    """Raises ValueError unless the masks are (nodes,) bool and disjoint, and there are nodes to train and to test on."""
    names = ("train", "val", "test")
    for name, mask in zip(names, masks, strict=True):
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise ValueError(f"{name}_mask is {mask.dtype} of shape {mask.shape}: must be bool of shape ({nodes},).")
    for i, j in ((0, 1), (0, 2), (1, 2)):
        both = np.flatnonzero(masks[i] & masks[j])
        if both.size:
            raise ValueError(
                f"{names[i]}_mask and {names[j]}_mask share {both.size} nodes, such as node {both[0]}: must be disjoint."
            )
    for name, mask in (("train", masks[0]), ("test", masks[2])):
        if not mask.any():
            raise ValueError(f"{name}_mask holds none of the {nodes} nodes: give another split, such as split=75/10/15.")


def whole(values: NDArray[np.generic], name: str) -> NDArray[np.int64]:
    """The numbers as int64: the array itself if it already has this type, else a copy. Raises ValueError for numbers that are not
    whole.
    """
    a = np.asarray(values)
    if a.dtype.kind in "iub":
        if a.dtype == np.uint64 and a.size and a.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name} holds {a.max()}: must fit 64-bit signed integers.")
        return a.astype(np.int64, copy=False)
    if a.dtype.kind == "f" or a.size == 0:
        a = a.astype(np.float64)
        strange = a[~(np.abs(a) < 2**53) | (a != np.floor(a))]
        if strange.size:
            raise ValueError(f"{name} holds {strange[0]}: must be whole numbers.")
        return a.astype(np.int64)
    raise ValueError(f"{name} has type {a.dtype}: must be whole numbers.")


def features(x: Features) -> Features:
    """x as float32: a csr_array if less than a share SPARSE_BELOW is non-zero, else a dense array. Raises ValueError for NaN,
    infinity, or a wrong shape or type.
    """
    if x.dtype.kind not in "fiub":
        raise ValueError(f"x has type {x.dtype}: features must be real numbers. One-hot encode words first.")
    if len(x.shape) != 2 or x.shape[1] == 0:
        raise ValueError(f"x has shape {x.shape}: must be (nodes, features) with at least one feature.")
    stored = x.data if sp.issparse(x) else x
    with np.errstate(over="ignore"):
        finite = np.isfinite(stored.astype(np.float32, copy=False))
    if not finite.all():
        sparse = sp.coo_array(x) if sp.issparse(x) else None
        bad = np.isfinite(sparse.data.astype(np.float32)) if sparse is not None else finite
        at = np.argwhere(~bad)[0]
        row, column = (sparse.coords[0][at[0]], sparse.coords[1][at[0]]) if sparse is not None else at
        raise ValueError(
            f"x[{row}, {column}] is not a finite float32 number ({(~finite).sum()} such entries): fill or drop them first."
        )
    if sp.issparse(x):
        matrix = sp.csr_array(x).astype(np.float32)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if matrix.nnz >= SPARSE_BELOW * np.prod(matrix.shape):
            return matrix.toarray()
        index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64  # equal contents must have equal digests
        parts = (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index))
        return sp.csr_array(parts, shape=matrix.shape)
    x = np.ascontiguousarray(x, dtype=np.float32)
    return features(sp.csr_array(x)) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x


def labelled(raw: Raw) -> Raw:
    """The graph without the nodes that have no label, because no model can train or be tested on them. Raises ValueError if no
    node has a label.
    """
    keep = raw.y >= 0
    if keep.all():
        return raw
    if not keep.any():
        raise ValueError(f"none of the {raw.nodes} nodes has a label: labels must be 0 or more.")
    lost = int((~keep).sum())
    return raw.subset(keep).noting(f"{lost} nodes without a label were dropped with their edges.")


def frequent(raw: Raw, least: int) -> Raw:
    """The graph without the nodes whose class has fewer than `least` nodes. Raises ValueError if no class has that many."""
    values, counts = np.unique(raw.y, return_counts=True)
    rare = values[counts < least]
    if not rare.size:
        return raw
    if rare.size == values.size:
        raise ValueError(f"min_class={least}: no class has this many nodes; the largest has {counts.max()}.")
    keep = ~np.isin(raw.y, rare)
    return raw.subset(keep).noting(
        f"{rare.size} classes with fewer than {least} nodes were dropped, with their {int((~keep).sum())} nodes."
    )


def numbered(raw: Raw) -> Raw:
    """The graph with classes 0 … classes-1, in the order of the stored values, none of them empty. Raises ValueError if there is
    only one class.
    """
    values, y = np.unique(raw.y, return_inverse=True)
    if values.size < 2:
        raise ValueError(f"all nodes are of class {values[0]}: at least two classes are needed.")
    if np.array_equal(values, np.arange(values.size)):
        return raw
    shown = ", ".join(str(v) for v in (values if values.size <= 8 else [*values[:3], "…", values[-1]]))
    renumbered = f"Labels {shown} are numbered 0 … {values.size - 1}."
    return dataclasses.replace(raw, y=y.astype(np.int64)).noting(renumbered)


def simple(raw: Raw, directed: bool) -> Raw:
    """The graph without self-loops and repeated edges. An undirected graph lists each edge once, as u < v, sorted; a directed
    graph lists its arcs, sorted. Raises ValueError if no edge is left.
    """
    # one sort finds the distinct edges, the repeated ones and the arcs without their reverse
    stored, keys = raw.edges.shape[1], arc_keys(raw.edges, raw.nodes)
    raw = dataclasses.replace(raw, edges=np.empty((2, 0), dtype=np.int64))  # frees the edges, unless a caller refers to them
    arcs = distinct(keys)
    count, loops, again = arcs.size, stored - keys.size, keys.size - arcs.size
    if directed:
        edges = int(np.count_nonzero(np.diff(arcs >> 1, prepend=-1)))
        numbers = in_direction(arcs, raw.nodes)
    else:
        numbers = distinct(np.right_shift(arcs, 1, out=arcs))
        edges = numbers.size
    alone = 2 * edges - count
    notes = [f"{loops} self-loops were removed."] if loops else []
    if again:
        notes.append(f"{again} repeated edges were removed.")
    if raw.directed and not directed and alone:
        notes.append(f"{alone} of {count} arcs come without their reverse; each counts as an undirected edge.")
    elif not directed and 0 < alone < edges:
        notes.append(f"{edges - alone} edges are listed in both directions and {alone} in one; each counts once.")
    if not edges:
        raise ValueError("the graph has no edges between different nodes: there is nothing to aggregate or to audit.")
    # of an undirected graph with both arcs of each edge, the ends take the memory of the arcs
    store = keys if 2 * numbers.size <= keys.size < 3 * numbers.size else np.empty(2 * numbers.size, dtype=np.int64)
    ends = store[: 2 * numbers.size].reshape(2, -1)
    for at in range(0, numbers.size, BLOCK):
        ends[0, at : at + BLOCK], ends[1, at : at + BLOCK] = np.divmod(numbers[at : at + BLOCK], raw.nodes)
    return dataclasses.replace(raw, edges=ends, directed=directed).noting(*notes)


def in_direction(arcs: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """The keys of `arc_keys` as the numbers sender * nodes + receiver, ascending, in the same memory."""
    for at in range(0, arcs.size, BLOCK):
        block = arcs[at : at + BLOCK]
        u, v = np.divmod(block >> 1, nodes)
        block[:] = np.where(block & 1, v * nodes + u, u * nodes + v)
    arcs.sort()
    return arcs


def arc_keys(edges: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """For each arc that is no self-loop, 2 (u * nodes + v) for its edge u < v, plus 1 if the arc leads from v to u.

    Arcs are read in blocks, so only the result takes memory in proportion to the number of arcs.
    """
    keys, end = np.empty(edges.shape[1], dtype=np.int64), 0
    for block in blocks(edges):
        u, v = block
        u, v = u[u != v], v[u != v]
        keys[end : end + u.size] = 2 * (np.minimum(u, v) * nodes + np.maximum(u, v)) + (u > v)
        end += u.size
    return keys[:end]


def isolated(raw: Raw) -> Raw:
    """Returns `raw`, with a note if some nodes have no edge."""
    lone = int((degrees(raw.edges, raw.nodes, directed=False) == 0).sum())
    kept = "1 node has no edge and is kept" if lone == 1 else f"{lone} nodes have no edge and are kept"
    return raw.noting(f"{kept}; prep=paper drops such nodes, as published work does.") if lone else raw


def connected(raw: Raw) -> Raw:
    """The graph without the nodes that have no edge, as published work prepares its data.

    This step breaks every privacy claim on edges: the removal of an edge can then remove a node from the data, which models read
    without noise.
    """
    keep = degrees(raw.edges, raw.nodes, directed=False) > 0
    if keep.all():
        return raw
    lost = int((~keep).sum())
    return raw.subset(keep).noting(
        f"{lost} nodes without an edge were dropped, as published. Whether a node exists then depends on private edges."
    )


def trained(raw: Raw) -> Raw:
    """Returns `raw`, with a note if some class has no training node."""
    assert raw.masks is not None
    lacking = np.setdiff1d(raw.y, raw.y[raw.masks[0]])
    return raw.noting(f"No node of class {', '.join(map(str, lacking))} is trained on.") if lacking.size else raw


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different values, ascending, in the memory of `values`, which are overwritten. np.unique of numpy 2.4 is 40 times
    slower and makes copies.
    """
    values.sort()
    end, last = 0, None
    for at in range(0, values.size, BLOCK):
        block = values[at : at + BLOCK]
        new = np.empty(block.size, dtype=bool)
        new[0], new[1:] = last is None or block[0] != last, block[1:] != block[:-1]
        last, kept = block[-1], block[new]
        values[end : end + kept.size] = kept
        end += kept.size
    return values[:end]
