"""Measures how much memory a computation takes."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

STATM = Path("/proc/self/statm")  # Linux; pages: the second number resident, the third of files
EVERY = 2e-3  # seconds between two looks


def taken(work: Callable[[], object]) -> int | None:
    """The largest number of bytes that this process holds during `work`, less those before or after, whichever are fewer.

    A thread looks every `EVERY` seconds, or later where `work` keeps the interpreter: what is
    held for a shorter time may be missed. What nobody holds any more is freed first, and pages
    of files, which the system may take back at any time, do not count. What other threads free
    meanwhile hides nothing of what `work` takes. None where the system does not say it.
    """
    if not STATM.exists():
        work()
        return None
    gc.collect()
    before = most = _resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(EVERY):
            most = max(most, _resident())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        work()
    finally:
        after = _resident()
        done.set()
        watching.join()
    return max(most, after) - min(before, after)


def _resident() -> int:
    _, resident, of_files = STATM.read_text().split()[:3]
    return (int(resident) - int(of_files)) * os.sysconf("SC_PAGE_SIZE")
