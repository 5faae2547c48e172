"""Flattens a ledger into its mechanisms, and rescales its noise."""

import math
from collections.abc import Iterator

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from numpy.typing import NDArray

from .types import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent

Parts = list[tuple[DpEvent, int]]
LEAST = -690.0  # smallest logarithm of a relative probability; it replaces smaller ones, so that no float64 underflows


class Unsupported(ValueError):
    """An accountant cannot bound this ledger; the message is the reason."""


def parts(ledger: DpEvent) -> Parts:
    """The mechanisms of a ledger and their counts, without order: [(event, count), …].

    Gaussians are merged into one, which is exactly their composition. Inside a sampling step they are merged too, with float
    multipliers: there, dp_accounting refuses a composition or, if a multiplier is an int, silently charges only one Gaussian. If
    one mechanism has no privacy, it is the only part. The list is empty if nothing is released.
    """
    flat: Parts = []
    mu = 0.0  # root of the sum of 1 / sigma^2
    for event, count in _walk(ledger, 1):
        if isinstance(event, dp.NonPrivateDpEvent):
            return [(event, 1)]
        if isinstance(event, dp.GaussianDpEvent):
            mu = math.hypot(mu, math.sqrt(count) / event.noise_multiplier)
            if math.isinf(mu):
                return [(dp.NonPrivateDpEvent(), 1)]
            continue
        place = next((i for i, (e, _) in enumerate(flat) if e == event), None)
        if place is None:
            flat.append((event, count))
        else:
            flat[place] = (event, flat[place][1] + count)
    return [(dp.GaussianDpEvent(1 / mu), 1), *flat] if mu else flat


def gaussian_mu(ledger: DpEvent) -> float | None:
    """mu if all parts of the ledger are Gaussian, so that it is exactly mu-GDP (0 if nothing is released); else None."""
    found = parts(ledger)
    if not found:
        return 0.0
    if len(found) == 1 and isinstance(found[0][0], dp.GaussianDpEvent):
        return float(1 / found[0][0].noise_multiplier)
    return None


def has_gaussian(ledger: DpEvent) -> bool:
    """Whether a mechanism of the ledger adds Gaussian noise, so that no epsilon is finite at delta = 0."""
    return any(isinstance(leaf, dp.GaussianDpEvent) for event, _ in parts(ledger) for leaf in leaves(event))


def leaves(event: DpEvent) -> Iterator[DpEvent]:
    """The mechanisms inside an event as it states them: without their samples and counts, and not merged as by `parts`."""
    inner = [event.event] if hasattr(event, "event") else getattr(event, "events", None)
    if inner is None:
        yield event
    else:
        for part in inner:
            yield from leaves(part)


def scaled(ledger: DpEvent, kappa: float) -> DpEvent:
    """The same ledger with kappa times less noise: noise multipliers are divided by kappa; epsilons of pure mechanisms and
    log-likelihood ratios of finite ones are multiplied by kappa.

    A lower bound is the epsilon of this ledger at the largest kappa whose curve a test refutes. Raises ValueError if kappa is not
    finite and above 0, and for events of other types, such as RandomizedResponseDpEvent.
    """
    if not (math.isfinite(kappa) and kappa > 0):
        raise ValueError(f"kappa={kappa}: must be a finite number above 0; 1 leaves the ledger as it is.")
    return _scaled(ledger, float(kappa))


