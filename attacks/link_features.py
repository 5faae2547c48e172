"""What link stealing makes of two ends: distances, pairwise operators and entropies, of posteriors, references and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from .distances import DISTANCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.graph import Graph

    Rows = NDArray[np.float64]


def distances(a: Rows, b: Rows) -> Rows:
    """All eight, (c, dim) twice -> (c, 8)."""
    return np.stack([measure(a, b) for measure in DISTANCES.values()], axis=-1)


def operators(a: Rows, b: Rows) -> Rows:
    """The four symmetric operators of He et al. 2021: mean, product, absolute and squared difference. (…, 4 dim)."""
    return np.concatenate([(a + b) / 2, a * b, np.abs(a - b), (a - b) ** 2], axis=-1)


def entropies(a: Rows, b: Rows) -> Rows:
    """The same operators on the entropies of two probability rows, (c, 4)."""
    own, other = (-(p * np.log(p + 1e-5)).sum(-1, keepdims=True) for p in (a, b))
    return operators(own, other)


def rows_of(x: object, nodes: NDArray[np.int64]) -> Rows:
    """Dense rows of dense or sparse features."""
    picked = x[nodes]  # type: ignore[index]
    return np.asarray(picked.toarray() if sp.issparse(picked) else picked, dtype=np.float64)


def reference(known: Graph, seed: int = 0) -> Rows:
    """(nodes, classes) probabilities of a perceptron on the public features alone, trained on the public training labels.

    What it says of two nodes is what can be said of their edge without any edge.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    train = np.flatnonzero(known.train)
    net = MLPClassifier((16,), alpha=5e-4, learning_rate_init=0.01, max_iter=100, random_state=seed)
    x = sp.csr_matrix(known.x) if sp.issparse(known.x) else known.x
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        net.fit(x[train], known.y[train])
    p = np.full((known.nodes, known.classes), 1e-12)
    p[:, net.classes_] = net.predict_proba(x)
    return p


def features(attack: int, posteriors: Rows, guess: Rows | None, known: Graph, pairs: NDArray[np.int64]) -> Rows:
    """The inputs of supervised attack 1, 3, 4, 5, 6 or 7 for each pair, (c, …).

    posteriors, guess: (nodes, classes) probabilities of the target and of the reference. pairs: (c, 2).
    """
    u, v = pairs.T
    a, b = posteriors[u], posteriors[v]
    plain = [distances(a, b), entropies(a, b)]
    if attack in (1, 4):
        return np.concatenate(plain, axis=-1)
    if attack == 3:
        return np.concatenate([operators(a, b), *plain], axis=-1)
    assert guess is not None
    c, d = guess[u], guess[v]
    public = [distances(rows_of(known.x, u), rows_of(known.x, v)), distances(c, d), entropies(c, d)]
    both = [operators(np.concatenate([a, c], -1), np.concatenate([b, d], -1))] if attack == 6 else []
    return np.concatenate([*both, *plain, *public], axis=-1)
