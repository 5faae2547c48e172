"""Notes which lines of a program's own files run."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from .draw import of_others

Line = tuple[str, int]  # a file and the number of a line


@contextmanager
def lines_run() -> Iterator[set[Line]]:
    """Collects the lines of the program's own files that run within this context, in this thread."""
    found: set[Line] = set()

    def trace(frame: Any, event: str, value: Any) -> Any:
        file = frame.f_code.co_filename
        if of_others(file):
            return None
        if event == "line":
            found.add((file, frame.f_lineno))
        return trace

    with tracing(trace):
        yield found


@contextmanager
def tracing(trace: Callable[[Any, str, Any], Any]) -> Iterator[None]:
    """Calls a trace function within this context, in this thread, in place of the one before."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def in_words(lines: Iterable[Line]) -> str:
    """Lines as text, such as "mine.py, lines 12-14 and 30"."""
    texts = []
    for file, group in groupby(sorted(lines), lambda line: line[0]):
        numbers = [number for _, number in group]
        starts = [n for n in numbers if n - 1 not in numbers]
        ends = [n for n in numbers if n + 1 not in numbers]
        ranges = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends)]  # noqa: B905  (Python 3.9)
        word = "line" if len(numbers) == 1 else "lines"
        texts.append(f"{Path(file).name}, {word} {', '.join(ranges[:-1])}{' and ' if len(ranges) > 1 else ''}{ranges[-1]}")
    return "; ".join(texts)
