"""The files of somebody's own program or model, and the hash by which a report names them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MOST_FILES = 2000  # whose bytes are hashed


def python_files(folder: Path) -> list[Path]:
    """The Python files of a folder, as far as MOST_FILES. Environments and hidden folders are left out."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        inside = [f for f in sorted(folders) if not f.startswith((".", "__")) and not (Path(here) / f / "pyvenv.cfg").exists()]
        folders[:] = [f for f in inside if f not in ("site-packages", "node_modules")]
        found += [Path(here) / name for name in sorted(names) if name.endswith(".py")]
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def hashed(files: list[Path]) -> str:
    """How many files, and one hash of their names and bytes."""
    digest, every = hashlib.sha256(), sorted({f.resolve() for f in files if f.is_file()})
    for file in every:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    count = "1 file" if len(every) == 1 else f"{len(every)} files"
    return f"{count}, sha256 {digest.hexdigest()[:16]}" if every else "no file of its own"
