"""Arrays of NumPy archives that are mapped from a temporary file instead of held in memory, and read in blocks."""

import mmap
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 24  # how many bytes are unpacked at a time
BLOCK = 1 << 20  # how many arcs are read at a time


def spooled(archive: zipfile.ZipFile, name: str) -> NDArray[Any] | None:
    """The array `name` of an archive, unpacked into a temporary file and mapped from there, read-only. Integers become int64.

    None for an array that NumPy must read: of Python objects, of Fortran order, empty, or of a later format version, and if the
    temporary file cannot be written. This file has no name and goes with the array. Raises ValueError for a damaged member.
    """
    with suppress(OSError), archive.open(f"{name}.npy") as member, tempfile.TemporaryFile() as file:
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        read = header.get(np.lib.format.read_magic(member))
        shape, columns_first, dtype = read(member) if read else ((), True, np.dtype(object))
        if columns_first or dtype.hasobject or 0 in shape:
            return None
        wide = np.dtype(np.int64) if dtype.kind in "iu" and dtype != np.uint64 else dtype
        while chunk := member.read(CHUNK - CHUNK % dtype.itemsize):
            np.frombuffer(chunk, dtype).astype(wide, copy=False).tofile(file)
        file.flush()
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), wide).reshape(shape)
    return None


def blocks(edges: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """(2, at most BLOCK) columns of the edges, in order. What was read of a mapped file leaves the process's memory."""
    source: Any = edges
    while isinstance(source, np.ndarray):
        source = source.base
    source = source.obj if isinstance(source, memoryview) else source
    for at in range(0, edges.shape[1], BLOCK):
        yield edges[:, at : at + BLOCK]
        if isinstance(source, mmap.mmap) and hasattr(source, "madvise"):
            source.madvise(mmap.MADV_DONTNEED)
