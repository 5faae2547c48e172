"""The table of data sets, the paths of their files, and the parser of a name with options."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from . import published_files, readers, similarity_graphs
from .campus import campus
from .checks import Raw


@dataclass(frozen=True)
class DataSet:
    """One entry of DATASETS. read(*paths of files, **options) -> the contents of the files.

    files: paths under the data folder; {} stands for the second part of the data set's name, which `word` describes. options:
    for each option of `read`, the type to convert its text to. split: per cent of the labelled nodes to train / validate / test
    on, or "public" for the split in the files. min_class: classes with a smaller share of the labelled nodes are dropped.
    torch_seed: the seed from which published work draws its split with torch; split 0 is then the published split.
    """

    about: str
    read: Callable[..., Raw]
    source: str
    licence: str
    files: tuple[str, ...] = ()
    word: str = ""
    options: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    split: str = "75/10/15"
    torch_seed: int | None = None
    min_class: float = 0.0

    @property
    def splits(self) -> str:
        """The default split in words."""
        return self.split if self.split == self.shares else f"{self.split}, else {self.shares}"

    @property
    def shares(self) -> str:
        """Per cent of the labelled nodes to train / validate / test on if the files contain no split."""
        return DataSet.split if self.split == "public" else self.split


def planetoid(name: str, about: str) -> DataSet:
    parts = ("x", "tx", "allx", "ty", "ally", "graph", "test.index")
    files = tuple(f"planetoid/ind.{name}.{part}" for part in parts)
    source = "Yang, Cohen & Salakhutdinov 2016, files of kimiyoung/planetoid"
    return DataSet(about, published_files.planetoid, source, "MIT (repository)", files, split="50/25/25")


NIFTY = "table of chirag126/nifty (Agarwal, Lakkaraju & Zitnik 2021)"

DATASETS: dict[str, DataSet] = {
    "campus": DataSet(
        about="generated: a node joins more nodes of its own class; features of 0 and 1 that hint at the class",
        read=campus,
        source="made on the spot",
        licence="none needed",
        options={"n": int, "seed": int, "degree": int},
    ),
    "digits": DataSet(
        about="images of handwritten digits, each joined to the 10 nearest",
        read=similarity_graphs.digits,
        source="scikit-learn, from the UCI optical recognition set",
        licence="CC BY 4.0",
        options={"k": int},
        split="50/25/25",
    ),
    "facebook100": DataSet(
        about="friendships at one of 100 American universities in 2005; the class is the year",
        read=published_files.facebook100,
        source="Traud, Mucha & Porter 2012, files of sisaman/pyg-datasets",
        licence="none stated; released for research",
        files=("facebook100/{}.mat",),
        word="UNIVERSITY",
        options={"target": str},
        min_class=0.03,
        torch_seed=12345,
    ),
    "cora": planetoid("cora", "papers on machine learning that cite each other"),
    "citeseer": planetoid("citeseer", "papers on computer science that cite each other"),
    "pubmed": planetoid("pubmed", "papers on diabetes that cite each other"),
    "cora_ml": DataSet(
        about="papers on machine learning that cite each other, with TF-IDF features",
        read=readers.npz,
        source="Bojchevski & Günnemann 2018, file of gasteigerjo/ppnp",
        licence="MIT (repository)",
        files=("npz/cora_ml.npz",),
        split="50/25/25",
    ),
    "musae-facebook": DataSet(
        about="Facebook pages of four types that like each other",
        read=published_files.musae_facebook,
        source="Rozemberczki, Allen & Sarkar 2021, files of benedekrozemberczki/MUSAE",
        licence="GPL-3.0 (repository)",
        files=("musae_facebook/facebook_edges.csv", "musae_facebook/facebook.json", "musae_facebook/facebook_target.csv"),
        split="50/25/25",
    ),
    "credit": DataSet(
        about="credit card clients who do or do not pay, joined if their features are similar",
        read=similarity_graphs.credit,
        source=f"Yeh & Lien 2009, {NIFTY}",
        licence="MIT (repository)",
        files=("nifty/credit.csv",),
        split="50/25/25",
    ),
    "german": DataSet(
        about="clients of a German bank with good or bad credit, joined if their features are similar",
        read=similarity_graphs.german,
        source=f"UCI Statlog, {NIFTY}",
        licence="MIT (repository)",
        files=("nifty/german.csv",),
        split="50/25/25",
    ),
}

PYG = DataSet("any node-classification set of PyTorch Geometric", readers.pyg, "torch_geometric", "its own", split="public")

OWN = ("your file", "your own")
FORMATS: dict[str, DataSet] = {
    ".npz": DataSet("NumPy archive: x, y, edge_index and masks, or CSR parts", readers.npz, *OWN, split="public"),
    ".pt": DataSet("torch file: a PyG Data or a dict of tensors", readers.pt, *OWN, split="public"),
    ".mat": dataclasses.replace(DATASETS["facebook100"], about="Matlab file in the format of Facebook100", files=(), word=""),
    "folder": DataSet(
        "edges.csv with nodes.csv or nodes.parquet, or made by `audit data map`", readers.folder, *OWN, split="public"
    ),
}

OPTIONS = {
    "split": "public, or per cent to train/validate/test on, such as 75/10/15",
    "min_class": "classes with fewer nodes are dropped",
    "directed": "yes keeps arcs as they are stored; no, the default, takes each as an undirected edge",
    "prep": "paper drops nodes without an edge, as published work does; kept, the default, keeps them",
}
SPECIAL = "special"  # the kind of a path that is neither a file nor a folder, such as a device or a pipe
CHOICES = {"directed": ("yes", "no"), "prep": ("paper", "kept")}


@dataclass(frozen=True)
class Name:
    """A parsed name. words: the parts after the first colon that hold no `=`. options: text by key, from the parts that do. path:
    of a user's own file or folder, else None.
    """

    text: str
    data: DataSet
    words: tuple[str, ...]
    options: Mapping[str, str]
    path: Path | None = None


def parse(text: str) -> Name:
    """Parses a name such as facebook100:Rice31:target=gender, pyg:Planetoid:Cora or ./mine.npz:split=50/25/25. Raises ValueError
    for anything else.
    """
    first, *rest = text.split(":")
    if first == "pyg":
        data = PYG
    elif first in DATASETS:
        data = DATASETS[first]
    else:
        return own(text)
    words, options = [p for p in rest if "=" not in p], [p for p in rest if "=" in p]
    wanted = (1, 2) if data is PYG else (bool(data.word),)
    if len(words) not in wanted or not all(w.replace("-", "").replace("_", "").isalnum() for w in words):
        usage = "pyg:CLASS or pyg:CLASS:NAME" if data is PYG else ":".join(filter(None, (first, data.word)))
        raise ValueError(f"data {text!r}: must be written {usage}, then options such as :split=75/10/15.")
    return Name(text, data, tuple(words), chosen(text, data, options))


def own(text: str) -> Name:
    """Parses the path of a user's own file or folder, perhaps followed by options. Raises ValueError if there is no such file."""
    parts, options = text.split(":"), []
    while len(parts) > 1 and "=" in parts[-1] and not kind_of(":".join(parts)):
        options.append(parts.pop())
    path = ":".join(parts)
    kind = kind_of(path)
    if not kind:
        near = [name for part in parts for name in get_close_matches(part.lower(), DATASETS, n=1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"data {text!r}: no such data set, file or folder.{hint} `audit data list` shows what there is.")
    if kind == SPECIAL:
        raise ValueError(f"data {text!r}: is no regular file and no folder. Copy its contents to a file.")
    if kind not in FORMATS:
        raise ValueError(f"data {text!r}: a file must end in {', '.join(k for k in FORMATS if k[0] == '.')}.")
    return Name(text, FORMATS[kind], (), chosen(text, FORMATS[kind], options), Path(path).expanduser())


def kind_of(path: str) -> str:
    """The kind of a path: "folder" for a folder; for a file its suffix in lower case, or "file" if it has none; SPECIAL for
    anything else that exists; "" if nothing exists at the path.
    """
    try:
        at = Path(path).expanduser()
        if path and at.is_dir():
            return "folder"
        return (at.suffix.lower() or "file") if at.is_file() else SPECIAL if path and at.exists() else ""
    # the path is too long, contains a null character, or names the home of an unknown user
    except (OSError, ValueError, RuntimeError):
        return ""


def chosen(text: str, data: DataSet, options: list[str]) -> dict[str, str]:
    """The options of a name by key. Raises ValueError for an option that is unknown or repeated, and for a value that is none of
    its CHOICES.
    """
    found = dict(p.split("=", 1) for p in options)
    if len(found) < len(options):
        raise ValueError(f"data {text!r}: gives one option more than once. Leave all but one out.")
    for key, value in found.items():
        if key not in OPTIONS and key not in data.options:
            raise ValueError(f"data {text!r}: no option {key!r}; there are {', '.join([*data.options, *OPTIONS])}.")
        if value not in CHOICES.get(key, (value,)):
            raise ValueError(f"data {text!r}: {key}={value}: must be {' or '.join(CHOICES[key])}.")
    return found


def convert(key: str, text: str, kind: Callable[[str], Any]) -> Any:
    if kind is int and not text.isdecimal():
        raise ValueError(f"{key}={text}: must be a whole number, 0 or more.")
    return kind(text)
