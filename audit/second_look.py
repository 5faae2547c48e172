"""Repeats a statistical refutation with fresh coins before the report counts it. A computation is not repeated."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .audits.registry import Audit
    from .case import Outcome, Setting

LEVEL = 1e-3  # the probability that fresh coins confirm a false alarm


def confirmed(audit: Audit, outcome: Outcome, setting: Setting) -> tuple[Outcome, ...]:
    """The outcome, with its statistical refutations marked as confirmed or not, and the outcome of the repetition if there was
    one.

    A claim is refuted only if both tests refute it. Their coins and noise are independent, so a true claim is refuted with
    probability at most alpha times LEVEL, where alpha is the level of the first test.
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
    """The outcome, with its statistical refutations marked as confirmed or not."""
    bounds = tuple(dataclasses.replace(b, confirmed=held) if b.refuted and b.alpha > 0 else b for b in outcome.bounds)
    return dataclasses.replace(outcome, bounds=bounds)
