"""Follows noise that a program draws one number at a time, as `random.gauss` does, and gathers into an array from lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import Active, guarded
from .noise import followed
from .origin import Origin

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Single(float):
    """One drawn number that has not been added to data yet. origin: of the number."""

    origin: Origin

    def __neg__(self) -> float:
        return _scaled(self, -1.0, -float(self))

    def __mul__(self, other: Any) -> Any:
        return _scaled(self, other, float.__mul__(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        result = float.__truediv__(self, other)
        return result if result is NotImplemented else _scaled(self, 1.0 / other, result)

    def __reduce__(self) -> Any:
        return float, (float(self),)


def single(value: float, origin: Origin) -> Single:
    followed = Single(value)
    followed.origin = origin
    return followed


def _scaled(one: Single, factor: Any, result: Any) -> Any:
    """The product of a drawn number and `factor`, as a drawn number if the factor is a number."""
    if result is NotImplemented or isinstance(factor, Single) or not factor:
        return result
    origin = one.origin
    return single(result, replace(origin, scale=origin.scale * abs(factor), shift=origin.shift * factor))


def gathering(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function `numpy.array` or `numpy.asarray`, which also follows drawn numbers in lists."""

    def array(*args: Any, **options: Any) -> Any:
        result = plain(*args, **options)
        if Active.recorder is None or not args or type(args[0]) not in (list, tuple):
            return result
        return guarded(lambda: gathered(args[0], result), result)

    return array


def gathered(numbers: Any, result: NDArray[Any]) -> Any:
    """`result`, the array of lists of numbers: as noise if every number is a different drawn one of one law, or as a mechanism if
    their locations are data. Else `result` itself.
    """
    first = next(_leaves(numbers), None)
    if not isinstance(first, Single) or result.dtype.kind != "f":
        return result
    leaves = list(_leaves(numbers))
    draws = [leaf.origin.draw for leaf in leaves if isinstance(leaf, Single)]
    if not len(leaves) == len(draws) == len(set(map(id, draws))) == result.size or len({d.law for d in draws}) > 1:
        return result
    scales, shifts = (np.array([getattr(leaf.origin, name) for leaf in leaves]) for name in ("scale", "shift"))
    scale = float(scales[0]) if np.ptp(scales) == 0 else scales.reshape(result.shape)
    origin = replace(first.origin, scale=scale, beside=tuple(draws[1:]), gathered=True)
    if np.ptp(shifts) > 0:
        return origin.mechanisms.noise_added(replace(origin, shift=0.0), shifts.reshape(result.shape).astype(np.float64), result)
    return followed(result, replace(origin, shift=float(shifts[0])))


def _leaves(numbers: Any) -> Iterator[Any]:
    """The numbers of nested lists, in order."""
    for each in numbers:
        if isinstance(each, (list, tuple)):
            yield from _leaves(each)
        else:
            yield each
