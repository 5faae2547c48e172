"""Finds paths past the noise that are open with rare noise only, as in a program that answers with exact data if all noisy votes
are small.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from ....models.recorder.mechanisms.mechanism import Mechanism
from ....reports.rounding import several
from ...recorded.laws import TAILED
from ...recorded.playing import Diverged
from ...recorded.secrets.worlds import Absence
from ...recorded.study import History
from ..absence import changed_without, history, kept
from ..inside import Inside, without_secrets
from ..past_noise import changed
from ..reading import idle, repeated

OFF = (6.0, 2.0)  # in units of the scale: distances from the clean values that are tried
FARTHEST_OFF = 32.0  # the same: the largest such distance, unless less noise has a probability of delta
USUAL = 2.0  # the largest distance that counts as near
UNLIKE = 0.05  # in units of the scale: by so much noise numbers at one distance from 0 differ at most
FEW = 64  # more values that must be rare together are too improbable
OTHERS = (1, 2)  # numbers of the runs with other noise in which the rare values must act too
HALVINGS = 8  # of the interval in which the smallest or the largest distance lies
FARTHEST, MIDDLES = 10.0, 2001  # in units of the scale: how far from the clean values a common value may lie; how many are tried

Test = Callable[[History], bool]
Places = NDArray[np.int64]  # (places, 2): the position of a mechanism in the run, and of one of its entries


@dataclass(frozen=True)
class Rare:
    """Rare noise. signs: of noise numbers far from 0, repeated in turn; empty if the noisy values lie near 0, or, if `common`,
    near one common value.
    """

    signs: tuple[int, ...] = ()
    common: bool = False

    def distances(self, first: History, delta: float) -> tuple[float, ...]:
        """The distances from the clean values, or from the value nearby, that are tried, in units of the scale. Of far ones, one
        noise number lies beyond the largest with a probability of about `delta`.
        """
        if not self.signs:
            return (1e-5,) if self.common else (1e-2,)
        most = min([FARTHEST_OFF, *(float(TAILED[m.law].isf(delta)) for m in _plain(first).values())])
        return most, *(distance for distance in OFF if distance < most)

    def sign(self, i: int, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the noise at entries of mechanism i."""
        return np.array(self.signs)[(i + at) % len(self.signs)]

    def noisy(self, first: History, i: int, distance: float) -> NDArray[np.float64]:
        """Noisy values of mechanism i at this distance. They differ from one another, because equal values may decide a
        comparison.
        """
        clean = first.mechanisms[i].clean
        scale = np.broadcast_to(np.asarray(first.mechanisms[i].scale, dtype=np.float64), clean.shape)
        unlike = np.cos(np.arange(1, clean.size + 1) ** 2).reshape(clean.shape)
        if self.signs:
            sign = self.sign(i, np.arange(clean.size)).reshape(clean.shape)
            return np.asarray(clean + sign * scale * (distance + UNLIKE * np.abs(unlike)))
        middle = float(first.mechanisms[i].noisy.max()) if self.common else 0.0
        return np.asarray(middle + distance * scale * unlike)

    def chance(self, first: History, places: Places, distance: float) -> float:
        """The probability that the noise of all these places is so rare."""
        of_places = [(first.mechanisms[i], at) for i, at in places]
        laws = [TAILED[m.law] for m, _ in of_places]
        if self.signs:
            signs = [int(self.sign(i, at)) for i, at in places]
            tails = (law.logsf(distance) if s > 0 else law.logcdf(-distance) for law, s in zip(laws, signs, strict=True))
            return math.exp(sum(tails))
        scales = np.array([np.broadcast_to(m.scale, m.clean.shape).flat[at] for m, at in of_places])
        clean = np.array([m.clean.flat[at] for m, at in of_places])
        low, high = float((clean - FARTHEST * scales).min()), float((clean + FARTHEST * scales).max())
        middles = np.linspace(low, high, MIDDLES) if self.common else np.zeros(1)
        each = zip(laws, (middles - at for at in clean), scales, strict=True)
        near = np.prod([law.cdf(by / scale + distance) - law.cdf(by / scale - distance) for law, by, scale in each], axis=0)
        return float(np.trapezoid(near, middles) / (2 * distance * scales.max()) if self.common else near[0])

    def words(self, places: Places, distance: float) -> str:
        """Where the noise at these places lies."""
        numbers = several(len(places), "noise number" if self.signs else "noisy value") + (
            " lies" if len(places) == 1 else " lie"
        )
        if self.signs:
            sides = {int(self.sign(i, at)) for i, at in places}
            side = "below or above" if len(sides) == 2 else "above" if 1 in sides else "below"
            return f"{numbers} at least {distance:.2g} times the scale {side} 0"
        return f"{numbers} within {distance:.2g} times the scale of {'one another' if self.common else '0'}"


RARE = (Rare((-1,)), Rare((1,)), Rare((-1, 1)), Rare((1, -1)), Rare(), Rare(common=True))


