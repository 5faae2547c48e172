"""The numbers that numpy would draw, by compiled code where there is some: the same bits in less time."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..kernels import library
from .streams import started, stream
from .witness import LISTENING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def normals(random: np.random.Generator, count: int) -> NDArray[np.float32]:
    """(count,) standard normal draws: random.standard_normal(count, dtype=float32)."""
    state = _state(random)
    if state is None:
        return random.standard_normal(count, dtype=np.float32)
    drawn = np.empty(count, dtype=np.float32)
    library.loaded().normals(state, count, drawn.ctypes.data)
    return drawn


def heads(random: np.random.Generator, chance: float, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """Throws one coin for each of the places, and returns those not below zero whose coin, random.random(), is below `chance`."""
    state = _state(random)
    if state is None:
        some = places[random.random(places.size) < chance]
        return some[some >= 0]
    found = np.empty(places.size, dtype=np.int32)
    share = math.ceil(math.ldexp(chance, 53))  # a coin is a multiple of 2^-53
    return found[: library.loaded().coins(state, places.size, share, places.ctypes.data, found.ctypes.data)]


def laplaces(seed: int | np.uint64, path: tuple[int | str, ...], lasts: Sequence[int], count: int) -> NDArray[np.float64]:
    """(lasts, count): the first draws of the streams that go on from one path: stream(seed, *path, last).laplace(size=count)."""
    if LISTENING.get() is not None or library.library() is None or not _alike():
        return np.array([stream(seed, *path, last).laplace(size=count) for last in lasts]).reshape(len(lasts), count)
    before, drawn = started(int(seed), *path), np.empty((len(lasts), count))
    keys = np.frombuffer(b"".join(started(last, after=before).digest() for last in lasts), dtype=np.uint64)
    _laplaces(keys, drawn)
    return drawn


def _laplaces(keys: NDArray[np.uint64], to: NDArray[np.float64]) -> None:
    """keys: two for each row of `to`, the lower one first."""
    library.loaded().laplaces(*to.shape, *(ctypes.c_void_p(a.ctypes.data) for a in (keys, to)))


def _state(random: np.random.Generator) -> int | None:
    """Where numpy keeps the state of this generator; None where numpy itself must draw, and be heard drawing."""
    known = type(random) is np.random.Generator and type(random.bit_generator) is np.random.Philox
    return int(random.bit_generator.ctypes.state_address) if known and library.library() is not None and _alike() else None


@cache
def _alike() -> bool:
    """Whether the compiled code draws as this numpy does: no version of numpy promises to keep its streams."""
    ours, theirs = (np.random.Generator(np.random.Philox(key=2**100 + 7)) for _ in range(2))
    drawn = np.empty(20_001, dtype=np.float32)
    library.loaded().normals(ours.bit_generator.ctypes.state_address, drawn.size, drawn.ctypes.data)
    same = np.array_equal(drawn, theirs.standard_normal(drawn.size, dtype=np.float32))
    laplace, fresh = np.empty((1, 1001)), np.random.Generator(np.random.Philox(key=2**100 + 7))
    _laplaces(np.array([7, 2**36], dtype=np.uint64), laplace)
    same = same and np.array_equal(laplace[0], fresh.laplace(size=1001))
    return same and repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)
