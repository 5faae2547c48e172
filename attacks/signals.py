"""The signals that attacks read from a release: log-probabilities and logits of the challenge nodes."""

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp

from ..models.base import Release
from .base import Challenge


def rows(release: Release, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each node in the release: node ids of any shape -> int64 row numbers of the same shape.

    Raises ValueError for a node that is not watched.
    """
    place = np.full(max(release.watch.max(initial=-1), nodes.max(initial=-1)) + 1, -1)
    place[release.watch] = np.arange(len(release.watch))
    found: NDArray[np.int64] = place[nodes]
    if (found < 0).any():
        raise ValueError(f"node {nodes[found < 0][0]} is not among the {len(release.watch)} watched rows; add it to `watch`.")
    return found


def logs(release: Release, nodes: NDArray[np.int64], query: str = "posteriors") -> NDArray[np.float64]:
    """The log-probabilities of `nodes`, (c,) -> (runs, c, classes) float64, normalised again.

    In float32, the logarithm of a probability close to one is rounded to 0. The normalisation in float64 recovers this logarithm
    from the log-probabilities of the other classes.
    """
    picked = release[query][:, rows(release, nodes)].astype(np.float64)
    normal: NDArray[np.float64] = log_softmax(picked, axis=-1)
    return normal


def log_rest(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(1 - p) for every class, (…, classes) -> (…, classes). It is accurate also for p close to one or zero."""
    p, best = np.exp(log_p), log_p == log_p.max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        others = np.log(p.sum(axis=-1, keepdims=True) - p)
        # For the most probable class, 1 - p would lose digits, so the probabilities of the other classes are summed instead.
        small = logsumexp(np.where(best, -np.inf, log_p), axis=-1, keepdims=True)
    alone = best.sum(axis=-1, keepdims=True) == 1
    return np.where(best & alone, small, others)


def label_logit(release: Release, challenge: Challenge, query: str = "posteriors") -> NDArray[np.float64]:
    """log(p / (1 - p)) of every challenge node's own label, (runs, c) float64: the statistic of Carlini et al. 2022."""
    log_p = logs(release, challenge.items, query)
    label = challenge.known.y[challenge.items]
    each = np.arange(len(label))
    return log_p[:, each, label] - log_rest(log_p)[:, each, label]


def neighbours_logit(release: Release, challenge: Challenge, query: str = "posteriors") -> NDArray[np.float64]:
    """(runs, c) float64: the mean of `label_logit` over the watched neighbours of every challenge node; 0 if it has none."""
    known, watch = challenge.known, release.watch
    signal = label_logit(release, dataclasses.replace(challenge, items=watch), query)
    joined = known.adjacency()[challenge.items][:, watch].astype(np.float64)
    total: NDArray[np.float64] = (joined @ signal.T).T
    return total / np.maximum(joined.sum(1), 1)
