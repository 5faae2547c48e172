"""One training of a user's model: its release, its draws, and the replacement of draws by other numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.hearing import Draw, hearing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Model
    from ...models.graph.graph import Worlds
    from ...models.hearing.draw import Follow

Array = "NDArray[np.float64]"
Numbers = Mapping[int, "NDArray[Any]"]  # position in the order of draws -> the numbers that replace them
ROUNDING = 4e-7  # relative: arrays are float32, and float32 sums may be added in another order


class Diverged(Exception):
    """The run on another graph makes other draws; the message names the line."""


@dataclass(frozen=True)
class Cell:
    """A part of a release: a whole array, or one hop of an array with hops."""

    array: str
    hop: int | None = None

    def __str__(self) -> str:
        return f"'{self.array}'" if self.hop is None else f"hop {self.hop + 1} of '{self.array}'"


@dataclass(frozen=True, eq=False)
class Play:
    """cells: the released values, in float64. draws: all recorded draws, in order."""

    cells: Mapping[Cell, NDArray[np.float64]]
    draws: list[Draw]


def play(
    model: Model, worlds: Worlds, instead: Numbers | None = None, script: list[Draw] | None = None, follow: Follow | None = None
) -> Play:
    """One run of one world. script: the draws of another run, which this one must make too. instead: other numbers for some of
    them.

    follow: what the training gets of each draw, as in `Hearing`. Raises Diverged if the run makes other draws than the script.
    """

    def change(at: int, draw: Draw) -> NDArray[Any] | None:
        if script is None:
            return None
        if at >= len(script) or not alike(draw, script[at]):
            raise Diverged(draw.line)
        numbers = (instead or {}).get(at, script[at].values)
        return carried(numbers, script[at], draw) if numbers.size else None

    with hearing(change, follow) as heard:
        release = model.fit(worlds, "cpu")
    if script is not None and len(heard.draws) < len(script):
        raise Diverged(script[len(heard.draws)].line)
    return Play(dict(_cells(release.arrays)), heard.draws)


def alike(one: Draw, other: Draw) -> bool:
    """Whether two draws request the same type and count of numbers, of the same law up to location and scale."""
    if one.law != other.law or one.values.shape != other.values.shape or len(one.parameters) != len(other.parameters):
        return False
    pairs = zip(one.parameters, other.parameters, strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=True) for a, b in pairs)


def same_numbers(one: Draw, other: Draw) -> bool:
    """Whether two draws gave the same numbers, up to the rounding of a location that is data."""
    if one.law != other.law or one.values.shape != other.values.shape:
        return False
    size = np.abs(np.asarray(one.loc)) + np.abs(np.asarray(other.loc))
    return bool((np.abs(one.units - other.units) <= ROUNDING * size / np.asarray(one.scale)).all())


def carried(numbers: NDArray[Any], one: Draw, other: Draw) -> NDArray[Any]:
    """Numbers of draw `one` at the location and scale of draw `other`, which may depend on data."""
    if np.array_equal(one.loc, other.loc) and np.array_equal(one.scale, other.scale):
        return numbers
    return np.asarray(other.loc + other.scale * ((numbers - one.loc) / one.scale)).astype(other.values.dtype)


def _cells(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Cell, NDArray[np.float64]]]:
    for name, array in arrays.items():
        only = np.asarray(array[0], dtype=np.float64)
        if only.ndim == 3:
            yield from ((Cell(name, hop), part) for hop, part in enumerate(only))
        else:
            yield Cell(name), only


def rounding(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest difference that rounding causes between two computations of the same numbers."""
    return ROUNDING * (1 + np.abs(numbers))
