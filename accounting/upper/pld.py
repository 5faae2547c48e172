"""Privacy-loss distributions of ledgers, by dp_accounting where it supports an event, else from delta(epsilon) of the event."""

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import dp_accounting as dp
import numpy as np
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, MixtureOfGaussiansDpEvent, TruncatedSubsampledGaussianDpEvent
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import LaplacePrivacyLoss
from numpy.typing import NDArray
from scipy import special
from scipy.signal import lfilter

from ..claim import Relation
from ..events.pairs import LIBRARY_RELATION, finite_pair, in_either_order
from ..events.tree import Unsupported, parts
from ..events.types import BoundedRangeDpEvent, FiniteDpEvent, VisibleMixtureDpEvent
from ..gaussian import delta_of
from . import rdp

Profile = Callable[[NDArray[np.float64]], NDArray[np.float64]]
MOST_LEVELS = 64  # largest number of different moves in a composition; moves are merged until there are no more
SMALLEST_DELTA = 1e-10  # below this, the rounding errors of the library's convolutions are no longer small beside delta
TAIL = 10.0  # Gaussian losses up to this many standard deviations are kept; the mass beyond, 1e-23, counts as infinite loss


def distribution(ledger: DpEvent, relation: Relation = Relation.ADD_REMOVE, interval: float = 1e-4) -> Any:
    """The dp_accounting privacy-loss distribution of a ledger, rounded up to a grid of `interval` nats.

    Its delta and epsilon are upper bounds that become exact as the interval shrinks. The dominating pairs of the parts compose to
    a dominating pair of their adaptive composition (Zhu, Dong and Wang 2022, theorem 10). Raises Unsupported for a part without a
    known dominating pair, and for a ledger without privacy.
    """
    total = pld.identity(value_discretization_interval=interval)
    with np.errstate(over="ignore"):  # the library's search for a truncation point overflows
        for event, count in parts(ledger):
            one = _one(event, relation, interval)
            total = total.compose(one.self_compose(count) if count > 1 else one)
    return total


def grid(ledger: DpEvent, relation: Relation = Relation.ADD_REMOVE) -> float:
    """A suitable grid interval (nats): 1e-4, or more in proportion if the losses of the ledger span more than 50 nats."""
    try:
        span = scale(ledger, relation)
    except Unsupported:
        return 1e-4
    return 1e-4 * max(1.0, span / 50) if math.isfinite(span) else 1e-4


def scale(ledger: DpEvent, relation: Relation = Relation.ADD_REMOVE) -> float:
    """The approximate range of the losses of a ledger (nats): a loose epsilon at delta = 1e-6, from a few Renyi orders."""
    return rdp.epsilon(ledger, 1e-6, relation, (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0))


def epsilon_at_least(mu: float, steps: NDArray[np.float64], rate: float, delta: float, interval: float = 5e-5) -> float:
    """A lower bound (nats) on the epsilon of a composition: one Gaussian mechanism of `mu`, and `steps` on secret Poisson samples
    of `rate`.

    steps: (n,) the move of the mean of each sampled mechanism if the unit is in its sample, in noise sds. Losses are rounded down
    to a grid of `interval` nats. Moves that differ by less than a thousandth, or by more if there are many moves, are replaced by
    the smallest of them. The result is the larger of the epsilons for adding and for removing the unit. For a delta below
    SMALLEST_DELTA it is the epsilon at SMALLEST_DELTA, which is smaller.
    """
    moved, width = np.sort(steps[steps > 0]), 1e-3
    while moved.size and np.ptp(groups := np.floor(np.log(moved) / width)) > MOST_LEVELS:
        width *= 2
    composed = [(mu, 1.0, 1)] if mu > 0 else []
    if moved.size:
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        composed += [(float(move), rate, int(count)) for move, count in zip(moved[first], counts, strict=True)]
    if not composed:
        return 0.0
    with np.errstate(over="ignore"):  # the library's search for a truncation point overflows
        losses = [_rounded_down(move, chance, interval).self_compose(count) for move, chance, count in composed]
        return float(reduce(lambda one, other: one.compose(other), losses).get_epsilon_for_delta(max(delta, SMALLEST_DELTA)))


def _rounded_down(mu: float, rate: float, interval: float) -> Any:
    """The distribution of the losses of (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1), and in the other order. Losses, also
    those beyond TAIL, are rounded down.
    """
    top = mu * mu / 2 + TAIL * mu
    at = _range(math.log1p(-rate) if rate < 1 else -top, math.log1p(rate * math.expm1(min(top, 700.0))), interval)
    with np.errstate(divide="ignore"):
        # the likelihood ratio of N(mu, 1) to N(0, 1) at points where the loss is at * interval
        odds = np.log(np.maximum(1 + np.expm1(at * interval) / rate, 0.0))
    where = odds / mu + mu / 2
    joined, alone = rate * special.ndtr(where - mu) + (1 - rate) * special.ndtr(where), special.ndtr(where)
    sides = [(at[0], np.diff(joined, append=1.0)), (-at[-1], np.append(np.diff(alone)[::-1], alone[0]))]
    return pld.PrivacyLossDistribution(*(pld_pmf.DensePLDPmf(interval, int(low), p, 0.0, False) for low, p in sides))


