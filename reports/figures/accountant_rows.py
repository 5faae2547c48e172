"""The epsilon of each ledger by every accountant and by the paper, and the reasons why they differ or are missing."""

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from ..results import AccountRow
from ..summary import Key, Line, name

SHARE = re.compile(r"^[+-][\d.,]+ ?% against [^:]+: ")  # removed from notes: the table has a separate cell for it
AGREE = 1e-3  # relative tolerance; smaller differences come from the accountants' grids


@dataclass(frozen=True)
class Cost:
    """Epsilons of one ledger, in nats. true: the tightest valid upper bound. printed: the value that the paper prints, with a
    `note` about it. as_coded: the value that the paper's code computes. rows: the values of all accountants. warnings: about the
    ledger and the claim. contradicted: whether a lower bound exceeds `true`, so that the ledger does not describe what was run.
    """

    key: Key
    printed: float | None
    as_coded: float | None
    true: float | None
    note: str
    rows: tuple[AccountRow, ...]
    warnings: tuple[str, ...] = ()
    contradicted: bool = False

    @property
    def why(self) -> str:
        """The reason why no accountant gives a value, if all give the same reason; else an empty string."""
        reasons = {row.unsupported or "" for row in self.rows if row.value is None}
        return reasons.pop() if len(reasons) == 1 and all(row.value is None for row in self.rows) else ""

    def of(self, accountant: str) -> AccountRow | None:
        return next((row for row in self.rows if row.accountant == accountant), None)

    def excess(self, value: float | None) -> float | None:
        """The relative difference of `value` from the true value; None if one is unknown or infinite, or the true one is 0."""
        if value is None or not self.true or math.isinf(value) or math.isinf(self.true):
            return None
        return value / self.true - 1

    def agrees(self, value: float | None) -> bool:
        excess = self.excess(value)
        return excess is not None and abs(excess) <= AGREE


def costs(lines: list[Line]) -> list[Cost]:
    """One `Cost` for each claim with at least one account row."""
    return [_cost(line) for line in lines if line.accounts]


class Reasons(NamedTuple):
    """(source, reason), once each. differs: for epsilons that are not the true one. missing: for those that are not known.
    warned: warnings about ledgers and claims.
    """

    differs: list[tuple[str, str]]
    missing: list[tuple[str, str]]
    warned: list[tuple[str, str]]


def reasons(costs: list[Cost]) -> Reasons:
    """The reasons for every epsilon of a paper or an accountant that is missing or not the true one, and for every ledger that a
    lower bound contradicts.
    """
    found, missing, warned = [], [], []
    for cost in costs:
        who = name(cost.key.model, cost.key.mode)
        if cost.contradicted:
            why = "all values are those of the ledger, which does not describe what was run: a lower bound exceeds them"
            found.append((who, why))
        if cost.note:
            found.append((f"{who}, published", cost.note))
        warned += [(who, warning) for warning in cost.warnings]
        for row in cost.rows:
            if row.unsupported and not cost.why:
                missing.append((f"{row.accountant}, {who}", row.unsupported))
            elif row.note and not cost.why and not cost.agrees(row.value):
                found.append((row.accountant, SHARE.sub("", row.note)))
    return Reasons(*(list(dict.fromkeys(each)) for each in (found, missing, warned)))


def _cost(line: Line) -> Cost:
    published = next((a for a in line.accounts if a.accountant == "published"), None)
    true = line.upper[0] if line.upper else None
    rows = tuple(a for a in line.accounts if a.computed)
    warnings = tuple(a.unsupported or "" for a in line.accounts if a.accountant == "warning")
    printed, coded, note = (published.value, published.as_coded, published.note) if published else (None, None, "")
    return Cost(line.key, printed, coded, true, note, rows, warnings, line.contradicted)
