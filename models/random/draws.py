"""Draws Poisson batches, and the Laplace numbers of many short streams."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .streams import hashed, started, stream
from .witness import WITNESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOGETHER = 1 << 17  # numbers drawn at a time: some 10 MiB of intermediate results
ROUNDS = 10  # of Philox
FACTORS = (np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157))
STEPS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B))  # added to the key after each round
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def heads(random: np.random.Generator, chance: float, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """A Poisson sample of the places >= 0: each is in it with probability `chance`. Draws one uniform number for every place,
    negative ones included.
    """
    some = places[np.flatnonzero(random.random(places.size) < chance)]
    return some[some >= 0]


def laplaces(seeds: NDArray[np.uint64], path: tuple[int | str, ...], lasts: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """(runs, streams, count): the numbers of stream(seed, *path, last).laplace(size=count) for each of the `lasts` of each run,
    drawn faster. seeds: (runs,). lasts: (runs, streams).
    """
    if WITNESS.get() is not None:
        return _one_by_one(seeds, path, lasts, count)
    some = max(1, TOGETHER // max(1, lasts.shape[1] * count))
    parts = [slice(at, at + some) for at in range(0, len(seeds), some)]
    return np.concatenate([np.empty((0, lasts.shape[1], count)), *(_at_once(seeds[p], path, lasts[p], count) for p in parts)])


def _one_by_one(
    seeds: NDArray[np.uint64], path: tuple[int | str, ...], lasts: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    each = [[stream(s, *path, last).laplace(size=count) for last in row] for s, row in zip(seeds, lasts.tolist(), strict=True)]
    return np.array(each).reshape(*lasts.shape, count)


def _at_once(seeds: NDArray[np.uint64], path: tuple[int | str, ...], lasts: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    words = {last: hashed(last) for last in np.unique(lasts).tolist()}
    digests = []
    for seed, row in zip(seeds.tolist(), lasts.tolist(), strict=True):
        before = started(seed, *path)
        for last in row:
            of_stream = before.copy()
            of_stream.update(words[last])
            digests.append(of_stream.digest())
    keys = np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
    uniform = (philox(keys, count) >> np.uint64(11)).ravel() * 2.0**-53
    if not uniform.all():  # in place of a zero, NumPy draws again
        return _one_by_one(seeds, path, lasts, count)
    upper = uniform >= 0.5
    # the logarithm of the C library, as in NumPy's generator; the one for arrays may differ from it in the last bit
    logs = np.fromiter(map(math.log, np.where(upper, 2.0 - uniform - uniform, uniform + uniform).tolist()), np.float64)
    return np.where(upper, 0.0 - logs, 0.0 + logs).reshape(*lasts.shape, count)


def philox(keys: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """(streams, count) uint64: the first numbers of np.random.Philox(key=key) for each key, all at once. keys: (streams, 2).

    The generator is Philox4x64 with 10 rounds (Salmon et al. 2011).
    """
    blocks = -(-count // 4)
    words = [np.zeros((len(keys), blocks), dtype=np.uint64) for _ in range(4)]
    words[0] += np.arange(1, blocks + 1, dtype=np.uint64)
    first, second = keys[:, :1], keys[:, 1:]
    for _ in range(ROUNDS):
        (high, low), (other_high, other_low) = product(words[0], FACTORS[0]), product(words[2], FACTORS[1])
        words = [other_high ^ words[1] ^ first, other_low, high ^ words[3] ^ second, low]
        first, second = first + STEPS[0], second + STEPS[1]
    return np.stack(words, axis=2).reshape(len(keys), 4 * blocks)[:, :count]


def product(a: NDArray[np.uint64], b: np.uint64) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The upper and the lower 64 bits of the products of whole numbers below 2^64."""
    a_high, a_low, b_high, b_low = a >> HALF, a & LOW, b >> HALF, b & LOW
    middle = a_high * b_low + (a_low * b_low >> HALF)
    upper = a_low * b_high + (middle & LOW)
    return a_high * b_high + (middle >> HALF) + (upper >> HALF), a * b
