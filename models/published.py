"""Readers of graphs in the files of those who published them."""

from __future__ import annotations

import collections
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .checks import Raw, whole
from .readers import csr, one_line, read_table

FACEBOOK_COLUMNS = ("status", "gender", "major", "minor", "housing", "year")


def facebook100(path: Path, target: str = "year") -> Raw:
    """One university of Facebook100 (Traud, Mucha & Porter 2012), a Matlab file with A and local_info.

    Prepared as by the authors of GAP and ProGAP: the target column is the label, the other five are one-hot features
    with a column for every value that occurs in the file except 0, which means missing; the high school is dropped.
    Raises ValueError for another target or a file without these two matrices.
    """
    from scipy.io import loadmat

    if target not in FACEBOOK_COLUMNS:
        raise ValueError(f"target={target}: must be one of {', '.join(FACEBOOK_COLUMNS)}.")
    try:
        file = loadmat(path, variable_names=("A", "local_info"))
    except Exception as error:  # scipy raises many kinds of error on a file that it did not write
        raise ValueError(f"{path}: not a Matlab file that scipy can read ({one_line(error)}).") from None
    if "A" not in file or "local_info" not in file:
        raise ValueError(f"{path}: must hold the matrices A and local_info, as the files of Facebook100 do.")
    table, stored = np.asarray(file["local_info"]), file["A"]
    if table.ndim != 2 or table.shape[1] < 6 or table.dtype.kind not in "iuf" or stored.shape != (len(table),) * 2:
        raise ValueError(f"{path}: A is {stored.shape} and local_info {table.shape}; must be (n, n) and (n, 7) numbers.")
    if sp.issparse(stored):  # a csc matrix; read as csr it is the transpose, which is the same friendships
        stored = csr(stored.data, stored.indices, stored.indptr, stored.shape[::-1], f"{path}: A")
    edges = np.stack(sp.coo_array(stored).coords).astype(np.int64)
    table = whole(table, f"{path}: local_info")
    columns = []
    for i, name in enumerate(FACEBOOK_COLUMNS):
        if name != target:
            values = np.unique(table[:, i])
            columns.append(table[:, i, None] == values[values != 0])
    y = table[:, FACEBOOK_COLUMNS.index(target)]
    return Raw(x=np.concatenate(columns, axis=1).astype(np.float32), y=np.where(y == 0, -1, y), edges=edges)


class _Parts:
    """Stands in for a sparse matrix while its pickle is read, so that scipy sees its parts only after they are checked."""

    data: Any = None
    indices: Any = None
    indptr: Any = None
    _shape: Any = ()


class _Planetoid(pickle.Unpickler):
    """Admits arrays, lists, dicts and the parts of sparse matrices; any other name in the file is an error."""

    def find_class(self, module: str, name: str) -> Any:
        where = module.replace("numpy._core", "numpy.core")
        admitted: dict[tuple[str, str], Any] = {
            ("scipy.sparse.csr", "csr_matrix"): _Parts,
            ("scipy.sparse._csr", "csr_matrix"): _Parts,
            ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("collections", "defaultdict"): collections.defaultdict,
            ("__builtin__", "list"): list,
            ("builtins", "list"): list,
            ("__builtin__", "object"): object,
            ("copy_reg", "_reconstructor"): _reconstructed,
        }
        if (where, name) not in admitted:
            raise pickle.UnpicklingError(f"{module}.{name} is not admitted in a graph file")
        return admitted[where, name]


def _reconstructed(kind: type, base: type, state: object) -> object:
    if kind is not _Parts:
        raise pickle.UnpicklingError("only sparse matrices are admitted in a graph file")
    return _Parts()


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _matrix(_Planetoid(file, encoding="latin1").load(), path)
    except ValueError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"{path}: not a file of Planetoid ({one_line(error)}).") from None


def _matrix(value: Any, path: Path) -> Any:
    return csr(value.data, value.indices, value.indptr, value._shape, str(path)) if isinstance(value, _Parts) else value


