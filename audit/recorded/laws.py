"""The laws (distributions) of noise whose trade-off function is known: which ledgers charge for them, and the epsilon of a move
of the means.

Each epsilon is a lower bound for means that move by known amounts (Dong, Roth and Su 2022; for integers by enumeration). It falls
short of the exact value only by SLACK, by GRID, by NEARBY, and by moves that are left out if there are too many different ones.
If moves are left out, the cost of noise divided by a factor is 0, so no smallest detectable violation is stated.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...accounting.events.tree import gaussian_mu, parts
from ...accounting.events.types import FiniteDpEvent, PureDpEvent
from ...accounting.gaussian import epsilon_of
from ...accounting.upper.exact import finite_epsilon, pure_epsilon
from ...accounting.upper.tradeoff import epsilon_at_least
from ...models.recorder.mechanisms.mechanism import REPORT, TWO_SIDED, Mechanism
from .examination import Examination, Move
from .playing import small_moves
from .sources import Source

Floats = NDArray[np.float64]

NOTHING = 1e-5  # in units of the scale: a smaller move of an entry may be rounding, so no lower bound counts it
ULPS = 16  # units in the last place: a smaller move of an entry is rounding in any case
FRACTION = 1e-3  # of a step of a lattice: a smaller difference is rounding
SLACK = 2e-4  # relative: rounding error of a move in float32
GRID = 1e-2  # relative: grid error of the accountant for noise other than Gaussian
MOST = 64  # largest number of different moves whose curves are composed; equal moves are one curve, composed with itself
NEARBY = (1e-3, 2e-3, 4e-3, 8e-3)  # relative: moves that differ by less count as equal, the first with at most MOST groups
DIGITS_OF_MOVE = 6  # so rounding changes a move by less than 1e-5 of it, and SLACK is larger
DIGITS = 12  # reports whose probabilities agree to so many digits count as equal
LARGEST = 64.0  # largest factor of the noise in the search for the smallest detectable one
LONGEST = 1000  # geometric numbers from here on share one bin of a chi-squared test
CELLS = 5.0  # smallest expected count of a bin in a chi-squared test
TAILED = {"normal": stats.norm, "laplace": stats.laplace, "gumbel": stats.gumbel_r, "logistic": stats.logistic}
PURE = (dp.LaplaceDpEvent, dp.RandomizedResponseDpEvent, PureDpEvent, FiniteDpEvent)  # mechanisms of pure differential privacy


@dataclass(frozen=True)
class Law:
    """charged: the word by which messages name such mechanisms. pays(ledger): whether a ledger consists of mechanisms that charge
    for this noise.

    costs(found, move, factor, delta): the epsilon (nats) of a move of the means with all noise divided by a factor. events(found,
    move, factor): the mechanisms of which this is the cost, each with how often it occurs. p_value: of the hypothesis that the
    numbers of a source, at location 0 and scale 1, follow the law that the model requested.
    """

    charged: str
    pays: Callable[[dp.DpEvent], bool]
    costs: Callable[[Examination, Move, float, float], float]
    events: Callable[[Examination, Move, float], Mapping[Any, int]]
    p_value: Callable[[Source, Examination], float]


def cost_of(found: Examination) -> Callable[[Move, float, float], float] | None:
    """The cost (nats) of a move behind all recorded noise, as a function of the move, the factor of the noise, and delta; None if
    the trade-off function of one law is not known, if noise of several laws is added to one cell, or if several Laplace numbers
    are added to one entry: their sum has another law, and moves that are divided among them do not add up to its cost.
    """
    names, sources = sorted(found.laws), found.study.sources
    alone = len({s.cell for s in sources}) == len({(s.cell, s.block.law) for s in sources})
    unknown = ("geometric" in names and two_sided(found) is None) or ("choice" in names and lattice(found) is None)
    laplace = [s for s in sources if s.block.law == "laplace"]
    twice = any(np.any(sum(s.noised.astype(int) for s in laplace if s.cell == cell) > 1) for cell in {s.cell for s in laplace})
    if not names or not alone or unknown or twice or not all(name in LAWS for name in names):
        return None
    return partial(_composed, found, names)


def _composed(found: Examination, names: Sequence[str], move: Move, factor: float, delta: float) -> float:
    """The cost of noise of one law or several: at delta = 0 the sum of their costs, else that of all their mechanisms."""
    each = {name: LAWS[name].costs(found, move.of(name), factor, delta) for name in names}
    if not delta or sum(epsilon > 0 for epsilon in each.values()) < 2 or math.isinf(max(each.values())):
        return max(each.values()) if delta else sum(each.values())
    if factor != 1 and move.left_out:
        return 0.0
    events = together(*(LAWS[name].events(found, move.of(name), factor) for name in names))
    return max(*each.values(), _composed_if_all(events, factor, delta))


def together(*some: Mapping[Any, int]) -> dict[Any, int]:
    """Mechanism -> how often it occurs in all of these together. Noise of two laws may be one mechanism: two-sided geometric
    noise on a move by one step is a randomised bit.
    """
    counts: Counter[Any] = Counter()
    for events in some:
        counts.update(events)
    return dict(counts)


def _pure(ledger: dp.DpEvent) -> bool:
    return all(isinstance(event, PURE) for event, _ in parts(ledger))


def _gaussian_cost(found: Examination, move: Move, factor: float, delta: float) -> float:
    return float(epsilon_of(factor * move.euclidean * (1 - SLACK), delta))


def _laplace_cost(found: Examination, move: Move, factor: float, delta: float) -> float:
    """At a factor other than 1 it is 0 if moves are left out that matter, so that no smallest detectable factor is stated."""
    if factor != 1 and move.left_out:
        return 0.0
    return laplace_epsilon(move.entries, delta, factor)


def _gaussian_events(found: Examination, move: Move, factor: float) -> dict[Any, int]:
    mu = factor * move.euclidean * (1 - SLACK)
    return {dp.GaussianDpEvent(1 / mu): 1} if mu else {}


def _geometric_events(found: Examination, move: Move, factor: float) -> dict[Any, int]:
    rate = two_sided(found)
    assert rate is not None
    return _of_steps(whole_steps(move, 1.0), lambda step: shifted_geometric(factor * rate, step))


def _choice_events(found: Examination, move: Move, factor: float) -> dict[Any, int]:
    known = lattice(found)
    assert known is not None
    spacing, chances = known
    # if the noise has p(z) ~ exp(-rate |z|), this line multiplies its rate by the factor
    tilted = chances**factor / (chances**factor).sum()
    return _of_steps(whole_steps(move, spacing), lambda step: shifted(tilted, step))


def _of_events(
    events: Callable[[Examination, Move, float], Mapping[Any, int]],
) -> Callable[[Examination, Move, float, float], float]:
    """The cost of a move whose mechanisms are these events: a lower bound on its epsilon (nats)."""
    return lambda found, move, factor, delta: _composed_if_all(events(found, move, factor), factor, delta)


def _of_steps(steps: Sequence[int], event: Callable[[int], FiniteDpEvent]) -> dict[Any, int]:
    """Mechanism -> how often it occurs, for entries that move by these steps of a lattice. event: the pair of one entry."""
    counts = Counter(step for step in steps if step)
    return {event(step): counts[step] for step in sorted(counts, reverse=True)}


def whole_steps(move: Move, spacing: float) -> list[int]:
    """The moves of the entries in steps of a lattice; none if an entry moves by a fraction of a step. Noise on a lattice does not
    hide such a fraction, and no epsilon is computed for it.
    """
    steps = [entry / spacing for entry in move.entries]
    whole = [round(step) for step in steps]
    return whole if all(abs(s - w) <= FRACTION for s, w in zip(steps, whole, strict=True)) else []


def shifted(chances: Floats, steps: int) -> FiniteDpEvent:
    """The distributions of noise on a lattice with these probabilities, once around 0 and once shifted by `steps` steps of the
    lattice.
    """
    gap = np.zeros(min(steps, len(chances)))
    return FiniteDpEvent((*chances, *gap), (*gap, *chances))


def laplace_epsilon(entries: Sequence[float], delta: float, factor: float = 1.0) -> float:
    """A lower bound on the epsilon (nats) of Laplace noise of scale 1 / factor on entries that move by `entries`.

    At delta = 0 it is their sum. At other deltas, each move is rounded down to the smallest of its group.
    """
    if not delta:
        return factor * math.fsum(entries) * (1 - SLACK)
    return _composed_if_all(_laplace_events(entries, factor), factor, delta)


def _laplace_events(entries: Sequence[float], factor: float) -> dict[Any, int]:
    """Mechanism -> how often it occurs. Moves that agree to DIGITS_OF_MOVE digits count as equal."""
    some = ((factor * float(f"{move:.{DIGITS_OF_MOVE}g}"), count) for move, count in grouped(entries).items())
    return {dp.LaplaceDpEvent(1 / move): count for move, count in some}


def grouped(entries: Sequence[float]) -> dict[float, int]:
    """Move -> how many entries move at least that far, and farther only by a share of NEARBY. Largest first."""
    found: dict[float, int] = {}
    for share in NEARBY:
        found, group = {}, list[float]()
        for entry in (*sorted(entries, reverse=True), 0.0):
            if group and entry < group[0] * (1 - share):
                found[group[-1]] = found.get(group[-1], 0) + len(group)
                group = []
            group.append(entry)
        if len(found) <= MOST:
            break
    return found


def reports_epsilon(pairs: Sequence[tuple[Floats, Floats]], delta: float, factor: float = 1.0) -> float:
    """A lower bound on the epsilon (nats) of randomised reports. pairs: for each report, its probabilities in the two worlds, for
    noise divided by `factor`.
    """
    events = _report_events(pairs)
    if len(pairs) == 1:
        return float(finite_epsilon(next(iter(events)), delta)) * (1 - SLACK)
    return _composed_if_all(events, factor, delta)


def _report_events(pairs: Sequence[tuple[Floats, Floats]]) -> dict[Any, int]:
    """Mechanism -> how often it occurs, the costliest first."""
    names = [np.round(pair, DIGITS).tobytes() for pair in pairs]
    often, first = Counter(names), dict(zip(names, pairs, strict=True))
    events = {FiniteDpEvent(*(tuple(p.tolist()) for p in pair)): often[name] for name, pair in first.items()}
    return {e: events[e] for e in sorted(events, key=pure_epsilon, reverse=True)}


def _composed_if_all(events: Mapping[Any, int], factor: float, delta: float) -> float:
    """`composed`. At delta > 0 only the first MOST events count; if others are left out, the result for noise divided by a factor
    is 0, because a part of the events would give too large a smallest detectable factor.
    """
    if delta and len(events) > MOST:
        return composed(dict(list(events.items())[:MOST]), delta) if factor == 1 else 0.0
    return composed(events, delta)


def cost(mechanisms: Sequence[Mechanism], moves: Sequence[Floats], delta: float, factor: float = 1.0) -> float:
    """A lower bound on the epsilon (nats) of the moves of some mechanisms, composed.

    moves: as `Mechanism.over` gives them. factor: divides all noise, see `Mechanism.pairs`.
    """
    both = list(zip(mechanisms, moves, strict=True))
    kept = [(m, np.where(np.abs(by) > NOTHING, by, 0.0)) for m, by in both if m.law != REPORT]
    entries = [by[by != 0] for m, by in kept if m.law == "laplace"]
    mu = factor * math.sqrt(sum(float(np.square(by).sum()) for m, by in kept if m.law == "normal")) * (1 - SLACK)
    moved = tuple(float(v) for v in np.abs(np.concatenate(entries))) if entries else ()
    reports = [pair for m, by in both if m.law == REPORT for pair in m.pairs(by, factor)]
    whole = _whole_events(kept, factor)
    each = (
        float(epsilon_of(mu, delta)),
        laplace_epsilon(moved, delta, factor),
        reports_epsilon(reports, delta, factor),
        _composed_if_all(whole, factor, delta),
    )
    if sum(epsilon > 0 for epsilon in each) < 2 or math.isinf(max(each)):
        return max(each)
    normal = {dp.GaussianDpEvent(1 / mu): 1} if mu else {}
    events = together(normal, _laplace_events(moved, factor), _report_events(reports), whole)
    return max(*each, _composed_if_all(events, factor, delta))


def _whole_events(kept: Sequence[tuple[Mechanism, Floats]], factor: float) -> dict[Any, int]:
    """Mechanism -> how often it occurs, for two-sided geometric noise on whole numbers. A fraction of a step, as half of a move
    is, is left out.
    """
    steps = Counter(
        (m.scale, int(step))
        for m, by in kept
        if m.law == TWO_SIDED
        for step in np.floor(np.abs(by[by != 0]) * m.scale + FRACTION).tolist()
        if step
    )
    pairs = sorted(steps, key=lambda each: each[1] / each[0], reverse=True)
    return {shifted_geometric(factor / scale, step): steps[scale, step] for scale, step in pairs}


def left_out(mechanisms: Sequence[Mechanism], moves: Sequence[Floats]) -> str:
    """Why the many small moves that `cost` does not count may matter together, so that no reach follows from it; "" if they do
    not. moves: as for `cost`.
    """
    counted, total, entries = 0.0, 0.0, 0
    for m, by in zip(mechanisms, moves, strict=True):
        if m.law == REPORT:
            counted, total = counted + m.size(by), total + m.size(by)
            continue
        error = ULPS * np.spacing(np.abs(m.clean).astype(m.noisy.dtype)).astype(np.float64)
        small = (np.abs(by) * m.scale > error) & (np.abs(by) <= NOTHING)
        large = np.abs(by) > NOTHING
        counted, total = counted + m.size(np.where(large, by, 0.0)), total + m.size(np.where(small | large, by, 0.0))
        entries += int(small.sum())
    return small_moves(counted, total, entries, NOTHING)


def composed(events: Mapping[Any, int], delta: float) -> float:
    """A lower bound on the epsilon (nats) of the composition of some mechanisms: the accountant's value minus its grid error.

    events: mechanism -> how often it is composed. At delta = 0 the largest log-likelihood ratios add up, and only SLACK is
    subtracted.
    """
    if not events:
        return 0.0
    if any(isinstance(e, FiniteDpEvent) and not shares_an_outcome(e) for e in events):
        return math.inf
    return _accounted(tuple(events.items()), delta) * (1 - (GRID if delta else SLACK))


@lru_cache(maxsize=256)
def _accounted(events: tuple[tuple[Any, int], ...], delta: float) -> float:
    return epsilon_at_least(dp.ComposedDpEvent([dp.SelfComposedDpEvent(event, count) for event, count in events]), delta)


def shares_an_outcome(event: FiniteDpEvent) -> bool:
    """Whether some outcome is possible in both worlds. If none is, epsilon is infinite at every delta below 1."""
    return any(p > 0 and q > 0 for p, q in zip(event.upper, event.lower, strict=True))


def shifted_geometric(rate: float, steps: int) -> FiniteDpEvent:
    """The distributions of two-sided geometric noise, P(z) ~ exp(-rate |z|), once around 0 and once shifted by `steps`, a whole
    number.

    The likelihood ratio is constant up to 0 and from `steps` on, so one outcome represents each of these tails.
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
    rates = set()
    for cell in {s.cell for s in found.study.sources if s.block.law == "geometric"}:
        own = found.study.on(cell)
        if len(own) != 2 or not np.array_equal(own[0].noised, own[1].noised):
            return None
        factor = np.concatenate([np.unique(s.factor[s.noised]) for s in own])
        if factor.size != 2 or abs(factor.sum()) > SLACK * abs(factor[0]):
            return None
        rates |= {round(-math.log1p(-_chance(s, found)), 12) for s in own}
    return rates.pop() if len(rates) == 1 else None


