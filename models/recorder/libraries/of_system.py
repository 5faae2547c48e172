"""Takes the random bytes that a training asks of the operating system from a stream of its seed, so that a training can be
repeated that takes its noise, or the seed of its generators, from there.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.random.bit_generator

from ..draws.draw import of_others
from .changes import changes

PLAIN = os.urandom
STATE = 512  # random bits with which a generator of Python is seeded
WORDS = 624  # of 32 bits, in the state of NumPy's global generator


@contextmanager
def entropy_of(seed: int) -> Iterator[None]:
    """Within this context, the operating system's random bytes are those of a stream of this seed, for `os.urandom`, `secrets`,
    `random.SystemRandom`, and generators of Python and NumPy that are made or seeded without a seed.

    What a library asks for while it is imported comes from a stream of its own, so the program gets the same numbers whether it
    imports the library or finds it imported. Generators that exist already keep their states, and PyTorch asks the system by
    another way: `torch.seed` and `torch.Generator().seed` still give other numbers each time.
    """
    streams = Streams(seed)

    def urandom(size: int) -> bytes:
        return streams.following(size, "library" if of_an_import() else "")

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
        put(Streams, "now", streams)
        yield


def seed_global_generators() -> None:
    """Seeds the global generators of Python and NumPy from the operating system, as they are when a process starts."""
    random.seed(int.from_bytes(os.urandom(STATE // 8), "big"))
    np.random.seed(np.frombuffer(os.urandom(4 * WORDS), dtype=np.uint32))


@contextmanager
def seeded_torch() -> Iterator[None]:
    """Seeds PyTorch's global generator from the operating system, as it is when a process has imported PyTorch."""
    import torch

    bits = Streams.now.following(7, "torch") if Streams.now else os.urandom(7)
    torch.manual_seed(int.from_bytes(bits, "big"))
    yield


class Streams:
    """Streams of bytes that follow from a seed, by name. now: those of the innermost `entropy_of`."""

    now: ClassVar[Streams | None] = None

    def __init__(self, seed: int) -> None:
        self.seed, self.counts = seed, Counter[str]()

    def following(self, size: int, name: str) -> bytes:
        """The next so many bytes of a stream."""
        self.counts[name] += 1
        return hashlib.shake_256(f"{self.seed} {self.counts[name]}{name}".encode()).digest(size)


def of_an_import() -> bool:
    """Whether the call is part of the import of a library, and no function or module of the program runs within this import."""
    frame: Any = sys._getframe(2)
    while frame is not None and of_others(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
