"""Caches the results of accounting on disk, so that a repeated call is instant."""

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

from platformdirs import user_cache_path

LIBRARIES = ("dp-accounting", "autodp", "opacus", "numpy", "scipy")


def folder() -> Path | None:
    """$GNNAUDIT_CACHE, or gnnaudit/accounting in the user's cache folder. None if GNNAUDIT_CACHE is "off"."""
    chosen = os.environ.get("GNNAUDIT_CACHE")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen)
    return user_cache_path("gnnaudit", appauthor=False) / "accounting"


def remembered(compute: Callable[[], Any], *key: object) -> Any:
    """compute(), or its stored result if the key, the code of accounting/ and the library versions are the same.

    The result must be a JSON value; infinities are allowed. If the folder cannot be written, nothing is stored.
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
    """A hash of the code of accounting/ and of the versions of LIBRARIES."""
    h = hashlib.blake2b(sources(Path(__file__).parent).encode(), digest_size=16)
    for library in LIBRARIES:
        try:
            h.update(f"{library} {version(library)}".encode())
        except PackageNotFoundError:
            h.update(f"{library} missing".encode())
    return h.hexdigest()
