"""How much likelier posteriors are with an edge than without it, learned in the same run from nodes whose edges are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

ROUNDING = 1e-9  # of a variance: what float32 leaves of log-probabilities


def log_likelihood_ratio(seen: Rows, bare: Rows, joined: Rows, edges: int) -> Rows:
    """Fisher's linear discriminant, as the log-likelihood ratio of two normal laws that differ in their means.

    seen: (n, dim), what is asked about. bare: (r, dim) from nodes without the edge, joined: (s, dim) from nodes with `edges`
    edges like it, which shows the direction more sharply than one would. Returns (n,): above 0 where one edge is likelier
    than none, and 0 throughout where the two kinds of nodes look the same.
    """
    step = (joined.mean(axis=0) - bare.mean(axis=0)) / edges
    spread = np.concatenate([bare - bare.mean(axis=0), joined - joined.mean(axis=0)])
    variances, directions = np.linalg.eigh(spread.T @ spread / max(len(spread) - 2, 1))
    least = ROUNDING * (variances[-1] + step @ step)
    if not least > 0:
        return np.zeros(len(seen))
    weights = directions @ (directions.T @ step / np.maximum(variances, least))
    ratio: Rows = (seen - bare.mean(axis=0) - step / 2) @ weights
    return ratio
