"""The laws of noise whose trade-off function is known: which ledgers charge for them, and the epsilon of a move of the means.

The epsilon is exact for means that move by known amounts (Dong, Roth and Su 2022; for whole numbers by enumeration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import dp_accounting as dp
import numpy as np
from scipy import stats

from ...accounting.events.tree import gaussian_mu, parts
from ...accounting.events.types import FiniteDpEvent, PureDpEvent
from ...accounting.gaussian import epsilon_of
from ...accounting.upper.tradeoff import curve
from .sources import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .examination import Examination, Move

    Floats = NDArray[np.float64]

SLACK = 2e-4  # relative: rounding error of a move in float32
GRID = 1e-2  # relative: grid error of the accountant for noise other than Gaussian
MOST = 64  # largest number of moved entries whose curves are composed; smaller moves are left out
LARGEST = 64.0  # largest factor of the noise in the search for the smallest detectable one
CELLS = 5.0  # smallest expected count of a value in a chi-squared test
PURE = (dp.LaplaceDpEvent, dp.RandomizedResponseDpEvent, PureDpEvent, FiniteDpEvent)  # events that bound the likelihood ratio


@dataclass(frozen=True)
class Law:
    """charged: the name of the mechanisms in a ledger that charges for this noise. pays: whether a ledger consists of them.

    costs(found, move, factor, delta): the epsilon (nats) of a move of the means with all noise divided by a factor.
    p_value: of "the numbers of this source, at location 0 and scale 1, follow the law that the model requested".
    """

    charged: str
    pays: Callable[[dp.DpEvent], bool]
    costs: Callable[[Examination, Move, float, float], float]
    p_value: Callable[[Source, Examination], float]


def law_of(found: Examination) -> Law | None:
    """The law of all recorded noise; None if there are several laws, or if its trade-off function is not known."""
    if len(found.laws) != 1:
        return None
    (name,) = found.laws
    return None if name == "geometric" and two_sided(found) is None else LAWS.get(name)


def _pure(ledger: dp.DpEvent) -> bool:
    return all(isinstance(event, PURE) for event, _ in parts(ledger))


def _gaussian_cost(found: Examination, move: Move, factor: float, delta: float) -> float:
    return float(epsilon_of(factor * move.euclidean * (1 - SLACK), delta))


def _laplace_cost(found: Examination, move: Move, factor: float, delta: float) -> float:
    return laplace_epsilon([factor * entry for entry in move.entries], delta)


def _geometric_cost(found: Examination, move: Move, factor: float, delta: float) -> float:
    rate = two_sided(found)
    assert rate is not None
    steps = [round(entry) for entry in largest(move.entries)]
    return composed([shifted_geometric(factor * rate, step) for step in steps if step], delta)


def laplace_epsilon(entries: Sequence[float], delta: float) -> float:
    """A lower bound on the epsilon of Laplace noise of scale 1 on entries that move by `entries`."""
    return composed([dp.LaplaceDpEvent(1 / entry) for entry in largest(entries)], delta)


def largest(entries: Sequence[float]) -> list[float]:
    """The MOST entries that move farthest. Their epsilon bounds that of all entries from below."""
    return sorted(entries, reverse=True)[:MOST]


def composed(events: list[dp.DpEvent], delta: float) -> float:
    """A lower bound on the epsilon of the composition of some mechanisms: the accountant's value less its grid error."""
    return float(curve(dp.ComposedDpEvent(events)).epsilon(delta)) * (1 - GRID) if events else 0.0


def shifted_geometric(rate: float, steps: int) -> FiniteDpEvent:
    """Two-sided geometric noise, P(z) ~ exp(-rate |z|), around 0 and around a whole number of steps.

    The likelihood ratio is constant up to 0 and from `steps` on, so one outcome stands for each of these tails.
    """
    ratio = math.exp(-rate)
    near, tail = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
    between = [near * ratio**z for z in range(1, steps)]
    there = (tail, *between, tail * ratio**steps)
    return FiniteDpEvent(there, there[::-1])


def two_sided(found: Examination) -> float | None:
    """The rate -log(1 - p) of two-sided geometric noise.

    None unless every noisy cell holds the difference of two geometric draws, all with the same p.
    """
    sources, rates = found.study.sources, set()
    for cell in {s.cell for s in sources}:
        own = found.study.on(cell)
        factor = np.concatenate([np.unique(s.factor) for s in own])
        if len(own) != 2 or factor.size != 2 or abs(factor.sum()) > SLACK * abs(factor[0]):
            return None
        rates |= {round(-math.log1p(-_chance(s, found)), 12) for s in own}
    return rates.pop() if len(rates) == 1 else None


def _chance(source: Source, found: Examination) -> float:
    return float(found.study.base.draws[source.block.parts[0][0]].parameters[0])


def _distance(law: str, source: Source, found: Examination) -> float:
    return float(stats.kstest(source.numbers(found.study.base.draws).ravel(), law).pvalue)


def _whole(source: Source, found: Examination) -> float:
    """The p-value of a chi-squared test. Each value with a large enough expected count has its own cell; the rest share one."""
    numbers, chance = source.numbers(found.study.base.draws).ravel(), _chance(source, found)
    expected = numbers.size * stats.geom.pmf(np.arange(1, 1000), chance)
    common = int((expected >= CELLS).sum())
    if common < 2:
        return 1.0
    counts = np.array([(numbers == k).sum() for k in range(1, common)] + [(numbers >= common).sum()])
    return float(stats.chisquare(counts, [*expected[: common - 1], numbers.size - expected[: common - 1].sum()]).pvalue)


LAWS = {
    "normal": Law("normal", lambda e: gaussian_mu(e) is not None, _gaussian_cost, partial(_distance, "norm")),
    "laplace": Law("laplace", _pure, _laplace_cost, partial(_distance, "laplace")),
    "geometric": Law("geometric", _pure, _geometric_cost, _whole),
}
