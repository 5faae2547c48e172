"""Replaces attributes of modules and classes, and puts the former ones back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Change = tuple[Any, str, Any, Any]  # owner, name, former value, value
Changes = Sequence[Change]
INHERITED = object()  # stands for an attribute that the class inherits
COLLECTED: list[list[Change]] = []  # lists that get each change that is made


@contextmanager
def changes() -> Iterator[Callable[[Any, str, Any], None]]:
    """Yields a function that sets an attribute: (owner, name, value). At the end of the context all former values are back."""
    made: list[Change] = []

    def put(owner: Any, name: str, value: Any) -> None:
        change = (owner, name, vars(owner).get(name, INHERITED), value)
        for some in (made, *COLLECTED):
            some.append(change)
        setattr(owner, name, value)

    try:
        yield put
    finally:
        undo(made)


@contextmanager
def collected() -> Iterator[list[Change]]:
    """Yields a list that gets each change that is made within this context."""
    made: list[Change] = []
    COLLECTED.append(made)
    try:
        yield made
    finally:
        COLLECTED.pop()


@contextmanager
def again(made: Changes) -> Iterator[None]:
    """Within this context, changes that were in place before are in place again."""
    try:
        for owner, name, _, value in made:
            setattr(owner, name, value)
        yield
    finally:
        undo(made)


def fit(made: Changes) -> bool:
    """Whether the attributes have the values that they had before these changes."""
    return all(vars(owner).get(name, INHERITED) is before for owner, name, before, _ in made)


def undo(made: Changes) -> None:
    """Puts the former values back, those of the last change first."""
    for owner, name, before, _ in reversed(made):
        if before is INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
