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


def digest(value: Any) -> int | None:
    """A digest of a number, an array, a tensor, or of the first 100 arrays in a list, tuple or dict; None for anything else."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        parts = [digest(v) for v in value[:100]]
        return hash(tuple(parts)) if any(p is not None for p in parts) else None
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
    """Variables by name, with the first 100 entries of a list, tuple or dict in its place, because a line that adds an entry
    computes only this one.
    """
    found: dict[str, Any] = {}
    for name, value in variables.items():
        entries = list(value.values()) if isinstance(value, dict) else value
        if isinstance(entries, (list, tuple)):
            found.update((f"{name}[{at}]", entry) for at, entry in enumerate(entries[:100]))
        else:
            found[name] = value
    return found


def size(value: Any) -> int:
    """About how many numbers `digest` reads of a value."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return sum(map(size, value[:100]))
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
