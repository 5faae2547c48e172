"""Draws Poisson batches."""

import numpy as np
from numpy.typing import NDArray


def heads(random: np.random.Generator, chance: float, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """A Poisson sample of the places >= 0: each is in it with probability `chance`, rounded down to a multiple of 2^-32. Draws 32
    bits from a `stream` for every place, negative ones included.
    """
    coins = random.bit_generator.random_raw((places.size + 1) // 2).view(np.uint32)[: places.size]
    some = places[np.flatnonzero(coins < int(chance * 2**32))]
    return some[some >= 0]
