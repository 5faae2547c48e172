"""Dominating pairs of finite distributions: the neighbours of a mechanism that are easiest to distinguish."""

import math

import dp_accounting as dp

from ..claim import Relation
from .types import FiniteDpEvent, PureDpEvent, VisibleMixtureDpEvent

LIBRARY_RELATION = {
    Relation.ADD_REMOVE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE: dp.NeighboringRelation.REPLACE_ONE,
}


def finite_pair(event: dp.DpEvent) -> FiniteDpEvent | None:
    """The pair of finite distributions that dominates an event; None if the event has no such pair."""
    match event:
        case FiniteDpEvent():
            return event
        case PureDpEvent():
            return pure_pair(event.epsilon)
        case dp.RandomizedResponseDpEvent():
            return response_pair(event)
    return None


def response_pair(event: dp.RandomizedResponseDpEvent) -> FiniteDpEvent:
    """The distributions of the reports of two users whose values differ, over (first value, second value, all others). With
    probability noise_parameter, a user reports a uniform draw from num_buckets instead of the value.
    """
    buckets = event.num_buckets
    other = event.noise_parameter / buckets
    rest = ((buckets - 2) * other,) if buckets > 2 else ()
    keep = 1 - event.noise_parameter + other
    return FiniteDpEvent((keep, other, *rest), (other, keep, *rest))


def in_either_order(event: dp.DpEvent) -> bool:
    """Whether an event has a finite pair that is another pair in reverse order, so either distribution may be that of a unit that
    is present. A secret sample then costs more for one of them.
    """
    match event:
        case FiniteDpEvent():
            outcomes = sorted(zip(event.upper, event.lower, strict=True))
            return outcomes != sorted(zip(event.lower, event.upper, strict=True))
        case dp.ComposedDpEvent() | VisibleMixtureDpEvent():
            return any(in_either_order(part) for part in event.events)
        case dp.SelfComposedDpEvent() | dp.PoissonSampledDpEvent():
            return in_either_order(event.event)
    return False


def pure_pair(epsilon: float) -> FiniteDpEvent:
    """Binary randomised response, which dominates every epsilon-DP mechanism (Kairouz, Oh and Viswanath 2015). epsilon: nats."""
    high, low = 1 / (1 + math.exp(-epsilon)), math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return FiniteDpEvent((high, low), (low, high))
