"""A key is a path of words and numbers that hashes to a seed. All randomness of a run is derived from one root key."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..models.random.streams import fold


@dataclass(frozen=True, init=False)
class Key:
    """A key, such as Key("edges", "cora").fold("run", 17). Equal paths give equal seeds; different paths give independent seeds.

    Whoever knows a key can subtract the noise that it seeds, so `repr` hides the path.
    """

    path: tuple[int | str, ...] = field(repr=False)

    def __init__(self, *path: int | str) -> None:
        object.__setattr__(self, "path", path)

    @staticmethod
    def fresh() -> str:
        """256 random bits from the operating system as 64 hexadecimal digits, for the root key of a run."""
        return secrets.token_hex(32)

    def fold(self, *more: int | str) -> Key:
        return Key(*self.path, *more)

    @property
    def seed(self) -> int:
        """The 64-bit seed of this path."""
        return fold(*self.path) >> 64

    def seeds(self, start: int, stop: int) -> NDArray[np.uint64]:
        """(stop - start,) uint64: one seed for each of the runs start … stop-1."""
        return np.array([self.fold("run", k).seed for k in range(start, stop)], dtype=np.uint64)

    def generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=fold(*self.path)))
