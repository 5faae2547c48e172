"""Follows noise that a program draws one number at a time, as `random.gauss` does, and gathers into an array from lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import Active, guarded
from .noise import followed
from .single import is_single, noise_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def gathering(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function `numpy.array` or `numpy.asarray`, which also follows drawn numbers in lists."""

    def array(*args: Any, **options: Any) -> Any:
        result = plain(*args, **options)
        if Active.recorder is None or not args or type(args[0]) not in (list, tuple):
            return result
        return guarded(lambda: gathered(args[0], result), result)

    return array


def gathered(numbers: Any, result: NDArray[Any]) -> Any:
    """`result`, the array of lists of numbers, as noise if every number is a different drawn one of one law. Else `result`
    itself.
    """
    first = next(_leaves(numbers), None)
    origin = noise_of(first)
    if origin is None or result.dtype.kind != "f":
        return result
    leaves = list(_leaves(numbers))
    for leaf in leaves:
        if is_single(leaf):
            leaf.used = True
    origins = [each for each in map(noise_of, leaves) if each is not None]
    draws = [origin.draw for origin in origins]
    if not len(leaves) == len(draws) == len(set(map(id, draws))) == result.size or len({o.law for o in origins}) > 1:
        return result
    scales, shifts = (np.array([getattr(origin, name) for origin in origins]) for name in ("scale", "shift"))
    if np.ptp(shifts) > 0:
        return result
    scale = float(scales[0]) if np.ptp(scales) == 0 else scales.reshape(result.shape)
    beside = tuple(draw for origin in origins for draw in origin.draws)[1:]
    return followed(result, replace(origin, scale=scale, beside=beside, gathered=True, shift=float(shifts[0])))


def _leaves(numbers: Any) -> Iterator[Any]:
    """The numbers of nested lists, in order."""
    for each in numbers:
        if isinstance(each, (list, tuple)):
            yield from _leaves(each)
        else:
            yield each
