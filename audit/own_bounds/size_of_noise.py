"""Lower bounds from noise whose size depends on a secret, as if its scale is computed from the private graph.

A secret changes the scale of noise in a released array. The adversary compares how far the released numbers lie from their clean
values with both scales: numbers far away are likelier in the world of the larger scale.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder.mechanisms.found import Mechanism, Mechanisms
from ..case import Case
from ..mechanisms.absence import Incomparable, OtherNoise, history, kept
from ..mechanisms.inside import Inside
from ..recorded.playing import Diverged
from ..recorded.study import History
from ..recorded.worlds import UNUSUAL, Absence
from .certain_paths import equal
from .noise_law import DISTRIBUTIONS, law_of
from .released_noise import REPEATED, exact
from .released_sums import additive

TRIED = 4  # largest number of secrets
ALIKE = 1e-6  # relative: scales and clean values that differ by less count as equal
POWERS = {"laplace": 1, "normal": 2}  # law -> the power of numbers whose sum has a gamma distribution
RANGE = np.geomspace(1e-3, 1e3, 4001)  # thresholds that are tried, in units of the narrow world's mean or scale
MARGIN = 1.001  # probabilities nearer to delta are left out, because rounding would decide their difference
EVENTS = "an event of probability p in one world and q in the other proves epsilon >= log((p - delta) / q)"
SIZES = proved("both scales are exact", "the recorder knows the scale of each draw, in both worlds")
SHOWN = proved("the noisy values are released", "an array equals them in two runs with different seeds")
SETTLED = Condition(
    "no draw changes the scales or the clean values", "checked", "another seed gives the same ones in the same two worlds"
)


@dataclass(frozen=True)
class Resized:
    """Noise numbers of one law whose scale is `wide` in one of two worlds and `narrow` in the other. apart: the distance of the
    clean values, which is 0 if there are several numbers.
    """

    law: str
    count: int
    narrow: float
    wide: float
    apart: float = 0.0

    def epsilon(self, delta: float) -> float:
        """The largest epsilon (nats) that an event proves: the numbers lie farther from the clean values of the narrow world than
        a threshold, or, for equal clean values, nearer.
        """
        if delta == 0:
            return math.inf  # the larger the threshold, the larger the ratio of the two probabilities
        if self.apart:
            law, t = DISTRIBUTIONS[self.law], RANGE * self.narrow
            far = np.logaddexp(law.logsf((t - self.apart) / self.wide), law.logsf((t + self.apart) / self.wide))
            pairs = [(far, math.log(2) + law.logsf(t / self.narrow))]
        else:
            power = POWERS[self.law]
            gamma, t = stats.gamma(self.count / power), RANGE * self.count / power
            in_wide = t * (self.narrow / self.wide) ** power
            pairs = [(gamma.logsf(in_wide), gamma.logsf(t)), (gamma.logcdf(t), gamma.logcdf(in_wide))]
        known = [(np.exp(p[kept]), q[kept]) for p, q in pairs if (kept := (np.exp(p) > MARGIN * delta) & np.isfinite(q)).any()]
        return max(0.0, *(float(np.max(np.log(p - delta) - q)) for p, q in known))


def from_sizes(case: Case, within: Inside) -> Bound | None:
    """A bound that refutes the claim, if a secret changes the size of released noise so much, in the graph or in a small graph of
    unusual nodes; else None.
    """
    parts = [(within, ""), *([(within.small, f", on a {UNUSUAL}")] if within.small is not None else [])]
    for part, where in parts:
        for absent in alone(part):
            with suppress(Incomparable, Diverged):
                for line, found in resized(part.run, history(part.run.study, 1), absent):
                    if (epsilon := found.epsilon(case.claim.delta)) > case.claim.epsilon:
                        sizes = f"it is {found.narrow:.4g} in one world and {found.wide:.4g} in the other"
                        text = f"{absent.secret} changes the scale of the noise at {line}; {sizes}{where}"
                        bound = exact(epsilon, text, EVENTS, (REPEATED, SIZES, SHOWN, SETTLED, law_of(part.run)))
                        return replace(bound, refuted=not bound.failed)
    return None


def alone(within: Inside) -> Iterator[Absence]:
    """Yields worlds without one secret in which some noise has another scale."""

    def changes(absent: Absence) -> bool:
        with suppress(Incomparable):
            pairs = zip(*both(within.run, absent), strict=True)
            return any(not same(m.scale, o.scale) for m, o in pairs)
        return False

    found = (absent if absent.among.size == 1 else absent.single(changes) for absent in within.resized[:TRIED])
    yield from (absent for absent in found if absent is not None and absent.among.size == 1 and not absent.half)


def both(first: History, absent: Absence) -> tuple[tuple[Mechanism, ...], tuple[Mechanism, ...]]:
    """The mechanisms of the runs with and without a secret, with the noisy values of `first`."""
    return first.mechanisms if absent.base is None else mechanisms(first, absent.base), mechanisms(first, absent)


def mechanisms(first: History, absent: Absence) -> tuple[Mechanism, ...]:
    """The mechanisms of the run without a secret, whose noise may be of another size. Raises Incomparable as `kept`."""
    again = Mechanisms(first.mechanisms)
    with suppress(OtherNoise):
        kept(first, absent, again)
    return tuple(again.found)


def resized(first: History, second: History, absent: Absence) -> Iterator[tuple[str, Resized]]:
    """Yields released noise numbers whose scale one secret changes, with their line. They have the same two scales and clean
    values in a run with another seed.
    """
    pairs, others = (list(zip(*both(run, absent), strict=True)) for run in (first, second))
    for i, (worlds, again) in enumerate(zip(pairs, others, strict=True)):
        one, other = worlds
        if not (one.law in POWERS and all(map(additive, worlds)) and released(first, second, i)):
            continue
        settled = all(same(m.scale, o.scale) and same(m.clean, o.clean) for m, o in zip(worlds, again, strict=True))
        found = clearest(one, other, absent) if settled and one.clean.shape == other.clean.shape else None
        if found is not None:
            yield one.line, found


def released(first: History, second: History, i: int) -> bool:
    """Whether an array of both runs equals the noisy value of mechanism i."""
    runs = [(run.mechanisms[i].noisy, run.play) for run in (first, second)]
    return any(all(equal(noisy, play, cell) for noisy, play in runs) for cell in first.play.cells)


def clearest(one: Mechanism, other: Mechanism, absent: Absence) -> Resized | None:
    """The numbers whose scales differ by the most frequent factor, of those with equal clean values; if there are none, the one
    number whose scales differ most; None if no scale differs. Own rows of absent nodes do not count.
    """
    seen = np.ones(one.clean.shape, dtype=bool)
    if absent.hidden is not None and seen.ndim and len(seen) == absent.worlds.graph.nodes:
        seen[absent.hidden] = False
    scales = [np.broadcast_to(np.asarray(m.scale, dtype=np.float64), m.clean.shape)[seen] for m in (one, other)]
    narrow, wide = np.minimum(*scales), np.maximum(*scales)
    logs, apart = np.log(wide / narrow), np.abs(one.clean[seen] - other.clean[seen])
    differ = logs > ALIKE
    if not differ.any():
        return None
    if not (still := differ & (apart <= ALIKE * narrow)).any():
        at = int(logs.argmax())
        return Resized(one.law, 1, float(narrow[at]), float(wide[at]), float(apart[at]))
    factors, counts = np.unique(np.round(logs[still], 6), return_counts=True)
    at = int(np.flatnonzero(still & (np.round(logs, 6) == factors[counts.argmax()]))[0])
    return Resized(one.law, int(counts.max()), float(narrow[at]), float(wide[at]))


def same(one: object, other: object) -> bool:
    """Whether two numbers or arrays are equal up to ALIKE."""
    return bool(np.allclose(np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64), rtol=ALIKE, atol=0))
