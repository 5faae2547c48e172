"""Seeds and streams: every draw of a run comes from a named stream of that run's own seed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from .witness import LISTENING, Heard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

BLOCK = 1 << 20  # numbers drawn at a time: 8 MiB


def fold(*path: int | str) -> int:
    """A 128-bit seed from a typed path, so that ("run", 1) and ("run", "1") differ and no path is a prefix of another."""
    return int.from_bytes(started(*path).digest(), "little")


def started(*path: int | str, after: hashlib.blake2b | None = None) -> hashlib.blake2b:
    """The hash of a path. To extend the path, pass its hash as `after`, with more parts."""
    h = hashlib.blake2b(digest_size=16) if after is None else after.copy()
    for part in path:
        word = f"{type(part).__name__}:{part}".encode()
        h.update(len(word).to_bytes(4, "little") + word)
    return h


def stream(seed: int | np.uint64, *path: int | str) -> np.random.Generator:
    """The stream called `path` of the run with this seed. Its numbers do not depend on which runs are trained together, nor on an
    interruption.
    """
    bits, witness = np.random.Philox(key=fold(int(seed), *path)), LISTENING.get()
    return np.random.Generator(bits) if witness is None else Heard(bits, witness, int(seed), path)


def normal(seeds: np.ndarray, shape: tuple[int, ...], *path: int | str) -> np.ndarray:
    """Standard normal draws, one stream a run. seeds: (K,) -> (K, *shape) float64."""
    return np.stack([stream(s, *path).standard_normal(shape) for s in seeds])


def add_normal(to: Tensor, seeds: Sequence[int] | np.ndarray, std: float, *path: int | str) -> None:
    """Adds std times the draws of `normal`, in place, with at most one block of noise in memory.

    to: (K, …) float32, contiguous. The noise is drawn, scaled and added in float64, and the sum is rounded once.
    """
    import torch

    for own, seed in zip(to, seeds, strict=True):
        random = stream(seed, *path)
        for part in own.view(-1).split(BLOCK):
            noise = torch.from_numpy(random.standard_normal(part.numel())).mul_(std).to(part.device)
            part.copy_(noise.add_(part))
