"""Mechanisms within a run, whose noisy values need not be released: what one secret moves while all of them stay the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...models.errors import one_line
from ...models.hearing.meetings import Meeting, Meetings, OtherMechanisms
from .playing import Diverged, play, rounding
from .worlds import without_one

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...accounting.claim import Unit
    from ..key import Key
    from .study import Study
    from .worlds import Without

SECRETS = 12  # that are taken away one by one
SAME = 1e-6  # relative: a size of noise that does not depend on the secret


@dataclass(frozen=True, eq=False)
class Inside:
    """meetings: the mechanisms in order. moves: (secret, move of each mechanism over its scale). past: array -> what changes it
    although every mechanism gives the same value. doubts: why some secrets could not be tried.
    """

    meetings: tuple[Meeting, ...]
    moves: tuple[tuple[str, tuple[float, ...]], ...]
    past: dict[str, str]
    doubts: tuple[str, ...]


def inside(made: Study, unit: Unit, key: Key) -> Inside | str:
    """The mechanisms of the whole graph's run; or why there are none, "" where no noise meets data."""
    heard = Meetings()
    first = play(made.model, made.whole, follow=heard)
    cells = made.base.cells
    same = first.cells.keys() == cells.keys() and all(np.array_equal(a, first.cells[c]) for c, a in cells.items())
    if not same:
        return "a run in which noise is followed is another one"
    if not heard.space:
        return "the values of the mechanisms within the run take more than 1 GiB, and were not followed"
    if not heard.found:
        return ""
    moves: list[tuple[str, tuple[float, ...]]] = []
    past: dict[str, str] = {}
    doubts: list[str] = []
    for absent in without_one(made.whole, unit, key, np.zeros(0, dtype=np.int64), SECRETS):
        again = Meetings(heard.found)
        try:
            after = play(made.model, absent.worlds, script=made.base.draws, follow=again)
        except (Diverged, OtherMechanisms) as line:
            doubts.append(f"{absent.secret} changes what is drawn or which mechanisms are run ({line})")
            continue
        except Exception as fault:  # a stranger's model may refuse a graph in its own way
            doubts.append(f"{absent.secret}: without it the training ends ({type(fault).__name__}: {one_line(fault)})")
            continue
        if len(again.found) != len(heard.found):
            doubts.append(f"{absent.secret} changes how many mechanisms are run")
            continue
        pairs = list(zip(heard.found, again.found, strict=True))
        if any(not np.allclose(m.scale, o.scale, rtol=SAME, atol=0) for m, o in pairs):
            doubts.append(f"{absent.secret} changes the size of the noise")
            continue
        moves.append((absent.secret, tuple(_move(one, other, absent) for one, other in pairs)))
        for cell, before in cells.items():
            gap = np.abs(after.cells[cell] - before)
            if absent.hidden is not None and len(gap) == made.whole.graph.nodes:
                gap[absent.hidden] = 0.0
            if (gap > 10 * rounding(before)).any():
                past.setdefault(cell.array, f"{absent.secret} changes it although every mechanism gives the same value")
    return Inside(tuple(heard.found), tuple(moves), past, tuple(doubts))


def _move(one: Meeting, other: Meeting, absent: Without) -> float:
    """How far the clean value moves, over the scale: Euclidean for normal noise, else the sum."""
    by: NDArray[np.float64] = np.divide(other.clean - one.clean, one.scale)
    if absent.hidden is not None and by.ndim and len(by) == absent.worlds.graph.nodes:
        by[absent.hidden] = 0.0
    return float(np.linalg.norm(by)) if one.draw.law == "normal" else float(np.abs(by).sum())
