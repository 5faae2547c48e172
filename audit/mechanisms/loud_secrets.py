"""Finds the secrets that move the clean values of a run farther than most do, and the nodes with the least noise."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...models.recorder.mechanisms.mechanism import REPORT
from ..case import EDGES
from ..recorded.secrets.matchings import LOUD, loudest
from ..recorded.secrets.one_by_one import farthest_alone
from ..recorded.secrets.worlds import UNUSUAL, Absence, without_edges
from ..recorded.study import History
from .absence import Incomparable, kept, sizes_between
from .reading import EACH, others, repeated, unmoved
from .relations import SAME

Row = tuple[int, int]  # a mechanism, and an axis of its values or a triangle

APART = 2.0  # `standing_out` searches a row that moves more than so many times as far as the median row, for each absent edge
APART_TOGETHER = 1.2  # the same for rows that do not belong to nodes
NEGLIGIBLE = 0.01  # `standing_out` leaves out rows that move less than this part of the largest move
FARTHEST = 1e6  # larger moves, in units of the scale, count as this
TRIANGLES = {-1: np.triu, -2: np.tril}  # in place of an axis, for a value with two axes of nodes
SECONDS = 120.0  # of wall-clock time for the search, if a training is slow (see `Effort.thorough`)
QUIET = 3  # number of nodes with the least noise that are among the secrets, for each mechanism


def louder(first: History, many: Sequence[tuple[Absence, History]], unit: Unit) -> tuple[list[int], bool]:
    """Edges or nodes that move rows of clean values much farther than most do, and whether the search was finished. On a graph of
    unusual nodes, only rows that stand out are searched.
    """
    until = math.inf if first.study.effort.thorough else time.monotonic() + SECONDS
    graph, parts = first.worlds.graph, unread_triangles(first) if unit in EDGES else set[Row]()
    some: list[tuple[Absence, dict[Row, NDArray[np.float64]]]] = []
    for absent, run in many:
        rows = _by_node(rows_moved(first, run, parts), graph.nodes, unit in EDGES)
        if unit in EDGES:
            gone = np.maximum(graph.degree - run.worlds.graph.degree, 0)
            rows = {at: np.divide(by, gone, out=np.zeros(graph.nodes), where=gone > 0) for at, by in rows.items()}
        if absent.fewer is not None:
            some.append((absent, rows))
    if unit not in EDGES:
        found = [*alone(first, unit), *standing_out(first, some, parts, until)]
        return list(dict.fromkeys(found)), time.monotonic() < until

    def moved(edges: NDArray[np.int64]) -> list[NDArray[np.float64]] | None:
        if time.monotonic() > until:
            return None
        absent = without_edges(first.worlds, edges)
        try:
            rows = rows_moved(first, kept(first, absent), parts)
        except Incomparable:
            return None
        some.append((absent, _by_node(rows, graph.nodes, False)))
        return list(_by_node(rows, graph.nodes).values())

    known = [] if graph.name == UNUSUAL else loudest(graph, np.random.default_rng(0), moved)
    found = [*alone(first, unit), *known, *standing_out(first, some, parts, until)]
    return list(dict.fromkeys(found)), time.monotonic() < until


def alone(first: History, unit: Unit) -> list[int]:
    """The secrets that `farthest_alone` finds. Edges are removed one by one only if some value has no row for each node: else
    `loudest` finds them.
    """
    if unit in EDGES and all(first.worlds.graph.nodes in m.noisy.shape for m in first.mechanisms):
        return []
    return farthest_alone(first.worlds, unit, first.study.effort, partial(sizes_between, first))


def standing_out(
    first: History, many: Sequence[tuple[Absence, Mapping[Row, NDArray[np.float64]]]], parts: Collection[Row], until: float
) -> list[int]:
    """Edges or nodes that move a row of a clean value much farther than most do: at most LOUD for rows of nodes, and at most LOUD
    for others, each of another row.

    many: worlds without many secrets, and how far their absence moves the rows; for rows of nodes, for each absent edge. Rows of
    nodes are searched if they move farthest. Others are searched if they move farthest in comparison with the median row along
    their axis, because each row may sum many secrets. The secret is found by halving, for rows of nodes among their edges. until:
    when the search ends, by time.monotonic().
    """
    graph = first.worlds.graph
    lengths = {at: len(by) for _, rows in many for at, by in rows.items()}
    each = {at: np.concatenate([rows[at] for _, rows in many if at in rows]) for at in lengths}
    usual = {at: float(np.median(by[by > 0])) for at, by in each.items() if np.any(by > 0)}
    tops = [(float(by.max()), at, int(by.argmax()), absent) for absent, rows in many for at, by in rows.items() if at in usual]
    found: dict[tuple[bool, int], int] = {}
    order = [size if lengths[at] == graph.nodes else size / usual[at] for size, at, *_ in tops]
    for size, at, row, absent in (tops[i] for i in np.argsort(order, kind="stable")[::-1]):
        of_node = lengths[at] == graph.nodes
        if size <= (APART if of_node else APART_TOGETHER) * usual[at] or size < NEGLIGIBLE * max(top[0] for top in tops):
            continue
        if (of_node, row) in found or sum(kind == of_node for kind, _ in found) >= LOUD:
            continue
        if time.monotonic() > until:
            break
        own = without_edges(first.worlds, np.flatnonzero((graph.edges == row).any(0))) if of_node else absent

        def moved(part: Absence, at: Row = at, row: int = row) -> float:
            try:
                return float(rows_moved(first, kept(first, part), parts)[at][row])
            except Incomparable:
                return 0.0

        found[of_node, row] = int(own.loudest(moved, size if own is absent else moved(own)).among[0])
    return list(dict.fromkeys(found.values()))


def rows_moved(first: History, repetition: History, unread: Collection[Row]) -> dict[Row, NDArray[np.float64]]:
    """How far each row of the clean values moves from a run to its repetition, in units of the scale, and in nats for a report.

    A value has rows along its axis of nodes. If it has two such axes, both its triangles have rows, because a program may read
    only one of them. A value without such an axis has rows along each axis. unread: triangles that are left out.
    """
    nodes = first.worlds.graph.nodes
    found: dict[Row, NDArray[np.float64]] = {}
    for i, (mechanism, other) in enumerate(zip(first.mechanisms, repetition.mechanisms, strict=True)):
        each = mechanism.each(other.clean - mechanism.clean)
        if mechanism.law != REPORT:
            each = np.divide(each, mechanism.scale, out=np.zeros(each.shape), where=mechanism.covered)
        squares = np.square(np.atleast_1d(np.minimum(each, FARTHEST)))
        own = [axis for axis, size in enumerate(squares.shape) if size == nodes]
        if len(own) > 1:
            square = np.moveaxis(squares, own[:2], (0, 1)).reshape(nodes, nodes, -1).sum(2)
            found |= {(i, t): np.sqrt(triangle(square).sum(1)) for t, triangle in TRIANGLES.items() if (i, t) not in unread}
            continue
        for axis in own or range(squares.ndim):
            found[i, axis] = np.sqrt(squares.sum(tuple(a for a in range(squares.ndim) if a != axis)))
    return found


def unread_triangles(first: History) -> set[Row]:
    """The triangles of square values with a row and a column for each node that the run does not read."""
    nodes = first.worlds.graph.nodes
    square = [i for i, m in enumerate(first.mechanisms) if m.noisy.shape == (nodes, nodes) and not m.mirrored][:EACH]
    found = set()
    for i in square:
        for name, triangle in TRIANGLES.items():
            there = triangle(np.ones((nodes, nodes))) > 0
            noisy = np.where(there, others(first.mechanisms[i]), first.mechanisms[i].noisy)
            other = first.mechanisms[i].with_noisy(noisy)
            if unmoved(first, repeated(first, {i: other})):
                found.add((i, name))
    return found


def _by_node(rows: Mapping[Row, NDArray[np.float64]], nodes: int, wanted: bool = True) -> dict[Row, NDArray[np.float64]]:
    """The rows along axes of nodes, or all others."""
    return {at: by for at, by in rows.items() if (len(by) == nodes) == wanted}


def quietest(first: History) -> NDArray[np.int64]:
    """The nodes with the least noise in mechanisms whose noise differs from node to node, QUIET of each mechanism.

    A report has the less noise, the larger the ratio of its probabilities is.
    """
    nodes, found = first.worlds.graph.nodes, []
    for m in first.mechanisms:
        noise = np.asarray(m.scale, dtype=np.float64)
        if m.law == REPORT:
            with np.errstate(divide="ignore", invalid="ignore"):
                noise = 1 / np.ptp(np.log(m.chances), axis=-1)
        each = np.where(m.covered, np.broadcast_to(noise, m.noisy.shape), np.inf)
        for axis in (axis for axis, size in enumerate(each.shape) if size == nodes):
            least = np.moveaxis(each, axis, 0).reshape(nodes, -1).min(1)
            if least.min() < least.max() * (1 - SAME):
                found.append(np.argsort(least, kind="stable")[:QUIET])
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
