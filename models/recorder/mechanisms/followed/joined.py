"""Noise that a program makes of several arrays: joined, as by `np.concatenate`, `torch.stack` and lists of arrays, or written
piece by piece into one array or tensor, as by `noise[i] = torch.randn(d)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Origin

DIGITS = 20  # bits of a noise number to which numbers are compared
BY_CHANCE = 2.0**-36  # more than the probability that two pairs of independent numbers agree to so many bits
JOINED = ("normal", "laplace", "exponential")  # the scale describes the numbers of these laws completely


def joined(parts: Sequence[tuple[Origin | None, NDArray[Any]]], join: Callable[[list[NDArray[Any]]], Any]) -> Origin | None:
    """The origin of noise that is joined from several arrays. parts: the origin of each array, and its numbers. join: joins
    arrays in this way. None if a part is neither noise nor 0 at all entries, and if the parts have several laws or shifts.
    """
    known = [origin for origin, _ in parts if origin is not None]
    if not known or any(origin is None and np.any(numbers) for origin, numbers in parts):
        return None
    first, draws = known[0], {id(draw): draw for origin in known for draw in origin.draws}
    same = all((o.law, o.shift) == (first.law, first.shift) for o in known) and not any(o.noisy for o in known)
    if not same or (len(draws) > 1 and first.law not in JOINED) or (first.shift and len(known) < len(parts)):
        return None
    if _overlap([(o, numbers) for o, numbers in parts if o is not None]):
        return None
    sizes = {id(origin.draw): origin.count for origin in known}
    if len(known) == len(parts) and all(np.ndim(o.scale) == 0 and o.scale == first.scale for o in known):
        scale = first.scale
    else:
        scale = join([np.broadcast_to(0.0 if o is None else o.scale, n.shape).astype(np.float64) for o, n in parts])
    others = tuple(draw for draw in draws.values() if draw is not first.draw)
    drawn, law = sum(sizes.values()), "" if first.law == first.draw.law else first.law
    return replace(first, scale=scale, beside=others, bits=min(o.bits for o in known), drawn=drawn, computed=law, seen=None)


def _overlap(parts: Sequence[tuple[Origin, NDArray[Any]]]) -> bool:
    """Whether two different arrays have noise numbers in common, such as rows that are taken twice, or rows of generators with
    one seed. Arrays that are all the same are told apart from others later, see `repeated`.
    """
    arrays = []
    for origin, numbers in parts:
        scale = np.broadcast_to(origin.scale, numbers.shape).astype(np.float64)
        arrays.append(np.divide(np.abs(numbers - origin.shift), scale, out=np.zeros(numbers.shape), where=scale > 0))
    if len(arrays) < 2 or all(np.array_equal(each, arrays[0]) for each in arrays):
        return False
    names = np.concatenate([_names(units) for units in arrays])
    return bool(names.size - np.unique(names).size > names.size**2 * BY_CHANCE)


def _names(units: NDArray[np.float64]) -> NDArray[np.complex128]:
    """A name for each pair of neighbours in an array of different numbers, or for its only number."""
    mantissas, powers = np.frexp(units)
    rounded = np.ldexp(np.round(mantissas * 2.0**DIGITS) / 2.0**DIGITS, powers)
    if units.size == 1:
        return units.ravel().astype(np.complex128)
    pairs = [
        np.take(rounded, range(n - 1), axis) + 1j * np.take(rounded, range(1, n), axis) for axis, n in enumerate(units.shape)
    ]
    both = np.concatenate([each.ravel() for each in pairs])
    return both[(both.real != 0) & (both.imag != 0)]


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
