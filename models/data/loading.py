"""Loads a graph from a name: reads its files, splits its nodes, and refuses or repairs data that would falsify an audit."""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...accounting.arguments import check_type, is_whole, shown
from ..graph import memory_mapped
from ..graph.graph import Graph
from ..graph.neighbour_lists import degrees
from ..random.streams import stream
from . import readers
from .checks import Masks, Raw, check, check_masks, connected, frequent, isolated, labelled, numbered, simple, trained
from .checksums import SHA256, remote
from .download import data_folder, digest, obtain
from .known_sets import FORMATS, PYG, DataSet, Name, convert, parse
from .unpacked import MEMORY, fits, room

MOST_SPLITS = 1 << 32  # number of public splits


@dataclass(frozen=True)
class Provenance:
    """The source of a graph and the repairs made to it. sha256: the digest of every source file, by file name."""

    source: str
    licence: str
    sha256: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # repairs and decisions, one sentence each


def load(name: Any, data_dir: str | Path | None = None, split: int = 0, *, trust: bool = False, memory: int = MEMORY) -> Graph:
    """The graph called `name`, a text or a path, or the graph in a `torch_geometric.data.Data`. split: the number of the public
    random split of its nodes.

    data_dir: the folder that has the files, or that downloads go to; None means the environment variable GNNAUDIT_DATA, or
    gnnaudit/data in the user's cache. trust: whether to accept files that may run code when they are read (`pyg:`), and downloads
    without a known checksum. memory: the most bytes that the unpacked files may take. Raises ValueError (one line) for anything
    that cannot be loaded.
    """
    in_memory = hasattr(name, "edge_index")
    if not in_memory:
        way = "`audit data list` shows the names. Graph(x, y, edges, train, val, test) makes a graph of arrays."
        check_type("name", name, str | Path, f"the name of a data set, a path, or a torch_geometric.data.Data. {way}")
    check_type("data_dir", data_dir, str | Path | None, "the path of a folder, or None for the usual one.")
    check_type("trust", trust, bool, "True or False.")
    if not (is_whole(memory) and memory >= 0):
        raise ValueError(f"memory={shown(memory)}: must be a whole number of bytes, at least 0.")
    if in_memory:
        number, parsed = split_number(split), Name("data", FORMATS[".pt"], (), {})
        return prepare(readers.from_pyg(name, "data"), parsed, number, int(memory))[0]
    return load_described(os.fspath(name), data_dir, split, trust=trust, memory=int(memory))[0]


def load_described(
    name: str, data_dir: str | Path | None = None, split: int = 0, *, trust: bool = False, memory: int = MEMORY
) -> tuple[Graph, Provenance]:
    """The graph of `load`, with its source and the repairs made to it."""
    number, parsed = split_number(split), parse(name)
    try:
        return _described(parsed, data_dir, number, trust, memory)
    except ValueError as fault:
        if str(parsed.path or parsed.text.partition(":")[0]) in str(fault):
            raise
        raise ValueError(f"{parsed.path or f'data {name!r}'}: {fault}") from None


def split_number(split: Any) -> int:
    """Raises ValueError for what is no number of a public split."""
    if not (is_whole(split) and 0 <= split < MOST_SPLITS):
        known = f"must be a whole number from 0 to {MOST_SPLITS - 1}, which numbers the public splits."
        raise ValueError(f"split={shown(split)}: {known}")
    return int(split)


def _described(parsed: Name, data_dir: str | Path | None, split: int, trust: bool, memory: int) -> tuple[Graph, Provenance]:
    """The graph of a parsed name. Raises ValueError, whose message need not contain the name."""
    data, folder = parsed.data, data_folder(data_dir)
    options = {key: convert(key, text, data.options[key]) for key, text in parsed.options.items() if key in data.options}
    if data is PYG:
        return prepare(readers.pyg(parsed.words, folder, trust), parsed, split, memory)
    if parsed.path and (parsed.path / memory_mapped.ABOUT).is_file():
        if parsed.options:
            raise ValueError(f"data {parsed.text!r}: a mapped graph takes no options: give them to `audit data map`.")
        return memory_mapped.read(parsed.path, checked=True), Provenance(
            data.source, data.licence, notes=("It is mapped from its files.",)
        )
    published_at = [f.format(*parsed.words) for f in data.files]
    paths = [parsed.path] if parsed.path else [obtain(remote(p), folder, trust) for p in published_at]
    sources = [q for p in paths for q in ([p] if p.is_file() else sorted(p.glob("*.csv")) + sorted(p.glob("*.parquet")))]
    for path in sources:
        fits(path, memory)
    graph, facts = prepare(data.read(*paths, **options), parsed, split, memory)
    facts = dataclasses.replace(facts, sha256={p.name: digest(p) for p in sources})
    for at, path in zip(published_at, paths, strict=False):
        if SHA256.get(at, facts.sha256[path.name]) != facts.sha256[path.name]:
            facts = dataclasses.replace(
                facts, notes=(*facts.notes, f"{path.name} is not the published file: its sha256 differs.")
            )
    return graph, facts


