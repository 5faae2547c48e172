"""Notices files that a training reads beside its input. They may hold data of another graph, such as a cache that an earlier
training has written.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

CODE = (".py", ".pyc", ".pyd", ".pyi", ".so", ".nbi", ".nbc")  # ends of the names of files that hold code
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib")
# beginnings of the names of folders in which libraries keep what they have compiled or found on this machine
OF_LIBRARIES = ("__pycache__", "matplotlib", "fontconfig", "torchinductor", "triton", "numba_cache")
MOST = 20  # largest number of files that are noted


@dataclass(eq=False)
class Reads:
    """The files that a training reads and has not written itself. since, begun: when the audit and the training began, in seconds
    since 1970. apart: folders whose files are not noted. stale: files that were written since the audit began. older: all others.
    own: files that the training has written.
    """

    since: float = field(default_factory=lambda: Watching.since)
    apart: tuple[str, ...] = ()
    begun: float = field(default_factory=time.time)
    stale: list[str] = field(default_factory=list)
    older: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)

    def opened(self, name: Any, flags: int) -> None:
        """Notes that a file is opened, unless it holds code, or belongs to the system or to a library."""
        if isinstance(name, int) or (given := os.fsdecode(name)).endswith(CODE):  # a number is a file that is open already
            return
        path = os.path.realpath(given)
        if flags & (os.O_TRUNC | os.O_EXCL):
            self.own.add(path)
        if flags & os.O_WRONLY or path in self.own or path in self.stale or path in self.older:
            return
        if len(self.stale) + len(self.older) >= MOST or within(path, (*SYSTEM, *installed(), *self.apart)):
            return
        if any(part.startswith(OF_LIBRARIES) for part in path.split(os.sep)):
            return
        found = os.stat(path)
        changed = max(found.st_mtime, found.st_ctime)  # a copy may keep the time of its original, but not the second one
        if stat.S_ISREG(found.st_mode) and changed < self.begun:
            (self.stale if changed >= self.since else self.older).append(path)


class Watching:
    """The training that runs, and when the audit began, or else this process. A hook of Python stays to the end of the process,
    so it is added only once.
    """

    since: float = time.time()
    reads: Reads | None = None
    hooked = False


@cache
def installed() -> tuple[str, ...]:
    """The folders of Python and of the installed packages."""
    return tuple({os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)} - {os.sep})


def within(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def watch(reads: Reads | None) -> None:
    """Lets `reads` note the files that this process opens from now on; None: nothing does."""
    Watching.reads = reads
    if not Watching.hooked:
        Watching.hooked = True
        sys.addaudithook(_heard)


@contextmanager
def watched(reads: Reads) -> Iterator[Reads]:
    """Within this context, `reads` notes the files that this process opens."""
    before = Watching.reads
    watch(reads)
    try:
        yield reads
    finally:
        Watching.reads = before


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "sqlite3.connect") or Watching.reads is None:
        return
    try:
        Watching.reads.opened(arguments[0], arguments[2] if event == "open" else os.O_RDWR)
    except (OSError, ValueError, TypeError):  # no such file: the program gets the same error from the call itself
        return
