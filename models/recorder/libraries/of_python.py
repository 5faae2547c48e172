"""Records draws of Python's standard library: the module `random`, objects of `random.Random`, `secrets`, `os.urandom`."""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..draws.draw import Active, Draw, calling_line, mersenne, parameters, picked_one, recorded_call, shuffled
from ..mechanisms.followed.single import is_single, made
from ..mechanisms.followed.single import plain as number
from .changes import changes
from .of_numpy import evenly

LAW_OF = {"gauss": "normal", "normalvariate": "normal", "random": "uniform", "expovariate": "exponential"}
METHODS = (
    *("random", "gauss", "normalvariate", "uniform", "expovariate", "triangular", "betavariate", "gammavariate"),
    *("lognormvariate", "vonmisesvariate", "paretovariate", "weibullvariate", "binomialvariate", "getrandbits", "randbytes"),
    *("randint", "randrange", "choice", "choices", "sample", "shuffle"),
)
OF_KINDS = (
    *((random.Random, name) for name in METHODS if hasattr(random.Random, name)),
    *((random.SystemRandom, name) for name in METHODS if name in vars(random.SystemRandom)),
)
FUNCTIONS = tuple(name for name in METHODS if hasattr(random, name))
MATH = {name: getattr(np, name) for name in ("log", "log1p", "exp", "expm1", "sqrt", "fabs", "copysign")}
MERSENNE = 3  # the version of a state that is that of a Mersenne Twister
PICKS = {"choice": "seq", "choices": "population", "sample": "population"}  # method -> the name of its first argument


def asked(name: str, args: Sequence[Any], options: dict[str, Any], result: Any) -> Draw:
    """The draw of the method `name`, which returned `result`. args: without the generator itself."""
    law, loc, scale, ends = LAW_OF.get(name, name), 0.0, 1.0, (-np.inf, np.inf)
    if law == "normal":
        given = dict(zip(("mu", "sigma"), args)) | options  # noqa: B905
        loc, scale = given.get("mu", 0.0), given.get("sigma", 1.0)
    elif law == "exponential":
        scale = 1 / float((*args, *options.values(), 1.0)[0])
    elif name == "random":
        ends = (0.0, 1.0)
    elif name == "uniform":
        given = dict(zip(("a", "b"), args)) | options  # noqa: B905
        loc, high = given["a"], given["b"]
        scale, ends = high - loc, (float(min(loc, high)), float(max(loc, high)))
    elif between := whole_ends(name, args, options):
        law, ends = "integers", (float(between[0]), float(between[1]))
    values = np.frombuffer(result, dtype=np.uint8).copy() if isinstance(result, bytes) else numbers(result)
    among, chances = weighted(args, options) if name == "choices" else ((), None)
    if law == "integers":
        among, chances = evenly(int(ends[0]), int(ends[1]) + 1)
    own = law in ("normal", "uniform", "exponential") or picked_one(law, values, chances)
    return Draw(
        law, values, calling_line(), loc, scale, *ends, () if own else parameters(*args, **options), tuple(among), chances
    )


def whole_ends(name: str, args: Sequence[Any], options: dict[str, Any]) -> tuple[int, int] | None:
    """The smallest and the largest number that a method may give which draws whole numbers with equal probabilities; None for
    another method, and if the numbers leave out some between, or have more bits than an array holds.
    """
    if name == "getrandbits":
        ends = (0, 2 ** int((*args, *options.values())[0]) - 1)
    elif name == "randint":
        given = dict(zip(("a", "b"), args)) | options  # noqa: B905  (Python 3.9)
        ends = (int(given["a"]), int(given["b"]))
    elif name == "randrange":
        given = dict(zip(("start", "stop", "step"), args)) | options  # noqa: B905
        start, stop = (0, given["start"]) if given.get("stop") is None else (given["start"], given["stop"])
        ends = (int(start), int(stop) - 1)
        if given.get("step", 1) != 1:
            return None
    else:
        return None
    return ends if max(map(abs, ends)) < 2**63 else None


def state(generator: random.Random) -> Any:
    """The state of a generator."""
    version, words, kept = generator.getstate()
    return mersenne(words[:-1], words[-1], kept) if version == MERSENNE else (version, words, kept)


