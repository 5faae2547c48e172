"""Follows one drawn number at a time, as `rng.laplace()` and `random.gauss()` return it, to the value that it is added to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...draws.draw import guarded, without
from .inverse import Computed, combined, of_difference

if TYPE_CHECKING:
    from typing import TypeGuard

    from .origin import Origin

OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
}
SUMS = (np.add, np.subtract)
# the methods of operators, by the name of the operator
FOLLOWED = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}
OTHERS = {"floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "divmod": divmod}
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Single:
    """One drawn number that has not been added to data yet: the methods of the classes of KINDS, which are subclasses of numbers.
    origin: of the number; None if the program has compared the number with another one, because a program that does so may keep
    or replace the number by its value. used: whether the number was in an operation. making: what the program has computed from
    a uniform number so far, if this is not noise yet.
    """

    origin: Origin | None
    used = False
    making: Computed | None = None

    def plain(self: Any) -> Any:
        """The number as the program without a recording has it."""
        return self.__class__.__base__(self)

    def item(self: Any, *args: Any) -> Any:
        value = self.__class__.__base__.item(self, *args)
        return value if self.origin is None else single(value, self.origin)

    def __neg__(self) -> Any:
        return _operation(np.multiply, self, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return made(np.abs, [self], abs(self.plain()))

    def _compared(self, other: Any, comparison: Callable[[Any, Any], Any]) -> Any:
        if self.origin is not None:
            self.origin.mechanisms.singles.pop(float(self.plain()), None)
        self.origin, making = None, self.making
        outcome = comparison(self.plain(), plain(other))
        if making is not None:  # a comparison with an array is no coin: all its entries share one number
            coin = isinstance(outcome, (bool, np.bool_)) and not is_single(other)
            self.making = guarded(lambda: making.compared(comparison, other, bool(outcome))) if coin else None
        return outcome

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __str__(self) -> str:
        return str(self.plain())

    def __reduce__(self) -> Any:
        return type(self.plain()), (float(self.plain()),)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        given = [plain(i) for i in inputs]
        out = options.get("out", ())
        before = [np.array(g) if any(g is o for o in out) else g for g in given]  # the operation overwrites these
        result = getattr(ufunc, method)(*given, **{name: without(SINGLE, value, plain) for name, value in options.items()})
        if method != "__call__" or options.keys() - {"out"}:
            return result
        if any(is_single(i) and i.making is not None for i in inputs):
            return made(ufunc, inputs, result)
        if len(given) != 2:
            return result
        some = [i if is_single(i) else b for i, b in zip(inputs, before)]  # noqa: B905  (Python 3.9)
        return guarded(lambda: _followed(ufunc, some, result), result)


def is_single(value: Any) -> TypeGuard[Single]:
    return isinstance(value, SINGLE)


def single(value: Any, origin: Origin) -> Any:
    """The number `value` as a `Single` of this origin; `value` itself if it is of another type."""
    kind = KINDS.get(type(value))
    if kind is None:
        return value
    followed = kind(value)
    followed.origin = origin
    if not origin.noisy:
        origin.mechanisms.singles[float(value)] = origin
    return followed


def in_the_making(value: Any, computed: Computed) -> Any:
    """The number `value`, from which the program may compute noise, as a `Single`; `value` itself if it is of another type."""
    kind = KINDS.get(type(value))
    if kind is None:
        return value
    followed = kind(value)
    followed.origin, followed.making = None, computed
    return followed


def made(operation: Callable[..., Any], inputs: Sequence[Any], result: Any) -> Any:
    """The result of an operation on numbers from which the program computes noise: noise if its law is known by now."""

    def followed() -> Any:
        both = combined(operation, [i.making if is_single(i) and i.making is not None else plain(i) for i in inputs])
        if both is None or type(result) not in KINDS:
            return result
        noise = both.noise
        return in_the_making(result, both) if noise is None else single(result, noise)

    return guarded(followed, result)


def noise_of(value: Any) -> Origin | None:
    """The origin of a single number that has not been added to data; None for all other values."""
    return value.origin if is_single(value) and value.origin is not None and not value.origin.noisy else None


def plain(value: Any) -> Any:
    return value.plain() if is_single(value) else value


def _operation(ufunc: Any, one: Any, other: Any) -> Any:
    """The result of a Python operator with a single number."""
    result = OPERATORS[ufunc](plain(one), plain(other))
    if any(is_single(i) and i.making is not None for i in (one, other)):
        return made(ufunc, (one, other), result)
    return guarded(lambda: _followed(ufunc, (one, other), result), result)


def _followed(ufunc: Any, inputs: Sequence[Any], result: Any) -> Any:
    """The result of an operation on single numbers: a recorded noisy value after a sum with data, a single number after a
    product with a number or a sum of two normal ones, else the plain result.
    """
    for each in inputs:
        if is_single(each):
            each.used = True
    noisy = [(at, _taken(i)) for at, i in enumerate(inputs) if is_single(i) and i.origin is not None and i.origin.noisy]
    known = [(at, origin) for at, i in enumerate(inputs) if (origin := noise_of(i)) is not None]
    if len(known) == 2:
        return _of_two(ufunc, known[0][1], known[1][1], [plain(i) for i in inputs], result)
    if len(noisy) == 1 and not known and ufunc in SUMS:
        return _extended(ufunc, inputs, *noisy[0], result)
    if not known or any(is_single(i) for at, i in enumerate(inputs) if at != known[0][0] and at not in dict(noisy)):
        return result
    (at, origin), other = known[0], plain(inputs[1 - known[0][0]])
    if ufunc in SUMS:
        return result if origin.one_sided else _added(ufunc, inputs, at, origin, result)
    factor = float(other) if isinstance(result, (float, np.floating)) else 0.0
    product = factor and np.isfinite(factor) and (ufunc is np.multiply or (ufunc is np.divide and at == 0))
    scaled = origin.times(ufunc, factor) if product else None
    if scaled is None:
        return result
    return single(result, replace(origin, scale=float(scaled[0]), shift=scaled[1], computed=scaled[2]))


def _taken(number: Any) -> Origin:
    """The origin of a noisy number in an operation, whose data are complete unless this operation adds more of them."""
    origin: Origin = number.origin
    number.origin = None
    return origin


def _extended(ufunc: Any, inputs: Sequence[Any], at: int, origin: Origin, result: Any) -> Any:
    """The result of a sum of a noisy number and further data. at: which term is the noisy number."""
    if not isinstance(result, (float, np.floating)) or is_single(inputs[1 - at]):
        return result
    terms = (float(origin.shift if k == at else term) for k, term in enumerate(inputs))
    return origin.mechanisms.number_extended(origin, OPERATORS[ufunc](*terms), result)


def _of_two(ufunc: Any, one: Origin, other: Origin, numbers: Sequence[Any], result: Any) -> Any:
    """The sum or difference of two numbers: again a number of known law if both are normal and independent, or if it is the
    difference of two exponential ones.
    """
    apart = not {id(draw) for draw in one.draws} & {id(draw) for draw in other.draws}
    if ufunc not in SUMS or not apart:
        return result
    both = replace(one, beside=(*one.beside, *other.draws), bits=max(one.bits, other.bits))
    if one.law == other.law == "normal":
        scale, shift = float(np.hypot(one.scale, other.scale)), OPERATORS[ufunc](one.shift, other.shift)
        return single(result, replace(both, scale=scale, shift=shift, computed="normal"))
    law = of_difference(one, other, numbers) if ufunc is np.subtract else ""
    return single(result, replace(both, computed=law)) if law else result


def _added(ufunc: Any, inputs: Sequence[Any], at: int, origin: Origin, result: Any) -> Any:
    """The result of a sum of a single number and data, recorded as a mechanism. at: which term is the number."""
    sign = -1.0 if ufunc is np.subtract and at == 1 else 1.0
    origin, noise = origin.turned(sign) or origin, sign * (float(inputs[at].plain()) - origin.shift)
    terms = [origin.shift if k == at else plain(i) for k, i in enumerate(inputs)]
    if isinstance(result, (float, np.floating)):
        return origin.mechanisms.number_added(origin, noise, float(OPERATORS[ufunc](*map(float, terms))), result)
    if not isinstance(result, np.ndarray) or type(result) is not np.ndarray or result.dtype.kind != "f":
        return result
    clean = np.broadcast_to(ufunc(*(np.asarray(t, dtype=np.float64) for t in terms)), result.shape).copy()
    return origin.mechanisms.noise_added(replace(origin, seen=np.full(result.shape, noise)), clean, result)


def _kind(base: type) -> Any:
    """A subclass of a class of numbers with the methods of `Single`. NumPy's numbers have no second base class: NumPy crashes."""
    left_out = ("__dict__", "__weakref__", "__module__", *(() if hasattr(base, "item") else ("item",)))
    methods = {name: value for name, value in vars(Single).items() if name not in left_out}
    for name, ufunc in FOLLOWED.items():
        methods |= {f"__{name}__": _both_ways(_operation, ufunc), f"__r{name}__": _both_ways(_operation, ufunc, turned=True)}
    del methods["__rtruediv__"]  # data over noise is no noise
    for name, function in OTHERS.items():
        methods |= {f"__{name}__": _both_ways(_plainly, function), f"__r{name}__": _both_ways(_plainly, function, turned=True)}
    for name in COMPARISONS:
        methods[f"__{name}__"] = _comparing(getattr(operator, name))
    return type(base.__name__, (base,), methods)


def _both_ways(result: Callable[[Any, Any, Any], Any], function: Any, turned: bool = False) -> Callable[[Any, Any], Any]:
    """An operator method. result: takes `function` and its two numbers. turned: whether these are exchanged."""

    def method(self: Any, other: Any) -> Any:
        return result(function, other, self) if turned else result(function, self, other)

    return method


def _comparing(comparison: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._compared(other, comparison)


def _plainly(function: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """What the program without a recording gets."""
    return function(plain(one), plain(other))


KINDS: dict[type, Any] = {base: _kind(base) for base in (float, np.float64, np.float32)}
SINGLE = tuple(KINDS.values())
