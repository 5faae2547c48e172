"""The features of a pair of nodes in link stealing: distances, operators and entropies of the two nodes' rows."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...models.graph.graph import Graph
from ...models.random.streams import stream
from ..distances import DISTANCES

Rows = NDArray[np.float64]

LEARNT = 20_000  # a reference model trains on at most this many nodes; all nodes of a large graph would take minutes
WIDE = 1 << 20  # how many numbers a block of dense features has, so that it fits the processor's cache


def distances(a: Rows, b: Rows) -> Rows:
    """All eight distances between the rows of two arrays: (c, dim), (c, dim) -> (c, 8)."""
    return np.stack([measure(a, b) for measure in DISTANCES.values()], axis=-1)


def operators(a: Rows, b: Rows) -> Rows:
    """The four symmetric operators of He et al. 2021: mean, product, absolute and squared difference. (…, dim) -> (…, 4 dim)."""
    return np.concatenate([(a + b) / 2, a * b, np.abs(a - b), (a - b) ** 2], axis=-1)


def entropies(a: Rows, b: Rows) -> Rows:
    """The four operators on the entropies of two arrays of probabilities: (c, classes), (c, classes) -> (c, 4)."""
    own, other = (-(p * np.log(p + 1e-5)).sum(-1, keepdims=True) for p in (a, b))
    return operators(own, other)


def rows_of(x: object, nodes: NDArray[np.int64]) -> Rows:
    """The rows of `nodes` in dense or sparse features, as a dense array."""
    picked = x[nodes]  # type: ignore[index]
    return np.asarray(picked.toarray() if sp.issparse(picked) else picked, dtype=np.float64)


@dataclass(frozen=True)
class Public:
    """A cache key of a graph. Two keys are equal if the graphs are equal apart from their edges and names."""

    graph: Graph = field(compare=False)
    digest: str

    @staticmethod
    def of(known: Graph) -> Public:
        return Public(known, dataclasses.replace(known, edges=known.edges[:, :0]).digest)


def reference(known: Graph, seed: int = 0) -> Rows:
    """The reference model of He et al. 2021: (nodes, classes) probabilities of a perceptron that is trained on public features
    and training labels, without edges. The result is cached, because several attacks need it.
    """
    return _reference(Public.of(known), seed)


@functools.lru_cache(maxsize=4)
def _reference(public: Public, seed: int) -> Rows:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    known = public.graph
    train = np.flatnonzero(known.train)
    if len(train) > LEARNT:
        train = stream(seed, "reference").permutation(train)[:LEARNT]
    net = MLPClassifier((16,), alpha=5e-4, learning_rate_init=0.01, max_iter=100, random_state=seed)
    x = sp.csr_matrix(known.x) if sp.issparse(known.x) else known.x
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        net.fit(x[train], known.y[train])
    p = np.full((known.nodes, known.classes), 1e-12)
    p[:, net.classes_] = net.predict_proba(x)
    return p


def of_model(attack: int, posteriors: Rows, guess: Rows | None, pairs: NDArray[np.int64]) -> Rows:
    """The features of each pair that depend on the target, in attack 1, 3, 4, 5, 6 or 7: (c, …).

    posteriors, guess: (nodes, classes) probabilities of the target and of the reference model; attack 6 concatenates them. pairs:
    (c, 2).
    """
    u, v = pairs.T
    a, b = posteriors[u], posteriors[v]
    joined = []
    if attack == 3:
        joined = [operators(a, b)]
    if attack == 6:
        assert guess is not None
        joined = [operators(np.concatenate([a, guess[u]], -1), np.concatenate([b, guess[v]], -1))]
    return np.concatenate([*joined, distances(a, b), entropies(a, b)], axis=-1)


def of_public(known: Graph, guess: Rows, pairs: NDArray[np.int64]) -> Rows:
    """The features of each pair that do not depend on the target, in attacks 5 to 7: (c, 20)."""
    u, v = pairs.T
    step = max(1, WIDE // known.dim)
    blocks = [pairs[first : first + step].T for first in range(0, len(pairs), step)]
    near = [distances(*(rows_of(known.x, ends) for ends in block)) for block in blocks]
    return np.concatenate([np.concatenate(near), distances(guess[u], guess[v]), entropies(guess[u], guess[v])], axis=-1)
