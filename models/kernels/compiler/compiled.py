"""Compiles the loops of kernels/ with Numba, once for each processor. Says whether compiled loops or torch train models."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from filelock import FileLock

from .kept import LOCK, checked, kept_in, record

SWITCH = "GNNAUDIT_KERNEL"  # an environment variable; "off": run without compiled loops
FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums may be computed in any order; NaN and infinity are kept
OPTIONS: dict[str, Any] = {"fastmath": FAST, "error_model": "numpy", "nogil": True}

Function = TypeVar("Function", bound=Callable[..., Any])
UNUSED: ContextVar[bool] = ContextVar("unused", default=False)
IN_TORCH: ContextVar[set[str] | None] = ContextVar("in_torch", default=None)


@contextmanager
def unused() -> Iterator[None]:
    """Within this context, the layers in torch train the models that this thread fits."""
    token = UNUSED.set(True)
    try:
        yield
    finally:
        UNUSED.reset(token)


def used() -> bool:
    """Whether compiled loops train the models; otherwise torch does, more slowly."""
    return found() and not UNUSED.get()


@cache
def found() -> bool:
    """Whether Numba can be imported and the user has not switched it off. Raises ValueError for an unknown value of SWITCH."""
    switch = os.environ.get(SWITCH, "")
    if switch not in ("", "on", "off"):
        raise ValueError(f"{SWITCH}={switch}: must be off, for torch alone, or on. Without it, compiled loops train the models.")
    if switch == "off":
        return False
    try:
        import numba  # noqa: F401
    except ImportError as why:
        logging.getLogger(__name__).warning(
            "numba cannot be used (%s): torch trains the models; this takes several times as long.", why
        )
        return False
    return True


@contextmanager
def noting() -> Iterator[set[str]]:
    """Within this context, what this thread trains in torch although compiled loops are used is added to the yielded set."""
    noted: set[str] = set()
    token = IN_TORCH.set(noted)
    try:
        yield noted
    finally:
        IN_TORCH.reset(token)


def in_torch(what: str) -> None:
    """Notes that torch trains a part of a model. what: the part, and why no compiled loop trains it."""
    noted = IN_TORCH.get()
    if noted is not None and used():
        noted.add(what)


def path() -> str:
    """Which code trains the models: "compiled" or "torch"."""
    return "compiled" if used() else "torch"


def instruction_set() -> str:
    """The vector instructions that torch uses, and, with compiled loops, the processor for which Numba compiles."""
    import torch

    vectors = torch.backends.cpu.get_cpu_capability()
    return f"{vectors}, {processor()}" if used() else vectors


def processor() -> str:
    """The name of the processor for which Numba compiles the loops."""
    import llvmlite.binding

    return str(_settings().CPU_NAME or llvmlite.binding.get_host_cpu_name())


def _settings() -> Any:
    """Numba's module of settings, which environment variables may change."""
    from numba import config

    return config


def helper(function: Function) -> Function:
    """Decorates a function that only compiled functions call. Numba inlines it in each of them.

    Otherwise a process that compiles and a process that loads stored code would use two compiled copies of the function. The
    copies may add numbers in another order, so the last bits of their results would differ.
    """
    import numba

    from .inlined import Inlined

    made: Function = numba.njit(forceinline=True, pipeline_class=Inlined, **OPTIONS)(function)
    return made


def compiled(signature: Any) -> Callable[[Function], Function]:
    """Decorates a function that is compiled when its file is imported, or loaded if it was compiled before. signature: the types
    of its arguments and result, in Numba's terms.
    """

    def decorate(function: Function) -> Function:
        import numba

        folder, settings = kept_in(), _settings()
        if folder is None:
            return plain(signature)(function)
        pattern = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-*.nb[ic]"
        with FileLock(folder / LOCK):  # only one process compiles at a time
            if not checked(folder, pattern):
                logging.getLogger(__name__).info("compiling %s.%s", function.__module__, function.__qualname__)
            before = settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES
            settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = str(folder), f"{__package__}.shared_code.ByContent"
            try:
                made: Function = numba.njit(signature, cache=True, **OPTIONS)(function)
                record(folder, pattern)
            except OSError as fault:  # a full disk
                logging.getLogger(__name__).warning("%s: %s: nothing compiled is kept.", folder, fault.strerror)
                made = plain(signature)(function)
            finally:
                settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = before
        return made

    return decorate


def plain(signature: Any) -> Callable[[Function], Function]:
    """Decorates a function that is compiled in this process and not stored."""
    import numba

    made: Callable[[Function], Function] = numba.njit(signature, **OPTIONS)
    return made
