"""Text for error messages, and the exceptions of a run that its user ended and of a training that failed."""

import dataclasses
import dis
import inspect
import sysconfig
import traceback
from pathlib import Path
from typing import Any

FROZEN = ". The object is frozen: change a copy of the field instead, such as x = graph.x.copy()"
INSTALLED = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib"))


class Stopped(Exception):
    """Raised when the user ends the run; the message says how to resume it."""


class TrainingFailed(ValueError):
    """Raised when a training of a user's own model or program fails. Whether it fails may depend on private data."""


class TookTooLong(TrainingFailed):
    """Raised when a training does not end within its time limit."""


class Refused(ValueError):
    """Raised when a user's own model refuses a graph or an audit by a ValueError."""


def one_line(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; the error's type if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def raised(error: BaseException) -> str:
    """An error in one line, with file and line of the last call in a user's own code, if there is one in the traceback, and with
    the notes of the error.
    """
    way = FROZEN if isinstance(error, dataclasses.FrozenInstanceError) else ""
    notes = "".join(f". {' '.join(note.split())}" for note in getattr(error, "__notes__", ()))
    return f"{place(error)}{type(error).__name__}: {one_line(error)}{way}{notes}"


def place(error: BaseException) -> str:
    """File and line of the last call in a user's own code, as in "mine.py, line 3: "; "" if the traceback has none."""
    own = [f"{file}, line {line}: " for module, file, line in _calls(error) if _of_user(module, file)]
    return own[-1] if own else ""


def arose_there(error: BaseException) -> bool:
    """Whether a user's own code raised the error, or a library that this code called, and not this package on its behalf."""
    told = [_of_user(module, file) for module, file, _ in _calls(error) if _of_user(module, file) or _of_package(module)]
    return bool(told) and told[-1]


def is_refusal(error: BaseException) -> bool:
    """Whether a `raise` statement in a user's own code raised a ValueError, by which a model refuses a graph."""
    calls = _calls(error)
    return bool(calls) and _of_user(*calls[-1][:2]) and is_deliberate(error)


def is_deliberate(error: BaseException) -> bool:
    """Whether a `raise` statement raised a ValueError, in a user's own code or in a library that it called. Libraries refuse what
    a small graph may give, such as data of a single class.
    """
    last = error.__traceback__
    if last is None or not isinstance(error, ValueError):
        return False
    while last.tb_next is not None:
        last = last.tb_next
    return dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


def _calls(error: BaseException) -> list[tuple[str, str, int]]:
    """(module, file, line) of each call in the traceback, the last call last."""
    frames = traceback.walk_tb(error.__traceback__)
    return [(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line) for frame, line in frames]


def _of_package(module: str) -> bool:
    return module.split(".")[0] == __name__.split(".")[0]


def _of_user(module: str, file: str) -> bool:
    return not (_of_package(module) or file[0] == "<" or file.startswith(INSTALLED))


def raising(owner: Any, name: str) -> str | None:
    """The error that reading the attribute `name` raises, in one line. None if it raises none, or if there is no such attribute.

    hasattr and runtime protocols cannot tell a missing attribute from a property that raises AttributeError.
    """
    if inspect.getattr_static(owner, name, None) is None:
        return None
    try:
        getattr(owner, name)
    except Exception as fault:  # a user's property may raise any error
        return raised(fault)
    return None


def listed(names: Any) -> str:
    """The first eight names in sorted order, joined by commas, then "…" if there are more; "nothing" if there is none."""
    shown = sorted(str(n) for n in names)
    return ", ".join(shown[:8] + ["…"] * (len(shown) > 8)) or "nothing"
