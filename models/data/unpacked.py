"""Estimates how much memory a file of a data set takes, before it is unpacked."""

import zipfile
import zlib
from pathlib import Path

from ..errors import one_line

MEMORY = 8 << 30  # bytes; the default of --memory
CHUNK = 1 << 20  # how many bytes are unpacked at a time


def fits(path: Path, memory: int = MEMORY) -> None:
    """Raises ValueError for a file that takes more than `memory` bytes unpacked, and for a CSV file that holds NUL characters.

    A damaged file raises nothing here, because its reader reports the damage.
    """
    try:
        size = UNPACKED.get(path.suffix.lower(), plain)(path, memory)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return
    room(size, memory, str(path))


def room(size: int, memory: int, what: str) -> None:
    """Raises ValueError if `size` bytes are more than `memory`."""
    if size > memory:
        raise ValueError(
            f"{what}: takes {_mebibytes(size)} of memory or more; memory={_mebibytes(memory)}. "
            f"If you trust its source, use --memory {_mebibytes(size)} or more."
        )


def plain(path: Path, memory: int) -> int:
    return path.stat().st_size


def zipped(path: Path, memory: int) -> int:
    """Sums the sizes in the headers, which no reader of zip files exceeds. For a file that is no zip file, its own size."""
    if not zipfile.is_zipfile(path):
        return plain(path, memory)
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def matlab(path: Path, memory: int) -> int:
    """Unpacks the file to count its bytes, because Matlab's files do not state their unpacked size. Stops beyond `memory`."""
    from .matlab import COMPRESSED, elements

    content, total = path.read_bytes(), 0
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128], "<")
    for kind, body in elements(content[128:], order):
        total += len(body)
        if kind == COMPRESSED:
            opened = zlib.decompressobj()
            while body and total <= memory:
                total += len(opened.decompress(body, CHUNK))
                body = opened.unconsumed_tail
    return total


def parquet(path: Path, memory: int) -> int:
    """Counts eight bytes for each entry, because a few bytes in the file may encode many equal entries."""
    import pyarrow.parquet
    from pyarrow import ArrowException

    try:
        about = pyarrow.parquet.read_metadata(path)
    except ArrowException as error:
        raise OSError(one_line(error)) from None
    return max(8 * about.num_rows * about.num_columns, path.stat().st_size)


def table(path: Path, memory: int) -> int:
    """Counts eight bytes for each entry. Raises ValueError for a NUL character, because readers of CSV files disagree about the
    rest of its line.
    """
    entries = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            if b"\0" in chunk:
                at = file.tell() - len(chunk) + chunk.index(0)
                raise ValueError(f"{path}: holds a NUL character at byte {at}: not a table. Save it as CSV in UTF-8.")
            entries += chunk.count(b",") + chunk.count(b"\n")
    return max(8 * entries, path.stat().st_size)


def _mebibytes(size: int) -> str:
    return f"{-(-size >> 20)}MiB"


UNPACKED = {".npz": zipped, ".pt": zipped, ".mat": matlab, ".parquet": parquet, ".csv": table}
