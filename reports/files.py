"""Writes text files atomically, checks the places for them, and converts values to strict JSON and back."""

import math
import os
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def write_text(path: Path, text: str) -> Path:
    """Writes a text file atomically, by renaming a temporary one, and returns its path. Makes a missing folder. Raises what
    `replaceable` raises, and OSError with `path` as its file name.
    """
    replaceable(path)
    aside = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", text=True)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException as fault:
        if aside is not None:
            Path(aside).unlink(missing_ok=True)
        if isinstance(fault, OSError):
            fault.filename, fault.filename2 = str(path), None  # and not the temporary file, which the user has never seen
        raise
    return path


def replaceable(path: Path) -> None:
    """Raises ValueError if something else than a regular file is there, such as a named pipe, which a rename would replace."""
    if path.exists() and not path.is_file():
        kind = "is a folder" if path.is_dir() else "is no regular file"
        raise ValueError(f"{path}: {kind}, and a file must be written here. Name another path.")


def writable(folder: Path, given: str = "") -> None:
    """Raises ValueError if no file can be made in `folder`, or in the first existing folder above. given: what the user gave, if
    it is not the folder; the message begins with it.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    why = "" if there.is_dir() else "is no folder"
    try:
        if not why:
            tempfile.TemporaryFile(dir=there).close()
    except OSError:  # the system may refuse even root, for example in /proc
        why = "cannot be written"
    if why:
        place = why if there == folder.absolute() and not given else f"{there} {why}"
        raise ValueError(f"{given or folder}: {place}. Name another folder.")


def number(value: object) -> float:
    """A float from a number or its text, such as "inf". Raises ValueError for anything else, NaN included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a number")
    try:
        result = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if math.isnan(result):
        raise ValueError("NaN is not a result: leave this row out and add a row of kind 'skipped' with the reason")
    return result


def grouped(items: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    """The items with the same `by`, in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(by(item), []).append(item)
    return found


def plain(value: Any) -> Any:
    """The same value in strict JSON: arrays and tuples become lists; infinities and NaN become "inf", "-inf" and "nan"."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()  # a numpy array or scalar
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def lists(value: Any) -> Any:
    """The inverse of `plain` for infinities and NaN. Tuples become lists."""
    if isinstance(value, Mapping):
        return {k: lists(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [lists(v) for v in value]
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def tuples(value: Any) -> Any:
    """As `lists`, but with tuples instead of lists, for the fields of frozen dataclasses."""
    if isinstance(value, (list, tuple)):
        return tuple(tuples(v) for v in value)
    return lists(value)
