"""Noise that a program writes into an array or a tensor piece by piece, as by `noise[i] = torch.randn(d)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .joined import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Origin


@dataclass(frozen=True, eq=False)
class Piece:
    """Noise in a part of an array or a tensor. at: where the part begins, and its shape and steps, all in numbers. origin: of
    the noise. seen: its numbers.
    """

    at: tuple[int, tuple[int, ...], tuple[int, ...]]
    origin: Origin
    seen: NDArray[Any]

    def of(self, whole: NDArray[Any]) -> NDArray[Any]:
        """This part of an array with the shape of the whole."""
        start, shape, steps = self.at
        strides = [step * whole.itemsize for step in steps]
        return np.lib.stride_tricks.as_strided(whole.ravel()[start:], shape, strides)


def written(parts: Any, view: Any, origin: Origin) -> None:
    """Stores that noise was written into a view of another tensor. parts: tensor -> its pieces, by their place."""
    whole = view._base
    if whole is not None and origin.seen is not None and whole.is_contiguous() and whole.layout == view.layout:
        place = view.storage_offset() - whole.storage_offset(), tuple(view.shape), tuple(view.stride())
        parts.setdefault(whole, {})[place] = Piece(place, origin, origin.seen)


def written_at(parts: dict[Any, Piece], whole: NDArray[Any], key: Any, origin: Origin, shape: tuple[int, ...]) -> bool:
    """As `written`, for noise of this shape that was written into an array by `whole[key] = noise`. parts: the pieces of the
    array, by their place. Returns whether the noise was stored: not if each number was written to several places, and not if
    `key` holds lists of places.
    """
    keys = key if isinstance(key, tuple) else (key,)
    part = whole[key if any(each is Ellipsis for each in keys) else (*keys, ...)]
    if not whole.flags.c_contiguous or part.shape != shape or not np.may_share_memory(part, whole):
        return False
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    place = start // whole.itemsize, part.shape, tuple(step // whole.itemsize for step in part.strides)
    parts[place] = Piece(place, origin, part.copy())
    return True


def assembled(pieces: Iterable[Piece], numbers: NDArray[Any]) -> Origin | None:
    """The origin of the numbers of an array or a tensor into which noise was written in pieces; None if other numbers than 0
    stand beside the pieces.
    """
    kept = [piece for piece in pieces if np.array_equal(piece.of(numbers), piece.seen)]
    covered = np.zeros(numbers.shape, dtype=bool)
    for piece in kept:
        piece.of(covered)[...] = True
    if not kept or np.any(numbers[~covered]):
        return None

    def join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        whole = np.zeros(numbers.shape)
        for piece, array in zip(kept, arrays):  # noqa: B905  (Python 3.9)
            piece.of(whole)[...] = array
        return whole

    origin = joined([(piece.origin, piece.of(numbers)) for piece in kept], join)
    return origin if origin is None or np.all(covered) or not origin.shift else None
