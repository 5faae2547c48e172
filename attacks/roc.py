"""Computes AUC, TPR at a low FPR, their confidence intervals, and ROC curves from scores and bits."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, rankdata, t

from ..models.random.streams import stream

FPRS = (0.001, 0.01)
TAIL = 0.025  # outside a 95 % interval, on each side


@dataclass(frozen=True)
class Rate:
    """A true-positive rate at a given FPR, its 95 % interval, and its counts, which are summed over targets."""

    value: float
    ci95: tuple[float, float]
    true_positives: int
    false_positives: int  # the number of false positives that the FPR allows


@dataclass(frozen=True)
class Leak:
    """The success of an attack, averaged over targets. Each target has its own ROC.

    auc, tpr_at_fpr: means over targets. tpr_at_fpr: by FPR. The intervals are for the choice of targets if there are several,
    else for the choice of members and non-members. members, non_members: numbers, summed over targets.
    """

    auc: float
    auc_ci95: tuple[float, float]
    tpr_at_fpr: dict[float, Rate]
    members: int
    non_members: int
    targets: int


def measure(scores: NDArray[np.float64], bits: NDArray[np.bool_], seed: int = 0, fprs: tuple[float, ...] = FPRS) -> Leak:
    """The success of an attack. scores, bits: (targets, challenges). If there is one challenge, its targets give one ROC.

    seed: of the random order of ties and of the bootstrap. Targets that lack members or non-members have no ROC and are dropped.
    Raises ValueError for shapes that differ, for NaN, and if no target remains.
    """
    scores, bits = one_roc_a_row(scores, bits)
    rng = stream(seed, "ties")
    aucs = np.array([auc(s, b) for s, b in zip(scores, bits, strict=True)])
    counts = np.array([true_positives(s, b, fprs, rng) for s, b in zip(scores, bits, strict=True)])
    ins, outs = bits.sum(1), (~bits).sum(1)
    rates = {}
    for i, fpr in enumerate(fprs):
        values, hits = counts[:, i] / ins, int(counts[:, i].sum())
        interval = _shares(mean_interval(values, rng)) if len(values) > 1 else clopper_pearson(hits, int(ins.sum()))
        rates[fpr] = Rate(float(values.mean()), interval, hits, int(allowed(fpr, outs).sum()))
    spread = _shares(mean_interval(aucs, rng)) if len(aucs) > 1 else auc_interval(scores[0], bits[0])
    return Leak(float(aucs.mean()), spread, rates, int(ins.sum()), int(outs.sum()), len(aucs))


def measure_slices(
    scores: NDArray[np.float64], bits: NDArray[np.bool_], groups: NDArray[np.generic], fprs: tuple[float, ...] = FPRS
) -> Mapping[str, Leak]:
    """`measure` for each group of challenges, by its name. groups: (challenges,). Groups in which no target has both members and
    non-members are dropped.
    """
    parts = {str(g): groups == g for g in np.unique(groups)}
    mixed = {g: m for g, m in parts.items() if (bits[:, m].any(1) & ~bits[:, m].all(1)).any()}
    return {g: measure(scores[:, m], bits[:, m], fprs=fprs) for g, m in mixed.items()}


def roc_points(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A ROC for a plot: false-positive rates, 0 and then evenly spaced on a log scale, and the mean true-positive rates over
    targets, (200,) each.
    """
    scores, bits = one_roc_a_row(scores, bits)
    lowest = 1 / max(1, int((~bits).sum(1).max()))
    grid = np.concatenate([[0.0], np.geomspace(lowest, 1.0, 199)])
    rng = stream(0, "ties")
    rates = [np.array(true_positives(s, b, grid, rng)) / b.sum() for s, b in zip(scores, bits, strict=True)]
    return grid, np.mean(rates, axis=0)


