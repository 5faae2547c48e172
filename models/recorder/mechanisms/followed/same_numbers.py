"""What noise numbers show by themselves: how many significant bits they have, and which entries have the same number."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .origin import DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .origin import Origin

COARSE = 20  # noise with more significant bits counts as fine; float32 has 24
SURE = 30  # what independent numbers show by chance with a probability up to 2^-SURE counts as no chance
LOST = 4  # bits that the rounding errors of scaling may change
FEW = 4096  # numbers that are looked at before all others
PAIRS = 2**14  # pairs of close numbers that chance may make; where it would make more, a sample of the numbers is compared
GENERATOR = np.random.Generator  # NumPy's own: a recording replaces the name in NumPy


def bits_of(numbers: NDArray[Any]) -> int:
    """The significant bits of the longest of these numbers; those of their type if so few numbers may be short by chance."""
    most, flat = min(DOUBLE, np.finfo(numbers.dtype).nmant + 1), np.ravel(numbers)
    if _longest(flat[:FEW], most) == most or (found := _longest(flat, most)) == most:
        return most
    return found if np.count_nonzero(flat) * (most - found) >= SURE else most


def _longest(numbers: NDArray[Any], most: int) -> int:
    """The significant bits of the longest of these numbers; `most` if all are 0."""
    mantissas = (np.frexp(np.asarray(numbers, dtype=np.float64))[0] * 2.0**DOUBLE).astype(np.int64)
    mantissas = mantissas[mantissas != 0]
    return DOUBLE - int(np.log2((mantissas & -mantissas).min())) if mantissas.size else most


def coarse(origin: Origin) -> bool:
    """Whether the noise has few bits. If its sum with data has more, the last bits of the sum are those of the data. If the sum
    has as few, as in a model of float16 alone, its grid near 0 is that of noise as large as the data (Mironov 2012): of releases
    of a count of 0 with normal float16 noise of scale 6, the count 1 cannot give 14 %.
    """
    return origin.bits <= COARSE


def repeated(origin: Origin, noise: NDArray[Any], shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool, bool]:
    """Three results for noise that is broadcast to this shape. First: the axes along which all entries have the same number.
    Second: whether the entries (i, j) and (j, i) of a square table have the same number. Third: whether entries share numbers in
    another way, perhaps with opposite signs.

    Entries count as sharing if they have more equal numbers than independent draws have by chance.
    """
    units = np.broadcast_to(noise, shape)
    if np.ndim(origin.scale) and np.ptp(origin.scale):
        scale = np.broadcast_to(origin.scale, shape)
        units = np.divide(units, scale, out=np.zeros(shape), where=scale > 0)
    near, more = 2.0 ** (LOST - origin.bits), units.size > origin.count
    axes = tuple(axis for axis in range(units.ndim) if _constant(units, axis, near, more))
    mirrored = not axes and units.ndim == 2 and _symmetric(units, near)
    first = (
        np.triu(units) if mirrored else units[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(units.ndim))]
    )
    numbers = first[first != 0]
    many, most = numbers.size > origin.count, int(math.sqrt(2 * PAIRS / near))
    some = numbers if numbers.size <= most else numbers[_sample(numbers.size, most)]
    return axes, mirrored, many or _many_close(np.sort(np.abs(some.astype(np.float64))), near)


def _many_close(sizes: NDArray[np.float64], near: float) -> bool:
    """Whether more pairs of these sorted sizes are close, up to a relative difference `near`, than independent numbers show by
    chance with a probability of 2^-SURE.
    """
    by_chance = 0.5 * sizes.size**2 * near  # at least the expected number of pairs, for each law that is followed
    most, pairs = sizes * (1 + near), 0
    for apart in range(1, sizes.size):
        close = int(np.count_nonzero(sizes[apart:] <= most[:-apart]))
        pairs += close
        if unlikely(pairs, by_chance) > SURE * math.log(2):
            return True
        if not close:
            break
    return False


def unlikely(found: int, by_chance: float) -> float:
    """How improbable it is that chance makes so many pairs, in nats: minus the logarithm of Chernoff's bound on the probability
    of at least `found` independent pairs, of which at most `by_chance` (above 0) are expected; 0 if they are no more.
    """
    return found * (math.log(found / by_chance) - 1) + by_chance if found > by_chance else 0.0


@lru_cache(4)
def _sample(size: int, count: int) -> NDArray[np.int64]:
    """So many different places of `size`, always the same ones."""
    return GENERATOR(np.random.PCG64(0)).choice(size, count, replace=False, shuffle=False)


def _symmetric(units: NDArray[Any], near: float) -> bool:
    """Whether a square table has the same numbers above and below its diagonal, perhaps except for a relative error `near`."""
    if units.shape[0] != units.shape[1] or _apart(units[0], units[:, 0], near):
        return False
    enough = -math.log2(near) * int(np.count_nonzero(np.triu(units, 1))) >= SURE
    return enough and not _apart(units, units.T, near)


def _apart(some: NDArray[Any], others: NDArray[Any], near: float) -> bool:
    """Whether a number differs from its counterpart by more than a relative difference `near`."""
    first, second = some.astype(np.float64), others.astype(np.float64)
    return bool(np.any(np.abs(first - second) > near * np.abs(first)))


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


def _constant(units: NDArray[Any], axis: int, near: float, more: bool) -> bool:
    """Whether all entries along an axis have the same number. near: the largest relative difference of equal numbers. more:
    whether there are more entries than drawn numbers, so that equal numbers need no further evidence.
    """
    if units.shape[axis] < 2 or _apart(first := np.take(units, 0, axis), np.take(units, 1, axis), near):
        return False
    evidence = np.count_nonzero(first) * (units.shape[axis] - 1) * -math.log2(near)
    enough = evidence >= SURE or (more and evidence > 0)
    return enough and not _apart(np.broadcast_to(np.expand_dims(first, axis), units.shape), units, near)
