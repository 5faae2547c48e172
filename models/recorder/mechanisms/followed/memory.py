"""Finds the followed arrays that lie at a place in memory.

`torch.from_numpy(array)` and `tensor.numpy()` share the memory of their argument. The other functions that make a tensor of an
array begin in the same way. PyTorch passes on no more of the array than this memory.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 4096  # when so many more places are stored, those of arrays that no longer exist are removed

Place = tuple[Any, ...]
Arrays = dict[int, list["weakref.ref[Any]"]]  # where an array begins -> the arrays that begin there


def place_of(array: NDArray[Any]) -> Place:
    """Where an array lies in memory, and how its entries follow each other there."""
    interface = array.__array_interface__
    return interface["data"][0], array.shape, array.strides, interface["typestr"]


def remember(known: Arrays, array: Any) -> None:
    """Stores in `known` where a followed array lies."""
    start = array.__array_interface__["data"][0]
    if start not in known and len(known) % MOST == MOST - 1:
        for gone in [place for place, arrays in known.items() if all(each() is None for each in arrays)]:
            del known[gone]
    others = [each for each in known.get(start, ()) if (other := each()) is not None and other is not array]
    known[start] = [*others, weakref.ref(array)]


def remembered(known: Arrays, numbers: NDArray[Any]) -> list[Any]:
    """The followed arrays that lie where `numbers` lie, the last one first."""
    place = place_of(numbers)
    found = [each() for each in reversed(known.get(place[0], ()))]
    return [array for array in found if array is not None and place_of(array) == place]
