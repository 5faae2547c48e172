"""Makes a graph in which posteriors reveal a private node by its many neighbours.

The adversary chooses everything but the presence of a few nodes: other nodes, features, labels, the split and all other edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from .crafted_graph import around

KINDS = 8  # kinds of nodes, each with its own feature and class
CLASSES = 48  # most classes have no node; with more classes, posteriors preserve more directions
LOUD = 10.0  # size of a feature, so large that the biases of a first layer do not make all rows alike
LEAST = 20  # smallest degree bound for which `crafted_stars` makes a graph
CELLS = 5  # cells over which the leaves of a canary are spread, because the leaves of one cell share the noise of its pool
# Shares of the degree bound. `crafted_stars` explains the words cell, pool and leaf.
POOL = 0.8  # pool nodes of a cell
RING = 0.3  # the pool is a ring, in which each node is joined to this many next nodes
SENDERS = 0.16  # known senders of a joined leaf
REFERENCES = 150  # cells without a canary, which show how senders change the posteriors


@dataclass(frozen=True, eq=False)
class CraftedStars:
    """A crafted graph. centres: (c,) int64 ids of the private nodes, each in a component of its own. leaves: (c, degree) int64
    ids of their neighbours.

    bare, joined: (r,) and (s,) int64 ids of leaves in the reference cells. Bare leaves have no neighbour outside of their pool,
    like the leaves of an absent canary. Each joined leaf has `senders` neighbours that are like a canary.
    """

    graph: Graph
    centres: NDArray[np.int64]
    leaves: NDArray[np.int64]
    bare: NDArray[np.int64]
    joined: NDArray[np.int64]
    senders: int


def crafted_stars(canaries: int, degree: int, train_nodes: int) -> CraftedStars:
    """A graph with this number of private training nodes, in which no node has more than `degree` neighbours.

    Each canary has `degree` neighbours, its leaves, in CELLS cells. A cell has a pool of nodes, and leaves, each of which is
    joined to the whole pool. So noise hardly changes the direction of a leaf's sum at any hop. The canary is of another kind than
    pools and adds a nearly orthogonal direction to the sum of every leaf, and normalisation of the row keeps this direction. The
    adversary knows all nodes of the reference cells, so their joined leaves show how a canary changes the posteriors of its
    leaves.

    The training nodes are the canaries and rings of nodes of one kind, `train_nodes` in all. Each canary and its cells form a
    component of the graph. Raises ValueError for a degree below LEAST, and without a training node of every kind.
    """
    if degree < LEAST:
        raise ValueError(f"max_degree={degree}: nodes of the crafted graph need up to {LEAST} neighbours.")
    singles = train_nodes - canaries
    if singles < KINDS:
        raise ValueError(f"{train_nodes} training nodes: the crafted graph needs {canaries + KINDS}, with {canaries} canaries.")
    pool, ring, senders, each = round(POOL * degree), round(RING * degree), round(SENDERS * degree), degree // CELLS
    degree = each * CELLS
    count = REFERENCES + CELLS * canaries
    cells = singles + np.arange(count * (pool + each)).reshape(count, -1)
    pools, leaves = cells[:, :pool], cells[:, pool:]
    known = REFERENCES // CELLS // 2 * CELLS
    bare, joined, asked = leaves[:known], leaves[known:REFERENCES].reshape(-1, degree), leaves[REFERENCES:].reshape(-1, degree)
    after = singles + cells.size
    sending = after + np.arange(len(joined) * senders).reshape(len(joined), senders)
    centres = after + sending.size + np.arange(canaries)
    rings = [pools.T, *(np.arange(kind, singles, KINDS) for kind in range(KINDS))]
    edges = [edge.reshape(2, -1) for members in rings for edge in around(members, ring)]
    edges.append(np.stack([np.repeat(pools, each, axis=1), np.tile(leaves, pool)]).reshape(2, -1))
    edges += [np.stack(np.meshgrid(group, some)).reshape(2, -1) for group, some in zip(joined, sending, strict=True)]
    edges.append(np.stack([asked.ravel(), np.repeat(centres, degree)]))
    kinds = np.ones(after + sending.size + canaries, dtype=np.int64)
    kinds[:singles], kinds[pools] = np.arange(singles) % KINDS, 0
    train = np.zeros(len(kinds), dtype=bool)
    train[:singles] = train[centres] = True
    graph = Graph(
        x=LOUD * np.eye(KINDS, dtype=np.float32)[kinds],
        y=kinds,
        edges=np.sort(np.concatenate(edges, axis=1), axis=0),
        train=train,
        val=np.zeros(len(kinds), dtype=bool),
        test=~train,
        name="crafted",
        classes=CLASSES,
    )
    return CraftedStars(graph, centres, asked, bare.ravel(), joined.ravel(), senders)
