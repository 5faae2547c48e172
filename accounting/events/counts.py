"""Counts the mechanisms of a ledger and reads their sampling rates; tests exactly whether batches were sampled at such a rate."""

import math
from dataclasses import dataclass

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray
from scipy import stats

from .mechanisms import composed, on_sampled_nodes, repeated
from .tree import leaves
from .types import VisibleMixtureDpEvent

STEPS = (dp.PoissonSampledDpEvent, VisibleMixtureDpEvent, dp.SampledWithoutReplacementDpEvent)

PEOPLE = 1 << 12  # records in one block of a matrix product
MOST_PAIRED = 2000  # largest number of batches that are compared pairwise


@dataclass(frozen=True)
class Charged:
    """The number of mechanisms in a ledger. plain: mechanisms on all records. steps: mechanisms that each draw their own sample.

    rate: the inclusion probability of these samples; None if there are no samples, if their rates differ, or if records do not
    join by independent coins. whole: the rate of one sample that all mechanisms share, 1 if there is none. plain_multiplier,
    step_multiplier: the smallest Gaussian noise multiplier among plain mechanisms and among steps; infinite if there is none.
    """

    plain: int = 0
    steps: int = 0
    rate: float | None = None
    whole: float = 1.0
    plain_multiplier: float = math.inf
    step_multiplier: float = math.inf


def charged(ledger: DpEvent) -> Charged:
    """Counts the mechanisms of a ledger that is built by the functions of mechanisms.py."""
    plain = steps = 0
    rates: list[float | None] = []
    multipliers: dict[bool, list[float]] = {True: [], False: []}
    whole = 1.0

    def gaussians(event: DpEvent) -> list[float]:
        return [float(leaf.noise_multiplier) for leaf in leaves(event) if isinstance(leaf, dp.GaussianDpEvent)]

    def walk(event: DpEvent, count: int) -> None:
        nonlocal plain, steps, whole
        if isinstance(event, dp.ComposedDpEvent):
            for part in event.events:
                walk(part, count)
        elif isinstance(event, dp.SelfComposedDpEvent):
            walk(event.event, count * event.count)
        elif isinstance(event, dp.PoissonSampledDpEvent) and _is_whole(event):
            whole = float(event.sampling_probability)
            walk(event.event, count)
        elif isinstance(event, STEPS):
            steps += count
            rates.append(_rate(event))
            multipliers[True] += gaussians(event)
        elif not isinstance(event, dp.NoOpDpEvent):
            plain += count
            multipliers[False] += gaussians(event)

    walk(ledger, 1)
    rate = rates[0] if len(set(rates)) == 1 else None
    smallest = {sampled: min(found, default=math.inf) for sampled, found in multipliers.items()}
    return Charged(plain, steps, rate, whole, smallest[False], smallest[True])


def recounted(ledger: DpEvent, plain: float, steps: float) -> DpEvent:
    """The same ledger with the number of plain mechanisms multiplied by `plain` and the number of steps by `steps`, rounded."""
    if isinstance(ledger, dp.ComposedDpEvent):
        return composed(*(recounted(part, plain, steps) for part in ledger.events))
    if isinstance(ledger, dp.PoissonSampledDpEvent) and _is_whole(ledger):
        return on_sampled_nodes(ledger.sampling_probability, recounted(ledger.event, plain, steps))
    inner, count = (ledger.event, ledger.count) if isinstance(ledger, dp.SelfComposedDpEvent) else (ledger, 1)
    if isinstance(inner, dp.ComposedDpEvent | dp.SelfComposedDpEvent):
        return repeated(recounted(inner, plain, steps), count)
    return repeated(inner, round(count * (steps if isinstance(inner, STEPS) else plain)))


def unsampled(ledger: DpEvent) -> DpEvent:
    """The same ledger without amplification: every record is in every sample."""
    if isinstance(ledger, dp.ComposedDpEvent):
        return composed(*(unsampled(part) for part in ledger.events))
    if isinstance(ledger, dp.SelfComposedDpEvent):
        return repeated(unsampled(ledger.event), ledger.count)
    if isinstance(ledger, dp.PoissonSampledDpEvent | dp.SampledWithoutReplacementDpEvent):
        return unsampled(ledger.event)
    return ledger.events[-1] if isinstance(ledger, VisibleMixtureDpEvent) else ledger


def coin_p_values(joined: NDArray[np.bool_], rate: float) -> dict[str, float]:
    """Exact p-values of the hypothesis that each record joins each batch independently with probability `rate`.

    joined: (batches, records) bool. Returns the p-value of each of five tests by name. rate: the total number of inclusions.
    sizes: whether too many batches have exactly the expected size. visits: whether too many records are in exactly the expected
    number of batches, as in a shuffled partition. repeats: the number of records that batches 0 and 1 share, batches 2 and 3, and
    so on. twins: the largest number of records that any two of the first MOST_PAIRED batches share, with a union bound over
    pairs.
    """
    batches, people = joined.shape
    pairs, some = joined[0 : batches // 2 * 2 : 2] & joined[1::2], joined[:MOST_PAIRED]
    return {
        "rate": _two_sided(int(joined.sum()), joined.size, rate),
        "sizes": _too_often(joined.sum(1), people, rate),
        "visits": _too_often(joined.sum(0), batches, rate),
        "repeats": _two_sided(int(pairs.sum()), pairs.size, rate**2),
        "twins": min(1.0, math.comb(len(some), 2) * float(stats.binom.sf(_most_shared(some) - 1, people, rate**2))),
    }


def _most_shared(joined: NDArray[np.bool_]) -> int:
    """The largest number of records that any two batches share."""
    shared = np.zeros((len(joined), len(joined)), dtype=np.float32)
    for first in range(0, joined.shape[1], PEOPLE):
        part = joined[:, first : first + PEOPLE].astype(np.float32)
        shared += part @ part.T
    np.fill_diagonal(shared, 0)
    return int(shared.max(initial=0))


def _too_often(counts: NDArray[np.int64], trials: int, rate: float) -> float:
    """One-sided p-value of how many counts equal the expected count, if each count is Binomial(trials, rate)."""
    expected = round(trials * rate)
    chance = float(stats.binom.pmf(expected, trials, rate))
    return float(stats.binom.sf(int((counts == expected).sum()) - 1, len(counts), chance))


def _two_sided(count: int, trials: int, chance: float) -> float:
    return float(stats.binomtest(count, trials, chance).pvalue) if trials else 1.0


def _is_whole(event: dp.PoissonSampledDpEvent) -> bool:
    return isinstance(event.event, dp.ComposedDpEvent | dp.SelfComposedDpEvent)


def _rate(event: DpEvent) -> float | None:
    if isinstance(event, dp.PoissonSampledDpEvent):
        return float(event.sampling_probability)
    if not isinstance(event, VisibleMixtureDpEvent):
        return None
    # `events.dp_sgd_capped` gives the number own + 2 * others these probabilities, where own ~ Bernoulli(q) says whether the
    # node's own gradient is in the batch, and others ~ Binomial(cap, q) counts the other gradients that it changes.
    cap, odd = divmod(len(event.probabilities) - 2, 2)
    if odd:
        return None
    rate = 1 - event.probabilities[0] ** (1 / (1 + cap))
    others = stats.binom.pmf(np.arange(cap + 1), cap, rate)
    weights = np.stack([(1 - rate) * others, rate * others], axis=1).ravel()
    return float(rate) if np.allclose(weights, event.probabilities, rtol=1e-6) else None
