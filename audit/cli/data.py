"""`audit data list` and `audit data info NAME`: which graphs there are, and the facts of one."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ...models.data.known_sets import DataSet

app = typer.Typer(help="Data sets, and the facts of one.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option("--data-dir", help="Where data sets lie or are downloaded to.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]


@app.command("list")
def list_data(data_dir: Folder = None, json: Json = False) -> None:
    """What there is: names, options, the split that is used unless told otherwise, and whether the files are at hand.

    Example: audit data list --data-dir data
    """
    from ...models.data.download import data_folder
    from ...models.data.known_sets import DATASETS, FORMATS, OPTIONS, PYG

    folder = data_folder(data_dir)
    entries = [(":".join(filter(None, (name, data.word))), data) for name, data in DATASETS.items()]
    entries += [("pyg:CLASS[:NAME]", PYG)]
    entries += [("FOLDER" if suffix == "folder" else f"PATH{suffix}", data) for suffix, data in FORMATS.items()]
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "about": data.about,
            "options": list(data.options),
            "split": data.split,
            "at_hand": at_hand(data, folder),
            "source": data.source,
            "licence": data.licence,
        }
        for name, data in entries
    ]
    if json:
        print(encoder.dumps({"data_dir": str(folder), "options": OPTIONS, "data": rows}, indent=1))
        return
    table = _table("Data sets", "name", "options", "split", "at hand", "about")
    for row in rows:
        here = {True: "yes", False: "download", None: ""}[row["at_hand"]]
        table.add_row(_text(row["name"]), " ".join(row["options"]), row["split"], here, row["about"])
    console = _console()
    console.print(table)
    console.print(f"Files lie in {folder}. Options are written NAME:key=value; all names take:", markup=False, highlight=False)
    for key, meaning in OPTIONS.items():
        console.print(f"  {key}: {meaning}", markup=False, highlight=False)


@app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="A data set by name, with options, or a path. See `audit data list`.")],
    data_dir: Folder = None,
    split: Annotated[int, typer.Option(help="Which public split of the nodes.")] = 0,
    json: Json = False,
) -> None:
    """The facts of one graph: size, degrees, classes, homophily, split, source files, and what was repaired.

    Example: audit data info facebook100:JohnsHopkins55 --data-dir data
    """
    from ...models.data.loading import describe, load_described

    facts = describe(*load_described(name, data_dir, split))
    if json:
        print(encoder.dumps(facts, indent=1))
        return
    table = _table(name, "fact", "value")
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), _text(_shown(value)))
    _console().print(table)


@app.command("map")
def map_data(
    name: Annotated[str, typer.Argument(help="A data set by name, with options, or a path. See `audit data list`.")],
    folder: Annotated[Path, typer.Argument(help="A new folder, whose path is then the graph's name.")],
    data_dir: Folder = None,
    split: Annotated[int, typer.Option(help="Which public split of the nodes.")] = 0,
) -> None:
    """Put a graph into a folder that runs map instead of reading: for graphs that are large beside the memory.

    Example: audit data map campus:n=1000000 million
    """
    from ...models.data.loading import load
    from ...models.graph.memory_mapped import write

    graph = write(load(name, data_dir, split), folder)
    _console().print(f"{graph.nodes:,} nodes and {graph.edges.shape[1]:,} edges: audit run --data {folder}", highlight=False)


def at_hand(data: DataSet, folder: Path) -> bool | None:
    """Whether all files of a data set (one, where there are many to choose from) lie in `folder`; None if it has none."""
    if not data.files:
        return None
    names = [f.replace("{}", "*") for f in data.files]
    return all(any(folder.glob(n)) or any(folder.glob(Path(n).name)) for n in names)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{k}: {v}" for k, v in value.items()) or "none"
    if isinstance(value, list) and value and isinstance(value[0], str):
        return "\n".join(value)
    if isinstance(value, list):
        return " ".join(f"{v:,}" for v in value[:20]) + (" …" if len(value) > 20 else "") or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _console() -> Any:
    from rich.console import Console

    return Console()


def _table(title: str, *columns: str) -> Any:
    from rich.table import Column, Table

    first, *rest = (Column(c, overflow="fold") for c in columns)
    first.no_wrap = True
    return Table(first, *rest, title=_text(title))


def _text(value: str) -> Any:
    """As it is: brackets in a name are no markup."""
    from rich.text import Text

    return Text(value)
