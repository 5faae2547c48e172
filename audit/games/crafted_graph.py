"""A graph of the adversary's own making, in which posteriors show one private edge nearly as plainly as the released sums do.

All but one edge is the adversary's choice: nodes, features, labels, the split and every other edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...models.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = 24  # of nodes, each with a feature and a class of its own: more classes keep more directions of what they are told from
SINGLES = 60  # training nodes of every kind without any edge, so that the two kinds of a cell are not all there is to learn
POOL = 80  # neighbours that hold the direction of an end's sum against the noise
RING = 8  # neighbours within the pool, on either side
ENDS = 48  # on either side of a cell; the second half of them is joined to the other side
STRONG = 4  # edges across at an end that is joined
TAUGHT = 4  # cells whose ends are trained on: the ends of one would teach the classifier their noise
REFERENCES = 30  # cells that show what such edges do to the posteriors

SIDE = POOL + ENDS  # nodes: the pool, then the ends
BARE, JOINED = slice(POOL, POOL + ENDS // 2), slice(POOL + ENDS // 2, SIDE)


@dataclass(frozen=True, eq=False)
class Crafted:
    """canaries: (c,) int64 ids of the private edges, each in a component of its own.

    bare, joined: (2, r) int64 nodes that are like the two ends of a canary, without its edge and with `STRONG` such edges.
    """

    graph: Graph
    canaries: NDArray[np.int64]
    bare: NDArray[np.int64]
    joined: NDArray[np.int64]


def crafted(canaries: int) -> Crafted:
    """A graph with so many private edges, each in a cell of its own.

    A cell has two sides of different kinds. A side is a pool and some ends that have all of the pool for neighbours, so that an
    end's sum has a direction that noise hardly turns, hop after hop; an edge between ends of the two sides adds the other
    direction to it, which survives the division by the length as the two are nearly orthogonal. Half of the ends of a cell
    are joined to ends across; a canary joins two of the others. All cells are alike, so that the joined ends of the
    references, whose edges the adversary knows, show what a canary's edge does to the posteriors of its own ends.

    Training nodes: single ones of every kind, and the ends of the first cells, labelled by side and by whether they are joined,
    which points the classifier along the direction of an edge. Cells are components: given the trained classifier,
    canaries are independent trials whatever the number of hops.
    """
    kinds = np.repeat(np.arange(KINDS), SINGLES)
    first = TAUGHT + REFERENCES  # of the canaries' own
    count = first + canaries
    cells = len(kinds) + np.arange(count * 2 * SIDE).reshape(count, 2, SIDE)
    known = np.concatenate([_across(sides) for sides in cells] + [_around(side) for sides in cells for side in sides], axis=1)
    private = cells[first:, :, BARE.start].T
    labels = np.zeros(cells.shape, dtype=np.int64)  # of pools it does not matter
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
    """(2, m): the edges within one side: a ring of the pool, and every end with all of the pool."""
    pool, ends = side[:POOL], side[POOL:]
    rings = [np.stack([pool, np.roll(pool, step)]) for step in range(1, RING + 1)]
    return np.concatenate([*rings, np.stack([np.repeat(pool, ENDS), np.tile(ends, POOL)])], axis=1)


def _across(sides: NDArray[np.int64]) -> NDArray[np.int64]:
    """(2, m): the edges of a cell from side to side, `STRONG` at each joined end."""
    here, there = sides[:, JOINED]
    return np.concatenate([np.stack([here, np.roll(there, step)]) for step in range(STRONG)], axis=1)
