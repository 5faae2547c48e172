"""Replaces attributes of modules and classes, and puts the former ones back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INHERITED = object()  # stands for an attribute that the class inherits


@contextmanager
def changes() -> Iterator[Callable[[Any, str, Any], None]]:
    """Yields a function that sets an attribute: (owner, name, value). At the end of the context all former values are back."""
    undo: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, vars(owner).get(name, INHERITED)))
        setattr(owner, name, value)

    try:
        yield put
    finally:
        for owner, name, before in reversed(undo):
            if before is INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
