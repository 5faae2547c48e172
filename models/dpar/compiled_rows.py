"""The compiled kernel's part in DP-SGD on short lists of nodes: all that lies between the products with the features."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

from ..kernels import library

if TYPE_CHECKING:
    from torch import Tensor

LANES = 16  # of a vector in C, at most: it fixes how much room is needed
ADDRESSES = ("before", "kept", "alive", "counted", "index", "labels", "weights", "gram", "second", "into", "slope", "room")


class Lists(ctypes.Structure):
    """`struct lists` of rows.c."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("rows", "entries", "hidden", "classes")),
        ("clip", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ADDRESSES),
    )


def clipped(
    clip: float,
    before: Tensor,
    kept: Tensor | None,
    alive: Tensor,
    counted: Tensor,
    index: Tensor,
    labels: Tensor,
    weights: Tensor,
    gram: Tensor,
    second: Tensor,
) -> tuple[Tensor, Tensor] | None:
    """The gradient of each run's first sums, (K, rows, hidden), and of its second weights; None where there is no kernel.

    before: (K, rows, hidden). kept: the same, or None. alive, counted: (K, rows). index, weights: (K, rows, entries), the former
    int64 as labels (K, rows). gram: (K, rows, entries, entries). second: (K, hidden, classes). All but those are float32.
    """
    if before.device.type != "cpu" or library.library() is None:
        return None
    (runs, rows, hidden), entries, classes = before.shape, index.shape[2], second.shape[2]
    wide, deep = -(-hidden // LANES), -(-classes // LANES)
    into, slope = torch.empty_like(before, memory_format=torch.contiguous_format), torch.empty(second.shape)
    room = torch.empty(LANES * (wide * (2 * classes + entries + 2) + deep) + LANES)
    parts = {"before": before, "alive": alive, "counted": counted, "index": index, "labels": labels, "weights": weights}
    parts |= {"gram": gram, "second": second} | ({} if kept is None else {"kept": kept})
    given = {name: part.contiguous() for name, part in parts.items()} | {"into": into, "slope": slope}
    task = Lists(rows=rows, entries=entries, hidden=hidden, classes=classes, clip=clip, room=-(-room.data_ptr() // 64) * 64)
    for run in range(runs):
        for name, part in given.items():
            setattr(task, name, part[run].data_ptr())
        library.loaded().clipped_rows(ctypes.byref(task))
    return into, slope
