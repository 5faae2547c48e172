"""What noise numbers show by themselves: how many significant bits they have, and which entries have the same number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .origin import DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Origin

COARSE = 20  # noise with more significant bits counts as fine; float32 has 24
SURE = 30  # what independent numbers show by chance with a probability up to 2^-SURE counts as no chance
LOST = 4  # bits that the rounding errors of scaling may change


def bits_of(numbers: NDArray[Any]) -> int:
    """The significant bits of the longest of these numbers; those of their type if so few numbers may be short by chance."""
    most = min(DOUBLE, np.finfo(numbers.dtype).nmant + 1)
    mantissas = (np.frexp(np.asarray(numbers, dtype=np.float64))[0] * 2.0**DOUBLE).astype(np.int64)
    mantissas = mantissas[mantissas != 0]
    if not mantissas.size:
        return most
    found = DOUBLE - int(np.log2((mantissas & -mantissas).min()))
    return found if mantissas.size * (most - found) >= SURE else most


def coarse(origin: Origin, noisy: NDArray[Any]) -> bool:
    """Whether the noise has few bits and its sum with data has more. The last bits of the sum are then those of the data.

    If the sum has as few bits as the noise, as in a model of float16 alone, it is rounded after the noise was added. Then the
    data do not show in the bits that the noise lacks, and the sum is like one of float32 noise and float32 data.
    """
    return origin.bits <= COARSE and origin.bits < min(DOUBLE, np.finfo(noisy.dtype).nmant + 1)


def repeated(origin: Origin, noise: NDArray[Any], shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool, bool]:
    """Three results for noise that is broadcast to this shape. First: the axes along which all entries have the same number.
    Second: whether the entries (i, j) and (j, i) of a square table have the same number. Third: whether entries share numbers in
    another way, perhaps with opposite signs.

    Entries count as sharing if they have more equal numbers than independent draws have by chance.
    """
    numbers = np.broadcast_to(noise, shape).astype(np.float64)
    scale = np.broadcast_to(origin.scale, shape)
    units = np.divide(numbers, scale, out=np.zeros(shape), where=scale > 0)
    near, more = 2.0 ** (LOST - origin.bits), units.size > origin.count
    axes = tuple(axis for axis in range(units.ndim) if _constant(units, axis, near, more))
    mirrored = not axes and units.ndim == 2 and _symmetric(units, near)
    first = (
        np.triu(units) if mirrored else units[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(units.ndim))]
    )
    sizes = np.sort(np.abs(first[first != 0]))
    pairs = int((np.searchsorted(sizes, sizes * (1 + near), "right") - np.arange(1, sizes.size + 1)).sum())
    by_chance = 0.5 * sizes.size**2 * near  # at least the expected number of pairs, for each law that is followed
    chance = by_chance - pairs * (1 + math.log(by_chance / pairs)) if pairs > by_chance > 0 else 0.0
    return axes, mirrored, sizes.size > origin.count or chance > SURE * math.log(2)


def _symmetric(units: NDArray[np.float64], near: float) -> bool:
    """Whether a square table has the same numbers above and below its diagonal, perhaps except for a relative error `near`."""
    if units.shape[0] != units.shape[1] or -math.log2(near) * np.count_nonzero(np.triu(units, 1)) < SURE:
        return False
    return bool(np.all(np.abs(units - units.T) <= near * np.abs(units)))


def of_mirrored(one: Origin, other: Origin) -> NDArray[np.float64] | None:
    """The scale of the sum of a square table of noise and the same table transposed, both with their numbers in `seen`. None for
    all other noise, and if two numbers other than normal ones are added.

    Either table may lack its diagonal, and each entry of the sum has one number (the tables are triangles) or two independent
    ones. On the diagonal a number is added to itself.
    """
    first, turned = (np.asarray(o.seen, dtype=np.float64) for o in (one, other))
    if first.shape != turned.shape[::-1] or first.ndim != 2 or first.shape[0] != first.shape[1]:
        return None
    away = ~np.eye(len(first), dtype=bool)
    alike = np.array_equal(first[away], turned.T[away]) and {id(d) for d in one.draws} == {id(d) for d in other.draws}
    scales = [np.where(n != 0, np.broadcast_to(o.scale, n.shape), 0.0) for o, n in ((one, first), (other, turned))]
    twice = bool(np.any(away & (first != 0) & (turned != 0)))
    sums = one.law == "normal" or not twice
    if not alike or not sums or any(np.any(o.shift) for o in (one, other)) or any(map(any_repeated, (one, other))):
        return None
    diagonal = np.abs(scales[0] * np.sign(first) + scales[1] * np.sign(turned))
    return np.where(away, np.hypot(*scales), diagonal)


def any_repeated(origin: Origin) -> bool:
    """Whether entries of noise share numbers in any way."""
    return origin.seen is None or any(repeated(origin, origin.seen, origin.seen.shape))


def _constant(units: NDArray[np.float64], axis: int, near: float, more: bool) -> bool:
    """Whether all entries along an axis have the same number. near: the largest relative difference of equal numbers. more:
    whether there are more entries than drawn numbers, so that equal numbers need no further evidence.
    """
    rows = np.count_nonzero(np.take(units, 0, axis)) if units.shape[axis] > 1 else 0
    evidence = rows * (units.shape[axis] - 1) * -math.log2(near)
    apart = np.ptp(units, axis=axis) > near * np.abs(units).max(axis=axis) if evidence else np.array(True)
    return (evidence >= SURE or (more and evidence > 0)) and not apart.any()
