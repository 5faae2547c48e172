"""Graphs made from tables: two rows are joined if their features are similar."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .checks import Raw
from .readers import read_table

IMPLIED = "Edges join rows with similar features, so the features alone reveal much about the edges."
SCALED = "Features are scaled to [0, 1] by the least and greatest value of each column; these values are assumed to be public."


def alike(x: NDArray[np.float64], threshold: float) -> NDArray[np.int64]:
    """(2, arcs) int64: joins every row i to the rows that are nearly as similar to i as its most similar row.

    x: (rows, columns). Similarity is 1 / (1 + Euclidean distance). Row j is joined to i if their similarity exceeds `threshold`
    times the greatest similarity of i to another row (Agarwal, Lakkaraju & Zitnik 2021).
    """
    from scipy.spatial import KDTree

    tree = KDTree(x)
    nearest = tree.query(x, k=2)[0][:, 1]
    radius = (1 + nearest) / threshold - 1
    found = tree.query_ball_point(x, radius * (1 - 1e-12))  # only pairs strictly above the threshold, up to rounding
    i = np.repeat(np.arange(len(x)), [len(f) for f in found])
    j = np.concatenate([np.asarray(f, dtype=np.int64) for f in found])
    return np.stack([i, j])[:, i != j]


def credit(path: Path) -> Raw:
    """Credit card clients who do or do not pay next month, from the table of chirag126/nifty."""
    table = read_table(path, ("NoDefaultNextMonth", "Single", "TotalMonthsOverdue"))
    y = table.pop("NoDefaultNextMonth").to_numpy()
    table = table.drop(columns="Single")
    money = [c for c in table.columns if "Amount" in c] + ["TotalMonthsOverdue"]
    scaled = table.copy()
    scaled[money] = (table[money] - table[money].mean()) / table[money].std()
    return Raw(x=unit(table.to_numpy()), y=y, edges=alike(scaled.to_numpy(), 0.7), notes=(IMPLIED, SCALED))


def german(path: Path) -> Raw:
    """Clients of a German bank with good or bad credit, from the table of chirag126/nifty."""
    table = read_table(path, ("GoodCustomer", "Gender", "PurposeOfLoan", "OtherLoansAtStore", "LoanAmount"))
    y = (table.pop("GoodCustomer") > 0).to_numpy(dtype=np.int64)
    table["Gender"] = (table["Gender"] == "Female").astype(float)
    table = table.drop(columns=["PurposeOfLoan", "OtherLoansAtStore"])
    x = unit(table.to_numpy(dtype=np.float64))
    near = table.to_numpy(dtype=np.float64)
    for i in (table.columns.get_loc(c) for c in ("LoanAmount", "Age", "LoanDuration")):
        near[:, i] = 2 * x[:, i] - 1
    return Raw(x=x, y=y, edges=alike(near, 0.8), notes=(IMPLIED, SCALED))


def digits(k: int = 10) -> Raw:
    """Scikit-learn's 1,797 images of handwritten digits, each joined to the k nearest other images. Raises ValueError for a k out
    of range.
    """
    from scipy.spatial import KDTree
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    if not 1 <= k < len(x):
        raise ValueError(f"k={k}: must be in 1 … {len(x) - 1}.")
    near = KDTree(x).query(x, k=k + 1)[1]
    edges = np.stack([np.repeat(np.arange(len(x)), k + 1), near.ravel()])
    return Raw(x=x / 16, y=y, edges=edges[:, edges[0] != edges[1]], directed=True, notes=(IMPLIED,))


def unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every column scaled to [0, 1]; a constant column becomes 0."""
    x = np.asarray(x, dtype=np.float64)
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / np.where(high > low, high - low, 1.0)
