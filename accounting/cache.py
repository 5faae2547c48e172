"""Remembers on disk what accounting has worked out, so that the second call is instant."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = ("dp-accounting", "autodp", "opacus", "numpy", "scipy")


def folder() -> Path | None:
    """$GNNAUDIT_CACHE, or gnnaudit/ in the user's cache folder. None when GNNAUDIT_CACHE is "off"."""
    chosen = os.environ.get("GNNAUDIT_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnnaudit" / "accounting"


def remembered(compute: Callable[[], Any], *key: object) -> Any:
    """compute(), or what it gave when last called with this key under the same code and library versions.

    The result must survive JSON (infinities do). A folder that cannot be written to only costs time.
    """
    where = folder()
    if where is None:
        return compute()
    name = hashlib.blake2b(repr((_code(), key)).encode(), digest_size=16).hexdigest()
    path = where / f"{name}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        pass
    result = compute()
    try:
        where.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=where, suffix=".part")
        with os.fdopen(handle, "w") as file:
            json.dump(result, file)
        os.replace(aside, path)
    except OSError:
        pass
    return result


@cache
def sources(folder: Path) -> str:
    """A hash of the names and contents of the Python files in a folder, at every depth."""
    h = hashlib.blake2b(digest_size=16)
    folder = folder.resolve()
    for source in sorted(folder.rglob("*.py")):
        h.update(source.relative_to(folder).as_posix().encode() + source.read_bytes())
    return h.hexdigest()


@cache
def _code() -> str:
    """Changes whenever this folder's code or a library does."""
    h = hashlib.blake2b(sources(Path(__file__).parent).encode(), digest_size=16)
    for library in LIBRARIES:
        try:
            h.update(f"{library} {version(library)}".encode())
        except PackageNotFoundError:
            h.update(f"{library} missing".encode())
    return h.hexdigest()
