"""Drawn numbers that may be noise and are in no recorded mechanism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...models.recorder.draws.draw import SHIFTED
from ...models.recorder.mechanisms.found import REPORT
from ..recorded.study import History

if TYPE_CHECKING:
    from ...models.recorder import Draw

WHOLE = ("geometric", "poisson")  # laws of noise that are whole numbers
OF_WHOLE = "; it follows Laplace and normal noise, and whole numbers only in a released array"
OF_NUMBERS = (
    "; add each number to its value before anything else happens to it (float(), max() and a list or array that it is written "
    "into lose it), or draw noise as arrays"
)


def not_followed(draws: Iterable[Draw]) -> str:
    """Which of these draws may be noise that the recorder did not follow to the data, and what to write instead; "" if none."""
    noise = [d for d in draws if d.law in (*SHIFTED, *WHOLE) and not d.weights]
    if not noise:
        return ""
    (line, law), count = Counter((d.line, d.law) for d in noise).most_common(1)[0]
    alone = all(d.values.size == 1 for d in noise if (d.line, d.law) == (line, law))
    way = OF_WHOLE if law in WHOLE else OF_NUMBERS if alone else ""
    drawn = f"{count} draw{'s' * (count > 1)} of the law '{law}' at {line}"
    return f"{drawn} may be noise, whose numbers the recorder did not follow to the value that they are added to{way}"


def strayed(first: History, of_any_law: bool = False) -> list[int]:
    """The positions of all draws that may be noise and have numbers that are in no recorded mechanism. of_any_law: whether draws
    count whose law is seldom that of noise, such as uniform numbers.
    """
    mechanism: dict[int, int] = {}
    for m in first.mechanisms:
        for draw in (m.draw, *m.beside):
            mechanism[id(draw)] = mechanism.get(id(draw), 0) + (draw.values.size if m.law == REPORT else int(m.own.sum()))
    return [
        at
        for at, draw in enumerate(first.play.draws)
        if (of_any_law or draw.law in SHIFTED)
        and not draw.weights
        and at not in first.study.constant
        and mechanism.get(id(draw), 0) < draw.values.size
    ]
