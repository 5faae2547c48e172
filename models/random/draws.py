"""The coins of Poisson batches, and the Laplace numbers of many short streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .streams import started, stream
from .witness import LISTENING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def heads(random: np.random.Generator, chance: float, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """Throws one coin for each of the places, and returns those not below zero whose coin, random.random(), is below `chance`."""
    some = places[np.flatnonzero(random.random(places.size) < chance)]
    return some[some >= 0]


def laplaces(seed: int | np.uint64, path: tuple[int | str, ...], lasts: Sequence[int], count: int) -> NDArray[np.float64]:
    """(lasts, count): the first draws of the streams that go on from one path: stream(seed, *path, last).laplace(size=count)."""
    if LISTENING.get() is not None:
        return np.array([stream(seed, *path, last).laplace(size=count) for last in lasts]).reshape(len(lasts), count)
    before, drawn = started(int(seed), *path), np.empty((len(lasts), count))
    random = np.random.Generator(np.random.Philox(0))
    state = random.bit_generator.state  # of a generator that has drawn nothing; setting it costs a quarter of a new one
    for last, row in zip(lasts, drawn, strict=True):
        state["state"]["key"] = np.frombuffer(started(last, after=before).digest(), dtype=np.uint64)
        random.bit_generator.state = state
        row[:] = random.laplace(size=count)
    return drawn
