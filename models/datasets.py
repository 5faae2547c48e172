"""Data sets by name: what there is, where it comes from, how it is split, and what was repaired on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from . import published
from .campus import campus
from .checks import Raw, check, check_masks, connected, frequent, labelled, numbered, simple
from .download import Remote, data_folder, digest, obtain
from .graph import Graph
from .noise import stream

if TYPE_CHECKING:
    from .checks import Masks


@dataclass(frozen=True)
class Facts:
    """Where a graph comes from and what was done to it. sha256: of every source file, by name."""

    source: str
    licence: str
    sha256: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # repairs and decisions, one sentence each


@dataclass(frozen=True)
class DataSet:
    """A family of names: how to get its files, how to read them, and how its nodes are split unless told otherwise.

    files: the words of the name -> what to obtain. read: the paths, then the options by name -> what the files say.
    split: per cent of the labelled nodes to train / validate / test on, or "public" for the split in the files.
    min_class: classes with a smaller share of the labelled nodes are dropped.
    """

    about: str
    read: Callable[..., Raw]
    source: str
    licence: str
    files: Callable[..., tuple[Remote, ...]] = lambda: ()
    words: tuple[str, ...] = ()
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    split: str = "75/10/15"
    min_class: float = 0.0


FACEBOOK_SHA256 = {
    "Amherst41": "3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
    "Caltech36": "597d8307f9aaaaf50343e12a22893c203c52b92e1dd5b3fb35e13f19871d6ffa",
    "Cornell5": "d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
    "JohnsHopkins55": "fc7243bf257155df03afbc397ab34b5f8eb8e75f40cd1603398e207a033ef50f",
    "Reed98": "d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
    "Rice31": "ec7e4b35c6db6a23ca55e5a30bfe1b899c0b5c97e1b5a9abf16f3b8aa08c2537",
    "Simmons81": "c4abbe3ab631c83d9775893d207984e9e9ae989364965560637ffdd7ca7fd677",
}


def facebook_files(university: str) -> tuple[Remote, ...]:
    if not university.isalnum():
        raise ValueError(f"facebook100:{university}: must be letters and digits, such as facebook100:JohnsHopkins55.")
    url = f"https://github.com/sisaman/pyg-datasets/raw/main/datasets/facebook100/{university}.mat"
    return (Remote(f"facebook100/{university}.mat", url, FACEBOOK_SHA256.get(university)),)


DATASETS: dict[str, DataSet] = {
    "campus": DataSet(
        about="embedded generator: degree-corrected block model with noisy answers for features",
        read=campus,
        source="made on the spot",
        licence="none needed",
        options={"n": int, "seed": int},
    ),
    "facebook100": DataSet(
        about="friendships at one of 100 American universities, 2005",
        read=published.facebook100,
        files=facebook_files,
        words=("UNIVERSITY",),
        options={"target": str},
        source="Traud, Mucha & Porter 2012, files of sisaman/pyg-datasets",
        licence="none stated; released for research",
        min_class=0.03,
    ),
}


def load(name: str, data_dir: str | Path | None = None, split: int = 0) -> Graph:
    """The graph called `name`, with the public random split number `split`.

    data_dir: a folder that has the files, or where they are put after a download; see download.data_folder.
    Raises ValueError, one line, for anything that cannot be loaded.
    """
    return load_described(name, data_dir, split)[0]


def load_described(name: str, data_dir: str | Path | None = None, split: int = 0) -> tuple[Graph, Facts]:
    """The graph of `load`, with where it comes from and what was done to it."""
    family, words, options = parse(name)
    data = DATASETS[family]
    paths = [obtain(remote, data_folder(data_dir)) for remote in data.files(*words)]
    raw = data.read(*paths, **{key: convert(options[key], data.options[key], key) for key in options if key in data.options})
    return prepare(raw, name, data, options, split, {p.name: digest(p) for p in paths})


def prepare(
    raw: Raw, name: str, data: DataSet, options: Mapping[str, str], split: int, sha256: Mapping[str, str]
) -> tuple[Graph, Facts]:
    """From what the files say to a graph, in the order of the published work: label, split, classes, edges."""
    raw = labelled(check(raw))
    shares = options.get("split", data.split if raw.masks is None or data.split != "public" else "public")
    raw = dataclasses.replace(raw, masks=splitted(raw, shares, split))
    least = convert(options["min_class"], int, "min_class") if "min_class" in options else data.min_class * raw.nodes
    raw = numbered(frequent(raw, int(np.ceil(least))))
    raw = simple(raw, directed=options.get("directed", "no") == "yes")
    if options.get("prep") == "paper":
        raw = connected(raw)
    assert raw.masks is not None
    check_masks(raw.masks, raw.nodes)
    train, val, test = raw.masks
    graph = Graph(raw.x, raw.y, raw.edges, train, val, test, directed=raw.directed, name=name)
    return graph, Facts(data.source, data.licence, sha256, raw.notes)


def splitted(raw: Raw, shares: str, seed: int) -> Masks:
    """(train, val, test), each (nodes,) bool: the split in the file, or a random one that depends on the seed alone."""
    if shares == "public":
        if raw.masks is None:
            raise ValueError("split=public: the files bring no split. Give per cent instead, such as split=75/10/15.")
        return raw.masks
    try:
        parts = [float(p) for p in shares.split("/")]
    except ValueError:
        parts = []
    if len(parts) != 3 or min(parts) <= 0 or abs(sum(parts) - 100) > 1e-6:
        raise ValueError(f"split={shares}: must be 'public' or three per cent that sum to 100, such as 75/10/15.")
    order = stream(seed, "split").permutation(raw.nodes)
    val, test = round(parts[1] / 100 * raw.nodes), round(parts[2] / 100 * raw.nodes)
    masks = np.zeros((3, raw.nodes), dtype=bool)
    for mask, members in zip(masks, (order[val + test :], order[:val], order[val : val + test]), strict=True):
        mask[members] = True
    return masks[0], masks[1], masks[2]


COMMON = {
    "split": "public, or per cent as in 75/10/15",
    "min_class": "drop classes with fewer nodes",
    "directed": "yes keeps arcs as they are stored",
    "prep": "paper drops nodes without edges, as published",
}


def parse(name: str) -> tuple[str, list[str], dict[str, str]]:
    """ "facebook100:Rice31:target=year" -> the family, the words of the name, and the options."""
    family, *parts = name.split(":")
    if family not in DATASETS:
        near = get_close_matches(family, DATASETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"data {name!r}: no such data set or file.{hint} `audit data list` shows what there is.")
    data = DATASETS[family]
    words = [p for p in parts if "=" not in p]
    options = dict(p.split("=", 1) for p in parts if "=" in p)
    if len(words) != len(data.words):
        wanted = ":".join([family, *data.words])
        raise ValueError(f"data {name!r}: must be written {wanted}, then options such as :split=75/10/15.")
    for key in options:
        if key not in COMMON and key not in data.options:
            raise ValueError(f"data {name!r}: no option {key!r} here; there are {', '.join([*data.options, *COMMON])}.")
    return family, words, options


def convert(text: str, kind: Callable[[str], Any], key: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{key}={text}: must be {'a whole number' if kind is int else f'a {kind.__name__}'}.") from None


def describe(graph: Graph, facts: Facts | None = None) -> dict[str, Any]:
    """The facts of a graph as plain numbers and words, ready for JSON.

    homophily: share of the edges between two nodes of one class. density: share of the features that are not 0.
    """
    stored = graph.x.nnz if sp.issparse(graph.x) else int(np.count_nonzero(graph.x))
    u, v = graph.edges
    told = {
        "name": graph.name,
        "nodes": graph.nodes,
        "edges": int(graph.edges.shape[1]),
        "directed": graph.directed,
        "degree_mean": round(float(graph.degree.mean()), 2),
        "degree_max": int(graph.degree.max()),
        "isolated": int(graph.nodes - np.unique(graph.edges).size),
        "classes": np.bincount(graph.y, minlength=graph.classes).tolist(),
        "homophily": round(float((graph.y[u] == graph.y[v]).mean()), 4),
        "features": graph.dim,
        "density": round(stored / (graph.nodes * graph.dim), 4),
        "sparse": bool(sp.issparse(graph.x)),
        "train": int(graph.train.sum()),
        "val": int(graph.val.sum()),
        "test": int(graph.test.sum()),
        "digest": graph.digest,
    }
    return told | (dataclasses.asdict(facts) if facts else {})
