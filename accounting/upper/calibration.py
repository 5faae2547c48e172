"""Finds the smallest noise with which a model satisfies a claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ..arguments import is_number, shown
from ..cache import remembered
from ..claim import Claim, Unit, check_claim

if TYPE_CHECKING:
    from dp_accounting import DpEvent

FARTHEST = 2.0**60  # the largest noise multiplier tried
PROTECTS = {
    Unit.DIRECTED_EDGE: "one directed edge",
    Unit.UNDIRECTED_EDGE: "one undirected edge",
    Unit.NODE: "one node with all its edges",
    Unit.FEATURES: "a node's own features",
}


class Noisy(Protocol):
    """The part of a model that `calibrate` reads."""

    @property
    def name(self) -> str: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def ledger(self) -> DpEvent: ...
    def with_noise(self, sigma: float) -> Self: ...
    def printed(self, delta: float) -> float | None: ...


Calibrated = TypeVar("Calibrated", bound=Noisy)


def calibrate(model: Calibrated, claim: Claim, relative: float = 1e-4) -> Calibrated:
    """The model with the smallest noise multiplier whose epsilon is at most the claim's.

    relative: tolerance of the noise multiplier; the result is rounded up, so epsilon never exceeds the claim. If the paper prints
    an epsilon (mode "paper"), the search uses the printed epsilon, which refers to the paper's unit. Otherwise the search uses
    the epsilon of the ledger: in closed form; else by privacy-loss distributions, after a coarse search by RDP; else the smallest
    bound of all accountants. For an infinite claim the noise is 0. Raises ValueError for a claim about another unit, for a claim
    that no noise satisfies, for a ledger that no accountant bounds, and for arguments of other types.
    """
    from ..events.well_formed import check_ledger

    check_claim(claim)
    _check_model(model)
    if not (is_number(relative) and 0 < relative < 1):
        raise ValueError(f"relative={shown(relative)}: must be in (0, 1); 1e-4 is the default.")
    if math.isinf(claim.epsilon):
        return model.with_noise(0.0)
    check_ledger(model.with_noise(1.0).ledger)
    printed = printed_epsilon(model.with_noise(1.0), claim.delta)
    if printed is None and claim.unit is not model.unit:
        raise ValueError(
            f"{model.name} protects {PROTECTS[model.unit]}; this plan claims {claim.unit} privacy. "
            f'Use unit = "{model.unit}", or leave {model.name} out.'
        )
    # The ledgers at two noise levels identify the model in the cache; its class and fields may be unhashable.
    kind = [printed, *(repr(model.with_noise(s).ledger) for s in (1.0, 2.0))]
    epsilon = partial(_by_the_best if printed is None else _by_print, model, claim)
    search = partial(_accounted, model, claim, relative) if printed is None else partial(_smallest, epsilon, claim, relative, 1.0)
    tight = partial(_tight, epsilon, claim, relative)
    key = ("calibrate", kind, claim.epsilon, claim.delta, claim.relation, claim.tuned_over, relative)
    return model.with_noise(float(remembered(search, *key, holds=tight)))


def _check_model(model: object) -> None:
    """Raises ValueError for an object that lacks a part of `Noisy`."""
    if isinstance(model, type):
        raise ValueError(f"model={shown(model)}: is a class. Give a model, such as {model.__name__}().")
    absent = [name for name in ("name", "unit", "ledger", "with_noise", "printed") if not hasattr(model, name)]
    if absent:
        raise ValueError(f"model={shown(model)}: lacks {', '.join(absent)}. docs/own-class.md says what each of them is.")


def _tight(epsilon: Callable[[float], float], claim: Claim, relative: float, sigma: float) -> bool:
    """Whether this noise satisfies the claim and slightly less noise does not. Noise multipliers from the cache need this check,
    because verdicts depend on them.
    """
    return 0 < sigma < FARTHEST and epsilon(sigma) <= claim.epsilon < epsilon(sigma / (1 + 3 * relative))


def _by_print(model: Noisy, claim: Claim, sigma: float) -> float:
    return float(printed_epsilon(model.with_noise(sigma), claim.delta) or 0.0)


def printed_epsilon(model: Noisy, delta: float) -> float | None:
    """The epsilon (nats) that the paper prints, or None; infinity at delta = 0 if its formula contains ln(delta)."""
    try:
        return model.printed(delta)
    except (ZeroDivisionError, ValueError):
        if delta:
            raise
        return math.inf


def _accounted(model: Noisy, claim: Claim, relative: float) -> float:
    from ..events.tree import Unsupported

    if _is_exact(model, claim):
        return _smallest(lambda s: _by("exact", model, claim, s), claim, min(relative, 1e-9), 1.0)  # a closed form is fast
    start = 1.0
    with suppress(Unsupported):
        start = _smallest(lambda s: _by("dp_accounting-rdp", model, claim, s), claim, 1e-2, start)
    try:
        coarse = _smallest(lambda s: _by_losses(model, claim, s, 10.0), claim, 10 * relative, start)
        return _smallest(lambda s: _by_losses(model, claim, s, 1.0), claim, relative, coarse)
    except Unsupported:
        names = _bounding(model, claim)
        return _smallest(lambda s: min(_by(name, model, claim, s) for name in names), claim, relative, start)


def _is_exact(model: Noisy, claim: Claim) -> bool:
    from ..events.tree import gaussian_mu

    return gaussian_mu(_ledger(model, claim, 1.0)) is not None or claim.delta == 0


def _by_the_best(model: Noisy, claim: Claim, sigma: float) -> float:
    """epsilon (nats) by the method that `_accounted` uses in the last step of its search."""
    from ..events.tree import Unsupported

    if _is_exact(model, claim):
        return _by("exact", model, claim, sigma)
    try:
        return _by_losses(model, claim, sigma, 1.0)
    except Unsupported:
        return min(_by(name, model, claim, sigma) for name in _bounding(model, claim))


def _by(accountant: str, model: Noisy, claim: Claim, sigma: float) -> float:
    from .accountants import ACCOUNTANTS

    return ACCOUNTANTS[accountant].epsilon(_ledger(model, claim, sigma), claim.delta, claim.relation)


def _ledger(model: Noisy, claim: Claim, sigma: float) -> DpEvent:
    """The ledger at this noise, of all trainings from which the released one may be chosen."""
    from .accountants import chosen_from

    return chosen_from(model.with_noise(sigma).ledger, claim)


def _by_losses(model: Noisy, claim: Claim, sigma: float, coarser: float) -> float:
    """epsilon (nats) from privacy-loss distributions on a grid that is `coarser` times coarser; for a bounded-range mechanism the
    smaller of this value and that of RDP.
    """
    from ..events.tree import parts
    from ..events.types import BoundedRangeDpEvent
    from .pld import grid
    from .rdp import epsilon
    from .tradeoff import curve

    ledger = _ledger(model, claim, sigma)
    by_losses = curve(ledger, claim.relation, coarser * grid(ledger, claim.relation)).epsilon(claim.delta)
    if any(isinstance(e, BoundedRangeDpEvent) for e, _ in parts(ledger)):
        return min(by_losses, epsilon(ledger, claim.delta, claim.relation))
    return by_losses


def _bounding(model: Noisy, claim: Claim) -> list[str]:
    """The names of the accountants that give an upper bound for this model. Raises Unsupported with all reasons if none does."""
    from ..events.tree import Unsupported
    from .accountants import upper

    rows = upper(model.with_noise(1.0).ledger, claim)
    names = [r.accountant for r in rows if r.is_upper_bound and r.epsilon is not None]
    if not names:
        reasons = "; ".join(f"{r.accountant}: {r.unsupported or r.note}" for r in rows)
        raise Unsupported(f"no accountant bounds the ledger of {model.name}, so it cannot be calibrated: {reasons}")
    return names


def _smallest(epsilon: Callable[[float], float], claim: Claim, relative: float, start: float) -> float:
    """The smallest sigma with epsilon(sigma) <= claim.epsilon, rounded up by at most the relative tolerance. epsilon must not
    increase with sigma. Raises ValueError if no sigma up to FARTHEST fits, or if epsilon does not depend on sigma.
    """
    target = claim.epsilon
    high, at_high = start, epsilon(start)
    low, at_low = start, at_high
    factor = 1 + 4 * relative if start != 1.0 else 2.0  # a start other than 1 is already near the result
    while at_high > target:
        low, at_low = high, at_high
        high *= factor
        factor **= 2
        if high > FARTHEST:
            raise ValueError(
                f"{claim}: even with noise of {low:.3g} times the sensitivity, epsilon is {at_low:.4g}. "
                f"Claim a larger {'epsilon or delta' if claim.delta else 'delta: at 0, Gaussian noise has no finite epsilon'}."
            )
        at_high = epsilon(high)
    while at_low <= target:
        if low < 1 / FARTHEST:
            if at_low == 0:
                return low
            raise ValueError(f"{claim}: epsilon is {at_low:.4g} at every noise multiplier; with_noise must change the ledger.")
        high, at_high = low, at_low
        low /= factor
        factor **= 2
        at_low = epsilon(low)
    side = 0
    while high / low > 1 + relative:
        middle = _between(low, at_low, high, at_high, target, relative, side)
        at_middle = epsilon(middle)
        if at_middle > target:
            low, at_low, side = middle, at_middle, side - 1 if side < 0 else -1
        else:
            high, at_high, side = middle, at_middle, side + 1 if side > 0 else 1
    return high


def _between(low: float, at_low: float, high: float, at_high: float, target: float, relative: float, side: int) -> float:
    """The next trial sigma: where the secant through the ends of the bracket, in log-log coordinates, meets the target. It is
    moved slightly so that the bracket closes from both sides.

    side: how often in a row the high end moved, negative for the low end. The function bisects if one end moved twice in a row,
    or if the secant is undefined.
    """
    a, b = math.log(low), math.log(high)
    if abs(side) >= 2 or not (math.isfinite(at_low) and at_high > 0 and at_low > at_high):
        return math.exp((a + b) / 2)
    share = math.log(at_low / target) / math.log(at_low / at_high)
    nudge = 0.4 * math.log1p(relative) * (1 if share < 0.5 or side < 0 else -1)
    inside = 0.2 * math.log1p(relative)
    return math.exp(min(max(a + share * (b - a) + nudge, a + inside), b - inside))
