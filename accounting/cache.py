"""Caches the results of accounting on disk, so that a repeated call is instant. Each stored result is checked when it is read."""

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from .own_folder import make_own, read_own

LIBRARIES = ("dp-accounting", "autodp", "opacus", "numpy", "scipy")
MISSING = object()


def folder() -> Path | None:
    """The cache folder: $GNNAUDIT_CACHE, or gnnaudit/accounting in the user's cache folder. None if GNNAUDIT_CACHE is "off"."""
    chosen = os.environ.get("GNNAUDIT_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen)
    return user_cache_path("gnnaudit", appauthor=False) / "accounting"


def remembered(compute: Callable[[], Any], *key: object, holds: Callable[[Any], bool]) -> Any:
    """The result of compute(), or the stored result of an earlier call with the same key, code of accounting/ and versions of
    LIBRARIES.

    holds: checks a stored result. It must test the form and, if a verdict depends on the result, also that the result is correct.
    The result must be a JSON value; infinities are allowed. The function logs a warning if the file is damaged, or if the check
    fails and a new computation gives another result. It neither reads nor writes a folder that other users can write to.
    """
    where = folder()
    if where is None or not _usable(where):
        return compute()
    name = hashlib.blake2b(repr((_code(), key)).encode(), digest_size=16).hexdigest()
    path = where / f"{name}.json"
    stored = _read(path, name)
    if stored is not MISSING and _held(holds, stored):
        return stored
    result = compute()
    if stored is not MISSING and stored != result:
        _say(f"{path}: does not pass its check; it is ignored and computed again.")
    with contextlib.suppress(OSError):  # for example, the disk is full: nothing is stored
        handle, aside = tempfile.mkstemp(dir=where, suffix=".part")
        with os.fdopen(handle, "w") as file:
            json.dump({"sum": _sum(name, result), "value": result}, file)
        os.replace(aside, path)
    return result


def _held(holds: Callable[[Any], bool], stored: Any) -> bool:
    """Whether a stored value passes the check. A check that raises, because the value has another form, has failed."""
    try:
        return holds(stored)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        return False


def _read(path: Path, name: str) -> Any:
    """The value that the file stores under this name, or MISSING. Logs a warning if the file exists but cannot be used."""
    try:
        document = json.loads(read_own(path))
        if document["sum"] == _sum(name, document["value"]):
            return document["value"]
        why = "does not have its checksum"
    except FileNotFoundError:
        return MISSING
    except OSError as fault:
        why = fault.strerror or str(fault).rpartition(": ")[2]
    except (ValueError, TypeError, KeyError, RecursionError):
        why = "is damaged"
    _say(f"{path}: {why}; it is ignored and computed again.")
    return MISSING


def _sum(name: str, value: Any) -> str:
    """A checksum of a value and its name. The name is included so that a renamed file fails its check."""
    return hashlib.blake2b(f"{name} {json.dumps(value, sort_keys=True)}".encode(), digest_size=16).hexdigest()


@cache
def _usable(where: Path) -> bool:
    """Whether results can be stored in the folder, and by this user alone. Logs one warning if others could write to it or access
    is denied.
    """
    try:
        make_own(where)
    except PermissionError as fault:
        _say(
            f"{fault.args[-1] if fault.errno is None else f'{where}: {fault.strerror}'}. No results of accounting are stored "
            "there."
        )
        return False
    except OSError:  # the folder cannot be made or is read-only: nothing is stored
        return False
    return True


@cache
def _say(sentence: str) -> None:
    """Logs a warning, once in each process."""
    logging.getLogger(__name__).warning("%s", sentence)


@cache
def sources(folder: Path) -> str:
    """A hash of the relative paths and contents of all Python files below a folder."""
    h = hashlib.blake2b(digest_size=16)
    folder = folder.resolve()
    for source in sorted(folder.rglob("*.py")):
        h.update(source.relative_to(folder).as_posix().encode() + source.read_bytes())
    return h.hexdigest()


@cache
def _code() -> str:
    """A hash of the code of accounting/ and of the versions of LIBRARIES."""
    h = hashlib.blake2b(sources(Path(__file__).parent).encode(), digest_size=16)
    for library in LIBRARIES:
        try:
            h.update(f"{library} {version(library)}".encode())
        except PackageNotFoundError:
            h.update(f"{library} missing".encode())
    return h.hexdigest()
