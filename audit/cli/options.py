"""Options that have the same meaning in all commands, and functions that print documents and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option

from ..planning.limits import budget, not_overflowing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Words = str | None  # type of an option that may be left out

Json = Annotated[bool, Option("--json", help="Print one JSON document on stdout and nothing else.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print no progress and no tables, only one line for each verdict.")]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Print one line for each audit when its system is done.")]
DataDir = Annotated[Path | None, Option("--data-dir", help="Folder of the data sets. Downloads are stored there.")]
TRUST = "Accept data sets named pyg:…, whose files run code when they are read, and downloads without a known checksum."
Trust = Annotated[bool, Option("--trust", help=TRUST)]
DELTA = (
    "Delta of the claims. Default: a power of ten below 1 / nodes for nodes, below 1 / (100 nodes) for edges, 0 for features; "
    "in mode paper, the rule of the papers."
)
Delta = Annotated[float | None, Option(help=DELTA)]
Param = Annotated[list[str] | None, Option(help="A field of the models: NAME=VALUE, or MODEL.NAME=VALUE. Repeatable.")]
Split = Annotated[int, Option(help="Number of the public split of the nodes.")]


def nats(epsilon: str | float) -> float:
    """A claimed epsilon. Raises typer.BadParameter if it is no number, or if it is finite and above 100 nats (MOST_EPSILON)."""
    try:
        number = float(epsilon)
    except ValueError:
        raise BadParameter("must be a number, in nats.") from None
    try:
        not_overflowing(epsilon)
        return budget(number)
    except ValueError as fault:
        raise BadParameter(f"{fault}.") from None


def store(uri: str | None) -> str | None:
    """An MLflow URI from the command line. Raises ValueError for "none", and for a URI that no store of MLflow can have."""
    from ...reports.formats.mlflow_mirror import refuse_unknown

    if uri == "none":
        raise ValueError("mlflow=none: this command reads or fills a store. Give its URI, or leave --mlflow out.")
    refuse_unknown(uri)
    return uri


Mlflow = Annotated[Words, Option(callback=store, help="MLflow tracking URI. Default: SQLite beside the runs.")]


def print_json(document: Any, indent: int | None = 1) -> None:
    """Prints one JSON document on stdout. JSON has no infinity, so the caller passes numbers through `plain` first."""
    print(json.dumps(document, indent=indent))


def console(**options: Any) -> Console:
    """A rich console, on stdout by default. Rich is imported here, because the import takes a tenth of a second."""
    from rich.console import Console

    return Console(**options)


def table(*columns: Any, title: str) -> Table:
    """A rich table in a box. columns: names or rich Columns. title: printed without markup."""
    from rich.table import Table

    return Table(*columns, title=literal(title))


def literal(value: str) -> Text:
    """A cell whose text is printed as it is: rich does not read its brackets as markup."""
    from rich.text import Text

    return Text(value)
