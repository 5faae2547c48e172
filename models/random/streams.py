"""Seeds and streams: every random draw of a run comes from a named stream, which is derived from the run's own seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accounting.arguments import is_whole, shown
from .witness import WITNESS, Witnessed

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 1 << 20  # numbers drawn at a time: 8 MiB
TURN = np.float32(2 * np.pi / 2**32)  # an angle of 2^-32 turns, in radians


def fold(*path: int | str) -> int:
    """A 128-bit seed: the hash of a path of words and numbers. ("run", 1), ("run", "1") and ("run1",) give different seeds."""
    return int.from_bytes(started(*path).digest(), "little")


def started(*path: int | str, after: hashlib.blake2b | None = None) -> hashlib.blake2b:
    """The hash object of a path. after: the hash object of an earlier part of the path."""
    h = hashlib.blake2b(digest_size=16) if after is None else after.copy()
    for part in path:
        word = f"{type(part).__name__}:{part}".encode()
        h.update(len(word).to_bytes(4, "little") + word)
    return h


def stream(seed: int | np.uint64, *path: int | str) -> np.random.Generator:
    """The generator with the name `path` of the run with this seed. Its numbers depend on the seed and the path alone."""
    bits, witness = np.random.Philox(key=fold(int(seed), *path)), WITNESS.get()
    return np.random.Generator(bits) if witness is None else Witnessed(bits, witness, int(seed), path)


def seeds_of(values: ArrayLike) -> NDArray[Any]:
    """The seeds of runs as an array, (runs,). Raises ValueError unless they are whole numbers of at least 0, in one dimension."""
    if isinstance(values, list | tuple) and all(is_whole(seed) and 0 <= seed < 2**64 for seed in values):
        return np.array(values, dtype=np.uint64)  # NumPy would make floats of [1, 2**63]
    seeds = np.asarray(values)
    if seeds.ndim != 1 or not (seeds.dtype.kind in "iu" or not seeds.size) or (seeds < 0).any():
        what = f"{seeds.dtype} of shape {seeds.shape}"
        raise ValueError(f"seeds={shown(values)}: {what}; must be whole numbers of at least 0, (runs,) uint64, one for each run.")
    return seeds


def normal(seeds: np.ndarray, shape: tuple[int, ...], *path: int | str) -> np.ndarray:
    """Standard normal draws from one stream for each run. seeds: (K,) -> (K, *shape) float64.

    path: words and whole numbers that name the draw; the same path gives the same numbers again. Raises ValueError for seeds or
    sizes that are not whole numbers of at least 0, and for other parts of a path.
    """
    if not (isinstance(shape, tuple | list) and all(is_whole(size) and size >= 0 for size in shape)):
        raise ValueError(f"shape={shown(shape)}: must be a tuple of whole numbers of at least 0, such as (nodes, classes).")
    for part in path:
        if not (is_whole(part) or isinstance(part, str)):
            raise ValueError(f"path: {shown(part)} must be a word or a whole number, such as 'hop', 1.")
    each = [stream(s, *path).standard_normal(shape) for s in seeds_of(seeds)]
    return np.stack(each) if each else np.empty((0, *shape))


def normal32(random: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Standard normal draws from a `stream`, (size,) float32, in half the time that NumPy takes (Box & Muller 1958).

    Each pair of draws takes 63 bits for its radius, of at most 9.4, and 32 bits for its angle.
    """
    pairs = (size + 1) // 2
    words = random.bit_generator.random_raw(pairs + (pairs + 1) // 2)  # of 64 bits
    radius = (words[:pairs] >> 1).view(np.int64).astype(np.float32)
    radius *= np.float32(2**-63)
    radius += np.float32(2**-64)  # log(0) has no value
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle = words[pairs:].view(np.int32)[:pairs].astype(np.float32)
    angle *= TURN
    drawn = np.empty((2, pairs), dtype=np.float32)
    np.cos(angle, out=drawn[0])
    np.sin(angle, out=drawn[1])
    drawn *= radius
    found = drawn.ravel()[:size]
    if isinstance(random, Witnessed):
        random.tell(found)
    return found


def add_normal(to: Tensor, seeds: Sequence[int] | np.ndarray, std: float, *path: int | str) -> None:
    """Adds std times the draws of `normal` to `to`, in place. Holds at most BLOCK numbers of noise in memory.

    to: (K, …) float32, contiguous. The noise is drawn, scaled and added in float64, and the sum is rounded once.
    """
    import torch

    for own, seed in zip(to, seeds, strict=True):
        random = stream(seed, *path)
        for part in own.view(-1).split(BLOCK):
            noise = torch.from_numpy(random.standard_normal(part.numel())).mul_(std).to(part.device)
            part.copy_(noise.add_(part))
