"""Runs a model on another graph, and adjusts its noise until every noisy cell of the release has the same value as before."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...models.graph.graph import Worlds
from .playing import Cell, Play, play, rounding
from .sources import WHOLE, in_line, moved_by
from .study import Study, unreplaced

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forced:
    """A run on another graph with adjusted noise.

    play: the run. shifts: for each source the change of its numbers, in units of its noise at scale 1.
    """

    play: Play
    shifts: tuple[Floats, ...]


def forced(made: Study, worlds: Worlds, base: Play | None = None) -> Forced:
    """Runs the model on `worlds` with the draws of `base`, by default those of the study's first run, and adjusts the noise until
    the noisy values are those of `base`.

    Each number of a source becomes number + (clean value in `base` - clean value here) / factor. A clean value is a value before
    its noise is added. The clean values of a hop follow from the earlier hops, so each repetition makes one more hop equal to
    that of `base`. If several sources add to one entry, each changes in proportion to its variance. A change of integers cannot
    be divided among several sources, so only the first of them changes.
    """
    base, sources = base or made.base, made.sources
    same = unreplaced(made, base.draws)
    shifts = [np.zeros(s.block.size) for s in sources]
    variance: dict[Cell, Floats] = {}
    whole = [s.block.law in WHOLE and s.cell in [first.cell for first in sources[:i]] for i, s in enumerate(sources)]
    for s, later in zip(sources, whole, strict=True):
        variance[s.cell] = variance.get(s.cell, 0.0) + s.factor**2 * (not later)
    again = base
    for _ in range(len(sources) + 2):
        numbers = moved_by(base.draws, [(s.block, d) for s, d in zip(sources, shifts, strict=True)], made.copies)
        again = play(made.model, worlds, numbers, base.draws, constant=same)
        gaps = [base.cells[s.cell] - again.cells[s.cell] for s in sources]
        if all((np.abs(g[s.noised]) <= rounding(base.cells[s.cell][s.noised])).all() for s, g in zip(sources, gaps, strict=True)):
            break
        for i, (s, gap) in enumerate(zip(sources, gaps, strict=True)):
            if whole[i]:
                continue
            total = variance[s.cell]
            step = np.divide(gap * s.factor, total, out=np.zeros_like(gap), where=total > 0)
            shifts[i] += in_line(np.where(s.noised, step, 0.0), s.across)
    return Forced(again, tuple(shifts))