def _one(event: DpEvent, relation: Relation, interval: float) -> Any:
    if pair := finite_pair(event):
        return _finite(pair, interval)
    step: dict[str, Any] = {"value_discretization_interval": interval}
    match event:
        case dp.GaussianDpEvent():
            return _gaussian(1 / event.noise_multiplier, interval)
        case dp.LaplaceDpEvent():
            return _laplace(event.noise_multiplier, interval)
        case DiscreteLaplaceDpEvent():
            return pld.from_discrete_laplace_mechanism(event.noise_parameter, event.sensitivity, **step)
        case MixtureOfGaussiansDpEvent():
            return pld.from_mixture_gaussian_mechanism(
                event.standard_deviation, event.sensitivities, event.sampling_probs, **step
            )
        case TruncatedSubsampledGaussianDpEvent():
            batch = event.dataset_size, event.sampling_probability, event.truncated_batch_size, event.noise_multiplier
            library = LIBRARY_RELATION[relation]
            return pld.from_truncated_subsampled_gaussian_mechanism(*batch, neighboring_relation=library, **step)
        case BoundedRangeDpEvent():
            at = _range(-event.epsilon, event.epsilon, interval)
            return pld.PrivacyLossDistribution(_connect(at, bounded_range_delta(event.epsilon, at * interval), interval))
        case VisibleMixtureDpEvent():
            return _mixture(event, relation, interval)
        case dp.PoissonSampledDpEvent():
            return _sampled(event, relation, interval)
    raise Unsupported(f"no dominating pair of distributions is known for {type(event).__name__}; use an RDP accountant.")


def bounded_range_delta(epsilon: float, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """delta(x) of an epsilon-bounded-range mechanism: (1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon) for |x| <= epsilon.

    For each pair of distributions on two points with losses t and t - epsilon, take delta(x). The function is the largest of them
    over t (Dong, Durfee and Rogers 2020). A maximum of privacy profiles is again a privacy profile, so its pair also dominates
    adaptively chosen mechanisms. at: (n,) nats -> (n,).
    """
    inside = np.expm1(np.minimum(at - epsilon, 0) / 2) ** 2 / -math.expm1(-epsilon)
    return np.where(at < -epsilon, -np.expm1(np.minimum(at, 0)), inside)


def _finite(event: FiniteDpEvent, interval: float) -> Any:
    sides = []
    for upper, lower in ((event.upper, event.lower), (event.lower, event.upper)):
        p, q = np.array(upper), np.array(lower)
        both = (p > 0) & (q > 0)
        if not both.any():
            raise Unsupported("the two distributions have no common outcome, so there is no privacy.")
        losses = (np.log(p[both]) - np.log(q[both])) / interval
        rounded = np.unique(np.concatenate([np.floor(losses), np.ceil(losses), [0]])).astype(int)
        sides.append(_connect(rounded, np.maximum(p - np.exp(rounded[:, None] * interval) * q, 0).sum(axis=1), interval))
    return pld.PrivacyLossDistribution(*sides)


def _gaussian(mu: float, interval: float) -> Any:
    """The loss distribution of N(mu, 1) against N(0, 1): N(mu^2 / 2, mu^2), in both directions."""
    at = _range(mu * mu / 2 - TAIL * mu, mu * mu / 2 + TAIL * mu, interval)
    return pld.PrivacyLossDistribution(_connect(at, delta_of(mu, at * interval), interval))


def _laplace(scale: float, interval: float) -> Any:
    """What `pld.from_laplace_mechanism` returns, bit for bit, in less than half the time: the library inverts the loss in a
    Python loop.
    """
    loss = LaplacePrivacyLoss(scale)
    at = _range(-1 / scale, 1 / scale, interval)
    moved = at * interval * scale
    where = np.where(moved > 1, -math.inf, np.where(moved <= -1, math.inf, 0.5 * (-1.0 - moved)))
    deltas = np.clip(loss.mu_upper_cdf(where) - np.exp(at * interval + loss.mu_lower_log_cdf(where)), 0, 1)
    one = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, int(at[0]), int(at[-1]), deltas)
    return pld.PrivacyLossDistribution(one)


def _range(low: float, high: float, interval: float) -> NDArray[Any]:
    return np.arange(math.floor(low / interval), math.ceil(high / interval) + 1)


def _connect(at: NDArray[Any], deltas: NDArray[np.float64], interval: float) -> Any:
    """The loss distribution on the points at * interval that has these deltas there, and no smaller deltas than the true ones
    between.
    """
    deltas = np.minimum.accumulate(np.clip(deltas, 0, 1))
    if at.shape[0] == at[-1] - at[0] + 1 > 1:
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, int(at[0]), int(at[-1]), deltas)
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, at, deltas)


