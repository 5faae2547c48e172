"""Readers of a user's own graph (.npz, .pt or a folder of tables), and of the data sets of PyTorch Geometric.

They raise ValueError, one line, for a file that they cannot read.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import listed, one_line
from .checks import Masks, Raw, whole
from .spooled import spooled

if TYPE_CHECKING:
    import pandas as pd
    import torch

MASKS = ("train_mask", "val_mask", "test_mask")


def npz(path: Path) -> Raw:
    """The graph in a NumPy archive, which is read without unpickling.

    The archive holds x (nodes, dim), y (nodes,), edge_index (2, arcs), and perhaps train_mask, val_mask, test_mask. Or it holds
    labels and the parts of two CSR matrices: adj_matrix.data|indices|indptr|shape and attr_matrix.…, or adj_data|… and
    attr_data|….
    """
    try:
        with path.open("rb") as begin:
            if begin.read(2) != b"PK":
                raise ValueError("it is no zip file, as an .npz file is")
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            keys = set(file.files)
            wanted = {k for k in keys if k in {"x", "y", "edge_index", "labels", *MASKS} or k.startswith(("adj", "attr"))}
            arrays = {k: file[k] for k in wanted - {"edge_index"}}
            if "edge_index" in wanted:
                with zipfile.ZipFile(path) as archive:
                    arcs = spooled(archive, "edge_index")
                arrays["edge_index"] = file["edge_index"] if arcs is None else arcs
    except (ValueError, OSError, EOFError, KeyError, MemoryError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a NumPy archive that can be read without unpickling ({one_line(error)}).") from None
    except Exception as error:  # zlib and numpy's header parser raise further types of error on damaged files
        raise ValueError(f"{path}: damaged NumPy archive ({one_line(error)}).") from None
    if "edge_index" in arrays:
        if parts := [k for k in keys if k.startswith(("adj_", "attr_", "labels"))]:
            raise ValueError(f"{path}: holds edge_index and also {listed(parts)}: two graphs. Keep one of them in the file.")
        return from_arrays(arrays, path)
    if "labels" not in arrays or not any(k.startswith("adj") for k in keys):
        raise ValueError(f"{path}: holds {listed(keys)}; must hold x, y and edge_index, or CSR parts adj_…, attr_… and labels.")
    adjacency, x = csr_parts(arrays, "adj", path), csr_parts(arrays, "attr", path)
    edges = np.stack(sp.coo_array(adjacency).coords).astype(np.int64)
    return Raw(x=x, y=whole(arrays["labels"], "labels"), edges=edges, directed=True)


def csr_parts(arrays: Mapping[str, NDArray[Any]], stem: str, path: Path) -> sp.csr_array:
    """A CSR matrix from its parts in `arrays`, whose names begin with `stem`. The parts are checked, because scipy would read out
    of bounds for wrong indices.
    """
    for style in (f"{stem}_matrix.", f"{stem}_"):
        parts = [arrays.get(style + part) for part in ("data", "indices", "indptr", "shape")]
        if all(p is not None for p in parts):
            return csr(parts[0], parts[1], parts[2], parts[3], f"{path}: {stem}")
    raise ValueError(f"{path}: has no {stem}_matrix.data, .indices, .indptr and .shape.")


def csr(data: Any, indices: Any, indptr: Any, shape: Any, what: str) -> sp.csr_array:
    """A well-formed CSR matrix from its parts. Raises ValueError for faulty parts, also in an empty matrix, where scipy's own
    check finds no fault. what: the name of the matrix in error messages.
    """
    data = np.asarray(data)
    indices, indptr = whole(indices, f"{what}: indices"), whole(indptr, f"{what}: indptr")
    rows, columns = whole(shape, f"{what}: shape").tolist() if np.shape(shape) == (2,) else (-1, -1)
    if data.ndim != 1 or data.shape != indices.shape or indptr.shape != (rows + 1,):
        raise ValueError(f"{what} is not a well-formed CSR matrix: its parts are of wrong sizes for {rows} x {columns}.")
    if indptr[0] != 0 or indptr[-1] != data.size or (np.diff(indptr) < 0).any():
        raise ValueError(f"{what} is not a well-formed CSR matrix: indptr must rise from 0 to {data.size}.")
    if data.size and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError(f"{what} is not a well-formed CSR matrix: indices must be in 0 … {columns - 1}.")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def pt(path: Path) -> Raw:
    """The graph in a file of torch.save: a PyG Data, or a dict of tensors, with x, y, edge_index and perhaps masks.

    The file is read with weights_only=True, so no code in it runs.
    """
    import torch
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises pickle, zip, runtime and key errors on damaged or unsafe files
        code = re.search(r"GLOBAL ([\w.]+)", str(error))
        why = f"it would run {code[1]}" if code else f"the file is damaged, or holds more than tensors: {type(error).__name__}"
        raise ValueError(f"{path}: not a torch file that is safe to load ({why}).") from None
    return from_pyg(data, path)


def from_pyg(data: Any, path: Any) -> Raw:
    """The graph in a torch_geometric Data or in a dict of tensors."""
    import torch

    if isinstance(data, tuple) and data:
        data = data[0]  # PyG stores a processed data set as (data, slices, …)
    get = data.get if isinstance(data, dict) else lambda k: getattr(data, k, None)
    arrays = {}
    for key in ("x", "y", "edge_index", *MASKS):
        try:
            value = get(key)
            if isinstance(value, torch.Tensor):
                arrays[key] = as_array(value)
        except Exception as error:  # torch raises many types of error for tensors that cannot be converted
            raise ValueError(f"{path}: {key} cannot be read ({one_line(error)}).") from None
    return from_arrays(arrays, path)


def as_array(value: torch.Tensor) -> NDArray[Any]:
    """A tensor of any layout as a dense NumPy array. Half precision becomes float32."""
    import torch

    dense = value if value.layout == torch.strided else value.to_dense()
    single = dense.float() if dense.dtype in (torch.bfloat16, torch.float16) else dense
    array: NDArray[Any] = single.detach().resolve_conj().resolve_neg().numpy()
    return array


def from_arrays(arrays: Mapping[str, NDArray[Any]], path: Any) -> Raw:
    """The graph in named arrays: x, y, edge_index and perhaps train_mask, val_mask and test_mask. Of masks with several columns,
    which are several splits, the first column is used.
    """
    lacking = [k for k in ("x", "y", "edge_index") if k not in arrays]
    if lacking:
        raise ValueError(f"{path}: has no {listed(lacking)}; a graph needs x, y and edge_index.")
    y = arrays["y"]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    masks: Masks | None = None
    notes: tuple[str, ...] = ()
    if lost := [k for k in MASKS if k not in arrays]:
        unused = listed(k for k in MASKS if k in arrays)
        notes = (f"The file has {unused} without {listed(lost)}, so its split was not taken.",) * (len(lost) < len(MASKS))
    else:
        found = [np.asarray(arrays[k]) for k in MASKS]
        if any(m.ndim == 2 and m.shape[1] > 0 for m in found):
            notes = ("Of several splits in the file, the first was taken.",)
            found = [m[:, 0] if m.ndim == 2 else m for m in found]
        for name, mask in zip(MASKS, found, strict=True):
            if mask.dtype != bool and (other := mask[~np.isin(mask, (0, 1))]).size:
                raise ValueError(f"{path}: {name} holds {other[0]}: must hold true or false for each node.")
        masks = tuple(mask.astype(bool) for mask in found)
    return Raw(x=arrays["x"], y=y, edges=arrays["edge_index"], masks=masks, notes=notes)


def folder(path: Path) -> Raw:
    """The graph in a folder with edges.csv, whose first two columns are node ids, and nodes.csv or nodes.parquet.

    nodes has a column `label` (or y, class, target), perhaps a column `id` (otherwise the id is the row number), and perhaps a
    column `split` (train, val, test). Every other column is a feature and must hold numbers.
    """
    found = [p for p in (path / "nodes.csv", path / "nodes.parquet") if p.is_file()]
    edges_file = path / "edges.csv"
    if not found or not edges_file.is_file():
        raise ValueError(f"{path}: must hold edges.csv and nodes.csv or nodes.parquet.")
    nodes, links = read_table(found[0]), read_table(edges_file)
    if links.shape[1] < 2:
        raise ValueError(f"{edges_file}: has {links.shape[1]} column; the first two must be node ids, under a header line.")
    labels = [c for c in ("label", "y", "class", "target") if c in nodes.columns]
    if not labels:
        raise ValueError(f"{found[0]}: has columns {listed(nodes.columns)}; one must be called label, y, class or target.")
    notes = []
    label = nodes.pop(labels[0])
    ids = nodes.pop("id") if "id" in nodes.columns else None
    split = nodes.pop("split") if "split" in nodes.columns else None
    y = codes(label)
    if label.dtype.kind not in "iufb":
        words = sorted(set(label.dropna().astype(str)))
        notes.append(f"Labels {listed(words)} are numbered in this order.")
    edges = numbers(links, ids, len(nodes), edges_file)
    wordy = [c for c in nodes.columns if nodes[c].dtype.kind not in "iufb"]
    if wordy:
        raise ValueError(f"{found[0]}: column {wordy[0]!r} is not numbers. One-hot encode it, or remove it.")
    masks = None if split is None else named_split(split, found[0])
    return Raw(x=nodes.to_numpy(dtype=np.float64), y=y, edges=edges, masks=masks, notes=tuple(notes))


def numbers(links: pd.DataFrame, ids: pd.Series | None, nodes: int, path: Path) -> NDArray[np.int64]:
    """(2, arcs) int64: the row numbers of the nodes whose ids the first two columns of `links` hold. ids: of all nodes, or None
    if ids are row numbers.
    """
    ends = [links.iloc[:, 0], links.iloc[:, 1]]
    if ids is None:
        return np.stack([whole(e.to_numpy(), f"{path}: column {e.name!r}") for e in ends])
    text = ids.astype(str)
    twice = text[text.duplicated()]
    if len(twice):
        raise ValueError(f"{path.parent}: the id {twice.iloc[0]!r} names more than one node.")
    row = dict(zip(text, range(nodes), strict=True))
    found = []
    for end in ends:
        if end.isna().any():
            raise ValueError(f"{path}: column {end.name!r} has an empty cell; every cell must be the id of a node.")
        if end.dtype.kind == "f" and ids.dtype.kind in "iu":  # one wrong cell makes a column of whole numbers floats
            end = end.map(lambda v: str(int(v)) if v.is_integer() else str(v))
        at = end.astype(str).map(row)
        if at.isna().any():
            missing = end[at.isna()].iloc[0]
            raise ValueError(f"{path}: {str(missing)!r} in column {end.name!r} is not the id of a node.")
        found.append(at.to_numpy(dtype=np.int64))
    return np.stack(found)


def codes(label: pd.Series) -> NDArray[np.int64]:
    """(nodes,) int64: whole numbers unchanged, words numbered in alphabetical order, -1 for a missing label."""
    missing = label.isna().to_numpy()
    if label.dtype.kind in "iufb":
        return whole(np.where(missing, -1, label.to_numpy()), "label")
    words = label.astype(str).to_numpy(dtype=str)
    y = np.full(len(words), -1, dtype=np.int64)
    y[~missing] = np.unique(words[~missing], return_inverse=True)[1]
    return y


def named_split(split: pd.Series, path: Path) -> Masks:
    """The masks from a column that holds train, val, test, or nothing for a node in none of them."""
    strange = split[~(split.isin(["train", "val", "test"]) | split.isna())]
    if len(strange):
        raise ValueError(f"{path}: split {strange.iloc[0]!r}: must be train, val, test, or empty.")
    return tuple((split == s).to_numpy(dtype=bool) for s in ("train", "val", "test"))


def read_table(path: Path, columns: tuple[str, ...] = ()) -> pd.DataFrame:
    """The table in a CSV or parquet file with a header. Raises ValueError if it cannot be read, repeats the name of a column, or
    lacks one of `columns`.
    """
    import pandas as pd

    try:
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        # pandas would rename the second of two equal names
        names = (
            table.columns if path.suffix == ".parquet" else pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna()
        )
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text in UTF-8. Save the table as CSV in UTF-8.") from None
    except Exception as error:  # pandas and pyarrow raise many kinds of error on damaged files
        raise ValueError(f"{path}: not a table that pandas can read ({one_line(error)}).") from None
    table.columns = [str(c).strip() for c in table.columns]
    stripped = pd.Index([str(c).strip() for c in names])
    twice = stripped[stripped.duplicated()]
    if len(twice):
        raise ValueError(f"{path}: has two columns called {twice[0]!r}.")
    lacking = [c for c in columns if c not in table.columns]
    if lacking:
        raise ValueError(f"{path}: has no column {lacking[0]!r}.")
    return table


def pyg(words: tuple[str, ...], root: Path, trust: bool = False) -> Raw:
    """The first graph of a data set of torch_geometric.datasets. words: the class, then perhaps its argument `name`.

    trust: whether the code in the data set's files, which are pickles, may run. Raises ValueError if `trust` is False.
    """
    import torch_geometric.datasets as sets
    from torch_geometric.data import Data

    if words[0] not in sets.__all__:
        raise ValueError(f"pyg:{':'.join(words)}: must name a class of torch_geometric.datasets, such as pyg:Planetoid:Cora.")
    if not trust:
        raise ValueError(
            f"pyg:{':'.join(words)}: PyTorch Geometric runs the code in pickled files when it reads them. If you trust their "
            "source, add --trust (in Python: trust=True)."
        )
    try:
        made = getattr(sets, words[0])(str(root / "pyg" / words[0]), *([words[1]] if len(words) > 1 else []))
        data = made[0]
    except Exception as error:  # any class of PyTorch Geometric may run, and raise any error
        raise ValueError(f"pyg:{':'.join(words)}: {type(error).__name__}: {one_line(error)}") from None
    if not isinstance(data, Data):
        raise ValueError(f"pyg:{':'.join(words)}: is a {type(data).__name__}; must be one homogeneous graph.")
    return from_pyg(data, f"pyg:{':'.join(words)}")
