"""A graph chosen by the adversary, in which posteriors reveal a private edge almost as well as the released sums do.

The adversary chooses everything but one edge: nodes, features, labels, the split and all other edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...models.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = 24  # kinds of nodes, each with its own feature and class; more classes preserve more directions of the posteriors
SINGLES = 60  # training nodes of every kind without edges, so that the classifier learns all kinds
# The function `crafted` explains the words cell, side, pool and end.
POOL = 80  # common neighbours of the ends of a side; their sum determines the direction of an end's row despite the noise
RING = 8  # each pool node has edges to this many next nodes in the ring of the pool
ENDS = 48  # ends on each side of a cell; the second half of them has edges to the other side
STRONG = 4  # edges to the other side at each joined end
TAUGHT = 4  # cells (see `crafted`) whose ends are training nodes; with one cell the classifier would fit the noise of that cell
REFERENCES = 30  # cells without a canary, which show the effect of edges between two sides on the posteriors

SIDE = POOL + ENDS  # nodes of one side: the pool, then the ends
BARE, JOINED = slice(POOL, POOL + ENDS // 2), slice(POOL + ENDS // 2, SIDE)


@dataclass(frozen=True, eq=False)
class Crafted:
    """A crafted graph. canaries: (c,) int64 ids of the private edges, each in a component of its own.

    bare, joined: (2, r) int64 nodes equivalent to the two ends of a canary, without its edge and with `STRONG` such edges.
    """

    graph: Graph
    canaries: NDArray[np.int64]
    bare: NDArray[np.int64]
    joined: NDArray[np.int64]


def crafted(canaries: int) -> Crafted:
    """A graph with this number of private edges, each in its own cell.

    A cell has two sides of different kinds. A side consists of a pool and some ends. Each end is joined to the whole pool, so
    noise hardly changes the direction of an end's sum at any hop. An edge between ends of the two sides adds a nearly orthogonal
    direction, which normalisation of the row preserves. Half of the ends of a cell are joined to ends of the other side; a canary
    joins two of the remaining ends. All cells are isomorphic apart from canaries. In the reference cells the adversary knows all
    edges. So the joined ends of these cells show the effect of a canary's edge on the posteriors of its ends.

    The training nodes are isolated nodes of every kind, and the ends of the first cells. These ends are labelled by their side
    and by whether they are joined, which aligns the classifier with the direction of an edge. Cells are components of the graph.
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
    graph = Graph(
        x=x,
        y=np.concatenate([kinds, labels.ravel()]),
        edges=np.concatenate([np.sort(known, axis=0), private], axis=1),
        train=train,
        val=np.zeros(len(train), dtype=bool),
        test=~train,
        name="crafted",
        classes=KINDS + 4,
    )
    bare, joined = (cells[TAUGHT:first, :, part].swapaxes(0, 1).reshape(2, -1) for part in (BARE, JOINED))
    return Crafted(graph, known.shape[1] + np.arange(canaries, dtype=np.int64), bare, joined)


def _around(side: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, m): the edges within one side: a ring of the pool nodes, and an edge from every end to every pool node."""
    pool, ends = side[:POOL], side[POOL:]
    rings = [np.stack([pool, np.roll(pool, step)]) for step in range(1, RING + 1)]
    return np.concatenate([*rings, np.stack([np.repeat(pool, ENDS), np.tile(ends, POOL)])], axis=1)


def _across(sides: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, m): the edges of a cell from side to side, `STRONG` at each joined end."""
    here, there = sides[:, JOINED]
    return np.concatenate([np.stack([here, np.roll(there, step)]) for step in range(STRONG)], axis=1)
