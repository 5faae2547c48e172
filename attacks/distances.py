"""The eight distances of link stealing (He et al. 2021), as scipy defines them, for many pairs at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]  # (…, dim)
Distance = Callable[[Rows, Rows], Rows]  # (…, dim), (…, dim) -> (…)


def ratio(top: Rows, bottom: Rows) -> Rows:
    """top / bottom, but 0 where bottom is 0, as in scipy for two rows of zeros."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)


def cosine(a: Rows, b: Rows) -> Rows:
    dot = np.einsum("...d,...d->...", a, b)
    norms = np.sqrt(np.einsum("...d,...d->...", a, a) * np.einsum("...d,...d->...", b, b))
    return 1 - ratio(dot, norms)


def correlation(a: Rows, b: Rows) -> Rows:
    return cosine(a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True))


def sqeuclidean(a: Rows, b: Rows) -> Rows:
    gap = a - b
    return np.asarray(np.einsum("...d,...d->...", gap, gap))


def euclidean(a: Rows, b: Rows) -> Rows:
    return np.sqrt(sqeuclidean(a, b))


DISTANCES: dict[str, Distance] = {
    "cosine": cosine,
    "euclidean": euclidean,
    "correlation": correlation,
    "chebyshev": lambda a, b: np.abs(a - b).max(-1),
    "braycurtis": lambda a, b: ratio(np.abs(a - b).sum(-1), np.abs(a + b).sum(-1)),
    "canberra": lambda a, b: ratio(np.abs(a - b), np.abs(a) + np.abs(b)).sum(-1),
    "cityblock": lambda a, b: np.abs(a - b).sum(-1),
    "sqeuclidean": sqeuclidean,
}


def distance(name: str) -> Distance:
    """The distance function of that name. Raises ValueError for an unknown name."""
    if name not in DISTANCES:
        raise ValueError(f"distance={name!r}: must be one of {', '.join(DISTANCES)}.")
    return DISTANCES[name]
