"""Tables for a terminal, in the style of this package. Rich is imported here, because the import takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def simple(*columns: str, right: Collection[str] = (), overflow: Any = "ellipsis", **options: Any) -> Table:
    """A rich table with a line under its header and no box. right: the columns that are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow=overflow)
    return table
