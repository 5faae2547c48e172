"""Who leaks more: the strongest attacks told apart by class, degree and homophily."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..results import AttackRow, Slice
from ..summary import strongest

SHOWN = 4  # groups; of more, those at either end are shown
WORDS = {"homophily": "neighbours of its class", "classes": "its ends"}


class Sliced(NamedTuple):
    """One attack. told: (how the units were grouped, what each group leaks, in words)."""

    row: AttackRow
    told: tuple[tuple[str, str], ...]


def sliced(attacks: Iterable[AttackRow]) -> list[Sliced]:
    """The strongest attack on each model, budget and game, where its rows say how groups differ."""
    return [
        Sliced(row, tuple((WORDS.get(by, by), _words(groups)) for by, groups in row.slices.items() if groups))
        for row in strongest(attacks)
        if row.slices
    ]


def _words(groups: Mapping[str, Slice]) -> str:
    """ "high 0.61 ± 0.02, low 0.52 ± 0.02": the group that leaks most first."""
    order = sorted(groups.items(), key=lambda item: -item[1].auc)
    told = [f"{group} {part.auc:.2f} ± {(part.auc_ci95[1] - part.auc_ci95[0]) / 2:.2f}" for group, part in order]
    return ", ".join(told) if len(told) <= SHOWN else f"{told[0]}, {told[1]}, …, {told[-1]}"