def lattice(found: Examination) -> tuple[float, Floats] | None:
    """The spacing and the probabilities of noise that `choice` draws from equally spaced numbers with given probabilities.

    None unless every noisy cell holds one such draw, all with the same values and probabilities.
    """
    own = [s for s in found.study.sources if s.block.law == "choice"]
    draws = [found.study.base.draws[s.block.parts[0][0]] for s in own]
    first = draws[0]
    if first.chances is None or first.chances.ndim > 1 or len({s.cell for s in own}) < len(draws):
        return None
    same = all(d.among == first.among and d.chances is not None and np.array_equal(d.chances, first.chances) for d in draws)
    gaps = np.diff(np.array(first.among))
    even = gaps.size > 0 and gaps[0] > 0 and bool(np.allclose(gaps, gaps[0], rtol=1e-9, atol=0))
    return (float(gaps[0]), first.chances) if same and even else None


def _chance(source: Source, found: Examination) -> float:
    return float(found.study.base.draws[source.block.parts[0][0]].parameters[0])


def _distance(law: str, source: Source, found: Examination) -> float:
    return float(stats.kstest(source.numbers(found.study.base.draws).ravel(), law).pvalue)


def _whole(source: Source, found: Examination) -> float:
    """The p-value of a chi-squared test of geometric numbers."""
    numbers, chance = source.numbers(found.study.base.draws).ravel(), _chance(source, found)
    values = np.arange(1, LONGEST)
    counts = [*((numbers == k).sum() for k in values), (numbers >= LONGEST).sum()]
    return as_often(counts, numbers.size * np.append(stats.geom.pmf(values, chance), stats.geom.sf(LONGEST - 1, chance)))


