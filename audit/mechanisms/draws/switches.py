"""Draws of few numbers that decide whether noise is added, how large it is, or whether the release shows data past it."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Claim, Unit
from ....models.recorder import Draw
from ....models.recorder.draws.draw import SHIFTED
from ...key import Key
from ...recorded.playing import Cell, Play, play, with_numbers
from ...recorded.secrets.worlds import without_many
from ...recorded.sources import moved_by, nudge
from ...recorded.study import History, Study
from ..absence import changed_without, history
from ..reading import SEEDS, repeated, unmoved
from ..relations import same_size
from .cut_off import cut_off
from .steady import FEW

VALUES = 14  # number of values of a draw that are tried between its ends
END = 1e-9  # probability beyond the ends that are tried; the logarithm of the true end of a range may be infinite
FAR = 8.0  # in units of the scale: the ends of a law without ends
WORLDS = 2  # number of groups of worlds without many secrets that are tried


def switched(made: Study, claim: Claim) -> str:
    """Why a draw may switch the noise off or change its size, or open a path past it; "" if no draw of few numbers does so, and
    if the noise itself does not where it is large or near 0 (see cut_off.py).

    The draws of one line get the same other number, and the run is repeated with every noisy value the same: first on the whole
    graph, then without many secrets. A draw of which no tried number changes anything may still act seldom.
    """
    first = history(made, 0)
    return _switched(first, claim.unit) or cut_off(first, claim)


def other_sizes(first: History) -> str:
    """Why noise has another size in other runs, because a draw that is no noise decides it; "" if no draw of few numbers does."""
    for line, places in islice(_of_few_numbers(first).items(), first.study.effort.lines):
        for script in _scripts(first, places):
            run = repeated(first, {}, script)
            if run is not None and not (_same_noise(first, run) and _same_factors(first.study, script)):
                return f"with other numbers drawn at {line}, which a release does not show, the noise has another size"
    return ""


def _of_few_numbers(first: History) -> dict[str, list[int]]:
    """The positions of draws of few numbers that are neither noise nor constant, by the line of code that draws."""
    explained = first.noise | first.study.placed | first.study.constant
    draws = enumerate(first.play.draws)
    return first.by_line(at for at, d in draws if 0 < d.values.size <= FEW and at not in explained and not d.weights)


def _switched(first: History, unit: Unit) -> str:
    lines, effort = _of_few_numbers(first), first.study.effort
    if not lines:
        return ""
    if len(lines) > effort.lines:
        return f"draws of few numbers at {len(lines)} lines may decide whether noise is added; the tool tests fewer lines"
    many = [absent for group in islice(without_many(first.study.whole, unit, Key("switches")), WORLDS) for absent in group]
    paths: list[set[Cell] | None] = []
    for line, places in lines.items():
        acts = False
        for script in _scripts(first, places):
            run = repeated(first, {}, script)
            if run is None or not _same_noise(first, run) or not _same_factors(first.study, script):
                return f"with other numbers drawn at {line} the run has other mechanisms or another size of the noise, or fails"
            if unmoved(first, run):
                continue
            acts = True
            paths = paths or [changed_without(first, absent) for absent in many]
            for absent, known in zip(many, paths, strict=True):
                found = set() if known is None else changed_without(run, absent)
                if found is None or found - (known or set()):
                    return f"with other numbers drawn at {line}, {absent.secret} changes the run past its noise"
        if not acts and effort.thorough and not all(_is_seed(first.play.draws[at]) for at in places):
            return f"no tried number drawn at {line} changes anything; in rare cases it may decide whether noise is added"
    return ""


def _scripts(first: History, places: Sequence[int]) -> Iterator[list[Draw]]:
    """Yields the draws of the first run with other numbers at `places`: the ends of their ranges, values in between, and the
    numbers of other seeds. With little `Effort` the ends only.
    """
    draws, found = first.play.draws, {at: values_of(first.play.draws[at]) for at in places}
    count = max(map(len, found.values())) if first.study.effort.thorough else 2
    for k in range(count):
        yield with_numbers(draws, {at: np.full_like(draws[at].values, v[k % len(v)]) for at, v in found.items() if v})
    for others in first.study.others if first.study.effort.thorough else ():
        yield [others[at] if at in found else d for at, d in enumerate(draws)]


def values_of(draw: Draw) -> list[float]:
    """Values that a draw can take, the ends of its range first; [] if its law is not known."""
    if draw.values.dtype.kind not in "iufb":
        return []
    if draw.among:
        return _spread(np.array(sorted(draw.among)))
    if draw.law in ("integers", "binomial") and draw.bounded:
        return _spread(np.unique(np.rint(np.linspace(draw.lowest, draw.highest, VALUES + 2))))
    if np.ptp(draw.loc) > 0 or np.ptp(draw.scale) > 0 or draw.law not in (*SHIFTED, "uniform", "exponential"):
        return []
    shares = np.linspace(END, 1 - END, VALUES + 2)
    units = {"uniform": shares, "exponential": -np.log1p(-shares)}.get(draw.law, np.linspace(-FAR, FAR, VALUES + 2))
    values = (np.max(draw.loc) + np.max(draw.scale) * units).astype(draw.values.dtype)
    below = np.nextafter(draw.values.dtype.type(draw.highest), draw.values.dtype.type(draw.lowest))
    return _spread(np.minimum(values, below) if draw.law == "uniform" else values)


def _spread(values: NDArray[Any]) -> list[float]:
    """At most VALUES + 2 of the sorted values, the first and the last one first."""
    some = values[np.unique(np.linspace(0, len(values) - 1, VALUES + 2).astype(int))].tolist()
    return [some[0], some[-1], *some[1:-1]]


def _is_seed(draw: Draw) -> bool:
    """Whether the numbers of a draw may be a seed: whole numbers from very many values."""
    if draw.values.dtype.kind not in "iu" or draw.among:
        return False
    span = draw.highest - draw.lowest + 1 if draw.bounded else 2.0 ** (8 * draw.values.itemsize)
    return bool(span**draw.values.size >= SEEDS)


def _same_noise(first: History, run: History) -> bool:
    """Whether the noise of all mechanisms has the same law and size in two runs with the same noisy values."""
    return all(m.law == o.law and same_size(m, o) for m, o in zip(first.mechanisms, run.mechanisms, strict=True))


def _same_factors(made: Study, script: list[Draw]) -> bool:
    """Whether the noise that was located in the release has the same size with the draws of `script`."""
    for i, source in enumerate(made.sources):
        change = nudge(source.block, i)
        try:
            before, after = (_played(made, script, moves) for moves in ((), ((source.block, change),)))
        except Exception:  # a user's model may refuse other numbers with any exception
            return False
        if not source.moves_by(change, before.cells[source.cell], after.cells[source.cell]):
            return False
    return True


def _played(made: Study, script: list[Draw], moves: Sequence[tuple[Any, NDArray[np.float64]]]) -> Play:
    return play(made.model, made.whole, moved_by(script, moves, made.copies), script)
