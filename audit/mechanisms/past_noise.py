"""Finds arrays that a secret changes although every noisy value is the same, and the first line whose result differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...models.capabilities import RunsElsewhere
from ...models.recorder.draws.results import digest, parting, results
from ...models.recorder.mechanisms.found import REPORT, Mechanisms
from ..recorded.playing import play
from .absence import kept
from .unfollowed import not_followed, strayed

if TYPE_CHECKING:
    from ..recorded.playing import Play
    from ..recorded.study import History
    from ..recorded.worlds import Absence


def changed(first: History, absent: Absence, after: Play, known: dict[str, str]) -> dict[str, str]:
    """`known` and the arrays that differ without the secret although every noisy value is the same, each with a sentence."""
    past = dict(known)
    for cell, before in first.study.base.cells.items():
        other = after.cells.get(cell)
        gap = np.abs(other - before) if other is not None and other.shape == before.shape else np.full(before.shape, np.inf)
        if absent.hidden is not None and gap.ndim and len(gap) == first.study.whole.graph.nodes:
            gap[absent.hidden] = 0.0
        if (gap <= first.study.base.last_places(cell)).all() or cell.array in past:
            continue
        text = f"{absent.secret} changes '{cell.array}' although every noisy value is the same"
        where = "" if past or isinstance(first.study.model, RunsElsewhere) else parted(first, absent)
        past[cell.array] = f"{text}; after the last noise, the first result that differs is that of {where}" if where else text
    return past


def or_else(first: History) -> str:
    """What else than a path past the noise may change an array although every noisy value is the same: noise that the recorder
    did not follow, or data that meet a single noisy number later; "" if neither is possible.
    """
    lost = not_followed(first.play.draws[at] for at in strayed(first, of_any_law=True))
    line = next((m.line for m in first.mechanisms if m.law != REPORT and m.draw.values.size == 1), "")
    later = (
        f"the recorder takes what is first added to the single noise number at {line} for all of its data; if more data are "
        "added or multiplied later, this is no path: add the noise last"
    )
    return "; ".join(text for text in (lost, later if line else "") if text)


def parted(first: History, absent: Absence) -> str:
    """The first line of the model, after its last mechanism, whose result differs without the secret; "" if none is known."""
    ours, theirs = Mechanisms(first.mechanisms), Mechanisms(first.mechanisms)
    with results(ours.all_played) as one:
        play(first.study.model, first.worlds, script=first.play.draws, follow=ours)
    with results(theirs.all_played) as other:
        kept(first, absent, theirs)
    return parting(one, other, {number for m in first.mechanisms if (number := digest(m.clean)) is not None})