def _mixture(event: VisibleMixtureDpEvent, relation: Relation, interval: float) -> Any:
    """The adversary knows which mechanism was drawn, so the loss distribution is the mixture of the parts' loss distributions."""
    total: Any = None
    seen = 0.0
    for probability, part in zip(event.probabilities, event.events, strict=True):
        if probability == 0:
            continue
        seen += probability
        one = distribution(part, relation, interval)
        total = one if total is None else total.compute_mixture(one, 1 - probability / seen)
    return total


def _sampled(event: dp.PoissonSampledDpEvent, relation: Relation, interval: float) -> Any:
    rate, inner = event.sampling_probability, event.event
    how: dict[str, Any] = {"value_discretization_interval": interval, "sampling_prob": rate}
    if relation is Relation.REPLACE and isinstance(inner, dp.GaussianDpEvent):
        # dp_accounting expects noise std / (norm of one record); sigma here is noise std / (norm of two records).
        return pld.from_gaussian_mechanism(2 * inner.noise_multiplier, neighboring_relation=LIBRARY_RELATION[relation], **how)
    if relation is Relation.REPLACE:
        raise Unsupported(f"Poisson-sampled {type(inner).__name__}: only add-remove neighbours are supported.")
    if isinstance(inner, dp.LaplaceDpEvent):
        return pld.from_laplace_mechanism(inner.noise_multiplier, **how)
    if isinstance(inner, dp.GaussianDpEvent):
        mu = 1 / inner.noise_multiplier
        same = partial(delta_of, mu)
        return _amplified(same, same, mu * mu / 2 + TAIL * mu, rate, interval)
    base = distribution(inner, relation, interval)
    orders = knots(base._pmf_remove), knots(base._pmf_add)
    top = max(float(losses[-1]) for losses, _ in orders)
    remove, add = (partial(between, *order) for order in orders)
    if in_either_order(inner):  # a maximum of privacy profiles is again one
        return _amplified(*(lambda at: np.maximum(remove(at), add(at)),) * 2, top, rate, interval)
    return _amplified(remove, add, top, rate, interval)


def _amplified(remove: Profile, add: Profile, top: float, rate: float, interval: float) -> Any:
    """The loss distributions of a mechanism with the dominating pair (P, Q) on a secret sample with probability q = `rate`: those
    of ((1-q) Q + q P, Q), and of the same pair in the other order.

    remove, add: delta as a function of epsilon for (P, Q) and for (Q, P). top: the largest loss of either order.
    """
    at = _range(math.log1p(-rate), math.log1p(rate * math.expm1(min(top, 700.0))), interval)
    up, down = at * interval, -at[::-1] * interval
    ratio = 1 + np.expm1(up) / rate
    inside = rate * remove(np.log(np.maximum(ratio, 1e-300)))
    left = np.maximum(1 - (1 - rate) * np.exp(down), 0.0)
    outside = left * add(math.log(rate) + down - np.log(np.maximum(left, 1e-300)))
    return pld.PrivacyLossDistribution(
        _connect(at, np.where(ratio > 0, inside, -np.expm1(up)), interval), _connect(-at[::-1], outside, interval)
    )


def knots(pmf: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The losses on the grid, ascending, and delta at each. Between them delta is linear in e^epsilon; after the last it is
    constant.

    dp_accounting's get_delta_for_epsilon computes the same numbers in a Python loop; this function uses arrays.
    """
    dense = pmf.to_dense_pmf()
    probs = np.maximum(dense._probs, 0)
    losses = (dense._lower_loss + np.arange(probs.shape[0])) * dense._discretization
    # delta_i - delta_{i+1} = (1 - e^-h) r_{i+1} with r_i = sum over j >= i of probs_j e^-(l_j - l_i), all of one sign.
    discounted = np.asarray(lfilter([1.0], [1.0, -math.exp(-dense._discretization)], probs[::-1])[::-1], dtype=np.float64)
    deltas = dense._infinity_mass + np.cumsum((-math.expm1(-dense._discretization) * discounted)[::-1])[::-1]
    return losses, np.append(deltas[1:], dense._infinity_mass)


def below_zero(pmf: Any) -> float:
    """The sum of the negative probabilities of one direction, as a positive number; they are rounding errors of convolutions."""
    return float(-np.minimum(pmf.to_dense_pmf()._probs, 0).sum())


def between(losses: NDArray[np.float64], deltas: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """delta at the epsilons `at`, (n,) nats of either sign, by linear interpolation in e^epsilon. Below the first loss, 1 - delta
    is proportional to e^epsilon. losses, deltas: of `knots`.
    """
    if losses.shape[0] == 1:
        inside = np.full(at.shape, deltas[0])
    else:
        i = np.clip(np.searchsorted(losses, at, side="right") - 1, 0, losses.shape[0] - 2)
        share = np.expm1(np.clip(at - losses[i], 0, None)) / np.expm1(losses[i + 1] - losses[i])
        inside = deltas[i] + np.minimum(share, 1) * (deltas[i + 1] - deltas[i])
    below = 1 - np.exp(np.minimum(at - losses[0], 0)) * (1 - deltas[0])
    return np.where(at < losses[0], below, np.where(at >= losses[-1], deltas[-1], inside))
