"""Guesses of the bits of many canaries in one run: counts, p-values, and the accuracy of the best attack."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .. import gaussian

Array = NDArray[np.float64]
LARGEST = 700.0  # nats: e^x still fits a float64


def accuracy(share: ArrayLike, strength: float, delta: float) -> Array:
    """The accuracy of the most certain `share` of the guesses under the best attack on one canary.

    strength: mu of a Gaussian mechanism; for delta = 0 the epsilon of randomised response, where all guesses are equally certain.
    """
    share = np.asarray(share, float)
    if delta == 0 or strength <= 0:
        return np.full(share.shape, 1 / (1 + math.exp(-strength)))
    low, high = np.zeros_like(share), np.full_like(share, strength**2 / 2 + 40 * strength)
    for _ in range(60):
        middle = (low + high) / 2
        more = special.ndtr(strength / 2 - middle / strength) + special.ndtr(-strength / 2 - middle / strength) > share
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.minimum(special.ndtr(strength / 2 - low / strength) / share, 1.0)


def correct_guesses(scores: ArrayLike, bits: ArrayLike, guesses: int, seed: int = 0) -> int:
    """The number of correct guesses, if the guesses / 2 highest scores are guessed as members and as many lowest as non-members;
    a seeded coin breaks ties.
    """
    s, b = np.asarray(scores, float).ravel(), np.asarray(bits).astype(bool).ravel()
    if s.shape != b.shape:
        raise ValueError(f"scores have shape {np.shape(scores)}, bits {np.shape(bits)}: they must be equal.")
    if np.isnan(s).any():
        raise ValueError(f"scores hold {int(np.isnan(s).sum())} NaN in {s.size}: drop those canaries or give them numbers.")
    order = np.lexsort((np.random.default_rng(seed).random(len(s)), s))
    half = guesses // 2
    return int(np.count_nonzero(b[order[len(s) - half :]]) + half - np.count_nonzero(b[order[:half]]))


def steinke_p_value(epsilon: float, delta: float, canaries: int, guesses: int, correct: int) -> float:
    """An upper bound on the probability of at least `correct` correct guesses of `guesses` under (epsilon, delta)-DP (Steinke et
    al. 2023, Appendix D).
    """
    if correct <= 0:
        return 1.0
    q = 1 / (1 + math.exp(-min(epsilon, LARGEST)))
    tail = float(special.betainc(correct, guesses - correct + 1, q))
    if delta == 0:
        return tail
    # The mean of a unimodal mass over a window that ends at v is largest before the window leaves the other side of the mode.
    width = 3 * abs(correct - guesses * q) + 20 * math.sqrt(guesses * q * (1 - q)) + 20
    i = np.arange(1, min(correct, math.ceil(width)) + 1)
    below = np.where(i < correct, special.bdtr(np.maximum(correct - i - 1, 0), guesses, q), 0.0)
    most = float(np.max((special.bdtr(correct - 1, guesses, q) - below) / i))
    return min(1.0, tail + 2 * canaries * delta * max(most, 0.0))


def rejects(beta: Callable[[Array], Array], canaries: int, guesses: int, correct: int, level: Array) -> NDArray[np.bool_]:
    """Whether `correct` of `guesses` contradict a trade-off curve, at each level. beta takes an array of the length of level."""
    level = np.asarray(level, float)
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        larger = np.maximum(h, beta(1 - r))  # for a symmetric curve f the inverse of 1 - f is f(1 - x)
        if np.array_equal(larger, h):
            break  # neither changes any more
        r = r + i / (guesses - i) * (larger - h)
        h = larger
        r = np.minimum(r, 1.0)
    return np.asarray(r + h > guesses / canaries)


def gaussian_beta(mu: ArrayLike) -> Callable[[Array], Array]:
    return lambda a: gaussian.tradeoff(mu, a)


def largest_mu(m: int, r: int, v: int, alpha: float) -> float:
    """The largest mu that Algorithm 1 rejects, by two vectorised passes over a grid."""
    low, high = 0.0, 2.0
    level = np.full(65, alpha)
    while high < 100 and rejects(gaussian_beta(np.full(1, high)), m, r, v, level[:1])[0]:
        low, high = high, 2 * high
    for _ in range(5):
        grid = np.linspace(low, high, 65)
        yes = rejects(gaussian_beta(grid), m, r, v, level)
        last = int(np.argmin(yes)) - 1 if not yes.all() else 64
        if last < 0:
            return 0.0
        low, high = float(grid[last]), float(grid[min(last + 1, 64)])
    return low
