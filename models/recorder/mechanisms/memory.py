"""Finds the followed arrays that lie at a place in memory.

`torch.from_numpy(array)` and `tensor.numpy()` share the memory of their argument. The other functions that make a tensor of an
array begin in the same way. PyTorch passes on no more of the array than this memory.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Recorder

MOST = 4096  # places that are stored before those of arrays that no longer exist are removed

Place = tuple[Any, ...]
Arrays = dict[Place, list["weakref.ref[Any]"]]


def place_of(array: NDArray[Any]) -> Place:
    """Where an array lies in memory, and how its entries follow each other there."""
    interface = array.__array_interface__
    return interface["data"][0], array.shape, array.strides, interface["typestr"]


def remember(mechanisms: Recorder, array: Any) -> None:
    """Stores where a followed array lies."""
    known = mechanisms.arrays
    if len(known) >= MOST:
        for place in [place for place, arrays in known.items() if all(each() is None for each in arrays)]:
            del known[place]
    place = place_of(array)
    others = [each for each in known.get(place, ()) if (other := each()) is not None and other is not array]
    known[place] = [*others, weakref.ref(array)]


def remembered(mechanisms: Recorder, numbers: NDArray[Any]) -> list[Any]:
    """The followed arrays that lie where `numbers` lie, the last one first."""
    found = [each() for each in reversed(mechanisms.arrays.get(place_of(numbers), ()))]
    return [array for array in found if array is not None]
