"""`audit scan`: points out patterns in Python source that have broken privacy promises."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Json, print_json


def scan(
    path: Annotated[Path, typer.Argument(help="A Python file, or a folder with Python files.")],
    sarif: Annotated[Path | None, typer.Option(help="Also write the places to this file as SARIF, for code review.")] = None,
    json: Json = False,
) -> None:
    """List lines of Python source that resemble known privacy faults, each with the reason and a remedy.

    A hit is a place to check and never a verdict, so the exit code is 0 with and without hits; 2 means wrong use. The source is
    parsed and not run. A line that ends with `# scan: intended` is skipped.

    Example: audit scan path/to/code --sarif scan.sarif
    """
    from ...reports.files import replaceable, writable, write_text
    from ...reports.rounding import several
    from ..scan import scanner
    from ..scan.rules import RULES

    if sarif is not None:
        replaceable(sarif)
        if not sarif.parent.is_dir():
            raise ValueError(f"--sarif {sarif}: no folder {sarif.parent}. Make it, or name a file in a folder that exists.")
        writable(sarif.parent, f"--sarif {sarif}")
        if sarif.exists() and any(sarif.samefile(file) for file in scanner.python_files(path)):
            raise ValueError(f"--sarif {sarif}: is one of the scanned files, and would be replaced. Name another file.")
    hits, unread = scanner.scan(path)
    if unread and path.is_file():
        raise ValueError(f"{unread[0]}. Give a Python file, or a folder with Python files.")
    for line in unread:
        print(line, file=sys.stderr)
    if sarif is not None:
        import json as encoder

        write_text(sarif, encoder.dumps(scanner.sarif(hits), indent=1) + "\n")
    if json:
        print_json({"schema": 1, "rows": [scanner.row(h) for h in hits], "unread": unread})
        return
    for hit in hits:
        print(hit)
    looked = "" if hits else f" Looked for: {', '.join(RULES)}."
    places = several(len(hits), "place")
    print(f"{places} to check. This is no verdict: a hit may be harmless, and a fault may have none of these patterns.{looked}")
