"""A graph in a folder, which may be larger than the memory: its arrays are mapped from files and read only where needed."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import one_line
from .checks import check
from .graph import Features, Graph
from .neighbour_lists import Lists, incoming

TYPES = {"x": "float32", "x.data": "float32", "y": "int64", "edges": "int64", "starts": "int64", "senders": "int32"}
TYPES |= dict.fromkeys(("train", "val", "test"), "bool")
ABOUT = "graph.json"


class Mapped(Graph):
    """A graph that is mapped from a folder. Its pickle holds only the folder's path, so that workers map the same files."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        folder = vars(self).get("folder")  # a graph that is derived from this one has no folder
        return super().__reduce_ex__(protocol) if folder is None else (read, (folder,))


def write(graph: Graph, folder: str | Path) -> Graph:
    """Writes the graph and its neighbour lists into a new folder, and returns the graph mapped from there.

    The graph may itself be mapped, because its arrays are read in blocks. The files are written to a temporary folder, which is
    then renamed, so `folder` is complete or absent. Raises ValueError if `folder` exists already, for a graph that breaks the
    rules of `Graph`, and for edges that are not sorted.
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder}: exists already. Choose another folder, or remove it.")
    check(graph, ordered=True)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        sparse = sp.issparse(graph.x)
        parts = {f"x.{n}": getattr(graph.x, n) for n in ("data", "indices", "indptr")} if sparse else {"x": graph.x}
        for name in ("y", "edges", "train", "val", "test"):
            parts[name] = getattr(graph, name)
        for name, array in parts.items():
            np.save(aside / f"{name}.npy", array)
        senders = np.lib.format.open_memmap(aside / "senders.npy", "w+", np.int32, (graph.arc_count,))
        lists = incoming(graph.edges, graph.nodes, graph.directed, senders)
        senders.flush()
        np.save(aside / "starts.npy", lists.starts)
        about = {"name": graph.name, "directed": graph.directed, "classes": graph.classes, "dim": graph.dim}
        (aside / ABOUT).write_text(json.dumps(about | {"digest": graph.digest, "lists": digest(lists)}))
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return read(folder)


def read(folder: str | Path, checked: bool = False) -> Graph:
    """The graph that `write` stored in the folder. checked: whether to compare the arrays with their stored digests, which reads
    all files.

    Raises ValueError (one line) for a folder that is incomplete, damaged or not a graph.
    """
    folder = Path(folder).absolute()
    try:
        about = json.loads((folder / ABOUT).read_text())
        x = features(folder, int(about["dim"]))
        parts = {name: part(folder, name) for name in ("y", "edges", "train", "val", "test")}
        graph = Mapped(x=x, **parts, directed=bool(about["directed"]), name=str(about["name"]), classes=int(about["classes"]))
        lists = Lists(part(folder, "starts"), part(folder, "senders"))
        expected = about["digest"], about["lists"]
    except Exception as fault:  # a damaged file makes its reader raise almost anything
        raise ValueError(
            f"{folder}: not a complete mapped graph ({one_line(fault)}). Make it again with `audit data map`."
        ) from None
    if checked and (graph.digest, digest(lists)) != expected:
        raise ValueError(f"{folder}: the files were changed after they were written. Make it again with `audit data map`.")
    vars(graph).update(folder=folder, incoming=lists)
    return graph


def features(folder: Path, dim: int) -> Features:
    """The features, mapped from their files. Rows that are taken from sparse features are copied."""
    if (folder / "x.npy").exists():
        return part(folder, "x")
    data, indices, indptr = (np.lib.format.open_memmap(folder / f"x.{n}.npy", "r") for n in ("data", "indices", "indptr"))
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, dim))


def part(folder: Path, name: str) -> NDArray[Any]:
    """One array, mapped for reading. Raises ValueError or OSError for a file that is absent, cut off or of another type."""
    array: NDArray[Any] = np.lib.format.open_memmap(folder / f"{name}.npy", "r")
    if array.dtype != TYPES[name]:
        raise ValueError(f"{name} has type {array.dtype}, must be {TYPES[name]}")
    return array


def digest(lists: Lists) -> str:
    h = hashlib.blake2b(lists.starts.data, digest_size=16)
    h.update(lists.senders.data)
    return h.hexdigest()
