"""Records draws of NumPy: `Generator`, `RandomState`, and the functions of `numpy.random`, which share one global state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from ..draws.draw import (
    PICKED,
    Active,
    Draw,
    calling_line,
    mersenne,
    of_two,
    parameters,
    picked_one,
    recorded_call,
    rows_of,
    shuffled,
)
from ..mechanisms.lists import gathering, iterating, preparing
from .changes import changes

# Method -> its law, and the names of its arguments in order. Only loc, scale, low, high, n, a, p, replace, mean and cov are read.
LAW_OF: dict[str, tuple[str, tuple[str, ...]]] = {
    "standard_normal": ("normal", ()),
    "randn": ("normal", ()),
    "normal": ("normal", ("loc", "scale")),
    "laplace": ("laplace", ("loc", "scale")),
    "gumbel": ("gumbel", ("loc", "scale")),
    "logistic": ("logistic", ("loc", "scale")),
    "standard_cauchy": ("cauchy", ()),
    "standard_t": ("student-t", ("df",)),
    "random": ("uniform", ()),
    "random_sample": ("uniform", ()),
    "rand": ("uniform", ()),
    "uniform": ("uniform", ("low", "high")),
    "exponential": ("exponential", ("scale",)),
    "standard_exponential": ("exponential", ()),
    "integers": ("integers", ("low", "high")),
    "randint": ("integers", ("low", "high")),
    "binomial": ("binomial", ("n", "p")),
    "choice": ("choice", ("a", "size", "replace", "p")),
    "multivariate_normal": ("multivariate_normal", ("mean", "cov")),
}
OTHERS = (
    *("beta", "bytes", "chisquare", "dirichlet", "f", "gamma", "geometric", "hypergeometric", "logseries", "lognormal"),
    *("multinomial", "multivariate_hypergeometric", "negative_binomial", "noncentral_chisquare", "noncentral_f", "pareto"),
    *("permutation", "permuted", "poisson", "power", "random_integers", "rayleigh", "shuffle", "standard_gamma", "tomaxint"),
    *("triangular", "vonmises", "wald", "weibull", "zipf"),
)
METHODS = (*LAW_OF, *OTHERS)
FILLING = {  # methods that can fill an array `out` -> the names of their arguments in order
    "standard_normal": ("size", "dtype", "out"),
    "random": ("size", "dtype", "out"),
    "standard_exponential": ("size", "dtype", "method", "out"),
}
ORDERS = ("shuffle", "permutation", "permuted")  # methods whose draw is an order
# loc and scale describe them completely
LOCATED = ("normal", "laplace", "gumbel", "logistic", "cauchy", "uniform", "exponential")
COPIES = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "from_dlpack")  # functions that copy arrays
EMPTY = ("zeros", "empty", "zeros_like", "empty_like")  # functions that make arrays to write into
FEW = 1024  # equal probabilities are kept for at most this many values
BASES = (np.random.Generator, np.random.RandomState)


def asked(name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """The draw of the method `name`, which returned `result`."""
    law, names = LAW_OF.get(name, (name, ()))
    given = dict(zip(names, args)) | {n: options[n] for n in names if n in options}  # noqa: B905
    loc, scale, ends = given.get("loc", 0.0), given.get("scale", 1.0), (-np.inf, np.inf)
    if law == "uniform":
        loc = given.get("low", 0.0)
        scale = np.subtract(given.get("high", 1.0), loc)
        ends = (float(np.min(loc)), float(np.max(np.add(loc, scale))))
    elif law == "integers":
        low, high = (0, given["low"]) if given.get("high") is None else (given["low"], given["high"])
        ends = (float(np.min(low)), float(np.max(high)) - (not options.get("endpoint")))
    elif law == "binomial":
        ends = (0.0, float(np.max(given["n"])))
    elif law == "choice" and np.asarray(given["a"]).dtype.kind in "iufb":
        found = np.asarray(given["a"])
        ends = (float(found.min()), float(found.max())) if found.ndim else (0.0, float(found) - 1)
    elif law == "multivariate_normal" and np.array_equal(given["cov"], np.diag(np.diag(given["cov"]))):
        law, loc, scale = "normal", given["mean"], np.sqrt(np.diag(given["cov"]))  # coordinates are independent
    values = np.frombuffer(result, dtype=np.uint8).copy() if isinstance(result, bytes) else np.array(result)
    among, chances = ((), None) if options.get("endpoint") else finite(law, given)
    weighted = given.get("p") is not None and picked_one(law, values, chances)
    own = law in LOCATED or (chances is not None and chances.ndim > 1) or weighted
    others = () if own else parameters(*args, **options)
    return Draw(law, values, calling_line(), loc, scale, *ends, others, among, chances)


def asked_of(generator: Any, name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """As `asked`, for a method of this generator."""
    return asked(name, args, options, result).drawn_by(lambda: state(generator))


def state(generator: Any) -> Any:
    """The state of a generator."""
    found = generator.get_state(legacy=False) if isinstance(generator, BASES[1]) else generator.bit_generator.state
    if found["bit_generator"] != "MT19937":
        return found
    return mersenne(found["state"]["key"], found["state"]["pos"], found["gauss"] if found.get("has_gauss") else None)


def finite(law: str, given: dict[str, Any]) -> tuple[tuple[float, ...], Any]:
    """The values that a number of this law can take, and their probabilities; (), None if there are too many values, or if the
    numbers are not independent.
    """
    if law == "binomial" and np.all(np.asarray(given["n"]) == 1):
        return (0.0, 1.0), of_two(given["p"])
    if law == "integers":
        low, high = (0, given["low"]) if given.get("high") is None else (given["low"], given["high"])
        return evenly(int(low), int(high)) if np.ndim(low) == np.ndim(high) == 0 else ((), None)
    if law == "choice" and given.get("replace", True) and np.ndim(given["a"]) < 2:
        among: Any = np.asarray(given["a"])
        count = int(among) if among.dtype.kind in "iu" and among.ndim == 0 else among.size
        if among.dtype.kind in "iufb" and 0 < count <= (FEW if given.get("p") is None else PICKED):
            among = among if among.ndim else np.arange(count)
            chances = np.full(count, 1 / count) if given.get("p") is None else rows_of(given["p"])
            return (tuple(map(float, among)), chances) if len(set(among.tolist())) == count else ((), None)
    return (), None


def evenly(low: int, high: int) -> tuple[tuple[float, ...], Any]:
    """The whole numbers from low to high - 1 and their equal probabilities; (), None if there are more than FEW."""
    count = high - low
    return (tuple(map(float, range(low, high))), np.full(count, 1 / count)) if 0 < count <= FEW else ((), None)


def recorded(name: str, call: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> Any:
    """The result of the method `name` of a generator, recorded. call: the method. A shuffle or permutation of an array is
    recorded as an order, so that a repetition can apply it to other data.
    """
    generator = getattr(call, "__self__", None)
    of_generator = partial(asked_of, generator)
    if Active.recorder is not None and isinstance(generator, BASES):
        Active.recorder.begins(getattr(generator, "bit_generator", generator), lambda: state(generator))
    if (out := _to_fill(name, args, options)) is not None:
        given = dict(zip(FILLING[name], args)) | options | {"size": out.shape, "dtype": out.dtype}  # noqa: B905  (Python 3.9)
        out[...] = recorded_call(name, call, (), {n: v for n, v in given.items() if n != "out"}, of_generator)
        return out
    given = dict(zip(("x", "axis"), args)) | options  # noqa: B905  (Python 3.9)
    recorded = name in ORDERS and Active.recorder is not None and not Active.recorder.inside
    if not recorded or "x" not in given or len(args) > 2 or given.keys() - {"x", "axis", "out"}:
        return recorded_call(name, call, args, options, of_generator)
    x, axis = given["x"], given.get("axis", 0)
    if name == "shuffle" and isinstance(axis, (int, np.integer)) and shuffled(name, call, x, int(axis), asked):
        return None
    if name == "permutation" and np.ndim(x):
        array = np.asarray(x)
        if -array.ndim <= axis < array.ndim:
            return np.take(array, recorded_call(name, call, (array.shape[axis],), {}, asked), axis)
    if name == "permuted" and np.ndim(x):
        return permuted(call, np.asarray(x), given.get("axis"), given.get("out"))
    return recorded_call(name, call, args, options, asked)


def _to_fill(name: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """The array of the program that the method fills with its numbers, or None."""
    return (dict(zip(FILLING[name], args)) | options).get("out") if name in FILLING else None  # noqa: B905


def permuted(call: Callable[..., Any], x: Any, axis: int | None, out: Any) -> Any:
    """The result of `Generator.permuted`. The draw is the array of places from which the entries come: along an axis, or in the
    whole array if the axis is None.
    """
    places = np.empty_like(x, dtype=np.int64, subok=False)  # in the memory order of x, which decides where each random bit goes
    if axis is None:
        places[...] = np.arange(x.size).reshape(x.shape)
    else:
        places[...] = np.moveaxis(np.broadcast_to(np.arange(x.shape[axis]), np.moveaxis(x, axis, -1).shape), -1, axis)
    places = recorded_call("permuted", lambda p: call(p, axis=axis), (places,), {}, asked)
    result = x.ravel()[places] if axis is None else np.take_along_axis(x, places, axis)
    if out is None:
        return result
    out[...] = result
    return out


class _AlsoPlain(type):
    """A metaclass with which `isinstance` is also true for generators of the original class, made before the recording."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def _method(base: type, name: str) -> Callable[..., Any]:
    plain = getattr(base, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return recorded(name, plain.__get__(self), args, options)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _recorded(base: Any) -> Any:
    """A subclass of a generator class. It records its draws and returns the same numbers as the class."""
    methods: dict[str, Any] = {name: _method(base, name) for name in METHODS if hasattr(base, name)}
    if base is np.random.Generator:
        methods["__reduce__"] = lambda self: (Generator, (self.bit_generator,))
    return _AlsoPlain(base.__name__, (base,), {**methods, "__module__": __name__, "__doc__": base.__doc__})


Generator, RandomState = (_recorded(base) for base in BASES)
FUNCTIONS = tuple(m for m in METHODS if hasattr(np.random, m))


def default_rng(seed: Any = None) -> Any:
    """Replaces `numpy.random.default_rng`. The draws of the returned generator are recorded."""
    made = PLAIN["default_rng"](seed)
    if isinstance(made, RandomState) or type(made) is not BASES[0]:
        return made
    return Generator(made.bit_generator)


PLAIN: dict[str, Any] = {name: getattr(np.random, name) for name in ("default_rng", "Generator", "RandomState", *FUNCTIONS)}


@cache
def _shared(plain: Any, bits: Any) -> Any:
    """Replaces the global generator behind the functions of `numpy.random` by an object that draws from it and records the
    draws. bits: its bit generator, which a program may exchange.
    """

    def method(name: str) -> Callable[..., Any]:
        return lambda self, *args, **options: recorded(name, getattr(plain, name), args, options)

    methods: dict[str, Any] = {name: method(name) for name in METHODS if hasattr(plain, name)}
    methods |= {name: staticmethod(getattr(plain, name)) for name in ("seed", "get_state", "set_state")}
    return _AlsoPlain("RandomState", (BASES[1],), {**methods, "__module__": __name__})(bits)


@contextmanager
def replaced() -> Iterator[dict[int, Any]]:
    """Within this context, NumPy's names are recorded versions. Yields a dict: id of an original -> its replacement."""
    mtrand: Any = np.random.mtrand
    plain = mtrand._rand
    shared = _shared(plain, plain._bit_generator)
    new = {"default_rng": default_rng, "Generator": Generator, "RandomState": RandomState}
    new |= {name: getattr(shared, name) for name in FUNCTIONS}
    originals = {id(getattr(np.random, name)): value for name, value in new.items()} | {id(plain): shared}
    with changes() as put:
        for name, value in new.items():
            put(np.random, name, value)
        put(mtrand, "_rand", shared)
        kinds = {gathering: COPIES, preparing: EMPTY, iterating: ("fromiter",)}
        plainly: dict[int, Any] = {}
        for follow, name in ((follow, name) for follow, names in kinds.items() for name in names):
            before, after = getattr(np, name), follow(getattr(np, name))
            plainly[id(after)] = before
            put(np, name, after)
        numba: Any = sys.modules.get("numba.core.typing.context")
        if numba is not None:  # it compiles functions of NumPy that it finds by their identity
            lookup = getattr(numba.BaseContext, "_lookup_global")  # noqa: B009
            put(numba.BaseContext, "_lookup_global", lambda self, value: lookup(self, plainly.get(id(value), value)))
        yield originals
