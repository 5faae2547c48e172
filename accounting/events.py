"""What was run, as data: one function a mechanism, each returning a dp_accounting event tree (a ledger).

`sigma` is always noise std / sensitivity, the sensitivity being that of the unit and relation which the ledger is for,
so that no accountant has to double anything. Zero sigma is a mechanism without privacy.
"""

from __future__ import annotations

import math

import attr
import dp_accounting as dp
from dp_accounting import DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):
    """Any epsilon-differentially private mechanism, of which nothing more is known. epsilon: nats."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):
    """An epsilon-bounded-range mechanism: the privacy losses of one pair of neighbours span at most epsilon (nats).

    The exponential mechanism and one-shot Gumbel selection (Durfee and Rogers 2019) are of this kind; each is
    epsilon-DP and (epsilon^2 / 8)-zCDP.
    """

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FiniteDpEvent(DpEvent):
    """A mechanism whose most distinguishable pair of neighbours gives these two finite distributions, in either order."""

    upper: tuple[float, ...]
    lower: tuple[float, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class VisibleMixtureDpEvent(DpEvent):
    """One of several mechanisms is drawn, and the adversary sees which. probabilities add up to one."""

    probabilities: tuple[float, ...]
    events: tuple[DpEvent, ...]


def gaussian(sigma: float) -> DpEvent:
    """One Gaussian release. Valid for whatever unit and relation sigma's sensitivity was taken for."""
    sigma = _at_least_zero("sigma", sigma)
    return dp.GaussianDpEvent(sigma) if sigma else dp.NonPrivateDpEvent()


def gaussian_hops(sigma: float, hops: int) -> DpEvent:
    """K noisy aggregations, each of the outputs of the one before (GAP, ProGAP at edge level; a transcript of PMP rows).

    Sensitivity of one hop over unit rows: 1 for a directed edge, sqrt(2) for an undirected edge, sqrt(D) for the other
    nodes' rows when a node with at most D out-edges comes or goes. Conditioned on the released hops before it, a
    hop differs in those rows only, so the hops compose adaptively. No hop at all releases nothing.
    """
    return repeated(gaussian(sigma), hops)


def dp_sgd(sigma: float, rate: float, steps: int) -> DpEvent:
    """DP-SGD with secret Poisson batches. sigma: noise std / clipping norm, on the SUM of the clipped gradients.

    rate: probability that a record joins a batch. Add/remove of one record that enters one gradient; under replace, sigma is
    noise std / (2 clipping norms). Noise added to the mean over the expected batch: multiply its std by that batch first.
    Not for batches that are shuffled, fixed, or known to the adversary: see `dp_sgd_fixed` and `dp_sgd_public`.
    """
    rate = _probability("rate", rate)
    event = gaussian(sigma)
    if rate == 0:
        return dp.NoOpDpEvent()
    return repeated(event if rate == 1 or not sigma else dp.PoissonSampledDpEvent(rate, event), steps)


def repeated(event: DpEvent, count: int) -> DpEvent:
    """The same mechanism `count` times, each run seeing the outputs of those before it."""
    if int(count) != count or count < 0:
        raise ValueError(f"count={count}: must be a whole number of at least 0.")
    if count == 0 or isinstance(event, dp.NoOpDpEvent):
        return dp.NoOpDpEvent()
    if count == 1 or isinstance(event, dp.NonPrivateDpEvent):
        return event
    return dp.SelfComposedDpEvent(event, int(count))


def composed(*events: DpEvent) -> DpEvent:
    """Unlike mechanisms one after the other, each seeing the outputs of those before it."""
    parts = [e for e in events if not isinstance(e, dp.NoOpDpEvent)]
    if any(isinstance(e, dp.NonPrivateDpEvent) for e in parts):
        return dp.NonPrivateDpEvent()
    if not parts:
        return dp.NoOpDpEvent()
    return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)


def _at_least_zero(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={value}: must be a finite number of at least 0; 0 means no privacy.")
    return float(value)


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value}: must be a probability, in [0, 1].")
    return float(value)
