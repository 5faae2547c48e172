"""Noise that the recorder lost: it was drawn, and no recorded sum of data and noise has all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.hearing.draw import SHIFTED
from ...models.hearing.mechanisms.meetings import REPORT
from ..heard.laws import NOTHING
from ..heard.study import History, Shifts
from .reading import alike, redrawn, repeated

if TYPE_CHECKING:
    from ..heard.study import Study


def lost(made: Study, first: History, moves: Shifts) -> str:
    """Why noise that the recorder lost may hide the moves, or "" if it does not.

    The recorder loses noise in operations that it does not follow, such as a product with a matrix. Then it does not know that
    this noise is later added to a value. The function repeats the run with other numbers for all lost noise, and keeps all noisy
    values. If the release changes, the lost noise may hide a move. Lost noise with fewer numbers than the smallest noisy value
    that moves cannot hide all of it. Weights of PyTorch layers are no noise.
    """
    sizes = [m.noisy.size for m, by in zip(first.meetings, moves, strict=True) if m.size(by) > NOTHING]
    lines: dict[str, list[int]] = {}
    for at in strayed(made, first):
        lines.setdefault(first.play.draws[at].line, []).append(at)
    for line, places in lines.items():
        if not sizes or sum(first.play.draws[at].values.size for at in places) < min(sizes):
            continue
        other = repeated(made, first, {}, redrawn(made, places))
        if other is None or not alike(first, other.play):
            return (
                f"noise drawn at {line} changes the release in a way that the recorder does not follow, so it may hide a secret"
            )
    return ""


def strayed(made: Study, first: History) -> list[int]:
    """The positions of all draws that may be noise and have numbers that are in no recorded mechanism."""
    met: dict[int, int] = {}
    for m in first.meetings:
        for draw in (m.draw, *m.beside):
            met[id(draw)] = met.get(id(draw), 0) + (draw.values.size if m.law == REPORT else int(m.own.sum()))
    return [
        at
        for at, draw in enumerate(first.play.draws)
        if draw.law in SHIFTED and not draw.weights and at not in made.constant and met.get(id(draw), 0) < draw.values.size
    ]
