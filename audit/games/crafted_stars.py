"""Makes a graph in which posteriors reveal a private node by its many neighbours and by its label.

The adversary chooses everything but the presence of a few nodes: other nodes, features, labels, the split and all other edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from .crafted_graph import around, without_validation

KINDS = 8  # kinds of ordinary training nodes, each with its own feature and class
LOUD = 10.0  # size of a feature, so large that the biases of a first layer do not make all rows alike
KNOWN = 40  # most reference classes with a training node; as many have none
GROUPS = 40  # groups of bare leaves, and of joined leaves, which show how senders change the posteriors
SENDERS = 16  # known senders of a joined leaf
LEAST = 2  # smallest degree bound for which `crafted_stars` makes a graph
RING = 0.3  # the ordinary nodes of a kind are a ring, each joined to so many next nodes, as a share of the degree bound


@dataclass(frozen=True, eq=False)
class CraftedStars:
    """A crafted graph. centres: (c,) int64 ids of the private nodes, each in a component of its own. leaves: (c, degree) int64
    ids of their neighbours.

    bare, joined: (r,) int64 ids of known leaves. Bare leaves have no neighbours, like the leaves of an absent canary. Each joined
    leaf has `senders` neighbours that are like a canary. probes: (p,) int64 ids of senders that are no training nodes. The first
    KINDS classes are those of ordinary nodes. The next `known` have no training node, then `known` have one sender each, and each
    of the last is the class of a canary.
    """

    graph: Graph
    centres: NDArray[np.int64]
    leaves: NDArray[np.int64]
    bare: NDArray[np.int64]
    joined: NDArray[np.int64]
    senders: int
    probes: NDArray[np.int64]
    known: int


def crafted_stars(canaries: int, degree: int, train_nodes: int) -> CraftedStars:
    """A graph with this number of private training nodes, in which no node has more than `degree` neighbours.

    Each canary has `degree` neighbours, its leaves, and they have no other. So a canary alone moves the sums of its leaves. The
    adversary knows the senders of the joined leaves, so these show how a canary changes the posteriors of its leaves.

    Each canary has a class of its own. A gradient of the last layer moves the weights of this class up, and no other training
    node does. Senders have the features of a canary, so their posteriors show these weights. Many classes also preserve many
    directions of the last layer's inputs.

    The training nodes are canaries, `known` senders and rings of ordinary nodes of one kind, `train_nodes` in all. Raises
    ValueError for a degree below LEAST, and without an ordinary node of every kind.
    """
    if degree < LEAST:
        raise ValueError(f"max_degree={degree}: nodes of the crafted graph need up to {LEAST} neighbours.")
    known = min(KNOWN, (train_nodes - canaries) // 4)
    ordinary = train_nodes - canaries - known
    if ordinary < KINDS:
        least = canaries + KINDS + KINDS // 4
        raise ValueError(f"{train_nodes} training nodes: the crafted graph needs {least}, with {canaries} canaries.")
    senders = min(SENDERS, degree)
    sizes = [ordinary, *[GROUPS * degree] * 2, canaries * degree, GROUPS * senders, canaries]
    kinds, bare, joined, leaves, sending, centres = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    groups, stars, sources = joined.reshape(GROUPS, -1), leaves.reshape(canaries, -1), sending.reshape(GROUPS, -1)
    taught = np.concatenate([sources[:known, 0], centres])
    edges = [edge for kind in range(KINDS) for edge in around(kinds[kind::KINDS], round(RING * degree))]
    edges += [np.stack(np.meshgrid(*pair)).reshape(2, -1) for pair in zip(groups, sources, strict=True)]
    edges.append(np.stack([leaves, np.repeat(centres, degree)]))
    y = np.full(sum(sizes), KINDS)
    y[kinds], y[taught] = kinds % KINDS, KINDS + known + np.arange(len(taught))
    train = np.zeros(len(y), dtype=bool)
    train[kinds] = train[taught] = True
    x = LOUD * np.eye(KINDS + 1, dtype=np.float32)[np.minimum(y, KINDS)]
    pairs = np.sort(np.concatenate(edges, axis=1), axis=0)
    graph = without_validation(x, y, pairs, train, KINDS + 2 * known + canaries)
    return CraftedStars(graph, centres, stars, bare, joined, senders, sources[:, 1:].ravel(), known)
