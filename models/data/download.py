"""Finds the files of data sets in a folder. Downloads missing files, checks their sha256, and stores them atomically."""

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from platformdirs import user_cache_path

from .checksums import Remote

CHUNK = 1 << 20  # bytes that are read at a time
QUIET = 2.0  # seconds after which a progress bar appears
TIMEOUT = 30.0  # seconds without a byte before a download fails


def data_folder(data_dir: str | Path | None = None) -> Path:
    """`data_dir`, else the environment variable GNNAUDIT_DATA, else gnnaudit/data in the user's cache.

    Raises ValueError if `data_dir` is no folder, or if the variable names a file.
    """
    if data_dir is not None:
        folder = Path(data_dir).expanduser()
        if not folder.is_dir():
            raise ValueError(f"data_dir={data_dir}: no such folder. Make it, or name the folder that holds the data.")
        return folder
    if named := os.environ.get("GNNAUDIT_DATA"):
        folder = Path(named).expanduser()
        if folder.exists() and not folder.is_dir():
            raise ValueError(
                f"GNNAUDIT_DATA={named}: is no folder. Name the folder of the data sets in this variable, or unset it."
            )
        return folder
    return user_cache_path("gnnaudit", appauthor=False) / "data"


def digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def obtain(remote: Remote, folder: Path, trust: bool = False) -> Path:
    """The path of a file, which is either at its path under `folder` or directly in `folder`. A missing file is downloaded.

    The sha256 of an existing file is not checked here; the caller reports it. trust: whether to download a file without a known
    sha256. Raises ValueError (one line) if the file cannot be downloaded.
    """
    for path in (folder / remote.path, folder / Path(remote.path).name):
        if path.is_file():
            return path
    if remote.sha256 is None and not trust:
        raise ValueError(
            f"{remote.url}: no sha256 of this file is known, so a download could be any file. If you trust its source, add "
            f"--trust (in Python: trust=True), or put the file at {folder / remote.path}."
        )
    return download(remote, folder / remote.path)


def download(remote: Remote, to: Path) -> Path:
    """Downloads `remote` to a temporary file, checks its sha256 if that is known, and renames it to `to`, which is therefore
    complete whenever it exists. Raises ValueError (one line) for every failure.
    """
    way_out = f"get the file elsewhere and put it at {to}, or name the folder that has it with --data-dir"
    aside = to.with_name(f"{to.name}.{os.getpid()}.part")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with urlopen(Request(remote.url, headers={"User-Agent": "gnnaudit"}), timeout=TIMEOUT) as answer, aside.open("wb") as out:
            found = _copy(answer, out, int(answer.headers.get("Content-Length") or 0), to.name)
        if remote.sha256 is not None and found != remote.sha256:
            raise ValueError(f"{remote.url}: sha256 is {found}, must be {remote.sha256}; nothing was kept: {way_out}.")
        os.replace(aside, to)
    except HTTPError as error:
        raise ValueError(f"{remote.url}: the server answers {error.code} {error.reason}: {way_out}.") from None
    except URLError as error:
        raise ValueError(f"{remote.url}: cannot be reached ({error.reason}): {way_out}.") from None
    except (OSError, EOFError) as error:
        raise ValueError(f"{remote.url} to {to}: {error}: {way_out}.") from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
    return to


def _copy(answer: IO[bytes], out: IO[bytes], size: int, name: str) -> str:
    """Copies all bytes, with a progress bar on stderr after QUIET seconds. Returns the sha256 of the copied bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    h, done, begun = hashlib.sha256(), 0, time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    )
    task = bar.add_task(f"downloading {name}", total=size or None)
    try:
        while chunk := answer.read(CHUNK):
            out.write(chunk)
            h.update(chunk)
            done += len(chunk)
            if not bar.live.is_started and time.monotonic() - begun > QUIET:
                bar.start()
            bar.update(task, completed=done)
    finally:
        if bar.live.is_started:
            bar.stop()
    if size and done < size:
        raise EOFError(f"the connection broke after {done} of {size} bytes")
    return h.hexdigest()