def weighted(args: Sequence[Any], options: dict[str, Any]) -> tuple[Sequence[float], Any]:
    """The numbers from which `random.choices` picks, and their probabilities; (), None if it got no weights or other things."""
    given = dict(zip(("population", "weights"), args)) | options  # noqa: B905  (Python 3.9)
    weights, sums, population = given.get("weights"), given.get("cum_weights"), numbers(given["population"])
    weights = np.asarray(np.diff(sums, prepend=0) if weights is None and sums is not None else weights, dtype=np.float64)
    if weights.ndim != 1 or weights.shape != population.shape or not weights.sum() > 0:
        return (), None
    return tuple(map(float, population)), weights / weights.sum()


def numbers(result: Any) -> np.ndarray:
    """The result as an array of numbers; empty if the result is something else, such as an element chosen from a list. Of a whole
    number with more bits than an array holds, the last 63 bits are kept.
    """
    if isinstance(result, int) and abs(result) >= 2**63:
        return np.array(result % 2**63)
    try:
        array = np.array(result)
    except ValueError:
        return np.zeros(0)
    return array if array.dtype.kind in "iufb" else np.zeros(0)


def _of_numbers(population: Any) -> bool:
    values = numbers(population)
    return values.ndim == 1 and values.size > 0


def picked(name: str, call: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], generator: Any) -> Any:
    """The result of a choice of a generator from a population. Choices from other things than numbers are recorded as places
    in the population, because a recording holds numbers alone.
    """
    word = PICKS[name]
    if bool(args) == (word in options):
        return call(*args, **options)  # which raises a TypeError
    population, *others = args or (options[word],)
    named = {n: v for n, v in options.items() if n != word}

    def asked_of(*received: Any) -> Draw:
        draw = asked(*received)
        return draw if isinstance(generator, random.SystemRandom) else draw.drawn_by(lambda: state(generator))

    if not (hasattr(population, "__getitem__") and hasattr(population, "__len__")) or _of_numbers(population):
        return recorded_call(name, call, (population, *others), named, asked_of)
    places = recorded_call(name, call, (range(len(population)), *others), named, asked_of)
    return population[places] if name == "choice" else [population[i] for i in places]


@cache
def _method(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        def call(*a: Any, **o: Any) -> Any:
            return plain(self, *a, **o)

        if Active.recorder is not None and not isinstance(self, random.SystemRandom):
            Active.recorder.begins(self, lambda: state(self))
        recorded = Active.recorder is not None and not Active.recorder.inside
        if name == "shuffle" and recorded and len(args) == 1 and not options and shuffled(name, call, args[0], 0, asked):
            return None
        if name in PICKS and recorded:
            return picked(name, call, args, options, self)
        return recorded_call(name, call, args, options, asked)

    method.__name__ = name
    return method


@cache
def _function(plain: Callable[..., Any], ufunc: Any) -> Callable[..., Any]:
    """A function of the module `math`, which also follows numbers from which the program computes noise."""

    def function(*args: Any) -> Any:
        if not any(is_single(each) and each.making is not None for each in args):
            return plain(*args)
        result = plain(*map(number, args))
        return made(ufunc, args, result) if len(args) == ufunc.nin else result

    function.__name__ = plain.__name__
    return function


def urandom(size: int) -> bytes:
    """Replaces `os.urandom`. It asks the same function as `random.SystemRandom`."""
    return recorded_call("urandom", getattr(random, "_urandom"), (size,), {}, asked)  # noqa: B009


@contextmanager
def replaced() -> Iterator[dict[int, Any]]:
    """Within this context, Python's names are recorded versions. Yields a dict: id of an original -> its replacement."""
    new: dict[int, Any] = {}
    hidden: Any = getattr(random, "_inst")  # noqa: B009  the generator behind the module's functions
    with changes() as put:
        for kind, name in OF_KINDS:
            put(kind, name, _method(getattr(kind, name), name))
        for name in FUNCTIONS:
            plain, recorded = getattr(random, name), getattr(hidden, name)
            put(random, name, recorded)
            new[id(plain)] = recorded
        for name, ufunc in MATH.items():
            plain = getattr(math, name)
            recorded = _function(plain, ufunc)
            put(math, name, recorded)
            new[id(plain)] = recorded
        new[id(os.urandom)] = urandom
        put(os, "urandom", urandom)
        bits = secrets.randbits  # NumPy keeps a reference to it, only to seed generators
        put(secrets, "randbits", getattr(getattr(secrets, "_sysrand"), "getrandbits"))  # noqa: B009
        new[id(bits)] = secrets.randbits
        yield new