def _scaled(event: DpEvent, kappa: float) -> DpEvent:
    match event:
        case dp.GaussianDpEvent() | dp.LaplaceDpEvent():
            return type(event)(event.noise_multiplier / kappa)
        case PureDpEvent() | BoundedRangeDpEvent():
            return type(event)(event.epsilon * kappa)
        case dp.ZCDpEvent():
            return dp.ZCDpEvent(event.rho * kappa**2, event.xi * kappa)
        case DiscreteLaplaceDpEvent():
            return DiscreteLaplaceDpEvent(event.noise_parameter * kappa, event.sensitivity)
        case dp.SelfComposedDpEvent():
            return dp.SelfComposedDpEvent(_scaled(event.event, kappa), event.count)
        case dp.ComposedDpEvent():
            return dp.ComposedDpEvent([_scaled(e, kappa) for e in event.events])
        case dp.PoissonSampledDpEvent():
            return dp.PoissonSampledDpEvent(event.sampling_probability, _scaled(event.event, kappa))
        case dp.SampledWithoutReplacementDpEvent():
            inner = _scaled(event.event, kappa)
            return dp.SampledWithoutReplacementDpEvent(event.source_dataset_size, event.sample_size, inner)
        case VisibleMixtureDpEvent():
            return VisibleMixtureDpEvent(event.probabilities, tuple(_scaled(e, kappa) for e in event.events))
        case dp.NoOpDpEvent() | dp.NonPrivateDpEvent():
            return event
        case FiniteDpEvent():
            return FiniteDpEvent(*_tempered(event, kappa))
    raise ValueError(f"{type(event).__name__} has no noise multiplier to scale. Scale its parts one by one.")


def _tempered(event: FiniteDpEvent, kappa: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Both distributions after their log-likelihood ratio is multiplied by kappa. Their geometric mean stays proportional to the
    original.

    Outcomes with probability zero under one distribution reveal the secret at any noise level. Their probability stays the same,
    and so does the total probability of all other outcomes. kappa = 1 changes nothing.
    """
    upper, lower = np.array(event.upper), np.array(event.lower)
    common = (upper > 0) & (lower > 0)
    if not common.any():
        return event.upper, event.lower

    def side(own: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, ...]:
        p, q = np.log(own[common]), np.log(other[common])
        power = (p + q) / 2 + kappa * (p - q) / 2
        weight = np.exp(np.maximum(power - power.max(), LEAST))
        made = own.copy()
        made[common] = weight / weight.sum() * own[common].sum()
        return tuple(made.tolist())

    return side(upper, lower), side(lower, upper)


def _walk(event: DpEvent, count: int) -> Iterator[tuple[DpEvent, int]]:
    match event:
        case dp.NoOpDpEvent():
            return
        case dp.ComposedDpEvent():
            for part in event.events:
                yield from _walk(part, count)
        case dp.SelfComposedDpEvent():
            if event.count:
                yield from _walk(event.event, count * event.count)
        case dp.GaussianDpEvent() | dp.LaplaceDpEvent():
            multiplier = float(event.noise_multiplier)
            yield (type(event)(multiplier), count) if multiplier else (dp.NonPrivateDpEvent(), 1)
        case dp.PoissonSampledDpEvent() if event.sampling_probability == 0:
            return
        case dp.PoissonSampledDpEvent() if event.sampling_probability == 1:
            yield from _walk(event.event, count)
        case dp.PoissonSampledDpEvent():
            for inner in _inside(event.event):
                sampled = dp.PoissonSampledDpEvent(float(event.sampling_probability), inner)
                yield (inner if isinstance(inner, dp.NonPrivateDpEvent) else sampled), count
        case dp.SampledWithoutReplacementDpEvent() if event.sample_size == event.source_dataset_size:
            yield from _walk(event.event, count)
        case dp.SampledWithoutReplacementDpEvent():
            for inner in _inside(event.event):
                yield dp.SampledWithoutReplacementDpEvent(event.source_dataset_size, event.sample_size, inner), count
        case _:
            yield event, count


def _inside(event: DpEvent) -> list[DpEvent]:
    """The mechanisms on one sample as a list with one event, a composition if there are several; empty if there are none."""
    inner = parts(event)
    if not inner:
        return []
    if len(inner) == 1 and inner[0][1] == 1:
        return [inner[0][0]]
    return [dp.ComposedDpEvent([dp.SelfComposedDpEvent(e, n) if n > 1 else e for e, n in inner])]
