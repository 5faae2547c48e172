"""Makes a graph in which posteriors reveal a private node by its many neighbours and by its label.

The adversary chooses everything but the presence of a few nodes: other nodes, features, labels, the split and all other edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from .crafted_graph import without_validation

KINDS = 3  # kinds of ordinary training nodes, each with its own class: single nodes, bare leaves, joined leaves
LEAVES = 0.49  # share of the ordinary nodes that are bare leaves; as many are joined leaves
LOUD = 10.0  # size of a feature, so large that the biases of a first layer do not make all rows alike
KNOWN = 40  # most reference classes with a training node; as many have none
GROUPS = 40  # groups of bare leaves, and of joined leaves, which show how senders change the posteriors
SENDERS = 16  # known senders of a joined leaf
TEACHERS = 30  # known senders of a joined leaf that is a training node
LEAST = 2  # smallest degree bound for which `crafted_stars` makes a graph
OTHERS = 8  # fewest training nodes beside canaries; two of them are known senders, which show the spread of a class


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

    The ordinary training nodes are leaves, half of them with `TEACHERS` senders each, and single nodes with a feature of their
    own. The label of a leaf says whether it has senders. So the network learns the direction in which a canary moves its leaves.

    Each canary has a class of its own. A gradient of the last layer moves the weights of this class up, and no other training
    node does. Senders have the features of a canary, so their posteriors show these weights. Many classes also preserve many
    directions of the last layer's inputs.

    The training nodes are canaries, `known` senders and ordinary nodes, `train_nodes` in all. Raises ValueError for a degree
    below LEAST, and for fewer than OTHERS training nodes beside the canaries.
    """
    if degree < LEAST:
        raise ValueError(f"max_degree={degree}: nodes of the crafted graph need up to {LEAST} neighbours.")
    others = train_nodes - canaries
    if others < OTHERS:
        raise ValueError(f"{train_nodes} training nodes: the crafted graph needs {canaries + OTHERS}, with {canaries} canaries.")
    known = min(KNOWN, others // 4)
    ordinary = others - known
    taught = int(LEAVES * ordinary)  # leaves of each kind that are training nodes
    lessons, senders, teachers = -(-taught // degree), min(SENDERS, degree), min(TEACHERS, degree)
    sizes = [ordinary - 2 * taught, taught, *[GROUPS * degree] * 2, canaries * degree]
    sizes += [lessons * degree, lessons * teachers, GROUPS * senders, canaries]
    nodes = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    single, lone, bare, joined, leaves, pupils, teaching, sending, centres = nodes
    sources = sending.reshape(GROUPS, -1)
    groups = [*zip(joined.reshape(GROUPS, -1), sources, strict=True)]
    groups += zip(pupils.reshape(lessons, -1), teaching.reshape(lessons, -1), strict=True)
    groups += zip(leaves.reshape(canaries, -1), centres[:, None], strict=True)
    pairs = np.concatenate([np.stack(np.meshgrid(*group)).reshape(2, -1) for group in groups], axis=1)
    private = np.concatenate([sources[:known, 0], centres])
    y = np.zeros(sum(sizes), dtype=np.int64)
    y[lone], y[pupils], y[private] = 1, 2, KINDS + known + np.arange(len(private))
    train = np.zeros(len(y), dtype=bool)
    train[np.concatenate([single, lone, pupils[:taught], private])] = True
    x = np.full((len(y), 2), (LOUD, 0), dtype=np.float32)
    x[single] = 0, LOUD
    graph = without_validation(x, y, np.sort(pairs, axis=0), train, KINDS + 2 * known + canaries)
    return CraftedStars(graph, centres, leaves.reshape(canaries, -1), bare, joined, senders, sources[:, 1:].ravel(), known)