def opened(first: History, secrets: Sequence[Absence], delta: float, until: float) -> Inside | None:
    """What a repetition with rare noise shows in which one of the secrets changes arrays although every noisy value is the same,
    see `rarely`; None if there is none.
    """
    if (found := rarely(first, [partial(_opens, absent=absent) for absent in secrets], delta, until)) is None:
        return None
    run, at, where = found
    past = changed(run, secrets[at], kept(run, secrets[at]).play)
    past = {array: f"{why}; it does so where {where}" for array, why in past.items()}
    return replace(without_secrets(run), past=past, across=(secrets[at],))


def rarely(first: History, tests: Sequence[Test], delta: float, until: float) -> tuple[History, int, str] | None:
    """A repetition of a run with rare noise, see RARE, that passes one of the tests; the position of the test; and the noise in
    words. None if no such noise is found whose probability is above `delta`.

    The search makes all noisy values rare. If a test then passes, it looks for few rare values with which it does, also in runs
    with other noise elsewhere, and for the least rare ones. The probability is that of such noise in all of them, if the test
    passes with all of it. It may also pass in other ways, so this is no upper limit. until: processor time at which the search
    ends.
    """
    sizes = [(i, m.noisy.size) for i, m in _plain(first).items()]
    if not sizes:
        return None
    others = cache(lambda: [run for number in OTHERS if (run := _further(first, number)) is not None])
    places = np.concatenate([np.stack([np.full(size, i), np.arange(size)], axis=1) for i, size in sizes])
    for kind, distance in ((rare, distance) for rare in RARE for distance in rare.distances(first, delta)):
        run = _with_noise(first, kind, places, distance)
        for at, test in enumerate(tests if run is not None else ()):
            if time.process_time() > until:
                return None
            if run is None or not test(run):
                continue
            alone = _Search((first,), test, kind, until)
            alike = [other for other in others() if replace(alone, runs=(other,)).passes(places, distance)]
            search = replace(alone, runs=(first, *alike))
            some = search.fewest(places, distance)
            if len(some) > FEW:
                continue
            least = search.least_rare(some, distance)
            chance, found = kind.chance(first, some, least), _with_noise(first, kind, some, least)
            if chance > delta and found is not None and test(found):
                return found, at, f"{kind.words(some, least)}, which has a probability of about {chance:.2g}"
    return None


def _plain(first: History) -> dict[int, Mechanism]:
    """The mechanisms of known law in which each entry has a noise number of its own, by their positions."""
    return {i: m for i, m in enumerate(first.mechanisms) if m.law in TAILED and m.plain}


def _further(first: History, number: int) -> History | None:
    """A further run of the study; None if it has other mechanisms."""
    with suppress(Diverged):
        run = history(first.study, number)
        return run if [m.noisy.shape for m in run.mechanisms] == [m.noisy.shape for m in first.mechanisms] else None
    return None


def reads_one(run: History, some: Collection[int]) -> bool:
    """Whether the run reads one of these mechanisms."""
    return any(not idle(run, [[i]]) for i in some)


def _with_noise(first: History, kind: Rare, places: Places, distance: float) -> History | None:
    """The repetition of a run in which these noisy values are rare; None if it is not known."""
    instead: dict[int, Mechanism] = {}
    for i in np.unique(places[:, 0]).tolist():
        m, rare = first.mechanisms[i], np.zeros(first.mechanisms[i].noisy.size, dtype=bool)
        rare[places[places[:, 0] == i, 1]] = True
        instead[i] = m.with_noisy(np.where(rare.reshape(m.noisy.shape), kind.noisy(first, i, distance), m.noisy))
    return repeated(first, instead)


def _opens(run: History, absent: Absence) -> bool:
    """Whether a secret changes the release of a run although every noisy value is the same."""
    return bool(changed_without(run, absent))


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for few and less rare noisy values with which a test passes in all of these runs, whatever their other noise is.
    until: as in `rarely`.
    """

    runs: tuple[History, ...]
    test: Test
    kind: Rare
    until: float

    def passes(self, places: Places, distance: float) -> bool:
        again = (_with_noise(run, self.kind, places, distance) for run in self.runs)
        return all(run is not None and self.test(run) for run in again)

    def fewest(self, places: Places, distance: float) -> Places:
        """Some of these places with which the test still passes. Unless the time is up, none of them can be left out alone
        (Zeller and Hildebrandt 2002).
        """
        parts = 2
        while len(places) > 1 and time.process_time() < self.until:
            smaller = next((rest for rest in _without_one(places, parts) if self.passes(rest, distance)), None)
            if smaller is not None:
                places, parts = smaller, max(parts - 1, 2)
            elif parts >= len(places):
                break
            else:
                parts = min(len(places), 2 * parts)
        return places

    def least_rare(self, places: Places, distance: float) -> float:
        """The distance at which the noise at these places is least rare, and the test still passes."""
        rare, usual = distance, 0.0 if self.kind.signs else USUAL
        for _ in range(HALVINGS):
            middle = (rare + usual) / 2 if self.kind.signs else math.sqrt(rare * usual)
            rare, usual = (middle, usual) if self.passes(places, middle) else (rare, middle)
        return rare


def _without_one(places: Places, parts: int) -> Iterator[Places]:
    """Yields the places without one of so many equal parts."""
    for part in np.array_split(np.arange(len(places)), parts):
        yield np.delete(places, part, axis=0)
