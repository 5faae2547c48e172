"""The reports of a user under local privacy (encoded features and a randomised label), and how the server decodes them."""

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...accounting.gaussian import mu_of
from ..graph.graph import Features, dense


def distinct(rng: np.random.Generator, rows: int, dim: int, size: int) -> NDArray[np.int32]:
    """(rows, size) int32: in each row a uniformly random set of `size` different numbers below dim (Floyd's algorithm)."""
    chosen = np.empty((rows, size), dtype=np.int32)
    for column, top in enumerate(range(dim - size, dim)):
        pick = rng.integers(0, top + 1, size=rows, dtype=np.int32)
        taken = (chosen[:, :column] == pick[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, top, pick)
    return chosen


def one_probability(x: NDArray[np.float32], budget: float, low: float, high: float) -> NDArray[np.float64]:
    """P(bit = 1) of a feature x in [low, high], for one randomised bit of `budget` nats. The log-odds are -budget at `low` and
    +budget at `high`.
    """
    place = (np.clip(x, low, high).astype(np.float64) - low) / (high - low)
    zero = math.exp(-budget) / (1 + math.exp(-budget))
    return zero + place * math.tanh(budget / 2)


def multi_bit(
    x: Features, budget: float, bits: int, low: float, high: float, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Each user's report: `bits` features, drawn independently of their values, and one noisy bit of budget / bits nats for each.

    x: (nodes, dim), clipped to [low, high]. Returns indices (nodes, bits) int32 and signs (nodes, bits) int8 in {-1, +1}.
    Any two values of a user's features are protected with pure epsilon = budget. The bound is tight for all features `low`
    against all features `high` (Sajadmanesh & Gatica-Perez 2021, Algorithm 1). The random numbers do not depend on x, so one
    user's data does not affect another's report.
    """
    nodes, dim = x.shape
    indices = distinct(rng, nodes, dim, bits)
    uniform = rng.random((nodes, bits))
    rows = np.repeat(np.arange(nodes), bits)
    values = x[rows, indices.ravel()]
    values = dense(values).reshape(nodes, bits)
    return indices, np.where(uniform < one_probability(values, budget / bits, low, high), 1, -1).astype(np.int8)


def amplitude(budget: float, bits: int, dim: int, low: float, high: float) -> float:
    """How far one reported sign shifts the rectified (unbiased) feature from the middle of its range: dim (high - low) / (2 bits)
    · coth(budget / (2 bits)).

    At budget 0 the bits are independent of the features and no unbiased estimate exists. The function then returns the value for
    budget 1.
    """
    return dim * (high - low) / (2 * bits) / math.tanh((budget or 1.0) / (2 * bits))


def rectify(
    indices: NDArray[np.int32], signs: NDArray[np.int8], budget: float, dim: int, low: float, high: float
) -> sp.csr_array:
    """An unbiased estimate of the features minus (low + high) / 2, (nodes, dim) float32.

    The variance of the estimate of x is (dim / bits) [(high - low) / 2 · coth(budget / (2 bits))]^2 - (x - (low + high) / 2)^2.
    """
    nodes, bits = indices.shape
    values = (amplitude(budget, bits, dim, low, high) * signs).astype(np.float32).ravel()
    sparse = sp.csr_array((values, indices.flatten(), np.arange(0, nodes * bits + 1, bits)), shape=(nodes, dim))
    sparse.sort_indices()
    return sparse


def one_bit(x: Features, budget: float, low: float, high: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """The rectified multi-bit report of all features, with budget / dim nats for each: (nodes, dim) float32."""
    place, dim = np.clip(dense(x), low, high), x.shape[1]
    ones = rng.random(place.shape, dtype=np.float32) < one_probability(place, budget / dim, low, high)
    return np.where(ones, 1, -1).astype(np.float32) * np.float32(amplitude(budget, dim, dim, low, high)) + (low + high) / 2


def laplace(x: Features, budget: float, low: float, high: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """x + Laplace noise of scale dim (high - low) / budget, because two users differ by at most dim (high - low) in L1 norm."""
    scale = x.shape[1] * (high - low) / budget
    return np.clip(dense(x), low, high) + rng.laplace(scale=scale, size=x.shape).astype(np.float32)


def gaussian_sigma(budget: float) -> float:
    """The smallest noise std at sensitivity 1 that gives (budget, 1e-10)-DP (Balle & Wang 2018, Theorem 8)."""
    return 1 / float(mu_of(budget, 1e-10))


def gaussian(x: Features, budget: float, low: float, high: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """x + Gaussian noise that gives (budget, 1e-10)-DP, because two users differ by at most (high - low) sqrt(dim) in L2 norm."""
    std = (high - low) * math.sqrt(x.shape[1]) * gaussian_sigma(budget)
    return np.clip(dense(x), low, high) + np.float32(std) * rng.standard_normal(x.shape, dtype=np.float32)


DENSE = {"one-bit": one_bit, "laplace": laplace, "gaussian": gaussian}


def keep_probability(budget: float, classes: int) -> float:
    """The probability that randomised response sends the true label: e^budget / (e^budget + classes - 1)."""
    return 1 / (1 + (classes - 1) * math.exp(-budget))


def randomise_labels(y: NDArray[np.int64], budget: float, classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each user's label, kept with `keep_probability`, otherwise replaced by a uniform draw from the other labels: (nodes,)
    int64. Pure epsilon = budget.
    """
    kept = rng.random(y.shape) < keep_probability(budget, classes)
    other = rng.integers(1, max(classes, 2), size=y.shape)
    return np.where(kept, y, (y + other) % classes)


def scaled(x: Features) -> Features:
    """Each feature scaled to [0, 1] by its smallest and largest value over all nodes, without constant features.

    The released code of LPGNN scales features so before it adds noise, and thereby treats the extremes of private data as public.
    Sparse features stay sparse if every smallest value is 0.
    """
    if not sp.issparse(x):
        low, high = x.min(axis=0), x.max(axis=0)
        kept = np.flatnonzero(high > low)
        return ((x[:, kept] - low[kept]) / (high[kept] - low[kept])).astype(np.float32)
    low, high = x.min(axis=0).toarray().ravel(), x.max(axis=0).toarray().ravel()
    if low.any():
        return scaled(x.toarray())
    kept = np.flatnonzero(high > 0)
    return sp.csr_array(sp.csr_array(x[:, kept]).multiply(1 / high[kept])).astype(np.float32)
