"""Upper bounds on the epsilon of a ledger, one by each accountant, and why they differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from ..arguments import member, words
from ..cache import remembered
from ..claim import Claim, Relation

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True)
class Accountant:
    """One entry of ACCOUNTANTS. epsilon(ledger, delta, relation): in nats; raises Unsupported if the accountant declines.

    differs: why its value may differ from the tightest bound. is_upper_bound: False for an approximation.
    """

    epsilon: Callable[[DpEvent, float, Relation], float]
    differs: str
    is_upper_bound: bool = True


@dataclass(frozen=True)
class Upper:
    """The epsilon of one ledger by one accountant.

    epsilon: nats; None if the accountant declines, with the reason in `unsupported`. is_upper_bound: False for approximations,
    for bounds that were proved for another relation, and where rounding outweighs delta. seconds: how long the computation took
    when the value was first computed. note: why the value differs from the tightest bound, or is no bound.
    """

    accountant: str
    epsilon: float | None
    is_upper_bound: bool
    unsupported: str | None
    seconds: float
    note: str = ""


def upper(
    ledger: DpEvent,
    claim_or_delta: Claim | float,
    relation: Relation = Relation.ADD_REMOVE,
    accountants: Sequence[str] | None = None,
    stored: bool = True,
) -> tuple[Upper, ...]:
    """One row for each accountant, by default all in the order of ACCOUNTANTS. A claim gives delta and relation, and then all
    trainings from which the released one was chosen (`tuned_over`) are charged.

    stored: whether rows from the cache are used unchecked. With False, which verdicts need, the tightest row is computed again.
    If it differs or exceeds the claim, all rows are computed again. Raises ValueError for unknown accountants, and for a delta or
    ledger with impossible numbers.
    """
    from ..events.well_formed import check_ledger

    check_ledger(ledger)
    if isinstance(claim_or_delta, Claim):
        delta, relation = claim_or_delta.delta, claim_or_delta.relation
        ledger = chosen_from(ledger, claim_or_delta)
    else:
        delta, relation = Claim(0.0, claim_or_delta).delta, member("relation", relation, Relation)
    names = tuple(ACCOUNTANTS) if accountants is None else words("accountants", accountants, '("exact",)')
    if not names:
        raise ValueError(f"accountants=(): must be some of {', '.join(ACCOUNTANTS)}, or None for all.")
    for name in names:
        if name not in ACCOUNTANTS:
            raise ValueError(f"accountant {name!r}: must be one of {', '.join(ACCOUNTANTS)}.")
    if type(ledger).__name__ == "UnsupportedDpEvent":
        return tuple(Upper(name, None, ACCOUNTANTS[name].is_upper_bound, NO_LEDGER, 0.0) for name in names)
    rows = tuple(_row(name, ledger, delta, relation) for name in names)
    target = claim_or_delta.epsilon if isinstance(claim_or_delta, Claim) else math.inf
    if not stored and not _agreed(rows, ledger, delta, relation, target):
        rows = tuple(_fresh(name, ledger, delta, relation) for name in names)
    best = tightest(rows)
    return rows if best is None else tuple(_explained(row, best) for row in rows)


def chosen_from(ledger: DpEvent, claim: Claim) -> DpEvent:
    """The ledger of all trainings from which the released one was chosen."""
    if claim.tuned_over == 1:
        return ledger
    from .tuning import tuned

    return tuned(ledger, claim.tuned_over)


def tightest(rows: Iterable[Upper]) -> Upper | None:
    """The row with the smallest upper bound; None if no accountant gave one."""
    valid = [r for r in rows if r.is_upper_bound and r.epsilon is not None]
    return min(valid, key=lambda r: r.epsilon or 0.0, default=None)


def _row(name: str, ledger: DpEvent, delta: float, relation: Relation) -> Upper:
    def compute() -> dict[str, object]:
        return asdict(_computed(name, ledger, delta, relation))

    found = remembered(compute, "upper", name, ledger, delta, str(relation), holds=partial(_is_row, name))
    return _valid(Upper(**found), ledger, delta, relation)


def _is_row(name: str, stored: dict[str, object]) -> bool:
    """Whether a stored value is a row of this accountant, with either an epsilon or a reason, and fields of the right types."""
    row = Upper(**stored)  # type: ignore[arg-type]
    number = isinstance(row.epsilon, float) and row.epsilon >= 0 and row.unsupported is None
    reason = row.epsilon is None and isinstance(row.unsupported, str)
    same = (row.accountant, row.is_upper_bound, row.note) == (name, ACCOUNTANTS[name].is_upper_bound, "")
    return same and (number or reason) and isinstance(row.seconds, float)


def _agreed(rows: Iterable[Upper], ledger: DpEvent, delta: float, relation: Relation, target: float) -> bool:
    """Whether the tightest row satisfies the claim, and a new computation reproduces this row. Then no other row can change the
    verdict.
    """
    best = tightest(rows)
    if best is None or best.epsilon is None or best.epsilon > target:
        return False
    return _fresh(best.accountant, ledger, delta, relation).epsilon == best.epsilon


def _fresh(name: str, ledger: DpEvent, delta: float, relation: Relation) -> Upper:
    """A row that this process computes or has already computed."""
    done = COMPUTED.get(repr((name, ledger, delta, relation)))
    return _valid(done or _computed(name, ledger, delta, relation), ledger, delta, relation)


def _computed(name: str, ledger: DpEvent, delta: float, relation: Relation) -> Upper:
    from ..events.tree import Unsupported

    begin = time.perf_counter()
    value, reason = None, None
    try:
        with np.errstate(all="ignore"):  # where an overflow matters, it is infinity, NaN or an ArithmeticError
            value = float(ACCOUNTANTS[name].epsilon(ledger, delta, relation))
        if value < 0 or math.isnan(value):  # autodp returns such values when its numerical search fails
            value, reason = None, f"returned epsilon={value}, which is impossible."
    except Unsupported as unsupported:
        reason = str(unsupported)
    except ArithmeticError as fault:  # a library overflows, or divides by a number that underflowed
        reason = f"a number of this ledger is too large or too small for the accountant ({fault})."
    row = Upper(name, value, ACCOUNTANTS[name].is_upper_bound, reason, time.perf_counter() - begin)
    COMPUTED[repr((name, ledger, delta, relation))] = row
    return row


def _valid(row: Upper, ledger: DpEvent, delta: float, relation: Relation) -> Upper:
    """The row, marked as not a bound if it was proved for another relation, or if rounding errors exceed delta."""
    from .caveats import proved_for_others
    from .libraries import lost_to_rounding

    other = proved_for_others(ledger, relation) or lost_to_rounding(row.accountant, ledger, delta)
    return replace(row, is_upper_bound=False, note=other) if other and row.epsilon is not None else row


def _explained(row: Upper, best: Upper) -> Upper:
    if row.epsilon is None or row.note or row.accountant == best.accountant or not best.epsilon:
        return row
    if math.isinf(row.epsilon) and math.isinf(best.epsilon):
        return row
    share = row.epsilon / best.epsilon - 1
    if abs(share) < 1e-3 and row.is_upper_bound:
        return row
    return replace(row, note=f"{share:+.1%} against {best.accountant}: {ACCOUNTANTS[row.accountant].differs}")


def _pld(ledger: DpEvent, delta: float, relation: Relation) -> float:
    """epsilon by dp_accounting alone if it supports every part, else also with the dominating pairs of `pld`."""
    from ..events.tree import Unsupported, parts
    from .libraries import dp_accounting_pld
    from .tradeoff import curve

    if delta == 0 and parts(ledger):
        raise Unsupported("delta=0: a privacy-loss distribution on a grid truncates a tail. Use a delta above 0.")
    try:
        return dp_accounting_pld(ledger, delta, relation)
    except Unsupported:
        return curve(ledger, relation).epsilon(delta)


def _rdp(ledger: DpEvent, delta: float, relation: Relation) -> float:
    from ..events.tree import Unsupported, parts
    from .rdp import epsilon

    if delta == 0 and parts(ledger):
        raise Unsupported("delta=0: finite Renyi orders give no bound. Use a delta above 0.")
    return epsilon(ledger, delta, relation)


def _lazily(file: str, name: str) -> Callable[[DpEvent, float, Relation], float]:
    """The accountant of this name in a file of this folder, which is imported when it is asked."""

    def epsilon(ledger: DpEvent, delta: float, relation: Relation) -> float:
        return float(getattr(import_module(f".{file}", __package__), name)(ledger, delta, relation))

    return epsilon


NO_LEDGER = "the model states no ledger"  # `Upper.unsupported` of a model that declares no mechanisms
COMPUTED: dict[str, Upper] = {}  # rows that this process has computed, by the repr of their arguments
ACCOUNTANTS: dict[str, Accountant] = {
    "dp_accounting-pld": Accountant(
        _pld, "rounded up to a grid of losses, and a bounded-range step is replaced by its worst pair"
    ),
    "dp_accounting-rdp": Accountant(_rdp, "the conversion of a Renyi curve to (epsilon, delta) is loose"),
    "autodp-rdp": Accountant(
        _lazily("libraries", "autodp_rdp"),
        "the conversion of a Renyi curve to (epsilon, delta) is loose, and fractional orders are interpolated",
    ),
    "opacus-rdp": Accountant(_lazily("libraries", "opacus_rdp"), "the conversion of a Renyi curve to (epsilon, delta) is loose"),
    "opacus-prv": Accountant(_lazily("libraries", "opacus_prv"), "it adds its own error bound of 0.01 nats"),
    "opacus-gdp": Accountant(
        _lazily("libraries", "opacus_gdp"), "central limit approximation, not a bound", is_upper_bound=False
    ),
    "exact": Accountant(_lazily("exact", "epsilon"), "worst case over all mechanisms with the same parts"),
}
