"""Lower bounds from noise whose size depends on a secret, as if its scale is computed from the private graph.

A secret changes the scale of noise in a released array. The adversary compares how far the released numbers lie from their clean
values with both scales: numbers far away are likelier in the world of the larger scale. If one scale is 0, the number is its
clean value in that world, and almost never in the other.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from ...accounting.checks.conditions import Condition, proved
from ...accounting.lower.bounds import Bound
from ...models.recorder.mechanisms.found import Mechanisms
from ...models.recorder.mechanisms.mechanism import Mechanism
from ..case import Case
from ..mechanisms.absence import Incomparable, OtherNoise, history, kept, run_on_its_base
from ..mechanisms.draws.noise_law import DISTRIBUTIONS, law_of
from ..mechanisms.inside import Inside
from ..recorded.playing import Diverged
from ..recorded.secrets.worlds import Absence, alone
from ..recorded.study import History
from .certain_paths import equal, shown_by
from .released_noise import REPEATED, exact

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
    """Noise numbers of one law whose scale is `wide` in one of two worlds and `narrow` in the other. apart: the Euclidean
    distance of the clean values, which is 0 for several numbers that are not normal.
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
        if delta == 0 or self.narrow == 0:
            return math.inf  # at delta 0, the larger the threshold, the larger the ratio of the two probabilities
        if self.apart and self.law == "normal":
            t = RANGE * self.count  # the sum of squares, in units of the narrow scale; noncentral in the wide world
            far = stats.ncx2(self.count, (self.apart / self.wide) ** 2).sf(t * (self.narrow / self.wide) ** 2)
            pairs = [(np.log(np.maximum(far, 1e-300)), stats.chi2(self.count).logsf(t))]
        elif self.apart:
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
    for part, where in ((part, where) for part, where in within.parts if part.resized and releases_noise(part.run)):
        for run, secret, line, found in changed(part):
            sizes = f"it is {found.narrow:.4g} in one world and {found.wide:.4g} in the other"
            text = f"{secret} changes the scale of the noise at {line}; {sizes}{where}"
            if bound := refuting(case, run, found, text, SIZES, SHOWN, SETTLED):
                return bound
    return None


def releases_noise(run: History) -> bool:
    """Whether some array equals a noisy value of the run, which needs no training. If none does, no size of noise is released."""
    numbers = (m.noisy for m in run.mechanisms if m.law in POWERS)
    return any(equal(noisy, run.play, cell) for noisy in numbers for cell in run.play.cells)


def refuting(case: Case, run: History, found: Resized, text: str, *conditions: Condition) -> Bound | None:
    """The bound that noise of two sizes proves, if it refutes the claim and the noise of the run follows its law; else None."""
    if (epsilon := found.epsilon(case.claim.delta)) <= case.claim.epsilon:
        return None
    bound = exact(epsilon, text, EVENTS, (REPEATED, *conditions, law_of(run)))
    return None if bound.failed else replace(bound, refuted=True)


def changed(within: Inside) -> Iterator[tuple[History, str, str, Resized]]:
    """Yields runs and the secrets that change the scale of their released noise, each with a line and its noise. Only noise of
    which a run with another seed shows the same counts.
    """

    def changes(absent: Absence) -> bool:
        with suppress(Incomparable):
            pairs = zip(*in_both(within.run, absent), strict=True)
            return any(not same(m.scale, o.scale) for m, o in pairs)
        return False

    for absent in alone(within.resized[:TRIED], changes):
        with suppress(Incomparable, Diverged):
            first, one = run_on_its_base(within.run, absent)
            second = history(first.study, 1)
            yield from ((first, one.secret, line, found) for line, found in resized(first, second, one))


def in_both(first: History, absent: Absence) -> tuple[tuple[Mechanism, ...], tuple[Mechanism, ...]]:
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
    if len(first.mechanisms) != len(second.mechanisms):
        return
    pairs, others = (list(zip(*in_both(run, absent), strict=True)) for run in (first, second))
    for i, (worlds, again) in enumerate(zip(pairs, others, strict=True)):
        one, other = worlds
        separate = not any(m.mirrored or m.shared for m in worlds)  # each entry has a noise number of its own, or none
        if not (one.law in POWERS and separate and shown_by((first, second), [i])):
            continue
        settled = all(same(m.scale, o.scale) and same(m.clean, o.clean) for m, o in zip(worlds, again, strict=True))
        found = clearest(one, other, absent) if settled and one.clean.shape == other.clean.shape else None
        if found is not None:
            yield one.line, found


def clearest(one: Mechanism, other: Mechanism, absent: Absence) -> Resized | None:
    """The first number that has noise in one world alone. If there is none, the numbers whose scales differ by the most frequent
    factor, of those with equal clean values; if there are none, the one number whose scales differ most; None if no scale
    differs. Own rows of absent nodes do not count.
    """
    seen = absent.shown(one.clean.shape)
    scales = [np.broadcast_to(np.asarray(m.scale, dtype=np.float64), m.clean.shape)[seen] for m in (one, other)]
    narrow, wide = np.minimum(*scales), np.maximum(*scales)
    if (bare := np.flatnonzero((narrow == 0) & (wide > 0))).size:
        return Resized(one.law, 1, 0.0, float(wide[bare[0]]))
    narrow, wide = (np.where(wide > 0, scale, 1.0) for scale in (narrow, wide))
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
