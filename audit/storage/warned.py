"""Prints a warning once for each line of code that gives it, although a user's model is trained hundreds of times."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Place = tuple[str, int, str]  # full path of a file, line and kind of a warning
PRINTED: set[Place] = set()  # in this process, or in the process that started it


def first_of_each_place(show: Callable[..., object]) -> Callable[..., None]:
    """A function for `warnings.showwarning` that hands to `show` only the first warning of each place."""

    @functools.wraps(show)
    def shown(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any, **more: Any) -> None:
        place = (os.path.abspath(filename), lineno, category.__name__)
        if place not in PRINTED:
            PRINTED.add(place)
            show(message, category, filename, lineno, *rest, **more)

    return shown


@contextlib.contextmanager
def each_once() -> Iterator[None]:
    """A context in which a warning is printed only if this process has not printed one of its place in such a context before."""
    before = warnings.showwarning
    vars(warnings)["showwarning"] = first_of_each_place(before)
    try:
        yield
    finally:
        vars(warnings)["showwarning"] = before


def not_again(printed: Iterable[Place]) -> None:
    """Makes this process, a worker, print no warning of a place at which its parent has printed one, and others once."""
    PRINTED.update(printed)
    vars(warnings)["showwarning"] = first_of_each_place(warnings.showwarning)