def prepare(raw: Raw, parsed: Name, split: int = 0, memory: int = MEMORY) -> tuple[Graph, Provenance]:
    """Turns the contents of the files into a graph, in the order of the published work: labels, split, classes, edges."""
    data, options = parsed.data, parsed.options
    # an array may have more entries than its file holds, so its size is checked again
    stored = raw.x.nnz if sp.issparse(raw.x) else raw.x.size
    room(8 * (stored + raw.y.size + raw.edges.size), memory, f"data {parsed.text!r}")
    shares = options.get("split") or (data.shares if raw.masks is None else data.split)
    if shares != "public":
        raw = dataclasses.replace(raw, masks=None)
    raw = labelled(check(raw))
    raw = dataclasses.replace(raw, masks=divided(raw, shares, node_order(data, raw.nodes, split)))
    least = convert("min_class", options["min_class"], int) if "min_class" in options else math.ceil(data.min_class * raw.nodes)
    held = [frequent(raw, least)]
    del raw  # so that no name keeps the unsorted edges in memory
    raw = simple(held.pop(), directed=options.get("directed") == "yes")
    raw = trained(numbered(connected(raw) if options.get("prep") == "paper" else isolated(raw)))
    assert raw.masks is not None
    check_masks(raw.masks, raw.nodes)
    train, val, test = raw.masks
    graph = Graph(raw.x, raw.y, raw.edges, train, val, test, directed=raw.directed, name=parsed.text)
    return graph, Provenance(data.source, data.licence, notes=raw.notes)


def node_order(data: DataSet, nodes: int, split: int) -> NDArray[np.int64]:
    """The random order of the labelled nodes from which `divided` takes split number `split`.

    For Facebook100, the order is torch.randperm after seeding with 12345, as in the code of ProGAP and GAP. Split 0 of
    JohnsHopkins55 then has their 3314 / 435 / 665 nodes and their test set.
    """
    if data.torch_seed is None:
        return stream(split, "split").permutation(nodes)
    import torch

    return torch.randperm(nodes, generator=torch.Generator().manual_seed(data.torch_seed + split)).numpy()


def divided(raw: Raw, shares: str, order: NDArray[np.int64]) -> Masks:
    """(train, val, test), each (nodes,) bool: the split in the file if `shares` is "public"; otherwise the first nodes of `order`
    are for validation, the next ones for testing, and the rest for training. Raises ValueError for other shares.
    """
    if shares == "public":
        if raw.masks is None:
            raise ValueError("split=public: the files contain no split. Give per cent instead, such as split=75/10/15.")
        return raw.masks
    try:
        parts = [float(p) for p in shares.split("/")]
    except ValueError:
        parts = []
    if len(parts) != 3 or not min(parts) > 0 or abs(sum(parts) - 100) > 1e-6:
        raise ValueError(f"split={shares}: must be 'public' or three per cent that sum to 100, such as 75/10/15.")
    val, test = round(parts[1] / 100 * raw.nodes), round(parts[2] / 100 * raw.nodes)
    masks = np.zeros((3, raw.nodes), dtype=bool)
    for mask, members in zip(masks, (order[val + test :], order[:val], order[val : val + test]), strict=True):
        mask[members] = True
    return tuple(masks)


def describe(graph: Graph, facts: Provenance | None = None) -> dict[str, Any]:
    """The facts of a graph as plain numbers and words, ready for JSON.

    Keys: classes: the number of nodes of each class. homophily: the share of the edges that join two nodes of the same class.
    density: the share of the features that are not 0. isolated: the number of nodes without an edge.
    """
    stored = graph.x.nnz if sp.issparse(graph.x) else int(np.count_nonzero(graph.x))
    alike = sum(int((graph.y[u] == graph.y[v]).sum()) for u, v in graph.edge_blocks())
    found = {
        "name": graph.name,
        "nodes": graph.nodes,
        "edges": int(graph.edges.shape[1]),
        "directed": graph.directed,
        "degree_mean": round(float(graph.degree.mean()), 2),
        "degree_max": int(graph.degree.max()),
        "isolated": int((degrees(graph.edges, graph.nodes, directed=False) == 0).sum()),
        "classes": np.bincount(graph.y, minlength=graph.classes).tolist(),
        "homophily": round(alike / graph.edges.shape[1], 4),
        "features": graph.dim,
        "density": round(stored / (graph.nodes * graph.dim), 4),
        "sparse": bool(sp.issparse(graph.x)),
        "train": int(graph.train.sum()),
        "val": int(graph.val.sum()),
        "test": int(graph.test.sum()),
        "digest": graph.digest,
    }
    return found | ({**dataclasses.asdict(facts), "notes": list(facts.notes)} if facts else {})
