"""Draws from which later noise is drawn, such as a drawn seed. Whoever knows such a number knows the noise."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.capabilities import RunsElsewhere
from ....models.fitted import apart
from ....models.graph.graph import Worlds
from ....models.random.streams import fold
from ....models.recorder import Draw, recording
from ...recorded.playing import Numbers, same_numbers, with_numbers
from ...recorded.seeds import Enough
from ...recorded.study import History, Study, related, sure
from ..absence import history
from ..reading import alike, repeated
from .switches import values_of

LINES = 6  # largest number of lines whose draws are tested one line at a time; the draws of all others are tested together
FEW = 2**24  # whoever tries so many seeds knows the noise; an honest seed has at least 31 bits


def seeded(made: Study) -> str:
    """Why noise may be known to whoever reads the release, because it is drawn from a number that the release shows or that takes
    few values; "" if there is no such number. Noise itself does not count as such a number. Nothing is tested if the model runs
    elsewhere.
    """
    return "" if isinstance(made.model, RunsElsewhere) else _seeded(history(made, 0))


def _seeded(first: History) -> str:
    draws = first.play.draws
    noise = (first.study.placed | first.noise) - first.study.constant
    known = noise | first.study.constant
    others = {at: _other(first.study, draws[at], at) for at in range(max(noise, default=0)) if at not in known}
    tried = {at: numbers for at, numbers in others.items() if numbers is not None}
    if not tried or _changed(first, noise, tried) is None:
        return ""
    lines: dict[str, list[int]] = {}
    for at in tried:
        lines.setdefault(draws[at].where, []).append(at)
    seeds_first = sorted(lines.values(), key=lambda some: (_of_reals(draws[some[0]]), sum(draws[at].values.size for at in some)))
    for places in (*seeds_first[:LINES], [at for some in seeds_first[LINES:] for at in some]):
        numbers = {at: tried[at] for at in places}
        later = _changed(first, noise, numbers) if places else None
        if later is None:
            continue
        line, at = draws[places[0]].line, places[0]
        if (count := _count(first.study, at)) <= FEW and _determined(first, noise, at):
            few = f"a number drawn at {line}, which takes at most about {count:.2g} value{'s' * (count != 1)}"
            return f"the noise drawn at {later} follows from {few}"
        run = repeated(first, {}, with_numbers(draws, numbers))
        if run is None or not alike(first, run.play):
            why = f"the release shows a number drawn at {line}, from which the noise at {later} is drawn"
            return f"{why}; whoever knows it knows the noise"
    return ""


def _changed(first: History, noise: Iterable[int], numbers: Numbers) -> str | None:
    """The line of the first noise that changes if earlier draws give these numbers and all later ones are free; None if none
    does. A run that fails counts as one whose noise changes.
    """
    draws = first.play.draws
    places = [at for at in sorted(noise) if at > min(numbers)]
    run = _drawn(first.study, first.worlds, numbers, places[-1])
    return next((draws[at].line for at in places if at >= len(run) or not same_numbers(run[at], draws[at])), None)


def _determined(first: History, noise: Iterable[int], at: int) -> bool:
    """Whether the draw at this position alone determines some later noise: with another seed of the run, but the same number
    here, the same noise is drawn.
    """
    draws = first.play.draws
    places = [k for k in sorted(noise) if k > at and sure(draws[k])]
    one = int(first.worlds.seeds[0])
    for seed in (fold(one, "parents") % 2**64, related(one)):
        world = dataclasses.replace(first.worlds, seeds=np.array([seed], dtype=np.uint64))
        run = _drawn(first.study, world, {at: draws[at].values}, max(places, default=0))
        if any(k < len(run) and same_numbers(run[k], draws[k]) for k in places):
            return True
    return False


def _drawn(made: Study, world: Worlds, numbers: Numbers, last: int) -> list[Draw]:
    """The draws of a run up to number `last`. The draws at some positions give other numbers, and all others are free."""
    found: list[Draw] = []
    known = made.base.draws

    def change(at: int, draw: Draw) -> NDArray[Any] | None:
        found.append(draw)
        if at >= last:
            raise Enough
        same = at < len(known) and (draw.law, draw.values.shape) == (known[at].law, known[at].values.shape)
        return numbers.get(at) if same else None

    with recording(change):
        try:
            apart(made.model.fit, world)
        except Enough:
            pass
        except Exception:  # a user's model may refuse other numbers with any exception
            return found
    return found


def _other(made: Study, draw: Draw, at: int) -> NDArray[Any] | None:
    """Other numbers for a draw: those of another seed, or a value that the draw can take; None if none is known."""
    if not draw.values.size or draw.values.dtype.kind not in "iufb":
        return None
    tried = [run[at].values for run in made.others if run[at].values.shape == draw.values.shape]
    tried += [np.full_like(draw.values, value) for value in values_of(draw)]
    return next((numbers for numbers in tried if not np.array_equal(numbers, draw.values)), None)


def _of_reals(draw: Draw) -> bool:
    return draw.values.dtype.kind not in "iu"


def _count(made: Study, at: int) -> float:
    """About how many values a draw takes; infinity if it is not a draw of whole numbers, and an estimate if its range is not
    known.
    """
    draw = made.base.draws[at]
    if draw.among:
        return float(len(draw.among)) ** draw.values.size
    if _of_reals(draw):
        return np.inf
    top = max(float(np.abs(run[at].values).max(initial=0)) for run in (made.base.draws, *made.others))
    span = draw.highest - draw.lowest + 1 if draw.bounded else top + 1
    return float(span) ** min(draw.values.size, 64) if span < 2**53 else np.inf
