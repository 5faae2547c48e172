"""Keys: typed paths that hash to seeds. All randomness of a run is derived from one root key."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..models.random.streams import fold

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, init=False)
class Key:
    """Key("edges", "cora").fold("run", 17). Equal paths give equal seeds; different paths give independent seeds.

    Whoever knows a key can subtract the noise that it seeds, so its repr hides the path.
    """

    path: tuple[int | str, ...] = field(repr=False)

    def __init__(self, *path: int | str) -> None:
        object.__setattr__(self, "path", path)

    @staticmethod
    def fresh() -> str:
        """A random word with 256 bits from the operating system, as the root of all keys of a run."""
        return secrets.token_hex(32)

    def fold(self, *more: int | str) -> Key:
        return Key(*self.path, *more)

    @property
    def seed(self) -> int:
        """A 64-bit seed."""
        return fold(*self.path) >> 64

    def seeds(self, start: int, stop: int) -> NDArray[np.uint64]:
        """(stop - start,) uint64: one seed for each of the runs start … stop-1."""
        return np.array([self.fold("run", k).seed for k in range(start, stop)], dtype=np.uint64)

    def generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=fold(*self.path)))
