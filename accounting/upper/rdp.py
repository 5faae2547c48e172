"""Renyi-divergence curves of ledgers, by dp_accounting where it supports the event, else in closed form."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import rdp_privacy_accountant as library
from numpy.typing import NDArray

from ..claim import Relation
from ..closed_forms import gauss_legendre
from ..events.pairs import LIBRARY_RELATION, finite_pair, pure_pair
from ..events.tree import Unsupported, parts
from ..events.types import BoundedRangeDpEvent, FiniteDpEvent, VisibleMixtureDpEvent

ORDERS: tuple[float, ...] = tuple(float(a) for a in library.DEFAULT_RDP_ORDERS)


def epsilon(ledger: DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE, orders: tuple[float, ...] = ORDERS) -> float:
    """The epsilon (nats) at `delta` that follows from the ledger's RDP curve, by dp_accounting's conversion.

    The result is an upper bound. It is usually 5 to 15 % too large, and more if different mechanisms share a sample. Raises
    Unsupported as `curve`.
    """
    return best(curve(ledger, relation, orders), delta, orders)


def best(rdp: NDArray[np.float64], delta: float, orders: tuple[float, ...] = ORDERS) -> float:
    """The smallest epsilon over all orders a: R(a) + ln((a-1)/a) - (ln delta + ln a)/(a-1). rdp: R, (orders,) nats; orders with
    inf are skipped.
    """
    if delta <= 0 or not np.any(np.isfinite(rdp)):
        return 0.0 if np.all(rdp == 0) else math.inf
    # rounding may leave a divergence just below 0
    return float(library.compute_epsilon(np.array(orders), np.maximum(rdp, 0.0), delta)[0])


def curve(ledger: DpEvent, relation: Relation = Relation.ADD_REMOVE, orders: tuple[float, ...] = ORDERS) -> NDArray[np.float64]:
    """The Renyi divergence (nats) of the whole ledger at every order. -> (orders,) float64. Raises Unsupported for unknown
    events.
    """
    total = np.zeros(len(orders))
    for event, count in parts(ledger):
        total = total + count * _one(event, relation, np.array(orders))
    return total


def _one(event: DpEvent, relation: Relation, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    if pair := finite_pair(event):
        return _finite(pair, orders)
    match event:
        case dp.NonPrivateDpEvent():
            return np.full(orders.shape, np.inf)
        case BoundedRangeDpEvent():
            return np.minimum(orders * event.epsilon**2 / 8, _finite(pure_pair(event.epsilon), orders))
        case VisibleMixtureDpEvent():
            return _mixture(event, relation, orders)
        case RepeatAndSelectDpEvent():
            # Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (ICLR 2022), theorems 2 and 6
            one = curve(event.event, relation, tuple(orders))
            return np.asarray(library._compute_rdp_repeat_and_select(orders, one, event.mean, event.shape), dtype=np.float64)
        case dp.PoissonSampledDpEvent() if not isinstance(event.event, dp.GaussianDpEvent):
            return _sampled(event, relation, orders)
        case dp.SampledWithoutReplacementDpEvent():
            # Both curves are bounds. The library's amplified curve may exceed the curve without amplification.
            return np.minimum(_library(event, Relation.REPLACE, orders), curve(event.event, relation, tuple(orders)))
    return _library(event, relation, orders)


def _library(event: DpEvent, relation: Relation, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    accountant = library.RdpAccountant(list(orders), LIBRARY_RELATION[relation])
    try:
        with _quiet(), np.errstate(over="ignore"):
            return np.asarray(accountant.compose(event).rdp, dtype=np.float64)
    except dp.UnsupportedEventError as reason:
        raise Unsupported(f"dp_accounting's RDP accountant: {str(reason).splitlines()[0]}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the library's warnings about fractional orders whose series do not converge. The library skips these orders, so
    its result is still an upper bound.
    """
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _finite(event: FiniteDpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    p, q = np.array(event.upper), np.array(event.lower)
    return np.maximum(_discrete(p, q, orders), _discrete(q, p, orders))


def _discrete(p: NDArray[np.float64], q: NDArray[np.float64], orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """D_alpha(p || q) of finite distributions."""
    if np.any((p > 0) & (q == 0)):
        return np.full(orders.shape, np.inf)
    both = p > 0
    a = orders[:, None]
    terms = a * np.log(p[both]) + (1 - a) * np.log(q[both])
    return np.asarray(np.logaddexp.reduce(terms, axis=1) / (orders - 1), dtype=np.float64)


def _mixture(event: VisibleMixtureDpEvent, relation: Relation, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln of the mean of e^((a-1) R_i(a)) over the drawn mechanism i, divided by a - 1, because the adversary knows i."""
    drawn = [(e, p) for e, p in zip(event.events, event.probabilities, strict=True) if p > 0]
    terms = np.stack([math.log(p) + (orders - 1) * curve(e, relation, tuple(orders)) for e, p in drawn])
    return np.asarray(np.logaddexp.reduce(terms, axis=0) / (orders - 1), dtype=np.float64)


def _sampled(event: dp.PoissonSampledDpEvent, relation: Relation, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """A secret sample turns a dominating pair (p, q) into the pair ((1-rate) q + rate p, q), in either order. For a pair of which
    either may be the unit that is present, the larger of both curves counts.

    If no dominating pair is known, the function assumes that the adversary knows the sample, which by joint convexity costs more.
    """
    rate, inner = event.sampling_probability, event.event
    pair: FiniteDpEvent | None = None
    if relation is Relation.ADD_REMOVE:
        pair = laplace_pair(inner.noise_multiplier) if isinstance(inner, dp.LaplaceDpEvent) else finite_pair(inner)
    if pair is None:
        return _mixture(VisibleMixtureDpEvent((1 - rate, rate), (dp.NoOpDpEvent(), inner)), relation, orders)
    present = ((pair.upper, pair.lower), (pair.lower, pair.upper))
    mixed = [(tuple((1 - rate) * q + rate * p for p, q in zip(one, other, strict=True)), other) for one, other in present]
    return np.maximum(*(_finite(FiniteDpEvent(*both), orders) for both in mixed))


def laplace_pair(scale: float, nodes: int = 400) -> FiniteDpEvent:
    """Laplace noise of this scale around 1 and around 0, as two finite distributions.

    The loss is constant outside [0, 1]. Inside, Gauss-Legendre nodes carry the mass, which makes Renyi divergences exact to
    rounding, because their integrands are smooth.
    """
    x, w = gauss_legendre(nodes)
    x, w = (x + 1) / 2, w / 2
    upper = np.concatenate([[math.exp(-1 / scale) / 2], w * np.exp(-(1 - x) / scale) / (2 * scale), [0.5]])
    lower = np.concatenate([[0.5], w * np.exp(-x / scale) / (2 * scale), [math.exp(-1 / scale) / 2]])
    return FiniteDpEvent(tuple(upper.tolist()), tuple(lower.tolist()))
