"""Fisher's linear discriminant: a log-likelihood ratio of an edge, fitted on nodes of the same run whose edges are known."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

ROUNDING = 1e-9  # a relative variance below this is rounding of float32 log-probabilities


def log_likelihood_ratio(seen: Rows, bare: Rows, joined: Rows, edges: int) -> Rows:
    """Fisher's linear discriminant, as the log-likelihood ratio of two normal distributions with one covariance.

    seen: (n, dim) rows to score. bare: (r, dim) rows of nodes that are known to have no edge of the kind in question. joined: (s,
    dim) rows of nodes that are known to have `edges` such edges each. Returns (n,) float64: above 0 if one edge is likelier than
    none; all 0 if the two kinds of nodes have equal rows.
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
