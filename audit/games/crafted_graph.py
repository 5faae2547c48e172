"""Makes a graph in which posteriors reveal a private edge almost as well as released sums do.

The adversary chooses everything but one edge: nodes, features, labels, the split and all other edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph

KINDS = 24  # kinds of nodes, each with its own feature and class; with more classes, posteriors preserve more directions
SINGLES = 60  # isolated training nodes of each kind, from which the classifier learns the kinds
# `crafted` explains the words cell, side, pool and end.
POOL = 80  # pool nodes of a side; each end is joined to all of them, and their sum outweighs the noise in the end's row
RING = 8  # the pool is a ring, in which each node is joined to this many next nodes
ENDS = 48  # ends of a side; the second half of them is joined to ends of the other side
STRONG = 4  # number of edges from a joined end to the other side
TAUGHT = 4  # cells whose ends are training nodes; with a single cell, the classifier would fit the noise of that cell
REFERENCES = 30  # cells without a canary, which show how edges between two sides change the posteriors

SIDE = POOL + ENDS  # nodes of one side: the pool, then the ends
BARE, JOINED = slice(POOL, POOL + ENDS // 2), slice(POOL + ENDS // 2, SIDE)


@dataclass(frozen=True, eq=False)
class Crafted:
    """A crafted graph. canaries: (c,) int64 ids of the private edges, each in a component of its own.

    bare, joined: (2, r) int64 ids of ends in the reference cells, one row for each side. Bare ends have no edge to the other
    side, like the ends of an absent canary. Each joined end has `STRONG` such edges.
    """

    graph: Graph
    canaries: NDArray[np.int64]
    bare: NDArray[np.int64]
    joined: NDArray[np.int64]


def crafted(canaries: int) -> Crafted:
    """A graph with this number of private edges, each in its own cell.

    A cell has two sides of different kinds. A side has a pool of nodes and some other nodes, its ends. Each end is joined to the
    whole pool, so noise hardly changes the direction of an end's sum at any hop. An edge between ends of the two sides adds a
    nearly orthogonal direction, and normalisation of the row keeps this direction. Half of the ends of a cell are joined to ends
    of the other side. A canary joins two of the remaining ends, one of each side. All cells are isomorphic apart from canaries.
    The adversary knows all edges of the reference cells, so their joined ends show how a canary changes the posteriors of its
    ends.

    The training nodes are isolated nodes of every kind, and the ends of the first cells. The label of such an end says its side
    and whether it is joined, so the classifier learns the direction that an edge adds. Cells are components of the graph.
    Therefore, given the trained classifier, canaries are independent trials for any number of hops.
    """
    kinds = np.repeat(np.arange(KINDS), SINGLES)
    first = TAUGHT + REFERENCES  # index of the first cell with a canary
    count = first + canaries
    cells = len(kinds) + np.arange(count * 2 * SIDE).reshape(count, 2, SIDE)
    known = np.concatenate([_across(sides) for sides in cells] + [_around(side) for sides in cells for side in sides], axis=1)
    private = cells[first:, :, BARE.start].T
    labels = np.zeros(cells.shape, dtype=np.int64)  # pool nodes are not trained on
    labels[:, :, BARE] = KINDS + np.arange(2)[:, None]
    labels[:, :, JOINED] = KINDS + 2 + np.arange(2)[:, None]
    train = np.concatenate([np.ones(len(kinds), dtype=bool), np.zeros(cells.size, dtype=bool)])
    train[cells[:TAUGHT, :, POOL:]] = True
    x = np.eye(KINDS, dtype=np.float32)[np.concatenate([kinds, np.tile(np.repeat([0, 1], SIDE), count)])]
    edges = np.concatenate([np.sort(known, axis=0), private], axis=1)
    graph = without_validation(x, np.concatenate([kinds, labels.ravel()]), edges, train, KINDS + 4)
    bare, joined = (cells[TAUGHT:first, :, part].swapaxes(0, 1).reshape(2, -1) for part in (BARE, JOINED))
    return Crafted(graph, known.shape[1] + np.arange(canaries, dtype=np.int64), bare, joined)


def _around(side: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, m) int64: the edges within one side, which form a ring of the pool and join every end to every pool node."""
    pool, ends = side[:POOL], side[POOL:]
    return np.concatenate([*around(pool, RING), np.stack([np.repeat(pool, ENDS), np.tile(ends, POOL)])], axis=1)


def without_validation(
    x: NDArray[np.float32], y: NDArray[np.int64], edges: NDArray[np.int64], train: NDArray[np.bool_], classes: int
) -> Graph:
    """A graph whose nodes outside `train` are test nodes."""
    return Graph(x, y, edges, train, np.zeros(len(train), dtype=bool), ~train, name="crafted", classes=classes)


def around(nodes: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """The edges of a ring in which each node is joined to up to `most` next nodes, never twice to one: an array (2, n) for each
    distance. nodes: (n,).
    """
    return [np.stack([nodes, np.roll(nodes, step)]) for step in range(1, min(most, (len(nodes) - 1) // 2) + 1)]


def _across(sides: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, m) int64: the edges of a cell between its two sides, `STRONG` at each joined end."""
    here, there = sides[:, JOINED]
    return np.concatenate([np.stack([here, np.roll(there, step)]) for step in range(STRONG)], axis=1)
