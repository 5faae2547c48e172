"""Records the return values of a program's functions, in order, to find the line where two runs that should be equal differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .draw import OTHERS, numbers_of, outer_lines


@dataclass(frozen=True)
class Returned:
    """One return of a function. function: its file and name. where: the line that returned, then the calling lines. value: a
    digest of the returned numbers.
    """

    function: str
    where: tuple[str, ...]
    value: int


def digest(value: Any) -> int | None:
    """A digest of an array, a tensor, or of the first 100 arrays in a list, tuple or dict; None for anything else."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        parts = [digest(v) for v in value[:100]]
        return hash(tuple(parts)) if any(p is not None for p in parts) else None
    if hasattr(value, "detach"):
        try:
            value = numbers_of(value)
        except RuntimeError:  # within vmap and grad, a tensor stands for others and has no numbers
            return None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
        return None
    return hash((value.shape, np.ascontiguousarray(value, dtype=np.float64).tobytes()))


@contextmanager
def returned() -> Iterator[list[Returned]]:
    """Records the returns of the program's own functions within this context, in this thread."""
    found: list[Returned] = []

    def on_event(frame: Any, event: str, value: Any) -> None:
        file = frame.f_code.co_filename
        if event != "return" or any(word in file for word in OTHERS):
            return
        number = digest(value)
        if number is not None:
            found.append(Returned(f"{Path(file).name}:{frame.f_code.co_name}", outer_lines(), number))

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        yield found
    finally:
        sys.setprofile(before)


def parting(one: list[Returned], other: list[Returned], clean: set[int]) -> str:
    """The line where two runs first differ; "" if they are equal. clean: digests of values that may differ, because noise is
    added to them.
    """
    for a, b in zip(one, other):  # noqa: B905  (Python 3.9)
        if a.function != b.function:
            return f"{a.where[0]}, or {b.where[0]}"
        if a.value != b.value and a.value not in clean:
            calls = f" (called from {', '.join(a.where[1:])})" if a.where[1:] else ""
            return a.where[0] + calls
    return ""