def planetoid(*paths: Path) -> Raw:
    """Cora, CiteSeer or PubMed (Yang, Cohen & Salakhutdinov 2016) from the files x, tx, allx, y, ty, ally, graph, test.index.

    The public split: the rows of x train, the next 500 validate, test.index tests. Citations count in both directions.
    Nodes that the files name in the graph only have no features and class 0, as in every published experiment.
    """
    _, tx, allx, y, ty, ally, graph = (_unpickled(p) for p in paths[:7])
    test = whole(np.fromiter(_lines(paths[7]), dtype=np.int64), "test.index")
    for value, path in zip((tx, allx, y, ty, ally), paths[1:6], strict=True):
        if getattr(value, "ndim", 0) != 2:
            raise ValueError(f"{path}: must hold a matrix.")
    if not isinstance(graph, dict) or not test.size or test.min() < allx.shape[0] or np.unique(test).size != test.size:
        raise ValueError(f"{paths[7]}: must list distinct nodes after the first {allx.shape[0]}, and {paths[6].name} a dict.")
    nodes = int(test.max()) + 1
    if (tx.shape[0], ty.shape[0]) != (test.size,) * 2 or ally.shape[0] != allx.shape[0] or nodes > 10 * allx.shape[0]:
        raise ValueError(f"{paths[0].parent}: the files of {paths[0].name.split('.')[1]} do not belong together.")
    features = sp.lil_array((nodes, allx.shape[1]), dtype=np.float32)
    features[: allx.shape[0]] = allx
    features[test] = tx
    onehot = np.zeros((nodes, ally.shape[1]))
    onehot[: ally.shape[0]] = ally
    onehot[test] = ty
    masks = np.zeros((3, nodes), dtype=bool)
    masks[0, : y.shape[0]] = masks[1, y.shape[0] : y.shape[0] + 500] = masks[2, test] = True
    ends = [(u, v) for u, friends in graph.items() for v in friends]
    edges = whole(np.array(ends).reshape(-1, 2).T, str(paths[6]))
    alone = nodes - allx.shape[0] - test.size
    notes = (f"{alone} nodes have neither features nor a label in the files; they are kept, with class 0.",) if alone else ()
    return Raw(sp.csr_array(features), onehot.argmax(axis=1), edges, (masks[0], masks[1], masks[2]), notes=notes)


def _lines(path: Path) -> list[int]:
    try:
        return [int(line) for line in path.read_text().split()]
    except (ValueError, OSError):
        raise ValueError(f"{path}: must hold one node id a line.") from None


def musae_facebook(edges: Path, features: Path, target: Path) -> Raw:
    """Facebook pages that like each other (Rozemberczki, Allen & Sarkar 2021). The label is the type of the page."""
    links, pages = read_table(edges, ("id_1", "id_2")), read_table(target, ("id", "page_type"))
    kinds, y = np.unique(pages["page_type"].astype(str).to_numpy(dtype=str), return_inverse=True)
    nodes = len(pages)
    if not np.array_equal(pages["id"], np.arange(nodes)):
        raise ValueError(f"{target}: the ids must be 0 … {nodes - 1}, in this order.")
    try:
        with features.open() as file:
            found = {int(node): ids for node, ids in json.load(file).items()}
        rows = np.concatenate([np.full(len(ids), node) for node, ids in found.items()])
        columns = whole(np.concatenate([np.asarray(ids) for ids in found.values()]), "features")
        x = sp.coo_array((np.ones(rows.size, np.float32), (rows, columns)), shape=(nodes, int(columns.max()) + 1)).tocsr()
    except Exception as error:
        raise ValueError(f"{features}: must map node ids to lists of feature ids ({one_line(error)}).") from None
    x.data[:] = 1  # a feature listed twice is still one feature
    return Raw(
        x=x,
        y=y,
        edges=np.stack([whole(links["id_1"].to_numpy(), "id_1"), whole(links["id_2"].to_numpy(), "id_2")]),
        notes=(f"Labels {', '.join(kinds)} are numbered in this order.",),
    )
