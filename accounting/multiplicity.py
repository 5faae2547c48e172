"""Many looks at one promise: alpha is divided before looking, e-values are averaged, claims are corrected by Holm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def divide(alpha: float, looks: int) -> float:
    """The level of each of `looks` looks whose false alarms together stay below alpha, however they depend on one another."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha}: must be between 0 and 1, both excluded. 0.05 is a common choice.")
    if looks < 1:
        raise ValueError(f"looks={looks}: must be at least 1. A plan that looks at nothing needs no alpha.")
    return alpha / looks


def spend(alpha: float, attempt: int) -> float:
    """The level of the attempt-th of endlessly many repetitions (1, 2, …): 6 alpha / (pi^2 attempt^2), which sums to alpha."""
    if attempt < 1:
        raise ValueError(f"attempt={attempt}: attempts are counted from 1.")
    return 6 * divide(alpha, 1) / (math.pi * attempt) ** 2


def average(e_values: ArrayLike) -> float:
    """One e-value from several of the same claim: their mean, valid under any dependence (Vovk and Wang 2021)."""
    e = np.asarray(e_values, float)
    if not e.size or np.isnan(e).any() or (e < 0).any():
        raise ValueError(f"e_values={e}: needs at least one number, none negative.")
    return float(e.mean())


def holm(p_values: ArrayLike, alpha: float) -> NDArray[np.bool_]:
    """Which claims are refuted so that at most a share alpha of all plans refutes any true one (Holm 1979).

    p_values: (claims,), one a claim, any dependence. The p-value of an e-value e is min(1, 1 / e).
    """
    p = np.asarray(p_values, float)
    if np.isnan(p).any() or (p < 0).any() or (p > 1).any():
        raise ValueError(f"p_values={p}: each must be between 0 and 1.")
    order = np.argsort(p)
    passes = p[order] <= divide(alpha, 1) / np.arange(len(p), 0, -1)
    refuted = np.zeros(len(p), bool)
    refuted[order] = np.logical_and.accumulate(passes)
    return refuted
