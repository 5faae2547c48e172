"""Takes the random bytes that a training asks of the operating system from a stream of its seed, so that a training can be
repeated that takes its noise, or the seed of its generators, from there.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.random.bit_generator

from .changes import changes

PLAIN = os.urandom
STATE = 512  # random bits with which a generator of Python is seeded
WORDS = 624  # of 32 bits, in the state of NumPy's global generator


@contextmanager
def entropy_of(seed: int) -> Iterator[None]:
    """Within this context, the operating system's random bytes are those of a stream of this seed, for `os.urandom`, `secrets`,
    `random.SystemRandom`, and generators of Python and NumPy that are made or seeded without a seed.

    Generators that exist already keep their states, and PyTorch asks the system by another way: `torch.seed` and
    `torch.Generator().seed` still give other numbers each time.
    """
    urandom = stream(seed)

    def randbits(count: int) -> int:
        return int.from_bytes(urandom((count + 7) // 8), "big") >> -count % 8

    plain_seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        plain_seed(self, randbits(STATE) if a is None else a, version)

    with changes() as put:
        put(random, "_urandom", urandom)  # of SystemRandom and `secrets`, and of the recorded os.urandom
        put(random.Random, "seed", seeded)
        put(numpy.random.bit_generator, "randbits", randbits)
        if os.urandom is PLAIN:
            put(os, "urandom", urandom)
        yield


def seed_global_generators() -> None:
    """Seeds the global generators of Python and NumPy from the operating system, as they are when a process starts."""
    random.seed(int.from_bytes(os.urandom(STATE // 8), "big"))
    np.random.seed(np.frombuffer(os.urandom(4 * WORDS), dtype=np.uint32))


@contextmanager
def seeded_torch() -> Iterator[None]:
    """Seeds PyTorch's global generator from the operating system, as it is when a process has imported PyTorch."""
    import torch

    torch.manual_seed(int.from_bytes(os.urandom(7), "big"))
    yield


def stream(seed: int) -> Callable[[int], bytes]:
    """A function that returns the next so many bytes of a stream."""
    count = 0

    def following(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(b"%d %d" % (seed, count)).digest(size)

    return following