def _listed(source: Source, found: Examination) -> float:
    """The p-value of a chi-squared test of numbers from a list with probabilities."""
    draw = found.study.base.draws[source.block.parts[0][0]]
    if draw.chances is None or draw.chances.ndim > 1:
        return 1.0
    numbers = source.numbers(found.study.base.draws).ravel()
    return as_often([(numbers == value).sum() for value in draw.among], numbers.size * draw.chances)


def as_often(counts: Sequence[int], expected: Floats) -> float:
    """The p-value of a chi-squared test. Values whose expected count is below CELLS share the bin of the least expected of the
    other values.
    """
    often = np.flatnonzero(expected >= CELLS)
    if len(often) < 2:
        return 1.0
    least = often[expected[often].argmin()]
    cell = np.where(expected >= CELLS, np.arange(len(expected)), least)
    seen, wanted = (np.bincount(cell, weights=each, minlength=len(expected))[often] for each in (np.array(counts), expected))
    return float(stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue)


LAWS = {
    "normal": Law("normal", lambda e: gaussian_mu(e) is not None, _gaussian_cost, _gaussian_events, partial(_distance, "norm")),
    "laplace": Law(
        "laplace",
        _pure,
        _laplace_cost,
        lambda _, move, factor: _laplace_events(move.entries, factor),
        partial(_distance, "laplace"),
    ),
    "geometric": Law("geometric", _pure, _of_events(_geometric_events), _geometric_events, _whole),
    "choice": Law(
        "discrete", lambda e: gaussian_mu(e) is not None or _pure(e), _of_events(_choice_events), _choice_events, _listed
    ),
}
