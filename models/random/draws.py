"""Draws Poisson batches."""

import numpy as np
from numpy.typing import NDArray


def heads(random: np.random.Generator, chance: float, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """A Poisson sample of the places >= 0: each is in it with probability `chance`. Draws one uniform number for every place,
    negative ones included.
    """
    some = places[np.flatnonzero(random.random(places.size) < chance)]
    return some[some >= 0]
