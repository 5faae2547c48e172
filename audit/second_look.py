"""A refutation by samples is tried again with fresh coins before anybody is blamed; a computation needs no second look."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .audits.registry import Audit
    from .case import Outcome, Setting

LEVEL = 1e-3  # the chance that fresh coins confirm a false alarm


def confirmed(audit: Audit, outcome: Outcome, setting: Setting) -> tuple[Outcome, ...]:
    """The outcome, its refutations by samples marked as confirmed or not, and the second look where one was taken.

    Refutations of both looks confirm each other.
    A claim that is kept falls only if both looks fail, whose coins and noise are independent: with the first at level alpha, at
    most alpha times LEVEL of all such runs blame it.
    """
    if not any(b.refuted and b.alpha > 0 for b in outcome.bounds):
        return (outcome,)
    key, alpha = setting.key.fold(audit.name, "again"), LEVEL / max(1, audit.looks)
    again = audit.run(dataclasses.replace(setting, key=key, alpha=alpha))
    held = any(b.refuted for b in again.bounds)
    name = f"{audit.name} again"
    second = tuple(dataclasses.replace(b, audit=name, confirmed=True if b.refuted else None) for b in again.bounds)
    return (marked(outcome, held), dataclasses.replace(again, audit=name, bounds=second))


def marked(outcome: Outcome, held: bool) -> Outcome:
    """The outcome, whose refutations by samples fresh coins confirmed or did not."""
    bounds = tuple(dataclasses.replace(b, confirmed=held) if b.refuted and b.alpha > 0 else b for b in outcome.bounds)
    return dataclasses.replace(outcome, bounds=bounds)