def auc(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> float:
    """The probability that a member has a higher score than a non-member; a tie counts one half (Mann and Whitney 1947). scores,
    bits: (n,).
    """
    ins = int(bits.sum())
    below = rankdata(scores)[bits].sum() - ins * (ins + 1) / 2
    return float(below / (ins * (len(bits) - ins)))


def allowed(fpr: NDArray[np.float64] | float, non_members: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """The number of false positives that an FPR allows, rounded down: 0.1 % of 677 non-members allows none."""
    return np.floor(np.asarray(fpr) * non_members + 1e-9).astype(np.int64)


def true_positives(
    scores: NDArray[np.float64], bits: NDArray[np.bool_], fprs: tuple[float, ...] | NDArray[np.float64], rng: np.random.Generator
) -> list[int]:
    """For each FPR, the number of members whose score is higher than that of the first non-member beyond the allowed false
    positives. Ties are ordered at random. scores, bits: (n,).
    """
    if not len(fprs):
        return []
    order = np.lexsort((rng.random(len(scores)), -scores))
    found = np.concatenate([np.cumsum(bits[order])[~bits[order]], [bits.sum()]])
    return [int(found[k]) for k in allowed(np.asarray(fprs), int((~bits).sum()))]


def clopper_pearson(hits: int, of: int) -> tuple[float, float]:
    """The exact two-sided 95 % interval of the rate hits / of (Clopper and Pearson 1934)."""
    low = float(beta.ppf(TAIL, hits, of - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - TAIL, hits + 1, of - hits)) if hits < of else 1.0
    return low, high


def half_width(spread: float, count: int) -> float:
    """Half the width of Student's 95 % interval of a mean. spread: the standard deviation of the `count` values."""
    return float(t.ppf(1 - TAIL, count - 1) * spread / np.sqrt(count))


def mean_interval(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """A 95 % bootstrap interval of a mean over a few targets. values: (n,), n > 1.

    The percentiles are widened to the width of Student's interval (Hesterberg 2015, "What teachers should know about the
    bootstrap", section 5.3). Fewer than five values have too few different resamples, so they get Student's interval.
    """
    n = len(values)
    if n < 5:
        half = half_width(values.std(ddof=1), n)
        return float(values.mean() - half), float(values.mean() + half)
    tail = norm.cdf(np.sqrt(n / (n - 1)) * t.ppf(TAIL, n - 1))
    means = values[rng.integers(n, size=(5000, n))].mean(1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _shares(interval: tuple[float, float]) -> tuple[float, float]:
    return max(0.0, interval[0]), min(1.0, interval[1])


def auc_interval(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> tuple[float, float]:
    """DeLong's 95 % interval of one AUC (DeLong et al. 1988), from the rank of each member's score among the non-members' scores,
    and vice versa.

    If the scores of members and non-members do not overlap, this interval has no width. The result is then the Clopper-Pearson
    interval of min(members, non-members) disjoint pairs, all of which are ordered in the same way.
    """
    members, others = scores[bits], scores[~bits]
    rank = rankdata(scores)
    above = (rank[bits] - rankdata(members)) / len(others)
    below = 1 - (rank[~bits] - rankdata(others)) / len(members)
    centre = above.mean()
    if centre in (0.0, 1.0):
        edge = TAIL ** (1 / min(len(members), len(others)))
        return (edge, 1.0) if centre else (0.0, 1 - edge)
    variance = sum(v.var(ddof=1) / len(v) if len(v) > 1 else 0.25 for v in (above, below))
    width = norm.ppf(1 - TAIL) * np.sqrt(variance)
    return max(0.0, float(centre - width)), min(1.0, float(centre + width))


def one_roc_a_row(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The rows that have both members and non-members. A single column becomes one row first. Raises ValueError as `measure`
    does.
    """
    scores, bits = np.asarray(scores, dtype=np.float64), np.asarray(bits, dtype=bool)
    if scores.shape != bits.shape or scores.ndim != 2:
        raise ValueError(f"scores {scores.shape} and bits {bits.shape}: both must be (targets, challenges).")
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} scores are NaN: every challenge needs a score.")
    if scores.shape[1] == 1:
        scores, bits = scores.T, bits.T
    both = bits.any(1) & ~bits.all(1)
    if not both.any():
        raise ValueError(f"none of {len(bits)} targets has both members and non-members: a ROC needs both.")
    return scores[both], bits[both]
