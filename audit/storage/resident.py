"""Measures how much memory a computation takes."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

STATM = Path("/proc/self/statm")  # Linux; the second number is the resident pages
EVERY = 2e-3  # seconds between two looks


def taken(work: Callable[[], object]) -> int | None:
    """The largest number of bytes that this process holds during `work`, less those before.

    A thread looks every `EVERY` seconds, or later where `work` keeps the interpreter: what is
    held for a shorter time may be missed. None where the system does not say it; then `work` is
    not done.
    """
    if not STATM.exists():
        return None
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
        most = max(most, _resident())
        done.set()
        watching.join()
    return most - before


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
