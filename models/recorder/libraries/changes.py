"""Replaces attributes of modules and classes, and puts the former ones back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Change = tuple[Any, str, Any, Any]  # owner, name, former value, value
Changes = Sequence[Change]
INHERITED = object()  # stands for an attribute that the class inherits
IN_PLACE: list[Change] = []  # the changes that are in place, in order


@contextmanager
def changes() -> Iterator[Callable[[Any, str, Any], None]]:
    """Yields a function that sets an attribute: (owner, name, value). At the end of the context all former values are back."""

    def put(owner: Any, name: str, value: Any) -> None:
        IN_PLACE.append((owner, name, vars(owner).get(name, INHERITED), value))
        setattr(owner, name, value)

    first = len(IN_PLACE)
    try:
        yield put
    finally:
        undo(first)


@contextmanager
def again(made: Changes) -> Iterator[None]:
    """Within this context, changes that were in place before are in place again."""
    first = len(IN_PLACE)
    try:
        for change in made:
            owner, name, _, value = change
            IN_PLACE.append(change)
            setattr(owner, name, value)
        yield
    finally:
        undo(first)


def fit(made: Changes) -> bool:
    """Whether the attributes have the values that they had before these changes. No attribute may be changed twice."""
    return all(vars(owner).get(name, INHERITED) is before for owner, name, before, _ in made)


def undo(first: int) -> None:
    """Puts the former values back, of all changes in place but the `first` ones."""
    while len(IN_PLACE) > first:
        owner, name, before, _ = IN_PLACE.pop()
        if before is INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
