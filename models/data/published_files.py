"""Readers of graphs in the formats in which their authors published them."""

import collections
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import one_line
from .checks import Raw, whole
from .matlab import matrices
from .readers import csr, read_table

FACEBOOK_COLUMNS = ("status", "gender", "major", "minor", "housing", "year")


def facebook100(path: Path, target: str = "year") -> Raw:
    """One university of Facebook100 (Traud, Mucha & Porter 2012), a Matlab file with A and local_info.

    The authors of GAP and ProGAP prepare the file in the same way: the target column is the label. The other five columns are
    one-hot features, with a feature for every value that occurs in the file except 0, which means missing. The high school is
    dropped. Raises ValueError for another target or a file without these two matrices.
    """
    if target not in FACEBOOK_COLUMNS:
        raise ValueError(f"target={target}: must be one of {', '.join(FACEBOOK_COLUMNS)}.")
    file = matrices(path, ("A", "local_info"))
    if "A" not in file or "local_info" not in file:
        raise ValueError(f"{path}: must hold the matrices A and local_info, as the files of Facebook100 do.")
    table, friends = file["local_info"], sp.coo_array(file["A"])  # A may be transposed, which changes no friendship
    if sp.issparse(table) or table.shape[1] < 6 or friends.shape != (len(table),) * 2:
        raise ValueError(f"{path}: A is {friends.shape} and local_info {table.shape}; must be (n, n) and (n, 7) numbers.")
    edges = np.stack(friends.coords).astype(np.int64)
    table = whole(table, f"{path}: local_info")
    columns = []
    for i, name in enumerate(FACEBOOK_COLUMNS):
        if name != target:
            values = np.unique(table[:, i])
            columns.append(table[:, i, None] == values[values != 0])
    y = table[:, FACEBOOK_COLUMNS.index(target)]
    return Raw(x=np.concatenate(columns, axis=1).astype(np.float32), y=np.where(y == 0, -1, y), edges=edges)


class _Kind:
    """Stands in for a dtype while a pickle is read, because a damaged dtype makes numpy corrupt memory."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]


class _Array:
    """Stands in for an array while a pickle is read. `whole` checks its parts and makes the array."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def whole(self) -> NDArray[Any]:
        _, shape, kind, fortran, content = self.state
        if kind.code not in ("i4", "i8", "f4", "f8") or kind.order not in ("<", ">", "="):
            raise ValueError(f"an array of {kind.order}{kind.code}")
        raw = content.encode("latin1") if isinstance(content, str) else content
        return np.frombuffer(raw, kind.order + kind.code).reshape(shape, order="F" if fortran else "C").astype(kind.code)


class _Parts:
    """Stands in for a sparse matrix, because scipy does not check indices and would read out of bounds."""

    data: Any = None
    indices: Any = None
    indptr: Any = None
    _shape: Any = ()


def _encoded(text: str, encoding: str) -> bytes:
    # replaces `_codecs.encode`: in a pickle of protocol 2 or lower, Python 3 stores bytes as a call of this function with latin1
    return text.encode("latin1")


def _reconstructed(kind: type, base: type, state: object) -> object:
    if kind is not _Parts:
        raise pickle.UnpicklingError("only sparse matrices are admitted in a graph file")
    return _Parts()


ADMITTED: dict[tuple[str, str], Any] = {
    ("scipy.sparse.csr", "csr_matrix"): _Parts,
    ("scipy.sparse._csr", "csr_matrix"): _Parts,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("__builtin__", "object"): object,
    ("copy_reg", "_reconstructor"): _reconstructed,
    ("_codecs", "encode"): _encoded,
}


class _Planetoid(pickle.Unpickler):
    """Reads a pickle. Names in ADMITTED are replaced by their values; any other name raises UnpicklingError."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name} is not admitted in a graph file")
        return ADMITTED[module, name]


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            value = _Planetoid(file, encoding="latin1").load()
        if isinstance(value, _Parts):
            data, indices, indptr = (part.whole() for part in (value.data, value.indices, value.indptr))
            return csr(data, indices, indptr, value._shape, "it")
        return value.whole() if isinstance(value, _Array) else value
    except Exception as error:  # a damaged pickle can raise nearly any error
        raise ValueError(f"{path}: not a file of Planetoid ({one_line(error)}).") from None


def planetoid(*paths: Path) -> Raw:
    """Cora, CiteSeer or PubMed (Yang, Cohen & Salakhutdinov 2016) from the files x, tx, allx, ty, ally, graph, test.index.

    The masks are the public split: the rows of x are for training, the next 500 nodes for validation, those in test.index for
    testing. A citation is an undirected edge. A node that occurs only in the file `graph` gets features of 0 and class 0, as in
    every published experiment. Raises ValueError for damaged files and for files that do not belong together.
    """
    x, tx, allx, ty, ally, graph = (_unpickled(p) for p in paths[:6])
    try:
        return _joined(x.shape[0], tx, allx, ty, ally, graph, _lines(paths[6]))
    except Exception as error:  # parts of wrong types or sizes raise many kinds of error
        name = paths[0].name.split(".")[1]
        raise ValueError(f"{paths[0].parent}: the files of {name} do not belong together ({one_line(error)}).") from None


def _joined(trained: int, tx: Any, allx: Any, ty: Any, ally: Any, graph: Any, test: NDArray[np.int64]) -> Raw:
    known, dim = allx.shape
    nodes = int(test.max()) + 1
    if test.min() < known or np.unique(test).size != test.size or nodes > 2 * (known + test.size):
        raise ValueError(f"test.index must list distinct nodes that follow the first {known}")
    if (tx.shape, ty.shape[0], ally.shape) != ((test.size, dim), test.size, (known, ty.shape[1])):
        raise ValueError(f"tx, ty and ally are {tx.shape}, {ty.shape} and {ally.shape}")
    old, new = sp.coo_array(allx), sp.coo_array(tx)
    at = np.concatenate([old.row, test[new.row]]), np.concatenate([old.col, new.col])
    features = sp.coo_array((np.concatenate([old.data, new.data]), at), shape=(nodes, dim))
    onehot = np.zeros((nodes, ally.shape[1]))
    onehot[:known], onehot[test] = ally, ty
    masks = np.zeros((3, nodes), dtype=bool)
    masks[0, :trained] = masks[1, trained : trained + 500] = masks[2, test] = True
    ends = np.array([(u, v) for u, cited in graph.items() for v in cited]).reshape(-1, 2)
    alone = nodes - known - test.size
    notes = (f"{alone} nodes have neither features nor a label in the files; they are kept, with class 0.",) if alone else ()
    return Raw(features, onehot.argmax(axis=1), whole(ends.T, "graph"), tuple(masks), notes=notes)


def _lines(path: Path) -> NDArray[np.int64]:
    try:
        return whole(np.array([int(line) for line in path.read_text().split()]), path.name)
    except (ValueError, OSError):
        raise ValueError(f"{path.name} must hold one node id a line") from None


def musae_facebook(edges: Path, features: Path, target: Path) -> Raw:
    """Facebook pages that like each other (Rozemberczki, Allen & Sarkar 2021). The label is the type of the page. Raises
    ValueError for damaged files.
    """
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
