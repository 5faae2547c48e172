"""Follows geometric numbers of NumPy to the whole numbers to which the program adds the difference of two draws.

The difference of two independent geometric draws with one probability p is two-sided geometric noise: it is k with a probability
proportional to (1 - p)^|k| (Ghosh, Roughgarden and Sundararajan 2009). Only arrays are followed, each noise number to one whole
number. After any other operation the numbers are plain ones, which the audit takes for draws that were not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws.draw import guarded, without
from ..draws.results import digest
from .laws import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..draws.draw import Draw
    from .followed.origin import Recorder


@dataclass(frozen=True, eq=False)
class Known:
    """The draws of an array of whole numbers: a geometric draw, or the two of which it is the difference. rate: each step away
    from 0 divides the probability of a number by exp(rate). seen: a digest of the numbers.
    """

    mechanisms: Recorder
    draws: tuple[Draw, ...]
    rate: float
    seen: int | None


class Whole(np.ndarray):
    """An array of geometric numbers, or of differences of two. known: its draws; None if it holds other numbers."""

    known: Known | None

    def __array_finalize__(self, source: Any) -> None:
        self.known = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given, out = [_plain(i) for i in inputs], options.get("out", ())
        simple = ufunc in (np.add, np.subtract) and method == "__call__" and not options.keys() - {"out"} and len(out) < 2
        before = guarded(lambda: _before(ufunc, inputs, given)) if simple else None
        named = {name: without(Whole, value, _plain) for name, value in options.items()}
        result = getattr(ufunc, method)(*given, **named)
        if before is None or not isinstance(result, np.ndarray):
            return out[0] if len(out) == 1 else result
        return guarded(lambda: _after(before, result, out[0] if out else result), out[0] if out else result)

    def astype(self, *args: Any, **options: Any) -> Any:
        return _same(self, super().astype(*args, **options))

    def copy(self, *args: Any, **options: Any) -> Any:
        return _same(self, super().copy(*args, **options))


def whole(mechanisms: Recorder, value: Any, draw: Draw) -> Any:
    """An array of geometric numbers of one probability, as `Whole`; None for all other draws."""
    chance = float(draw.parameters[0]) if draw.law == "geometric" and draw.parameters and draw.parameters[0].size == 1 else 0.0
    if type(value) is not np.ndarray or value.ndim == 0 or not 0 < chance < 1 or not draw.state:
        return None
    return _followed(value, Known(mechanisms, (draw,), -float(np.log1p(-chance)), None))


def _before(ufunc: Any, inputs: Sequence[Any], given: Sequence[Any]) -> tuple[Known, Any] | None:
    """What an operation gives: noise, as its draws and None, or a sum of noise and data, as the draws of the noise and the data;
    None if it is neither.
    """
    known = [_of(i) for i in inputs]
    one, other = known
    if one is not None and other is not None:
        both = (*one.draws, *other.draws)
        # two generators with one seed draw the same numbers, and then have the same state
        apart = len(both) == 2 and both[0].state != both[1].state and np.shape(given[0]) == np.shape(given[1])
        return (
            (Known(one.mechanisms, both, one.rate, None), None)
            if ufunc is np.subtract and apart and one.rate == other.rate
            else None
        )
    noise = one or other
    at = int(one is None)
    data = np.asarray(given[1 - at])
    if noise is None or len(noise.draws) < 2 or data.dtype.kind not in "biuf":
        return None
    if np.broadcast_shapes(data.shape, np.shape(given[at])) != np.shape(given[at]) or not _whole(data):
        return None
    clean = -data.astype(np.float64) if ufunc is np.subtract and at == 0 else data.astype(np.float64)
    return noise, np.broadcast_to(clean, np.shape(given[at])).copy()


def _after(before: tuple[Known, Any], result: NDArray[Any], given: Any) -> Any:
    """What the program gets for the result of an operation: noise, a recorded noisy value, or the plain result `given`."""
    known, clean = before
    if clean is None:
        return _followed(result, known) if given is result else given
    most = 2.0 ** np.finfo(result.dtype).nmant if result.dtype.kind == "f" else LARGEST
    if result.dtype.kind not in "if" or result.itemsize < 4 or np.abs(result).max(initial=0) >= min(most, LARGEST):
        return given
    known.mechanisms.whole_added(known.draws, 1 / known.rate, clean, result)
    return given


def _whole(data: NDArray[Any]) -> bool:
    """Whether these are whole numbers that are not too large."""
    numbers = data.astype(np.float64)
    return bool(np.all(np.isfinite(numbers)) and np.all(np.abs(numbers) < LARGEST) and np.all(numbers % 1 == 0))


def _of(value: Any) -> Known | None:
    """The draws of an array; None if the program has written into it."""
    known = value.known if isinstance(value, Whole) else None
    return known if known is not None and known.seen == digest(_plain(value)) else None


def _followed(numbers: NDArray[Any], known: Known) -> Any:
    array: Any = numbers.view(Whole)
    array.known = Known(known.mechanisms, known.draws, known.rate, digest(numbers))
    return array


def _same(array: Whole, result: Any) -> Any:
    """`result`, a copy of an array, with the same draws if it holds the same numbers."""

    def copied() -> Any:
        known = _of(array)
        return _followed(_plain(result), known) if known is not None and np.array_equal(_plain(result), _plain(array)) else result

    return guarded(copied, result)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Whole) else value
