"""One training of a user's model: its release, its draws, and the replacement of draws by other numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.hearing import Draw, hearing
from ...models.hearing.mechanisms.meetings import Meetings, OtherMechanisms
from ...models.hearing.script import Diverged, Script, alike
from ..own.program import External
from ..own.recording import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.base import Model, Release
    from ...models.graph.graph import Worlds
    from ...models.hearing.draw import Follow

Array = "NDArray[np.float64]"
Numbers = Mapping[int, "NDArray[Any]"]  # position in the order of draws -> the numbers that replace them
__all__ = ["Cell", "Diverged", "Play", "alike", "cells", "play", "rounding", "same_numbers"]
ROUNDING = 4e-7  # relative tolerance, because arrays are float32 and their sums may be added in another order


@dataclass(frozen=True)
class Cell:
    """A part of a release: a whole array, or one hop of an array with hops."""

    array: str
    hop: int | None = None

    def __str__(self) -> str:
        return f"'{self.array}'" if self.hop is None else f"hop {self.hop + 1} of '{self.array}'"


@dataclass(frozen=True, eq=False)
class Play:
    """One training. cells: the released values, in float64. draws: all recorded draws, in order. notes: sentences about draws
    that were not recorded or not followed.
    """

    cells: Mapping[Cell, NDArray[np.float64]]
    draws: list[Draw]
    notes: tuple[str, ...] = ()


def play(
    model: Model, worlds: Worlds, instead: Numbers | None = None, script: list[Draw] | None = None, follow: Follow | None = None
) -> Play:
    """Trains the model once, on one world. script: the draws of another run, whose numbers this run gets. instead: position of a
    draw -> the numbers that replace those of the script.

    follow: replaces drawn arrays by arrays that know their origin, as in `Hearing`. Raises Diverged if the run makes other draws
    than the script, or if the model fails with the numbers of `instead`.
    """

    if isinstance(model, External):
        assert not instead, "a recorded program can only repeat the numbers of an earlier run"
        return _of_program(model, worlds, script, follow)
    change = None if script is None else Script(script, instead or {}, isinstance(follow, Meetings))
    with hearing(change, follow) as heard:
        try:
            release = model.fit(worlds, "cpu")
        except (Diverged, OtherMechanisms):
            raise
        except Exception as fault:  # a user's model may refuse other numbers with any exception
            if not instead:
                raise
            raise Diverged(f"other numbers end the training: {type(fault).__name__}") from None
    if change is not None:
        change.ended(len(heard.draws))
        if heard.notes:
            raise Diverged(heard.notes[0])
    return Play(cells(release), heard.draws, tuple(dict.fromkeys(heard.notes)))


def _of_program(model: External, worlds: Worlds, script: list[Draw] | None, follow: Follow | None) -> Play:
    """`play` for a program, whose mechanisms are always recorded."""
    asked = follow if isinstance(follow, Meetings) else Meetings()
    release, heard = model.recorded(worlds, Request(script, asked.script))
    if heard.diverged:
        raise Diverged(heard.diverged)
    if script is not None:
        Script(script, {}).ended(len(heard.draws))
    asked.found[:] = heard.meetings
    return Play(cells(release), heard.draws, tuple(heard.notes))


def same_numbers(one: Draw, other: Draw) -> bool:
    """Whether two draws gave the same numbers at location 0 and scale 1, up to rounding. Data at their locations may round them
    differently.
    """
    if one.law != other.law or one.values.shape != other.values.shape:
        return False
    size = np.abs(np.asarray(one.loc)) + np.abs(np.asarray(other.loc))
    return bool((np.abs(one.units - other.units) <= ROUNDING * size / np.asarray(one.scale)).all())


def cells(release: Release) -> dict[Cell, NDArray[np.float64]]:
    """The released values of the first run, by cell. An array with three axes in each run has one cell for each hop."""
    found = {}
    for name, array in release.arrays.items():
        only = np.asarray(array[0], dtype=np.float64)
        if only.ndim == 3:
            found.update({Cell(name, hop): part for hop, part in enumerate(only)})
        else:
            found[Cell(name)] = only
    return found


def rounding(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest difference that rounding causes between two computations of the same numbers."""
    return ROUNDING * (1 + np.abs(numbers))
