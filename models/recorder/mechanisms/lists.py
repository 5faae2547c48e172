"""Follows noise that a program gathers into an array from lists: numbers that are drawn one at a time, as by `random.gauss`, and
arrays. Follows noise also through the functions of NumPy that copy an array or a tensor, such as `numpy.asarray`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import Active, guarded, of_others
from .followed.joined import joined
from .followed.noise import Noise, followed, mark, origin_of, plain
from .followed.origin import DOUBLE
from .followed.single import is_single, noise_of
from .reports import ROUNDED, Drawn, coins_of, drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .followed.origin import Origin


DIGITS = 12  # numbers of one draw that agree to so many digits are the same


@cache
def gathering(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function such as `numpy.array`, which also follows drawn numbers in lists, and in arrays and tensors if the program
    itself calls it: libraries get plain arrays.
    """

    def array(*args: Any, **options: Any) -> Any:
        if Active.recorder is None or not args or type(args[0]) is np.ndarray:
            return original(*args, **options)
        first = args[0]
        tensor = hasattr(first, "detach")
        # of a tensor its array, because NumPy warns of tensors: their `__array__` takes no `copy`
        result = original(first.__array__() if tensor else first, *args[1:], **options)
        if type(first) in (list, tuple):
            return guarded(lambda: gathered(first, result), result)
        if (
            not (tensor or isinstance(first, (Noise, Drawn)))
            or type(result) is not np.ndarray
            or of_others(sys._getframe(1).f_code.co_filename)
        ):
            return result
        return guarded(lambda: copied(first.numpy() if tensor else first, result), result)

    return array


@cache
def preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function such as `numpy.zeros`, into whose arrays the program may write noise. Libraries get plain arrays."""

    def prepared(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        if Active.recorder is None or Active.recorder.follow is None or type(result) is not np.ndarray:
            return result
        may_hold = result.ndim and result.dtype.kind == "f" and not of_others(sys._getframe(1).f_code.co_filename)
        return result.view(Noise) if may_hold else result

    return prepared


@cache
def iterating(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function `numpy.fromiter`, which also follows drawn numbers."""

    def fromiter(numbers: Any, *args: Any, **options: Any) -> Any:
        if Active.recorder is None:
            return original(numbers, *args, **options)
        given: list[Any] = []

        def noted() -> Iterator[Any]:
            for each in numbers:
                given.append(each)
                yield each

        result = original(noted(), *args, **options)
        return guarded(lambda: gathered(given[: len(result)], result), result)

    return fromiter


def copied(source: Any, result: NDArray[Any]) -> Any:
    """`result`, a copy of an array that may have another type, as noise or coins if `source` is. Else `result` itself."""
    numbers = np.asarray(source)
    if result.shape != numbers.shape:
        return result
    if isinstance(source, Drawn):
        coins = coins_of(source, numbers)
        same = coins is not None and np.allclose(result, numbers, rtol=ROUNDED, atol=0)
        return drawn(result, coins) if coins is not None and same else result
    origin = origin_of(source) if result.dtype.kind == "f" else None
    if origin is None or not np.array_equal(numbers.astype(result.dtype), result):
        return result
    mark(source)
    return followed(result, origin)


def gathered(numbers: Any, result: NDArray[Any]) -> Any:
    """`result`, the array of lists, as noise if the lists hold noise. Else `result` itself."""
    origin = of_lists(numbers, result) if begins_with_noise(numbers) else None
    return result if origin is None or type(result) is not np.ndarray else followed(result, origin)


def begins_with_noise(numbers: Any) -> bool:
    """Whether the first entry of nested lists is noise, or an array of noise."""
    first = next(_leaves(numbers), None)
    return isinstance(first, Noise) or noise_of(first) is not None


def of_lists(numbers: Any, result: NDArray[Any]) -> Origin | None:
    """The origin of the array `result` of lists, if these hold arrays of noise, or different drawn numbers of one law; else
    None.
    """
    first = next(_leaves(numbers), None)
    if isinstance(first, Noise):
        return _of_arrays(numbers, result)
    origin = noise_of(first)
    if origin is None or result.dtype.kind != "f":
        return None
    leaves = list(_leaves(numbers))
    for leaf in leaves:
        if is_single(leaf):
            leaf.used = True
    origins = [each for each in map(noise_of, leaves) if each is not None]
    draws = {id(draw): draw for origin in origins for draw in origin.draws}
    if not len(leaves) == len(origins) == result.size or len({o.law for o in origins}) > 1 or not _apart(leaves, origins):
        return None
    scales, shifts = (np.array([getattr(origin, name) for origin in origins]) for name in ("scale", "shift"))
    if np.ptp(shifts) > 0:
        return None
    scale = float(scales[0]) if np.ptp(scales) == 0 else scales.reshape(result.shape)
    beside = tuple(draw for draw in draws.values() if draw is not origin.draw)
    bits = min(each.bits for each in origins)
    return replace(origin, scale=scale, beside=beside, bits=bits, drawn=result.size, shift=float(shifts[0]))


def _apart(numbers: Sequence[Any], origins: Sequence[Origin]) -> bool:
    """Whether numbers are different drawn ones, not multiples of each other. Numbers of few bits may agree by chance if each has
    a draw of its own, and numbers that are all the same are told apart from others later, see `repeated`.
    """
    units = [abs(float(number) - o.shift) / o.scale for number, o in zip(numbers, origins)]  # noqa: B905  (Python 3.9)
    names = {f"{unit:.{DIGITS}g}" for unit in units}
    alone = len({id(origin.draw) for origin in origins}) == len(numbers)
    return len(names) == len(numbers) or (alone and (len(names) == 1 or any(o.bits < DOUBLE for o in origins)))


def _of_arrays(arrays: Any, result: NDArray[Any]) -> Origin | None:
    """As `of_lists`, for a list of arrays that are the rows of `result`."""
    rows = [each for each in arrays if isinstance(each, np.ndarray)]
    stacked = len(rows) == len(arrays) and {each.shape for each in rows} == {result.shape[1:]}
    if not stacked or not np.array_equal(np.stack([plain(row) for row in rows]).astype(result.dtype), result):
        return None
    return joined([(origin_of(row), plain(row)) for row in rows], np.stack)


def _leaves(numbers: Any) -> Iterator[Any]:
    """The numbers of nested lists, in order."""
    for each in numbers:
        if isinstance(each, (list, tuple)):
            yield from _leaves(each)
        else:
            yield each
