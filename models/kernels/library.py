"""Builds the C sources with the machine's compiler, once, and loads them. Where that fails, all runs without, more slowly."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.[ch]")))
FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
NATIVE = ("-march=native", *("-mprefer-vector-width=512",) * (platform.machine() in ("x86_64", "AMD64")))  # which some refuse
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
    compiler = shlex.split(os.environ.get("CC", "")) or [c for c in ("cc", "gcc") if shutil.which(c)][:1]
    if os.environ.get(SWITCH) == "off" or not compiler:
        return None
    try:
        return _declared(ctypes.CDLL(str(_built(compiler))))
    except (OSError, subprocess.SubprocessError) as why:
        said = getattr(why, "stderr", None) or b""
        logging.getLogger(__name__).info("no compiled kernel: %s %s", why, said.decode(errors="replace"))
        return None


def loaded() -> ctypes.CDLL:
    """The compiled kernel where it is known to be there."""
    there = found()
    assert there is not None
    return there


def _built(compiler: list[str]) -> Path:
    """The library for this source, compiler and processor, from an earlier time if there was one."""
    name, faults = f"kernel-{_digest(compiler)}.so", []
    for folder in (_cache, _temporary):
        try:
            path = folder() / name
            if not path.exists():
                _build(compiler, path)
            return path
        except (OSError, RuntimeError) as fault:  # no home, or one that cannot be written
            faults.append(fault)
    raise OSError(*faults)


def _build(compiler: list[str], path: Path) -> None:
    """Written aside and renamed: others may be building too."""
    sources = [source for source in SOURCES if source.suffix == ".c"]
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        for flags in ((*FLAGS, *NATIVE), FLAGS):
            tried = subprocess.run([*compiler, *flags, "-o", made, *sources, "-lm"], capture_output=True, timeout=120)
            if not tried.returncode:
                break
        tried.check_returncode()
        made.replace(path)


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnnaudit"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _temporary() -> Path:
    """A folder of the user's own among temporary files. Raises OSError where somebody else could put a library there."""
    own = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"gnnaudit-{own}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != own or folder.stat().st_mode & 0o022:
        raise OSError(f"{folder} is not this user's alone")
    return folder


def _digest(compiler: list[str]) -> str:
    """A name for the source, the compiler and what the processor can do: a home folder may serve several machines."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else [platform.processor(), platform.node()]
    able = sorted({line for line in lines if not cpu.exists() or line.startswith(("flags", "Features", "model name"))})
    program = Path(shutil.which(compiler[0]) or compiler[0]).resolve()  # whose name has the version, often
    version = program.stat().st_mtime_ns if program.exists() else 0
    what = ([(source.name, source.read_bytes()) for source in SOURCES], compiler, str(program), version, FLAGS, NATIVE, able)
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()


def _declared(built: ctypes.CDLL) -> ctypes.CDLL:
    program, number, address = ctypes.POINTER(Program), ctypes.c_float, ctypes.c_void_p
    built.gradient.argtypes = built.hits.argtypes = (program,)
    built.clipped_gradient.argtypes = (program, number)
    built.adam.argtypes = (ctypes.c_int, *(address,) * 4, *(number,) * 3)
    built.teach.argtypes = (address,)
    built.gradient.restype = built.clipped_gradient.restype = built.adam.restype = None
    built.teach.restype = None
    built.hits.restype = built.lanes.restype = ctypes.c_int
    return built
