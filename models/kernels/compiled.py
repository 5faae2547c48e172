"""Compiles the loops of this folder for this machine's processor, once, with Numba; says which way results are computed."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock
from platformdirs import user_cache_path

SWITCH = "GNNAUDIT_KERNEL"  # an environment variable; "off": run without
SOURCES = tuple(sorted(Path(__file__).parent.glob("*.py")))
FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums in any order; NaN and infinity stay what they are
OPTIONS: dict[str, Any] = {"fastmath": FAST, "error_model": "numpy", "nogil": True}

Function = TypeVar("Function", bound=Callable[..., Any])
UNUSED: ContextVar[bool] = ContextVar("unused", default=False)


@contextmanager
def unused() -> Iterator[None]:
    """Models that are fitted within this context, in this thread, are trained by the layers in torch."""
    token = UNUSED.set(True)
    try:
        yield
    finally:
        UNUSED.reset(token)


def used() -> bool:
    """Whether models are trained by the loops of this folder; else by torch, more slowly."""
    return found() and not UNUSED.get()


@cache
def found() -> bool:
    """Whether there is a Numba that runs here, and the user wants it."""
    if os.environ.get(SWITCH) == "off":
        return False
    try:
        import numba  # noqa: F401
    except ImportError as why:
        logging.getLogger(__name__).warning("numba cannot be used (%s): torch trains the models, several times as slowly.", why)
        return False
    return True


def path() -> str:
    """By which way models are trained: "compiled" or "torch"."""
    return "compiled" if used() else "torch"


def instruction_set() -> str:
    """What the arithmetic is compiled for: torch's choice of vectors, and the processor that the loops are made for."""
    import torch

    vectors = torch.backends.cpu.get_cpu_capability()
    return f"{vectors}, {processor()}" if used() else vectors


def processor() -> str:
    """What the loops are compiled for."""
    import llvmlite.binding

    return str(_settings().CPU_NAME or llvmlite.binding.get_host_cpu_name())


def _settings() -> Any:
    """Numba's settings, which environment variables begin."""
    from numba import config

    return config


def helper(function: Function) -> Function:
    """A function that only compiled functions call."""
    import numba

    made: Function = numba.njit(**OPTIONS)(function)
    return made


def compiled(signature: Any) -> Callable[[Function], Function]:
    """A function that is compiled when its file is imported, or found from an earlier time. signature: Numba's types."""

    def decorate(function: Function) -> Function:
        import numba

        folder, settings = kept_in(), _settings()
        if folder is None:
            made: Function = numba.njit(signature, **OPTIONS)(function)
            return made
        with FileLock(folder / "lock"):  # others wait for what one of them compiles
            if not any(folder.rglob(f"*.{function.__qualname__}-*.nbi")):
                logging.getLogger(__name__).info("compiling %s.%s", function.__module__, function.__qualname__)
            before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
            try:
                made = numba.njit(signature, cache=True, **OPTIONS)(function)
            finally:
                settings.CACHE_DIR = before
        return made

    return decorate


@cache
def kept_in() -> Path | None:
    """Where compiled code is kept: a folder of the user's own for these very sources, or None where there can be none.

    Numba itself notices changes of one file only, and the processor. NUMBA_CACHE_DIR chooses another place.
    """
    import numba

    digest = hashlib.blake2b(repr([(source.name, source.read_bytes()) for source in SOURCES]).encode(), digest_size=8)
    name = f"kernels-{digest.hexdigest()}-{numba.__version__}"
    own = os.getuid() if hasattr(os, "getuid") else 0
    chosen = [Path(_settings().CACHE_DIR)] if _settings().CACHE_DIR else []
    for place in (*chosen, user_cache_path("gnnaudit", appauthor=False), Path(tempfile.gettempdir()) / f"gnnaudit-{own}"):
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            (place / name).mkdir(mode=0o700, exist_ok=True)
            for folder in (place, place / name):
                _check_own(folder)
            return place / name
        except OSError:  # one that cannot be written, or that others can write
            continue
    logging.getLogger(__name__).warning("no folder of this user's alone to keep compiled code in: every process compiles anew.")
    return None


def _check_own(folder: Path) -> None:
    """Raises OSError where somebody else could put code there, which would be run."""
    if hasattr(os, "getuid") and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022):
        raise OSError(f"{folder} is not this user's alone")
