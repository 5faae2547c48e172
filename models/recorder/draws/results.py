"""Records the results of a program's lines, to find the line where two runs that should be equal differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .draw import numbers_of, of_others, outer_lines
from .lines import tracing

ENTRIES = 100  # how many entries of a list, tuple or dict are looked at
MOST = 1 << 30  # how many numbers a recording reads at most


@dataclass(frozen=True)
class Result:
    """A value that a line gave to a variable or passed to or from a function. where: this line, then the calling lines. name: of
    the variable or its entry, or "" for what a function returned. value: a digest. old: whether a variable had this value when
    the recording began.
    """

    where: tuple[str, ...]
    name: str
    value: int
    old: bool


def entries(value: Any) -> tuple[Any, ...] | None:
    """The first ENTRIES entries of a list, tuple or dict; None for anything else."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return tuple(value[:ENTRIES]) if isinstance(value, (list, tuple)) else None


def digest(value: Any) -> int | None:
    """A digest of a number, an array, a tensor, or of the `entries` of a value; None for anything else."""
    if (some := entries(value)) is not None:
        numbers = tuple(map(digest, some))
        return hash(numbers) if any(number is not None for number in numbers) else None
    if hasattr(value, "detach"):
        try:
            value = numbers_of(value)
        except Exception:  # a tensor within vmap and grad has no numbers, and a class of a user may raise anything
            return None
    if isinstance(value, (int, float, np.generic)):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
        return None
    return hash((value.shape, np.ascontiguousarray(value, dtype=np.float64).tobytes()))


def parts(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables by name, each with its `entries` in its place if it has some, because a line that adds an entry computes only
    this one.
    """
    found: dict[str, Any] = {}
    for name, value in variables.items():
        some = entries(value)
        found |= {name: value} if some is None else {f"{name}[{at}]": entry for at, entry in enumerate(some)}
    return found


def size(value: Any) -> int:
    """About how many numbers `digest` reads of a value."""
    if (some := entries(value)) is not None:
        return sum(map(size, some))
    shape = getattr(value, "shape", ())
    return math.prod(shape) if isinstance(shape, tuple) else 1


@dataclass(eq=False)
class Results:
    """A trace function that records the results of the program's own lines, in order, from the first line after `begun`."""

    begun: Callable[[], bool]
    found: list[Result] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)  # frame -> its last line
    variables: dict[int, dict[str, int]] = field(default_factory=dict)  # frame -> digests when it was last looked at
    old: set[int] | None = None  # the digests at the beginning
    left: int = MOST

    def __call__(self, frame: Any, event: str, value: Any) -> Any:
        if of_others(frame.f_code.co_filename):
            return None
        if self.left > 0 and self.begun():
            if self.old is None:
                self.begin(frame)
            self.look(frame, event, value)
        self.last[id(frame)] = frame.f_lineno
        if event == "return":
            self.last.pop(id(frame), None)
            self.variables.pop(id(frame), None)
        return self

    def begin(self, frame: Any) -> None:
        """Notes the variables of a frame and of its callers."""
        while frame is not None:
            if not of_others(frame.f_code.co_filename):
                self.variables[id(frame)] = self.digests(frame)
            frame = frame.f_back
        self.old = {number for known in self.variables.values() for number in known.values()}

    def look(self, frame: Any, event: str, value: Any) -> None:
        """Records the variables of a frame that are new or have another value than before, and what the frame returns."""
        before, now = self.variables.get(id(frame), {}), self.digests(frame)
        called = outer_lines(frame.f_back) if event == "call" else ()  # empty if a library or this package calls it
        where = called or outer_lines(frame, self.last.get(id(frame)))
        for name, number in now.items():
            if before.get(name) != number:
                self.record(where, name, number)
        self.variables[id(frame)] = now
        if event == "return" and (returned := digest(value)) is not None:
            self.record(outer_lines(frame), "", returned)

    def record(self, where: tuple[str, ...], name: str, number: int) -> None:
        self.found.append(Result(where, name, number, number in (self.old or ())))

    def digests(self, frame: Any) -> dict[str, int]:
        variables = parts(frame.f_locals)
        self.left -= sum(map(size, variables.values()))
        return {name: number for name, value in variables.items() if (number := digest(value)) is not None}


@contextmanager
def results(begun: Callable[[], bool]) -> Iterator[list[Result]]:
    """Records the results of the program's own lines within this context, in this thread, from the first line after `begun`."""
    recorded = Results(begun)
    with tracing(recorded):
        yield recorded.found


def parting(one: list[Result], other: list[Result]) -> str:
    """The line where two runs first differ; "" if they are equal."""
    for a, b in zip(one, other):  # noqa: B905  (Python 3.9)
        if (a.where, a.name) != (b.where, b.name):
            return " or ".join(dict.fromkeys((a.where[0], b.where[0])))
        if a.value != b.value and not (a.old and b.old):
            calls = f" (called from {', '.join(a.where[1:])})" if a.where[1:] else ""
            return a.where[0] + calls
    return ""
