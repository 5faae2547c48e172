"""Tables for a terminal, in the style of this package. Rich is imported here, because the import takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Column, Table


def simple(*columns: str | Column, right: Collection[str] = (), overflow: Any = "ellipsis", **options: Any) -> Table:
    """A rich table with a line under its header and no box. right: the named columns that are aligned to the right."""
    from rich import box
    from rich.table import Column, Table

    def made(name: str) -> Column:
        return Column(name, justify="right" if name in right else "left", overflow=overflow)

    return Table(*(made(c) if isinstance(c, str) else c for c in columns), box=box.SIMPLE_HEAD, pad_edge=False, **options)
