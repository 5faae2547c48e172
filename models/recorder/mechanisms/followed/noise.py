"""Follows drawn NumPy numbers through scaling to the operation that adds them to data.

An array is followed only as long as its numbers are those that the recorder saw last: a program may write into an array, or into
another view of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...draws.draw import guarded, without
from .inverse import of_difference, of_logarithm
from .joined import Piece, assembled, joined, written_at
from .memory import place_of, remember, remembered
from .noisy_maximum import is_for_maximum, with_scores
from .origin import Origin
from .same_numbers import any_repeated, bits_of, of_mirrored
from .single import is_single, single

if TYPE_CHECKING:
    from numpy.typing import NDArray


SAME = 1e-5  # relative: two numbers of scale 1, each rounded to float32, agree so closely


class Noise(np.ndarray):
    """Drawn numbers that have not been added to data yet, or an empty array into which the program may write them. origin: None
    if the numbers are not known to be noise. pieces: the noise that the program has written into the array.
    """

    origin: Origin | None
    pieces: dict[Any, Piece] | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.origin = guarded(lambda: _inherited(self, source))
        if self.origin is not None:
            remember(self.origin.mechanisms.arrays, self)
        mark(source)

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        return value if isinstance(value, np.ndarray) else guarded(lambda: _number(self, key, value, value), value)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Python calls this after `noise[:] *= 2` with the changed array, whose origin is then that of the whole array."""
        super().__setitem__(key, value)
        if isinstance(value, Noise) and self.origin is not None and place_of(value) == place_of(self):
            self.origin = value.origin
        elif isinstance(value, Noise):
            guarded(lambda: _write(self, key, value))

    def item(self, *args: Any) -> Any:
        value = super().item(*args)
        return guarded(lambda: _number(self, *_place(self, args), value), value)

    def tolist(self) -> Any:
        return [each.item() if self.ndim == 1 else each.tolist() for each in self] if self.ndim else self.item()

    def copy(self, *args: Any, **options: Any) -> Any:
        return _same(self, super().copy(*args, **options))

    def astype(self, *args: Any, **options: Any) -> Any:
        return _same(self, super().astype(*args, **options))

    def transpose(self, *axes: Any) -> Any:
        return _same(self, super().transpose(*axes), lambda scale: scale.transpose(*axes))

    def swapaxes(self, one: Any, other: Any) -> Any:
        return _same(self, super().swapaxes(one, other), lambda scale: scale.swapaxes(one, other))

    @property
    def T(self) -> Any:
        return self.transpose()

    def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
        mark(self)
        result = super().__array_function__(func, types, args, options)
        if func is np.concatenate:
            return guarded(lambda: _concatenated(*args, **options, result=result), result)
        if func is np.copy and args and args[0] is self:
            return _same(self, result)
        if func is np.where and len(args) == 3 and isinstance(result, np.ndarray):
            return guarded(lambda: _chosen(args[1:], result), result)
        triangle = func in (np.triu, np.tril) and args and args[0] is self and self.ndim == 2
        return _same(self, result, shifted=False) if triangle else result

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out", ())
        if not out and method == "__call__" and any(hasattr(i, "detach") for i in inputs):
            return _with_tensors(ufunc, inputs, options)
        named = {name: without(Noise, value, plain) for name, value in options.items()}
        if not any(isinstance(i, Noise) and (i.origin or i.pieces) for i in inputs):  # another input may be a single number
            result = getattr(ufunc, method)(*(plain(i) if isinstance(i, Noise) else i for i in inputs), **named)
            return out[0] if len(out) == 1 else result
        before = guarded(lambda: _before(ufunc, method, inputs, options))
        result = getattr(ufunc, method)(*(plain(i) for i in inputs), **named)
        given = out[0] if out and len(out) == 1 else result
        if method == "at":
            result = plain(inputs[0])
        if before is None or not isinstance(result, np.ndarray) or result.dtype.kind != "f":
            return given
        return guarded(lambda: _after(inputs, out, before, result, given), given)


