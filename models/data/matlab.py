"""Reads matrices from Matlab files of level 5, with bounds checks, because scipy's reader crashes on damaged files."""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import one_line
from .readers import csr

NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED, SPARSE = 14, 15, 5
DENSE = range(6, 16)  # double, single and the whole numbers


def matrices(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The matrices of the file whose names are in `names`, by name. A dense matrix is an ndarray; for a sparse matrix the value
    is its transpose, a csr_array.

    Format: MathWorks, MAT-File Format, level 5. Raises ValueError for any other file.
    """
    found = {}
    try:
        content = path.read_bytes()
        order = {b"IM": "<", b"MI": ">"}[content[126:128]]
        for kind, body in elements(content[128:], order):
            if kind == COMPRESSED:
                kind, body = next(elements(zlib.decompress(body), order))
            if kind == MATRIX:
                name, value = matrix(body, order, names)
                if value is not None:
                    found[name] = value
    except Exception as error:  # damaged files raise errors of struct, zlib, numpy and codecs
        raise ValueError(f"{path}: not a complete Matlab file of level 5 ({type(error).__name__}: {one_line(error)}).") from None
    return found


def elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The type and the body of every data element of `content`. order: "<" or ">", the byte order."""
    at = 0
    while at + 8 <= len(content):
        kind, size = struct.unpack_from(order + "II", content, at)
        if kind >> 16:  # small element: size and type share a word, and the tag contains the body
            yield kind & 0xFFFF, content[at + 4 : at + 4 + min(kind >> 16, 4)]
            at += 8
            continue
        if at + 8 + size > len(content):
            raise EOFError("an element goes beyond the end")
        yield kind, content[at + 8 : at + 8 + size]
        at += 8 + size if kind == COMPRESSED else 8 + (size + 7) // 8 * 8


def matrix(body: bytes, order: str, names: tuple[str, ...]) -> tuple[str, Any]:
    """The name and the value of one matrix; the value is None if the name is not in `names`."""
    parts = elements(body, order)
    flags, shape, name = (next(parts) for _ in range(3))
    word = name[1].decode("ascii", "replace")
    if word not in names:
        return word, None
    kind = int(array(flags, order)[0]) & 0xFF
    rows, columns = (int(n) for n in array(shape, order))
    if kind == SPARSE:
        indices, indptr, data = (array(next(parts), order) for _ in range(3))
        used = int(indptr[-1])  # Matlab may have reserved space for more entries
        return word, csr(data[:used], indices[:used], indptr, (columns, rows), word)
    if kind not in DENSE:
        raise ValueError(f"{word} does not hold numbers")
    return word, array(next(parts), order).reshape((rows, columns), order="F")


def array(element: tuple[int, bytes], order: str) -> np.ndarray:
    """A data element of numbers as an array."""
    kind, body = element
    return np.frombuffer(body, order + NUMBERS[kind]).astype(NUMBERS[kind])
