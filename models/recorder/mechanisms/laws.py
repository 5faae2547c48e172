"""Laws of whole numbers that a program computes from drawn numbers: products of two draws, and sums with data modulo a number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import FEW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw

    Law = tuple[tuple[float, ...], NDArray[np.float64]]  # the values of an entry and their probabilities, shape (..., values)

LARGEST = 2**20  # data with larger whole numbers are not followed


def apart(draws: Sequence[Draw]) -> bool:
    """Whether all draws are different ones with different numbers. Two generators with one seed draw the same numbers."""
    pairs = list(combinations(draws, 2))
    return not any(one is other or np.array_equal(one.values, other.values) for one, other in pairs if one.values.size > 1)


def product(one: Law, other: Law) -> Law:
    """The law of a product of two independent numbers."""
    found: dict[float, Any] = {}
    for at, x in enumerate(one[0]):
        for and_at, y in enumerate(other[0]):
            found[x * y] = found.get(x * y, 0.0) + one[1][..., at] * other[1][..., and_at]
    values = tuple(sorted(found))
    return values, np.stack([found[value] for value in values], axis=-1)


def exact(data: NDArray[Any], law: Law, result: NDArray[Any]) -> bool:
    """Whether data are whole numbers, and their sums and differences with numbers of this law fit into the type of `result`."""
    if (
        data.dtype.kind not in "biuf"
        or result.dtype.kind not in "iuf"
        or np.broadcast_shapes(data.shape, result.shape) != result.shape
    ):
        return False
    if not data.size or not np.all(np.isfinite(data)) or np.any(data % 1) or any(value % 1 for value in law[0]):
        return False
    most = float(np.abs(data.astype(np.float64)).max()) + max(map(abs, law[0]))
    if result.dtype.kind == "f":
        return most < min(LARGEST, 2.0 ** np.finfo(result.dtype).nmant)
    return result.dtype.kind == "i" and most < min(LARGEST, np.iinfo(result.dtype).max)


def residues(law: Law, data: NDArray[np.float64], sign: int, modulus: int) -> Law:
    """The law of (data + sign * a number of `law`) modulo `modulus`, which has one row for each entry of the data."""
    chances = np.zeros((data.size, modulus))
    for value, chance in zip(law[0], law[1]):  # noqa: B905  (Python 3.9)
        places = np.remainder(data.ravel() + sign * value, modulus).astype(np.int64)
        chances[np.arange(data.size), places] += chance
    return tuple(map(float, range(modulus))), chances.reshape(*data.shape, modulus)


def modulus_of(number: Any) -> int | None:
    """A whole number from 2 to FEW; None for anything else."""
    found = float(np.ravel(number)[0]) if np.size(number) == 1 else 0.0
    return int(found) if 2 <= found <= FEW and found % 1 == 0 else None
