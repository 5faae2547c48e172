"""Makes a graph in which posteriors reveal a private node by its gradients, because no other training node has its feature.

The adversary chooses everything but the presence of a few nodes: other nodes, features, labels, the split and all edges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from .crafted_graph import around, without_validation

KINDS = 8  # kinds of ordinary training nodes, each with its own feature and class
LOUD = 10.0  # size of the feature of a kind
LOUDER = 20.0  # size of a candidate's own feature, so large that most of its gradient acts on the weights of this feature
KNOWN = 80  # most reference nodes that are present; as many are absent
RING = 3  # the ordinary nodes of a kind are a ring, in which each is joined to this many next nodes
WIDE = 2000  # features, most of them unused: a first layer with many inputs starts from small weights, which hide little
ENTRIES = 1 << 26  # most entries of the features, unless the candidates need more


@dataclass(frozen=True, eq=False)
class CraftedFeatures:
    """A crafted graph. centres: (c,) int64 ids of the private nodes. twins: (2 known + c,) int64 ids of test nodes, each with the
    features and the label of a candidate. The candidates are first `known` nodes that are never present, then `known` that always
    are, then the private nodes.
    """

    graph: Graph
    centres: NDArray[np.int64]
    twins: NDArray[np.int64]
    known: int


def crafted_features(canaries: int, degree: int, train_nodes: int) -> CraftedFeatures:
    """A graph with this number of private training nodes, in which no node has more than `degree` neighbours. train_nodes: the
    number of all training nodes.

    Each candidate has a feature of its own, and one that all candidates share. It has no neighbours. A gradient of the first
    layer is an outer product with the features, so only the candidate itself moves the weights of its own feature, by up to the
    clipping norm in each step. The posteriors of its twin show these weights. The labels of candidates are balanced over the
    classes, so the shared feature tells nothing about them, the loss stays large, and gradients keep the clipping norm. The
    ordinary training nodes teach the network what the classes are. Raises ValueError for too few training nodes.
    """
    known = min(KNOWN, (train_nodes - canaries) // 4)
    ordinary = train_nodes - canaries - known
    if known < KINDS:
        least = canaries + 4 * KINDS
        raise ValueError(f"{train_nodes} training nodes: the crafted graph needs {least}, with {canaries} canaries.")
    candidates = 2 * known + canaries
    twins = train_nodes + np.arange(candidates)
    nodes = train_nodes + candidates
    candidate = np.concatenate([np.full(ordinary, -1), known + np.arange(known + canaries), np.arange(candidates)])
    of_candidate = np.flatnonzero(candidate >= 0)
    kind = np.concatenate([np.arange(ordinary) % KINDS, np.full(nodes - ordinary, KINDS)])
    least = KINDS + 1 + candidates
    x = np.zeros((nodes, max(least, min(WIDE, ENTRIES // nodes))), dtype=np.float32)
    x[np.arange(nodes), kind] = LOUD
    x[of_candidate, KINDS + 1 + candidate[of_candidate]] = LOUDER
    train = np.arange(nodes) < train_nodes
    rings = [np.arange(one, ordinary, KINDS) for one in range(KINDS)]
    edges = [edge for members in rings for edge in around(members, min(RING, degree // 2))]
    pairs = np.sort(np.concatenate([np.zeros((2, 0), dtype=np.int64), *edges], axis=1), axis=0)
    graph = without_validation(x, np.where(candidate < 0, kind, candidate % KINDS), pairs, train, KINDS)
    return CraftedFeatures(graph, ordinary + known + np.arange(canaries), twins, known)
