"""Finds paths past the noise that are open with rare noise only, as in a program that answers with exact data if all noisy votes
are small.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....models.recorder.mechanisms.mechanism import Mechanism
from ....reports.rounding import several
from ...recorded.laws import TAILED
from ...recorded.secrets.worlds import Absence
from ...recorded.study import History
from ..absence import changed_without, kept
from ..past_noise import changed
from ..reading import repeated

OFF = (6.0, 2.0)  # in units of the scale: the first distances of `Rare` from the clean values
USUAL = 2.0  # the largest distance that counts as near
UNLIKE = 0.05  # in units of the scale: by so much noise numbers at one distance from 0 differ at most
FEW = 64  # more values that must be rare together are too improbable
HALVINGS = 8  # of the interval in which the smallest or the largest distance lies
FARTHEST, MIDDLES = 10.0, 2001  # in units of the scale: how far from the clean values a common value may lie; how many are tried

Places = NDArray[np.int64]  # (places, 2): the position of a mechanism in the run, and of one of its entries


@dataclass(frozen=True)
class Rare:
    """Rare noise. name: where the noisy values lie: "below" or "above" the clean ones by at least a distance, or within it of 0
    ("zero") or of one common value ("common"). first: the distances that are tried, in units of the scale.
    """

    name: str
    first: tuple[float, ...]

    @property
    def far(self) -> bool:
        """Whether a larger distance is rarer."""
        return self.name in ("below", "above")

    def noisy(self, mechanism: Mechanism, distance: float) -> NDArray[np.float64]:
        """Noisy values at this distance. They differ from one another, because equal values may decide a comparison."""
        clean, scale = mechanism.clean, np.broadcast_to(np.asarray(mechanism.scale, dtype=np.float64), mechanism.clean.shape)
        unlike = np.cos(np.arange(1, clean.size + 1) ** 2).reshape(clean.shape)
        if self.far:
            away = scale * (distance + UNLIKE * np.abs(unlike))
            return clean + away if self.name == "above" else clean - away
        middle = 0.0 if self.name == "zero" else float(mechanism.noisy.max())
        return middle + distance * scale * unlike

    def chance(self, first: History, places: Places, distance: float) -> float:
        """The probability that the noise of all these places is so rare."""
        laws = [TAILED[first.mechanisms[i].law] for i, _ in places]
        if self.far:
            return math.exp(sum(law.logsf(distance) if self.name == "above" else law.logcdf(-distance) for law in laws))
        of_places = [(first.mechanisms[i], at) for i, at in places]
        scales = np.array([np.broadcast_to(m.scale, m.clean.shape).flat[at] for m, at in of_places])
        clean = np.array([m.clean.flat[at] for m, at in of_places])
        low, high = float((clean - FARTHEST * scales).min()), float((clean + FARTHEST * scales).max())
        middles = np.zeros(1) if self.name == "zero" else np.linspace(low, high, MIDDLES)
        each = zip(laws, (middles - at for at in clean), scales, strict=True)
        near = np.prod([law.cdf(by / scale + distance) - law.cdf(by / scale - distance) for law, by, scale in each], axis=0)
        return float(near[0] if self.name == "zero" else np.trapezoid(near, middles) / (2 * distance * scales.max()))

    def words(self, count: int, distance: float) -> str:
        """Where so many noisy values lie."""
        numbers = several(count, "noise number" if self.far else "noisy value") + (" lies" if count == 1 else " lie")
        if self.far:
            return f"{numbers} at least {distance:.2g} times the scale {self.name} 0"
        return f"{numbers} within {distance:.2g} times the scale of {'0' if self.name == 'zero' else 'one another'}"


RARE = (Rare("below", OFF), Rare("above", OFF), Rare("zero", (1e-2,)), Rare("common", (1e-5,)))


@dataclass(frozen=True, eq=False)
class Opened:
    """A repetition of a run with rare noise, in which a secret changes arrays although every noisy value is the same. past: these
    arrays, each with a sentence.
    """

    run: History
    absent: Absence
    past: dict[str, str]


def opened(first: History, secrets: Sequence[Absence], delta: float, until: float) -> Opened | None:
    """A path past the noise that opens if some noisy values of a run are rare, see RARE; None if there is none whose probability
    is above `delta`.

    The search makes all noisy values rare. If a secret then changes the release, it looks for few rare values that let it do so,
    and for the least rare ones. The probability is that of such noise in all of them, if all of it opens the path. The path may
    also open in other ways, so this is no upper limit. until: processor time at which the search ends.
    """
    sizes = [(i, m.noisy.size) for i, m in enumerate(first.mechanisms) if m.law in TAILED and m.plain]
    if not sizes:
        return None
    places = np.concatenate([np.stack([np.full(size, i), np.arange(size)], axis=1) for i, size in sizes])
    for kind, distance in ((rare, distance) for rare in RARE for distance in rare.first):
        run = _with_noise(first, kind, places, distance)
        for absent in secrets if run is not None else ():
            if time.process_time() > until:
                return None
            if not _opens(run, absent):
                continue
            search = _Search(first, absent, kind, until)
            some = search.fewest(places, distance)
            if len(some) > FEW:
                continue
            least = search.least_rare(some, distance)
            chance = kind.chance(first, some, least)
            found = _with_noise(first, kind, some, least)
            if chance > delta and found is not None and _opens(found, absent):
                past = changed(found, absent, kept(found, absent).play)
                text = f"; it does so where {kind.words(len(some), least)}, which has a probability of about {chance:.2g}"
                return Opened(found, absent, {array: why + text for array, why in past.items()})
    return None


def _with_noise(first: History, kind: Rare, places: Places, distance: float) -> History | None:
    """The repetition of a run in which these noisy values are rare; None if it is not known."""
    instead: dict[int, Mechanism] = {}
    for i in np.unique(places[:, 0]).tolist():
        m, rare = first.mechanisms[i], np.zeros(first.mechanisms[i].noisy.size, dtype=bool)
        rare[places[places[:, 0] == i, 1]] = True
        instead[i] = m.with_noisy(np.where(rare.reshape(m.noisy.shape), kind.noisy(m, distance), m.noisy))
    return repeated(first, instead)


def _opens(run: History | None, absent: Absence) -> bool:
    """Whether a secret changes the release of a run although every noisy value is the same."""
    return run is not None and bool(changed_without(run, absent))


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for few and less rare noisy values that let a secret change the release. until: as in `opened`."""

    first: History
    absent: Absence
    kind: Rare
    until: float

    def opens(self, places: Places, distance: float) -> bool:
        return _opens(_with_noise(self.first, self.kind, places, distance), self.absent)

    def fewest(self, places: Places, distance: float) -> Places:
        """Some of these places that still open the path. Unless the time is up, none of them can be left out alone (Zeller and
        Hildebrandt 2002).
        """
        parts = 2
        while len(places) > 1 and time.process_time() < self.until:
            smaller = next((rest for rest in _without_one(places, parts) if self.opens(rest, distance)), None)
            if smaller is not None:
                places, parts = smaller, max(parts - 1, 2)
            elif parts >= len(places):
                break
            else:
                parts = min(len(places), 2 * parts)
        return places

    def least_rare(self, places: Places, distance: float) -> float:
        """The distance at which the noise at these places is least rare, and still opens the path."""
        rare, usual = distance, 0.0 if self.kind.far else USUAL
        for _ in range(HALVINGS):
            middle = (rare + usual) / 2 if self.kind.far else math.sqrt(rare * usual)
            rare, usual = (middle, usual) if self.opens(places, middle) else (rare, middle)
        return rare


def _without_one(places: Places, parts: int) -> Iterator[Places]:
    """Yields the places without one of so many equal parts."""
    for part in np.array_split(np.arange(len(places)), parts):
        yield np.delete(places, part, axis=0)
