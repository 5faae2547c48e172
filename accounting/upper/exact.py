"""The accountant "exact": ledgers whose epsilon has a closed form."""

import math

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

from ..claim import Relation
from ..closed_forms import amplified, composed_pure_epsilon, laplace_epsilon, pair_epsilon
from ..events.pairs import finite_pair, response_pair
from ..events.tree import Unsupported, gaussian_mu, parts
from ..events.types import BoundedRangeDpEvent, FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent
from ..gaussian import epsilon_of


def epsilon(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """The epsilon (nats) of a ledger for which a closed form exists. Raises Unsupported for all others.

    relation: matters for secret samples, see `pure_epsilon`. Supported are ledgers of Gaussian parts; one Laplace,
    randomised-response or other finite mechanism; any number of equal PureDpEvents; and at delta = 0 any composition of pure
    parts, whose epsilons add up. A ledger without privacy has infinite epsilon.
    """
    mu = gaussian_mu(ledger)
    if mu is not None:
        return float(epsilon_of(mu, delta))
    found = parts(ledger)
    if any(isinstance(e, dp.NonPrivateDpEvent) for e, _ in found):
        return math.inf
    if delta == 0:
        return math.fsum(count * pure_epsilon(event, relation) for event, count in found)
    if len(found) == 1:
        event, count = found[0]
        if isinstance(event, dp.LaplaceDpEvent) and count == 1:
            return laplace_epsilon(event.noise_multiplier, delta)
        if isinstance(event, PureDpEvent):
            return composed_pure_epsilon(event.epsilon, count, delta)
        if count == 1 and (pair := finite_pair(event)):
            return finite_epsilon(pair, delta)
    raise Unsupported("no closed form for this composition.")


def pure_epsilon(event: DpEvent, relation: Relation = Relation.ADD_REMOVE) -> float:
    """An epsilon (nats) for which one part is epsilon-DP, the smallest known one. Raises Unsupported if none is known.

    A secret Poisson sample amplifies under add-remove only. Under replacement, the epsilon of the sampled mechanism compares two
    values of a present unit, and no number says how far a present unit is from an absent one. If an absent unit sends nothing,
    every answer shows that the unit was sampled, and the sample hides nothing.
    """

    def together(inner: DpEvent) -> float:
        return math.fsum(n * pure_epsilon(e, relation) for e, n in parts(inner))

    match event:
        case dp.LaplaceDpEvent():
            return float(1 / event.noise_multiplier)
        case PureDpEvent() | BoundedRangeDpEvent():
            return float(event.epsilon)
        case FiniteDpEvent():
            return finite_epsilon(event, 0.0)
        case dp.RandomizedResponseDpEvent():
            return finite_epsilon(response_pair(event), 0.0)
        case dp.PoissonSampledDpEvent() if relation is Relation.ADD_REMOVE:
            return amplified(together(event.event), event.sampling_probability)
        case dp.PoissonSampledDpEvent():
            return together(event.event) if event.sampling_probability else 0.0
        case VisibleMixtureDpEvent():
            drawn = [e for e, p in zip(event.events, event.probabilities, strict=True) if p > 0]
            return max((together(d) for d in drawn), default=0.0)
        case RepeatAndSelectDpEvent() if math.isfinite(event.shape):  # Papernot and Steinke 2022, corollary 3
            return (2 + event.shape) * together(event.event)
    raise Unsupported(f"{type(event).__name__} has no finite epsilon at delta=0.")


def pure_sides(event: DpEvent) -> tuple[float, float]:
    """The largest log-ratio (nats) of the pair of distributions of one part, and that of the same pair in the other order.

    Both are exact, and a composition adds up those of one order. For a secret Poisson sample, the pair is a unit that is present
    against one that is absent, or whose value acts as if it were absent. Raises Unsupported for a part whose `pure_epsilon` may
    exceed them.
    """
    match event:
        case dp.LaplaceDpEvent() | PureDpEvent() | dp.RandomizedResponseDpEvent():
            return (pure_epsilon(event),) * 2
        case FiniteDpEvent():
            orders = ((event.upper, event.lower), (event.lower, event.upper))
            first, second = (
                max(math.log(p) - math.log(q) if q else math.inf for p, q in zip(*order, strict=True) if p) for order in orders
            )
            return first, second
        case dp.PoissonSampledDpEvent():
            rate, (more, less) = event.sampling_probability, composed_sides(event.event)
            return amplified(more, rate), -math.log1p(rate * math.expm1(-less)) if rate < 1 else less
    raise Unsupported(f"{type(event).__name__} has no known largest log-ratio.")


def composed_sides(ledger: DpEvent) -> tuple[float, float]:
    """The sums of `pure_sides` over all parts of a ledger."""
    sides = [(count, *pure_sides(event)) for event, count in parts(ledger)]
    return math.fsum(n * one for n, one, _ in sides), math.fsum(n * other for n, _, other in sides)


def finite_epsilon(event: FiniteDpEvent, delta: float) -> float:
    """The exact epsilon (nats) at delta of a pair of finite distributions, the larger one of both orders."""
    upper, lower = np.asarray(event.upper), np.asarray(event.lower)
    return max(pair_epsilon(upper, lower, delta), pair_epsilon(lower, upper, delta))
