"""Readers of graphs in the files of those who published them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .checks import Raw

FACEBOOK_COLUMNS = ("status", "gender", "major", "minor", "housing", "year")


def facebook100(path: Path, target: str = "year") -> Raw:
    """One university of Facebook100 (Traud, Mucha & Porter 2012), a Matlab file with A and local_info.

    Prepared as by the authors of GAP and ProGAP: the target column is the label, the other five are one-hot features
    with a column for every value that occurs in the file except 0, which means missing; the high school is dropped.
    Raises ValueError for another target or a file without these two matrices.
    """
    from scipy.io import loadmat

    if target not in FACEBOOK_COLUMNS:
        raise ValueError(f"target={target!r}: must be one of {', '.join(FACEBOOK_COLUMNS)}.")
    try:
        file = loadmat(path, variable_names=("A", "local_info"))
    except Exception as error:  # scipy raises many kinds of error on a file that it did not write
        raise ValueError(f"{path}: not a Matlab file that scipy can read ({error}).") from None
    if "A" not in file or "local_info" not in file:
        raise ValueError(f"{path}: must hold the matrices A and local_info, as the files of Facebook100 do.")
    table, adjacency = np.asarray(file["local_info"]), sp.coo_array(file["A"])
    if table.ndim != 2 or table.shape[1] < 6 or table.dtype.kind not in "iuf" or adjacency.shape != (len(table),) * 2:
        raise ValueError(f"{path}: A is {adjacency.shape} and local_info {table.shape}; must be (n, n) and (n, 7).")
    columns = []
    for i, name in enumerate(FACEBOOK_COLUMNS):
        if name != target:
            values = np.unique(table[:, i])
            columns.append(table[:, i, None] == values[values != 0])
    y = table[:, FACEBOOK_COLUMNS.index(target)].astype(np.int64)
    edges = np.stack(adjacency.coords).astype(np.int64)
    return Raw(x=np.concatenate(columns, axis=1).astype(np.float32), y=np.where(y == 0, -1, y), edges=edges)
