"""Noise that a run cuts off, resizes or replaces only for some of its values, such as large ones and numbers near 0.

The recorded runs seldom draw such values, so they show nothing of it. This module repeats the run with noise numbers that are far
from 0 or near it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....accounting.claim import Claim
from ....models.recorder import Draw
from ....models.recorder.mechanisms.mechanism import REPORT
from ...key import Key
from ...recorded.forcing import forced
from ...recorded.laws import TAILED
from ...recorded.playing import Cell, Play, left_in, play, rounding, with_numbers
from ...recorded.secrets.worlds import Absence, without_many
from ...recorded.sources import moved_by
from ...recorded.study import History, Study
from ..absence import history
from ..reading import alike, repeated
from ..relations import same_size
from ..unfollowed import MADE
from .picked_noise import picked

FARTHEST = 64.0  # in units of the scale: noise numbers beyond it are not tried
NEAREST, NEAR = 1e-7, 1e-3  # in units of the scale: noise numbers near 0 lie between these
RAREST, SELDOM = 1e-9, 0.05  # uniform numbers from which noise is computed are tried so close to the ends of their interval
EXACT = 1024.0  # in units of the precision of the numbers: uniform numbers are not tried closer to 1/2
USUAL = 2.0  # in units of the scale: "far" numbers lie beyond it
# the ratio of the largest far number to the smallest. So many float32 numbers with a ratio below e^2 would have more equal pairs
# than independent noise, and the recorder would take them for copies.
NARROW, WIDE, MANY = 3.0, 10.0, 10_000
SECONDS, RUNS = 2.0, 301  # of processor time, and of runs with other noise: the search for one in which noise hides less
FIRST, MOSTLY = 8, 7  # so many of these runs are tried at least; in so many the noise moves differently if values depend on noise
PERMITTED = 0.1  # such runs are so few that a secret that delta permits shows in one of them with this probability at most
SHARE = 1e-3  # of delta: what happens to noise with a smaller probability changes epsilon by nearly nothing
VISIBLE = 1e-3  # relative: a released value that changes by more differs by more than rounding, also after many operations
STEPS = 4  # a released value that should change by more units in the last place of float32 does change


@dataclass(frozen=True)
class Pattern:
    """Which noise numbers are replaced, and by what. share: of the numbers, chosen at random. sign: of the new numbers, 0 for
    both. near: whether they are near 0, and not far from it. other: whether the numbers that a pattern with the same share does
    not replace are replaced.
    """

    share: float
    sign: int = 0
    near: bool = False
    other: bool = False


PATTERNS = (
    Pattern(0.5),
    Pattern(0.5, other=True),
    Pattern(1.0, 1),
    Pattern(1.0, -1),
    Pattern(1.0, near=True),
    Pattern(0.5, near=True),
)


def cut_off(first: History, claim: Claim) -> str:
    """Why noise that hides secrets may be cut off, resized or replaced where it is far from 0 or near it; "" if it is not.

    Noise that the recorder followed to the data: every mechanism returns the noisy value of the first run, and gets other noise
    numbers. The same numbers must then reach the same data with the same scale. See picked_noise.py for noise that is picked from
    more numbers. Noise that was only located in the release: with the other numbers, noise must still be able to hide the
    absence of many secrets. delta of the claim limits how far the numbers are from 0.
    """
    made = first.study
    noise = {id(draw) for m in first.mechanisms if m.law != REPORT for draw in (m.draw, *m.beside)}
    some = [at for at, draw in enumerate(first.play.draws) if id(draw) in noise]
    sources = [s for s in made.sources if not {at for at, _ in s.block.parts} <= set(some)]
    placed = sorted({at for s in sources for at, _ in s.block.parts})
    return _in_mechanisms(first, some, claim.delta) or picks(first, claim) or _in_release(made, placed, claim)


@lru_cache(maxsize=8)
def picks(first: History, claim: Claim) -> str:
    """Why the numbers of a draw decide which of them are noise, see `picked`; "" if they do not."""
    noise = sorted(first.noise)
    return picked(first, (draws for _, draws in _scripts(first.study, first.play.draws, noise, claim.delta)))


def _in_mechanisms(first: History, some: Sequence[int], delta: float) -> str:
    for _, draws in _scripts(first.study, first.play.draws, some, delta):
        run = repeated(first, {}, draws)
        line = _line(first, some) if run is None else _changed(first, run)
        if line:
            return f"the noise drawn at {line} is cut off or changed where it is large or near 0"
        if run is not None and not alike(first, run.play):
            return f"large or very small noise drawn at {_line(first, some)} changes the release past the noisy values"
    return ""


def _in_release(made: Study, placed: Sequence[int], claim: Claim) -> str:
    if not placed:
        return ""
    noise = f"noise drawn at {made.base.draws[placed[0]].line}"
    text = f"{noise}, where it is large or near 0,"
    for absent in (group[0] for group in without_many(made.whole, claim.unit, Key("cut off")) if group):
        try:
            usual = _shown(made, made.base, absent)
        except Exception:  # a user's model may refuse such a graph with any exception
            continue
        for pattern, script in _scripts(made, made.base.draws, placed, claim.delta):
            try:
                start = play(made.model, made.whole, script=script)
                found = _constant(made, start, placed) if pattern.near else _shown(made, start, absent) - usual
            except Exception:  # a user's model may refuse other numbers with any exception
                return f"{text} ends the training or changes what is drawn"
            if found:
                return f"{text} does not hide what it hides elsewhere; it may be cut off or changed there"
        if _hides_less(made, absent, claim.delta):
            return f"{noise} does not hide in another run what it hides in the first one"
        return ""
    return ""


def _hides_less(made: Study, absent: Absence, delta: float) -> bool:
    """Whether in a run with other noise the noisy values are those of the world `absent` with noise that moves as far as in the
    first run, but the release is not, because few runs compare exact values with noisy ones. If most runs are so, values depend
    on earlier noise, and nothing is concluded. The search ends after SECONDS, and sooner if delta permits that one of the runs
    shows a secret.
    """
    until, shifts = time.process_time() + SECONDS, forced(made, absent.worlds).shifts
    changes = [(s.block, by) for s, by in zip(made.sources, shifts, strict=True)]
    tried = other = 0
    for number in range(1, min(RUNS, int(PERMITTED / delta)) if delta else RUNS):
        if time.process_time() > until or (other and tried >= FIRST):
            break
        with suppress(Exception):  # a user's model may refuse other numbers with any exception
            start = history(made, number).play
            after = play(made.model, absent.worlds, moved_by(start.draws, changes, made.copies), start.draws)
            other += bool(_differing(made, start, after, absent))
            tried += 1
    return 0 < other < MOSTLY


def _line(first: History, some: Sequence[int]) -> str:
    return ", ".join(list(dict.fromkeys(first.play.draws[at].line for at in some))[:2])


def _changed(first: History, run: History) -> str:
    """The line that draws the noise of the first mechanism that another draw, scale or clean value distinguishes; "" if none."""
    one, other = ({id(draw): at for at, draw in enumerate(h.play.draws)} for h in (first, run))
    for m, o in zip(first.mechanisms, run.mechanisms, strict=True):
        places = [one.get(id(draw)) for draw in (m.draw, *m.beside)]
        same = places == [other.get(id(draw)) for draw in (o.draw, *o.beside)] and m.law == o.law and m.parts == o.parts
        if not same or not np.array_equal(m.clean, o.clean) or not same_size(m, o):
            return m.draw.line
    return ""


def _scripts(made: Study, draws: Sequence[Draw], some: Sequence[int], delta: float) -> Iterator[tuple[Pattern, list[Draw]]]:
    """Yields each pattern and the draws with its noise numbers at the positions `some`. A draw that repeats an earlier one
    repeats its new numbers.
    """
    chance = SHARE * delta / max(1, sum(draws[at].values.size for at in some))
    for pattern in PATTERNS[: made.effort.patterns] if some else ():
        new = {at: _replaced(draws[at], pattern, chance, at) for at in some if at not in made.copies}
        for at, first in made.copies.items():
            if at in some and first in new:
                units = replace(draws[first], values=new[first]).units
                new[at] = np.asarray(draws[at].loc + draws[at].scale * units, dtype=draws[at].values.dtype)
        yield pattern, with_numbers(draws, new)


def _replaced(draw: Draw, pattern: Pattern, chance: float, seed: int) -> NDArray[Any]:
    """The numbers of a draw, some of them replaced. chance: the law draws numbers beyond the new ones with this probability."""
    shape, random = draw.values.shape, np.random.default_rng([seed, pattern.near])
    chosen = (np.random.default_rng(seed).random(shape) < pattern.share) != pattern.other
    signs = np.full(shape, pattern.sign) if pattern.sign else random.choice([-1, 1], shape)
    if draw.spread:
        low, high = _ends(draw, pattern.near, chance)
        # evenly on a logarithmic scale: the recorder takes numbers that lie closer together for copies
        new = draw.loc + draw.scale * signs * low * (high / low) ** random.random(shape)
    elif draw.law in MADE:
        new = _of_the_made(draw, pattern.near, signs, chance, random)
    else:
        new = draw.values if pattern.near else _of_a_list(draw, signs, chance, random)
    return np.where(chosen, new, draw.values).astype(draw.values.dtype)


def _ends(draw: Draw, near: bool, chance: float) -> tuple[float, float]:
    """Between which sizes the new numbers of a law without ends lie, in units of the scale."""
    if near:
        least = max(NEAREST, 16 * float(np.finfo(draw.values.dtype).tiny))
        return (least, max(NEAR, 8 * least)) if not np.any(draw.loc) else (NEAR, 8 * NEAR)
    beyond = float(TAILED[draw.law].isf(chance)) if draw.law in TAILED else FARTHEST
    high = min(FARTHEST, beyond)
    return min(USUAL, high / (WIDE if draw.values.size > MANY else NARROW)), high


def _of_the_made(draw: Draw, near: bool, signs: NDArray[Any], chance: float, random: np.random.Generator) -> NDArray[Any]:
    """Uniform or exponential numbers from which the program computes noise that is far from 0, or near it."""
    precision = float(np.finfo(draw.values.dtype).eps)
    least, even = max(chance, RAREST, precision), random.random(signs.shape)
    tails = SELDOM * (least / SELDOM) ** even
    if draw.law == "exponential":
        units = tails if near else np.where(signs > 0, -np.log(tails), tails)
    else:
        nearest = max(NEAREST, EXACT * precision)  # so that noise computed from the distance to 1/2 has few rounding errors
        units = 0.5 + signs * NEAR * (nearest / NEAR) ** even if near else np.where(signs > 0, 1 - tails, tails)
    return np.asarray(draw.loc + draw.scale * units)


def _of_a_list(draw: Draw, signs: NDArray[Any], chance: float, random: np.random.Generator) -> NDArray[Any]:
    """Numbers of a law of whole numbers, in its upper part where the sign is positive and else in its lower part. The same
    numbers if their probabilities are not known.
    """
    if draw.law == "geometric" and draw.parameters:
        rate = -np.log1p(-np.minimum(draw.parameters[0], 1 - 1e-9))
        most = np.minimum(FARTHEST, -np.log(chance) if chance else FARTHEST) / rate
        return np.where(signs > 0, 1 + np.floor(most * random.random(signs.shape)), 1)
    if draw.chances is None or draw.chances.ndim > 1 or not draw.among:
        return draw.values
    order = np.argsort(draw.among)
    below = np.cumsum(draw.chances[order])
    known = np.array(draw.among)[order][(below > chance) & (1 - below + draw.chances[order] > chance)]
    middle = len(known) // 2
    upper, lower = (random.choice(part, signs.shape) for part in (known[middle:], known[: middle + 1]))
    return np.where(signs > 0, upper, lower)


def _shown(made: Study, start: Play, absent: Absence) -> set[Cell]:
    """The parts of the release that noise cannot keep as they are in the run `start` when many secrets are absent."""
    return _differing(made, start, forced(made, absent.worlds, start).play, absent)


def _differing(made: Study, start: Play, other: Play, absent: Absence) -> set[Cell]:
    """The parts of the release that differ by more than rounding between a run and one without many secrets."""
    found = set()
    for cell, before in start.cells.items():
        after = other.cells.get(cell)
        if after is None or after.shape != before.shape:
            found.add(cell)
            continue
        noised = np.logical_or.reduce([np.zeros(before.shape, dtype=bool), *(s.noised for s in made.on(cell))])
        allowed = np.where(noised, 10 * rounding(before), np.maximum(made.slack[cell], VISIBLE * (1 + np.abs(before))))
        gap = np.abs(after - before) - allowed
        if np.any(left_in(gap, made.whole.graph.nodes, absent.hidden) > 0):
            found.add(cell)
    return found


def _constant(made: Study, start: Play, placed: Sequence[int]) -> set[Cell]:
    """The parts of the release with an entry that stays the same when all noise of the run `start` is doubled."""
    doubled = with_numbers(start.draws, {at: _twice(start.draws[at]) for at in placed if start.draws[at].spread})
    after, found = play(made.model, made.whole, script=doubled), set()
    for s in (s for s in made.sources if start.draws[s.block.parts[0][0]].spread):
        numbers = start.cells[s.cell]
        step = np.spacing(np.abs(numbers).astype(np.float32)).astype(np.float64)
        moves = np.abs(s.factor * (s.numbers(doubled) - s.numbers(start.draws))) > STEPS * step
        if np.any(moves & (after.cells[s.cell] == numbers)):
            found.add(s.cell)
    return found


def _twice(draw: Draw) -> NDArray[Any]:
    return np.asarray(draw.loc + 2 * (draw.values - draw.loc), dtype=draw.values.dtype)
