"""Temporary folders. Each is locked while its process lives, so a later process can remove those of killed processes."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX, LOCK = "gnnaudit-run-", "alive"


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder that only this user can read, removed when the context ends. The first call removes those of dead processes."""
    sweep(tempfile.gettempdir())
    new = Path(tempfile.mkdtemp(prefix="gnnaudit-new-"))
    lock = FileLock(new / LOCK)
    folder = new.with_name(PREFIX + new.name.removeprefix("gnnaudit-new-"))
    try:
        with lock:
            new.rename(folder)  # from here on other processes can see the folder, and it is locked
            yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Removes a folder, even without write permissions in it. Of a link, removes the link and not its target."""
    if folder.is_symlink():
        folder.unlink()
        return
    for place, _, _ in os.walk(folder):  # walks from the top down and follows no links
        with suppress(OSError):
            os.chmod(place, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


@cache
def sweep(root: str) -> None:
    """Removes the temporary folders of this user whose lock no process holds."""
    for folder in Path(root).glob(f"{PREFIX}*"):
        try:
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or (hasattr(os, "getuid") and about.st_uid != os.getuid()):
                continue
            with FileLock(folder / LOCK, timeout=0):
                remove(folder)
        except (Timeout, OSError):  # the folder is in use, or was removed meanwhile
            continue
