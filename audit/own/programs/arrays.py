"""Reads an array from a user's program, after checks of the kind of file and of the array's type, shape and size."""

import math
import os
import stat
from pathlib import Path
from typing import IO, Any

import numpy as np

from ....reports.rounding import several

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_array(path: Path, shape: tuple[Any, ...], most: int) -> np.ndarray:
    """The finite real numbers of a .npy file. shape: the expected one; a final Ellipsis allows any further axes. An array may
    lack a first axis of one entry. most: largest size of the numbers in bytes.

    Raises ValueError with the name of the file, what it holds and what is expected.
    """
    expected = f"expected shape {str(shape).replace('Ellipsis', '…')}"
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        if path.is_symlink():
            raise ValueError(f"{path.name}: is a symbolic link, which is not followed; {expected}.") from None
        raise ValueError(f"{path.name}: missing; {expected}.") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # a named pipe would block
        os.close(handle)
        raise ValueError(f"{path.name}: missing; {expected}.")
    with open(handle, "rb") as file:
        found, order, kind = _header(file, path.name, expected)
        if shape[0] == 1 and found == shape[1:]:
            found = shape
        fits = found[: len(shape) - 1] == shape[:-1] if shape[-1] is Ellipsis else found == shape
        if not fits or kind.kind not in "fiu":
            wanted = expected.replace("expected", "expected real numbers of")
            raise ValueError(f"{path.name}: shape {found} of {kind}; {wanted}.")
        size = math.prod(found) * kind.itemsize
        if size > most:
            raise ValueError(f"{path.name}: shape {found} of {kind} takes {size >> 20}MiB; memory={most >> 20}MiB.")
        if size != os.fstat(handle).st_size - file.tell():
            raise ValueError(f"{path.name}: not a NumPy array: its header states {size} bytes, the file has others; {expected}.")
        array = np.frombuffer(file.read(size), dtype=kind).reshape(found, order=order)
    if not np.isfinite(array).all():
        raise ValueError(f"{path.name}: holds NaN or infinity in {several(int((~np.isfinite(array)).sum()), 'place')}.")
    return array


def _header(file: IO[bytes], name: str, expected: str) -> tuple[tuple[int, ...], Any, np.dtype[Any]]:
    """(shape, order, type), as the header states them. Raises ValueError for other files and for arrays of objects."""
    try:
        shape, fortran, kind = HEADERS[np.lib.format.read_magic(file)](file)
    except Exception:  # a damaged header makes its reader raise almost anything
        raise ValueError(f"{name}: not a NumPy array without objects; {expected}.") from None
    if kind.hasobject or any(n < 0 for n in shape):
        raise ValueError(f"{name}: not a NumPy array without objects; {expected}.")
    return shape, "F" if fortran else "C", kind
