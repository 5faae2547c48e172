"""The cache of compiled code. Only unchanged files in a folder that only this user can write are loaded.

Numba's index and data files are pickles, and loading a pickle may run any code. So the process that compiles a file also stores
its sha256. A file without a correct sha256 is removed before Numba reads it. On a machine that has not loaded the code before, a
child process loads and runs it first, because faulty machine code may crash the process.
"""

import hashlib
import json
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from ....accounting.own_folder import make_own, read_own

SOURCES = tuple(sorted(Path(__file__).parents[1].rglob("*.py")))
SUMS, TRIED, LOCK = "sha256.json", "tried.json", "lock"
TRIAL = "GNNAUDIT_KERNEL_TRIAL"  # an environment variable, set in the child process that tests the cached code
PATIENCE = 300  # seconds that the test may take, which includes compiling missing code


@cache
def kept_in() -> Path | None:
    """A folder for the compiled code of these sources, which only this user can write. Its code works on this machine. None if
    there is no such folder.

    The name of the folder contains a hash of all sources, because Numba notices only changes of a loop's own file and of the
    processor. The environment variable NUMBA_CACHE_DIR chooses another parent folder.
    """
    import numba

    if TRIAL in os.environ:
        return make_own(Path(os.environ[TRIAL]))
    digest = hashlib.blake2b(repr([(source.name, source.read_bytes()) for source in SOURCES]).encode(), digest_size=8)
    name = f"kernels-{digest.hexdigest()}-{numba.__version__}"
    own = os.getuid() if hasattr(os, "getuid") else 0
    chosen = [Path(numba.config.CACHE_DIR)] if numba.config.CACHE_DIR else []
    refused = []
    for place in (*chosen, user_cache_path("gnnaudit", appauthor=False), Path(tempfile.gettempdir()) / f"gnnaudit-{own}"):
        try:
            make_own(place)
            folder = make_own(place / name)
            with FileLock(folder / f"{TRIED}.{LOCK}"):
                _try(folder)
        except OSError as fault:
            refused.append(str(fault) if fault.errno is None else f"{place}: {fault.strerror}")
            continue
        if refused:
            _say(f"compiled code is kept in {folder}, because other folders cannot be used: {'; '.join(refused)}.")
        return folder
    _say(
        "no folder is private to this user, so compiled code is not kept and every process compiles again "
        f"({'; '.join(refused)})."
    )
    return None


def checked(folder: Path, pattern: str) -> bool:
    """Whether there are unchanged files of this pattern that belong to this user. Removes other files of this pattern, with a
    warning.
    """
    sums, found = _read(folder / SUMS), False
    for path in folder.rglob(pattern):
        try:
            if hashlib.sha256(read_own(path)).hexdigest() != sums.get(_name(path, folder)):
                raise PermissionError(f"{path}: was changed after it was written")
            found = True
        except OSError as fault:
            _say(f"{fault if fault.errno is None else f'{path}: {fault.strerror}'}; it is removed and compiled again.")
            path.unlink(missing_ok=True)
    return found


def record(folder: Path, pattern: str) -> None:
    """Stores the sha256 of the files of this pattern, all of which this process has compiled or checked."""
    sums = _read(folder / SUMS)
    now = sums | {_name(path, folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob(pattern)}
    if now != sums:
        _write(folder / SUMS, now)


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _try(folder: Path) -> None:
    """Tests compiled code that this machine has not run before in a child process. Removes the code if the child fails."""
    here, tried = _machine(), _read(folder / TRIED)
    found = {source.stem for source in SOURCES} & {path.name.partition(".")[0] for path in folder.rglob("*.nbi")}
    if here in tried or not found:
        return
    code = f"from {__package__.rpartition('.')[0]} import {', '.join(sorted(found))}, trial; trial.run()"
    environment = os.environ | {TRIAL: str(folder), "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        failed = f"ended with exit code {done.returncode}" if done.returncode else ""
        if done.stderr and not failed:
            _say(done.stderr.decode(errors="replace").strip())
    except subprocess.TimeoutExpired:
        failed = f"did not end within {PATIENCE} s"
    if failed:
        _say(f"{folder}: a trial of the compiled code {failed}; it is removed and compiled again.")
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
    _write(folder / TRIED, tried | {here: not failed})


def _machine() -> str:
    """The versions and the processor on which compiled code depends."""
    import llvmlite
    import llvmlite.binding

    processor = llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten()
    system = platform.node(), platform.system(), platform.release(), platform.python_version(), llvmlite.__version__
    return repr((*system, *processor))


def _read(path: Path) -> dict[str, Any]:
    """The contents of a JSON file that belongs to this user; empty if it is damaged, absent, or belongs to another user."""
    try:
        found = json.loads(read_own(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, contents: dict[str, Any]) -> None:
    aside = path.with_suffix(".part")
    aside.unlink(missing_ok=True)
    aside.write_text(json.dumps(contents))
    os.replace(aside, path)


def _say(sentence: str) -> None:
    logging.getLogger(__name__).warning("%s", sentence)
