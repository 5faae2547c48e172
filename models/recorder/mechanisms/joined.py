"""Noise that a program joins from several arrays, as `np.concatenate`, `torch.stack` and lists of arrays do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
