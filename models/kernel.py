"""Builds the C sources with the machine's compiler, once, and loads them. Where that fails, all runs without, more slowly."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.[ch]")))
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
SWITCH = "GNNAUDIT_KERNEL"  # an environment variable; "off": run without


class Operation(ctypes.Structure):
    """`struct operation` of kernel.c."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "inputs", "outputs", "start", "to", "centred", "leaf")),
        *((name, ctypes.c_void_p) for name in ("first", "second", "first_slope", "second_slope", "mean", "variance")),
        *((name, ctypes.c_void_p) for name in ("kept", "slope", "sums", "starts", "columns", "entries")),
    )


class Program(ctypes.Structure):
    """`struct network` of kernel.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("operations", "ends", "again", "labels", "drawn")),
        *((name, ctypes.c_int32) for name in ("segments", "nodes", "classes", "logits")),
        *((name, ctypes.c_void_p) for name in ("x", "d")),
    )


UNUSED: ContextVar[bool] = ContextVar("unused", default=False)


@contextmanager
def unused() -> Iterator[None]:
    """Models that are fitted within this context, in this thread, are trained by the layers in torch."""
    token = UNUSED.set(True)
    try:
        yield
    finally:
        UNUSED.reset(token)


def library() -> ctypes.CDLL | None:
    """The compiled kernel, or None where there is no compiler, or the user wants none."""
    return None if UNUSED.get() else found()


@cache
def found() -> ctypes.CDLL | None:
    """The same, built or loaded at the first call."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if os.environ.get(SWITCH) == "off" or not compiler:
        return None
    try:
        return _declared(ctypes.CDLL(str(_built(compiler))))
    except (OSError, RuntimeError, subprocess.SubprocessError) as why:
        logging.getLogger(__name__).info("no compiled kernel: %s", why)
        return None


def loaded() -> ctypes.CDLL:
    """The compiled kernel where it is known to be there."""
    there = found()
    assert there is not None
    return there


def _built(compiler: str) -> Path:
    """The library for this source and this processor, from an earlier time if there was one."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnnaudit"
    path = folder / f"kernel-{_digest(compiler)}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:  # written aside and renamed: others may be building too
            made = Path(aside) / path.name
            wide = ("-mprefer-vector-width=512",) * (platform.machine() in ("x86_64", "AMD64"))
            sources = [source for source in SOURCES if source.suffix == ".c"]
            subprocess.run([compiler, *FLAGS, *wide, "-o", made, *sources, "-lm"], check=True, capture_output=True, timeout=120)
            made.replace(path)
    return path


def _digest(compiler: str) -> str:
    """A name for the source, the compiler and what the processor can do: a home folder may serve several machines."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else [platform.processor(), platform.node()]
    able = sorted({line for line in lines if not cpu.exists() or line.startswith(("flags", "Features", "model name"))})
    what = ([source.read_bytes() for source in SOURCES], compiler, FLAGS, able)
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()


def _declared(built: ctypes.CDLL) -> ctypes.CDLL:
    program, number, address = ctypes.POINTER(Program), ctypes.c_float, ctypes.c_void_p
    built.gradient.argtypes = built.hits.argtypes = (program,)
    built.clipped_gradient.argtypes = (program, number)
    built.add_up.argtypes = (ctypes.c_int, ctypes.c_int64, *(address,) * 4)
    built.adam.argtypes = (ctypes.c_int, *(address,) * 4, *(number,) * 3)
    built.sparse_power.argtypes = (*(ctypes.c_int64,) * 3, ctypes.c_int32, *(address,) * 6)
    built.teach.argtypes = (address,)
    built.gradient.restype = built.clipped_gradient.restype = built.adam.restype = None
    built.sparse_power.restype = built.teach.restype = None
    built.normals.argtypes = (address, ctypes.c_int, address)
    built.coins.argtypes = (address, ctypes.c_int, ctypes.c_uint64, address, address)
    built.normals.restype = built.build_ziggurat.restype = None
    built.hits.restype = built.coins.restype = ctypes.c_int
    built.build_ziggurat()
    return built
