"""The AUC of the strongest attacks by class, degree and homophily of the units."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..results import AttackRow, Slice
from ..summary import strongest

SHOWN = 4  # largest number of groups shown; if there are more, the two with the highest AUC and the one with the lowest are shown
WORDS = {"homophily": "neighbours of its class", "classes": "its ends"}


class Sliced(NamedTuple):
    """One attack. groups: (the property by which units are grouped, the AUCs of its groups in words)."""

    row: AttackRow
    groups: tuple[tuple[str, str], ...]


def sliced(attacks: Iterable[AttackRow]) -> list[Sliced]:
    """The strongest attack on each model, budget and game, if its row has slices."""
    return [
        Sliced(row, tuple((WORDS.get(by, by), _words(groups)) for by, groups in row.slices.items() if groups))
        for row in strongest(attacks)
        if row.slices
    ]


def _words(groups: Mapping[str, Slice]) -> str:
    """The AUCs of groups, the largest first, such as "high: 0.61 ± 0.02, low: 0.52 ± 0.02"."""
    order = sorted(groups.items(), key=lambda item: -item[1].auc)
    words = [f"{group}: {part.auc:.2f} ± {(part.auc_ci95[1] - part.auc_ci95[0]) / 2:.2f}" for group, part in order]
    return ", ".join(words) if len(words) <= SHOWN else f"{words[0]}, {words[1]}, …, {words[-1]}"
