"""`audit data`: lists the data sets, shows the facts of a data set, and stores a copy that runs can memory-map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import DataDir, Json, Split, Trust, console, literal, print_json, table

if TYPE_CHECKING:
    from rich.table import Table

    from ...models.data.known_sets import DataSet

HELP = "List the data sets, show the facts of one, or store one for memory-mapping.\n\nExample: audit data list"
app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command("list")
def list_data(data_dir: DataDir = None, json: Json = False) -> None:
    """List the data sets: name, options, default split, and whether the files are already in the folder.

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
            "split": data.splits,
            "at_hand": at_hand(data, folder),
            "source": data.source,
            "licence": data.licence,
        }
        for name, data in entries
    ]
    if json:
        print_json({"data_dir": str(folder), "options": OPTIONS, "data": rows})
        return
    shown = folded("Data sets", "name", "options", "split", "at hand", "about")
    for row in rows:
        here = {True: "yes", False: "download", None: ""}[row["at_hand"]]
        shown.add_row(literal(row["name"]), " ".join(row["options"]), row["split"], here, row["about"])
    out = console()
    out.print(shown)
    out.print(f"The files are in {folder}. Write options as NAME:key=value. All names take:", markup=False, highlight=False)
    for key, meaning in OPTIONS.items():
        out.print(f"  {key}: {meaning}", markup=False, highlight=False)


@app.command("info")
def data_info(
    name: Annotated[str, typer.Argument(help="A data set by name, with options, or a path. See `audit data list`.")],
    data_dir: DataDir = None,
    split: Split = 0,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Show the facts of one graph: size, degrees, classes, homophily, split, source files and repairs.

    Example: audit data info facebook100:JohnsHopkins55 --data-dir data
    """
    from ...models.data.loading import describe, load_described

    facts = describe(*load_described(name, data_dir, split, trust=trust))
    if json:
        print_json(facts)
        return
    shown = folded(name, "fact", "value")
    for key, value in facts.items():
        shown.add_row(key.replace("_", " "), literal(in_words(value)))
    console().print(shown)


@app.command("map")
def map_data(
    name: Annotated[str, typer.Argument(help="A data set by name, with options, or a path. See `audit data list`.")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the files. Its path is then the name of the graph.")],
    data_dir: DataDir = None,
    split: Split = 0,
    trust: Trust = False,
) -> None:
    """Store a graph in a folder from which runs memory-map it instead of reading it. For graphs that fill much of the memory.

    Example: audit data map campus:n=1000000 million
    """
    from ...models.data.loading import load
    from ...models.graph.memory_mapped import write
    from ...reports.files import writable

    writable(folder.parent, str(folder))
    graph = write(load(name, data_dir, split, trust=trust), folder)
    console().print(f"{graph.nodes:,} nodes and {graph.edges.shape[1]:,} edges: audit run --data {folder}", highlight=False)


def at_hand(data: DataSet, folder: Path) -> bool | None:
    """Whether `folder` holds all files of a data set, or of any member of a family of data sets; None if it has no files."""
    if not data.files:
        return None
    names = [f.replace("{}", "*") for f in data.files]
    return all(any(folder.glob(n)) or any(folder.glob(Path(n).name)) for n in names)


def in_words(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{k}: {v}" for k, v in value.items()) or "none"
    if isinstance(value, list) and value and isinstance(value[0], str):
        return "\n".join(value)
    if isinstance(value, list):
        return " ".join(f"{v:,}" for v in value[:20]) + (" …" if len(value) > 20 else "") or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def folded(title: str, *columns: str) -> Table:
    """A table whose cells are wrapped, except those of the first column."""
    from rich.table import Column

    first, *rest = (Column(c, overflow="fold") for c in columns)
    first.no_wrap = True
    return table(first, *rest, title=title)