@dataclass(frozen=True, eq=False)
class Before:
    """What is known before an operation on noise. first: which input is noise. known: the origins of all inputs that are noise.
    clean: the data to which the operation adds noise, if it does so. noise: a copy of the noise that it adds. scaled: the scale,
    the shift and the computed law of the noise after an operation that keeps it noise. into: whether the operation adds into the
    array of the noise, which is its first input.
    """

    first: int
    known: list[Origin]
    clean: NDArray[np.float64] | None
    noise: NDArray[Any]
    scaled: tuple[Any, float, str] | None
    into: bool


def _before(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Before | None:
    """None if no input is noise, or if the operation has another form than one whose result is known, as with `where`."""
    adds, out = ufunc in (np.add, np.subtract), options.get("out", ())
    into = adds and (method == "at" or (method == "__call__" and len(out) == 1 and out[0] is inputs[0]))
    closely = [isinstance(value, Noise) and value.origin is not None and value.origin.mechanisms.closely for value in inputs]
    origins = [origin_of(value, adds and (closely[at] or (into and at == 0))) for at, value in enumerate(inputs)]
    for value in inputs[int(into) :]:
        mark(value)
    drawn = [origin for origin in origins if origin is not None and origin.at is None]
    known = drawn or [origin for origin in origins if origin is not None]
    if not known or options.get("where", True) is not True:
        return None
    first = origins.index(known[0])
    clean = _clean(ufunc, method, inputs, first, known[0]) if len(known) == 1 else None
    if clean is None and known[0].at is not None:
        return None
    noise = np.array(plain(inputs[first]) - known[0].shift)  # a copy, because an in-place sum overwrites the array
    if clean is not None and ufunc is np.subtract and (first == 1 or method == "at"):
        known = [turned for origin in known if (turned := origin.turned(-1)) is not None]
    scaled = _scaled(ufunc, method, inputs, first, known) if clean is None else None
    return Before(first, known, clean, noise, scaled, into and first == 0)


def _after(inputs: Sequence[Any], out: Sequence[Any], before: Before, result: NDArray[Any], given: Any) -> Any:
    """What the program gets for the result of an operation on noise: a recorded mechanism, noise, or the plain result `given`."""
    origin, clean = before.known[0], before.clean
    if clean is not None:
        if origin.at is not None and result.shape != before.noise.shape:
            return given
        wide, added = np.broadcast_to(clean, result.shape).copy(), dataclasses.replace(origin, seen=before.noise)
        if before.into:
            inputs[0].origin = origin.mechanisms.accumulate(added, wide, result)
            return given
        if is_for_maximum(origin) and not out:
            return with_scores(added, wide, result)
        if origin.mechanisms.closely:
            return _followed_on(added, wide, result, given)
        mechanism = origin.mechanisms.noise_added(added, wide, result)
        return out[0] if out else mechanism
    if before.scaled is None or result.shape != np.shape(inputs[before.first]):
        return given
    noise = out[0] if out and isinstance(out[0], Noise) else result
    beside = tuple(dict.fromkeys(draw for other in before.known for draw in other.draws))[1:]
    bits, drawn = max(o.bits for o in before.known), max(o.count for o in before.known)
    scale, shift, law = before.scaled
    own = Origin(origin.mechanisms, origin.draw, scale, beside, bits=bits, shift=shift, drawn=drawn, computed=law)
    return followed(noise, own)


def _followed_on(origin: Origin, clean: NDArray[np.float64], noisy: NDArray[Any], given: Any) -> Any:
    """The sum of data and noise that the program gets as `given`, as an array into which it may add further data. origin: of the
    noise.
    """
    more = origin.mechanisms.accumulate(origin, clean, noisy)
    if more is None:
        return given
    sums: Any = noisy.view(Noise)
    sums.origin = more
    return sums


def followed(numbers: Any, origin: Origin) -> Any:
    """The array as `Noise` of this origin."""
    noise: Any = numbers if isinstance(numbers, Noise) else numbers.view(Noise)
    noise.origin = now(origin, plain(noise))
    remember(origin.mechanisms.arrays, noise)
    return noise


def now(origin: Origin, numbers: NDArray[Any]) -> Origin:
    """The origin of noise that has these numbers now."""
    unshifted = numbers - origin.shift if np.any(origin.shift) else numbers
    return dataclasses.replace(origin, seen=numbers.copy(), bits=min(origin.bits, bits_of(unshifted)), read=False)


def origin_of(value: Any, begun: bool = False) -> Origin | None:
    """The origin of an array of noise; None for other values, and if the program has written numbers other than 0 into it. begun:
    whether data may have been added into the array.
    """
    if isinstance(value, Noise):
        assemble(value)
    origin = value.origin if isinstance(value, Noise) else None
    if origin is None or (origin.at is not None and (origin.read or not begun)):
        return None
    if untouched(origin, plain(value)):
        return origin
    return None if origin.at is not None else _of_the_same_memory(origin, value)


def _write(array: Noise, key: Any, noise: Noise) -> None:
    """Stores that the program has written noise into an array by `array[key] = noise`."""
    if (origin := origin_of(noise)) is None:
        return
    mark(noise)
    parts = array.pieces or {}
    if written_at(parts, plain(array), key, origin, noise.shape):
        array.pieces = parts
        remember(origin.mechanisms.arrays, array)


def assemble(array: Noise) -> None:
    """Follows an array into which the program has written noise piece by piece, if it is not followed as it is now."""
    if not array.pieces or (array.origin is not None and untouched(array.origin, plain(array))):
        return
    if (found := assembled(array.pieces.values(), plain(array))) is not None:
        followed(array, found)


def _of_the_same_memory(origin: Origin, value: Any) -> Origin | None:
    """The origin of an array of noise whose numbers the program has changed through another array with the same memory; None if
    that array is not followed.
    """
    for other in remembered(origin.mechanisms.arrays, plain(value)):
        now_known = other.origin if isinstance(other, Noise) and other is not value else None
        if now_known is not None and now_known.at is None and untouched(now_known, plain(value)):
            return now_known
    return None


def _chosen(sides: Sequence[Any], result: Any) -> Any:
    """`result` of `np.where`, as noise if it is one side without some of its entries."""
    known = [origin_of(side) for side in sides]
    origin = known[0] or known[1]
    return followed(plain(result), origin) if origin and None in known and untouched(origin, plain(result)) else result


def _concatenated(arrays: Sequence[Any], axis: Any = 0, out: Any = None, *, result: Any, **_: Any) -> Any:
    """`result`, the array that `np.concatenate` has made of arrays of which one or more are noise."""
    for each in arrays:
        mark(each)
    if out is not None or result.dtype.kind != "f":
        return result

    def join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(parts, axis)

    origin = joined([(origin_of(each), np.asarray(plain(each))) for each in arrays], join)
    return result if origin is None else followed(plain(result), origin)


def _with_tensors(ufunc: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The tensor that an operation on arrays of noise and tensors gives, computed with the arrays of these tensors."""
    arrays = [i.numpy() if hasattr(i, "detach") else i for i in inputs]
    result = ufunc(*arrays, **options)
    tensor = next(i for i in inputs if hasattr(i, "detach"))
    return tensor.__array_wrap__(np.asarray(result))


def mark(value: Any) -> None:
    """Stores that an operation reads an array of noise."""
    origin: Origin | None = getattr(value, "origin", None) if isinstance(value, Noise) else None
    if origin is not None:
        value.origin = dataclasses.replace(origin, read=True)


def untouched(origin: Origin, numbers: NDArray[Any]) -> bool:
    """Whether these are the numbers that were seen last, or 0 at some entries that were not shifted."""
    seen = origin.seen
    if seen is None or seen.shape != numbers.shape:
        return False
    return np.array_equal(seen if np.any(origin.shift) else np.where(numbers == 0, 0, seen), numbers)


def plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Noise) else value.plain() if is_single(value) else value


def _inherited(array: Any, source: Any) -> Origin | None:
    """The origin of an array that NumPy made from `source`; None if it is no view of noise."""
    if isinstance(source, Noise):
        assemble(source)
    origin = getattr(source, "origin", None)
    if origin is None or origin.at is not None or not _is_view(array, source, np.ndim(origin.scale) > 0):
        return None
    seen = _seen(array, source, origin)
    return dataclasses.replace(origin, seen=seen) if untouched(dataclasses.replace(origin, seen=seen), plain(array)) else None


def _seen(array: Any, source: Any, origin: Origin) -> NDArray[Any] | None:
    """A copy of the numbers that were seen last at the places of a view of noise; None if these places are not known, and if not
    all numbers of the noise are still those that were seen last.
    """
    if origin.seen is None or array.dtype != source.dtype:
        return None
    if not source.flags.c_contiguous:
        return plain(array).copy() if untouched(origin, plain(source)) else None
    first = array.__array_interface__["data"][0] - source.__array_interface__["data"][0]
    seen: NDArray[Any] = np.ndarray(array.shape, array.dtype, np.ascontiguousarray(origin.seen), first, array.strides)
    return seen.copy()


def _is_view(array: Any, source: Any, in_place: bool) -> bool:
    """Whether `array` shows numbers of `source`, each at one place or along a broadcast axis. in_place: whether all numbers must
    also keep their places.
    """
    if not np.may_share_memory(array, source):
        return False
    if in_place:
        return bool(array.__array_interface__ == source.__array_interface__)
    steps = [(size, abs(step)) for size, step in zip(array.shape, array.strides) if step and size > 1]  # noqa: B905  (Python 3.9)
    span = sum((size - 1) * step for size, step in steps) + array.itemsize
    return bool(np.prod([size for size, _ in steps], dtype=np.int64) * array.itemsize <= span)


def _place(noise: Noise, args: Sequence[Any]) -> tuple[Any, Any]:
    """The index and the number of the entry that `noise.item(*args)` returns."""
    place = args if len(args) > 1 else args[0] if args else 0
    key = place if isinstance(place, tuple) else np.unravel_index(place, noise.shape)
    return key, plain(noise)[key]


def _number(noise: Noise, key: Any, entry: Any, value: Any) -> Any:
    """The number `value` of one entry of noise, as a number that stores its draw. entry: the number in the array."""
    origin = noise.origin
    if origin is None or origin.seen is None or origin.seen.shape != noise.shape or origin.at is not None:
        mark(noise)
        return value
    scale = float(np.broadcast_to(origin.scale, noise.shape)[key])
    if origin.seen[key] != entry or not scale > 0:
        return value
    return single(value, dataclasses.replace(origin, scale=scale, seen=None, drawn=0))


def _same(noise: Noise, result: Any, turn: Callable[[NDArray[Any]], NDArray[Any]] | None = None, shifted: bool = True) -> Any:
    """A copy of noise as noise of the same origin. It is not followed if it holds no floating-point numbers. turn: gives the axes
    their other order. shifted: whether the copy may hold shifted noise.
    """

    def as_drawn() -> Any:
        origin = origin_of(noise)
        if origin is None or result.dtype.kind != "f" or (np.any(origin.shift) and not shifted):
            return plain(result)
        if turn is not None and np.ndim(origin.scale):
            origin = dataclasses.replace(origin, scale=turn(np.broadcast_to(origin.scale, noise.shape)))
        return followed(plain(result), origin)

    return guarded(as_drawn, plain(result))


def _clean(ufunc: Any, method: str, inputs: Sequence[Any], first: int, origin: Origin) -> NDArray[np.float64] | None:
    """A copy of the data to which an operation adds noise, made before an in-place sum overwrites them; None if the operation is
    no sum of data and noise. first: which input is the noise. origin: of the noise; its shift counts as data.
    """
    shift = origin.shift
    if method == "at" and first == 0 and ufunc in (np.add, np.subtract) and not origin.one_sided:
        into = np.array(np.broadcast_to(shift, np.shape(inputs[0])), dtype=np.float64)
        ufunc.at(into, inputs[1], plain(inputs[2]))
        return into
    if method != "__call__" or ufunc not in (np.add, np.subtract) or len(inputs) != 2:
        return None
    other = plain(inputs[1 - first])
    number = np.size(other) == 1 and np.size(inputs[first]) != 1 and origin.at is None
    if number or np.iscomplexobj(other) or origin.one_sided:
        return None
    data = np.array(other, dtype=np.float64)
    return np.asarray(ufunc(shift, data) if first == 0 else ufunc(data, shift))


def _scaled(ufunc: Any, method: str, inputs: Sequence[Any], first: int, known: Sequence[Origin]) -> tuple[Any, float, str] | None:
    """The scale, the shift and the computed law of the noise after a product with numbers, a sum with one number, a sum or
    difference of two independent draws whose law is known, or a sum with itself transposed; None after other operations. Noise
    that is 0 at some entries is not shifted, and shifted noise is multiplied by one number only: otherwise the entries without
    noise would not be known.
    """
    if not known or method != "__call__":
        return None
    scale, shift = known[0].scale, known[0].shift
    if len(known) == 2 and ufunc in (np.add, np.subtract):
        return scaled_together(ufunc, inputs, *known)
    if ufunc is np.log:
        return of_logarithm(known[0], plain(inputs[0]))
    law, opposite = known[0].computed, known[0].turned(-1)
    if ufunc is np.negative and opposite is not None:
        return scale, -shift, opposite.computed
    if len(known) != 1 or len(inputs) != 2:
        return None
    other = plain(inputs[1 - first])
    if np.iscomplexobj(other):
        return None
    number: Any = float(np.ravel(other)[0]) if np.size(other) == 1 else None
    if ufunc in (np.add, np.subtract):
        law = opposite.computed if ufunc is np.subtract and first == 1 and opposite is not None else law
        if not np.any(other):
            return scale, shift if first == 0 or ufunc is np.add else -shift, law
        if number is None or not np.isfinite(number) or not np.all(plain(inputs[first]) - shift):
            return None
        return scale, float(ufunc(shift, number) if first == 0 else ufunc(number, shift)), law
    if (shift and number is None) or not (ufunc is np.multiply or (ufunc is np.divide and first == 0)):
        return None
    return known[0].times(ufunc, other)


def scaled_together(ufunc: Any, inputs: Sequence[Any], one: Origin, other: Origin) -> tuple[Any, float, str] | None:
    """As `_scaled`, for a sum or difference of two arrays of noise. Generators with one seed draw the same numbers, whose sum has
    another scale.
    """
    if ufunc is np.add and (mirrored := of_mirrored(one, other)) is not None:
        return mirrored, 0.0, one.computed
    noises = [plain(i) - o.shift for o, i in zip((one, other), inputs)]  # noqa: B905  (Python 3.9)
    if noises[0].shape != noises[1].shape or {id(draw) for draw in one.draws} & {id(draw) for draw in other.draws}:
        return None
    if any(not np.all(n) or any_repeated(dataclasses.replace(o, seen=n)) for o, n in zip((one, other), noises)):  # noqa: B905
        return None
    first, second = (np.abs(n) / o.scale for o, n in zip((one, other), noises))  # noqa: B905  (Python 3.9)
    if np.allclose(first, second, rtol=SAME, atol=0):
        return None
    if one.law == other.law == "normal":
        return np.hypot(one.scale, other.scale), float(ufunc(one.shift, other.shift)), "normal"
    law = of_difference(one, other, noises) if ufunc is np.subtract else ""
    return (one.scale, 0.0, law) if law else None
