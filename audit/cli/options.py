"""What all commands share: options with the same meaning everywhere, and the printing of documents and tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from ..planning.limits import budget

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Words = str | None  # an option that need not be given

Json = Annotated[bool, Option("--json", help="Print one JSON document on stdout and nothing else.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print no progress and no tables; write the files and set the exit code.")]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Print one line for each audit when its system is done.")]
DataDir = Annotated[Path | None, Option("--data-dir", help="Folder of the data sets. Downloads are stored there.")]
TRUST = "Accept data sets whose files run code when they are read (pyg:), and downloads without a known checksum."
Trust = Annotated[bool, Option("--trust", help=TRUST)]
Delta = Annotated[float | None, Option(help="Delta of the claims. Default: each unit's own, from public sizes of the graph.")]
Param = Annotated[list[str] | None, Option(help="A field of the models: NAME=VALUE, or MODEL.NAME=VALUE. Repeatable.")]
Split = Annotated[int, Option(help="Number of the public split of the nodes.")]


def claimed(epsilon: float) -> float:
    """A claimed epsilon from the command line. Raises ValueError if it is finite and too large to be computed with."""
    try:
        return budget(epsilon)
    except ValueError as fault:
        raise ValueError(f"epsilon={epsilon:g}: {fault}.") from None


def store(uri: str | None) -> str | None:
    """An MLflow URI from the command line. Raises ValueError for none, and for a URI that no store of MLflow can have."""
    from ...reports.formats.mlflow_mirror import refuse_unknown

    if uri == "none":
        raise ValueError("mlflow=none: this command reads or fills a store. Give its URI, or leave --mlflow out.")
    refuse_unknown(uri)
    return uri


Mlflow = Annotated[Words, Option(callback=store, help="MLflow tracking URI. Default: SQLite beside the runs.")]


def print_json(document: Any, indent: int | None = 1) -> None:
    """Prints one JSON document on stdout. Infinite values at the top of a dict must have been passed through `finite`."""
    print(json.dumps(document, indent=indent))


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """The row with "inf" for every positive infinity, because JSON has no number for it."""
    return {name: "inf" if value == math.inf else value for name, value in row.items()}


def console(**options: Any) -> Console:
    """A rich console on stdout. The import costs a tenth of a second, so only commands that print a table do it."""
    from rich.console import Console

    return Console(**options)


def table(*columns: Any, title: str | None = None, compact: bool = False, **options: Any) -> Table:
    """A rich table. columns: names or rich Columns. title: printed as it is. compact: one line under the header, no box."""
    from rich import box
    from rich.table import Table

    if compact:
        options = {"box": box.SIMPLE_HEAD, "pad_edge": False, **options}
    return Table(*columns, title=None if title is None else literal(title), **options)


def literal(value: str) -> Text:
    """A cell that is printed as it is; brackets in its text are not read as markup."""
    from rich.text import Text

    return Text(value)
