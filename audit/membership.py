"""Membership: runs in which every unit has a coin of its own, and what every attack makes of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.claim import Unit
from ..attacks.base import missing
from ..attacks.link import FeatureDistance
from ..attacks.roc import Leak, measure, measure_slices, roc_points
from ..attacks.slices import slices
from ..reports.results import AttackRow, Slice
from .case import Case, Skip, keeping
from .question import Question, question
from .suite import ALONE, ATTACKS, BASELINES, DEPLOYED, GAMES, OF_EACH_UNIT, UNITS, how_asked, view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ..models.graph import Graph
    from .game import Seen
    from .key import Key
    from .store import Store

QUERIED = 100  # members, and as many others, that an attack asks about which pays with queries for each


@dataclass(frozen=True)
class Measured:
    """Rows for the report, the ROC curves behind them, and what was not done."""

    rows: tuple[AttackRow, ...] = ()
    rocs: dict[str, Any] = dataclasses.field(default_factory=dict)
    skips: tuple[Skip, ...] = ()

    def and_also(self, other: Measured) -> Measured:
        return Measured(self.rows + other.rows, self.rocs | other.rocs, self.skips + other.skips)


def membership(case: Case, graph: Graph, store: Store, key: Key, names: tuple[str, ...], shadows: int, targets: int) -> Measured:
    """Every named attack on one pool of runs a game: the first `shadows` tell their bits, the other `targets` are attacked."""
    found, seen = Measured(), view(case)
    for kind, query in GAMES.items():
        attacks = [a for a in (ATTACKS[name](query) for name in names) if kind in a.kinds]
        if kind == "node" and ALONE not in seen:
            continue  # the same attacks are made on labels
        public = f"{case.model.name} takes the edges to be public" if case.claim.unit is Unit.FEATURES else None
        reasons = [public if kind == "edge" and public else missing(a, seen) for a in attacks]
        able = [a for a, reason in zip(attacks, reasons, strict=True) if reason is None]
        refused = [Skip(case, a.name, reason) for a, reason in zip(attacks, reasons, strict=True) if reason]
        found = found.and_also(Measured(skips=tuple(refused)))
        if able:
            asked = question(graph, kind, key.fold("membership"))
            pool = store.fit(keeping(case.model, (DEPLOYED,)), asked.game, shadows + targets)
            found = found.and_also(attacked(case, graph, asked, pool, able, shadows, store.device))
    return found


def attacked(case: Case, graph: Graph, asked: Question, pool: Seen, attacks: list[Any], shadows: int, device: str) -> Measured:
    """One pool of runs under every attack. The baselines stand once beside each kind of non-member."""
    live = [a for a in attacks if "queries" in a.needs]
    stored = [*(b for b in BASELINES if asked.game.kind in b.kinds), *(a for a in attacks if a not in live)]
    groups = slices(pool.challenge, graph)
    found = told(case, asked, pool, stored, shadows, groups)
    if live:
        model: Any = case.model
        query = model.deployed(asked.game.rounds(len(pool), start=shadows).worlds, device)  # the same runs as in the pool
        answered = [dataclasses.replace(a, query=query) for a in live]
        found = found.and_also(told(case, asked.few(QUERIED), pool, answered, shadows, groups))
    return found


def told(
    case: Case, asked: Question, pool: Seen, attacks: list[Any], shadows: int, groups: dict[str, NDArray[np.str_]]
) -> Measured:
    """What each attack told of the runs behind the first `shadows`, from which alone it has learnt."""
    kind, pilot, target = asked.game.kind, pool[:shadows], pool[shadows:]
    bits = asked.bits(target.bits)
    rows: list[AttackRow] = []
    rocs: dict[str, Any] = {}
    skips: list[Skip] = []
    usual: dict[str, float] = {}
    if kind == "edge":
        usual = {name: measure(s, bits[:, columns]).auc for name, columns, s in scored(FeatureDistance(), target, asked)}
    for attack in attacks:
        try:
            answers = list(scored(attack.fit(pilot.pilot), target, asked))
        except ValueError as reason:  # too few shadow models, or no edge that is known
            skips.append(Skip(case, attack.name, str(reason)))
            continue
        for negatives, columns, scores in answers:
            true = bits[:, columns]
            whole = negatives == UNITS[kind] and len(columns) == len(pool.challenge)
            sliced = sliced_leaks(scores, true, groups) if whole else {}
            rows.append(row(case, attack, kind, negatives, measure(scores, true), shadows, usual.get(negatives), sliced))
            if attack not in BASELINES:
                rocs[f"{attack.name} ({kind}, {negatives})"] = roc_points(scores, true)
    return Measured(tuple(rows), rocs, tuple(skips))


def scored(attack: Any, target: Seen, asked: Question) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.float64]]]:
    """For each kind of non-member, the columns that were asked about and their scores, (targets, columns)."""
    kinds = asked.kinds
    if isinstance(attack, OF_EACH_UNIT):
        kinds = {UNITS[asked.game.kind]: kinds[UNITS[asked.game.kind]]}
    columns = np.unique(np.concatenate(list(kinds.values())))
    challenge = dataclasses.replace(asked.challenge, items=asked.challenge.items[columns])
    scores = attack.score(target.release, challenge)
    for negatives, those in kinds.items():
        yield negatives, those, scores[:, np.searchsorted(columns, those)]


def sliced_leaks(
    scores: NDArray[np.float64], bits: NDArray[np.bool_], groups: dict[str, NDArray[np.str_]]
) -> dict[str, dict[str, Slice]]:
    """What an attack gained on each class, and on each third by degree and by homophily."""
    return {
        by: {
            group: Slice(auc=leak.auc, auc_ci95=leak.auc_ci95, members=leak.members, non_members=leak.non_members)
            for group, leak in measure_slices(scores, bits, those).items()
        }
        for by, those in groups.items()
    }


def row(
    case: Case,
    attack: Any,
    kind: str,
    negatives: str,
    leak: Leak,
    shadows: int,
    baseline_auc: float | None,
    sliced: dict[str, dict[str, Slice]],
) -> AttackRow:
    return AttackRow(
        **case.where,
        attack=attack.name,
        game=kind,
        query=how_asked(attack),
        negatives=negatives,
        auc=leak.auc,
        auc_ci95=leak.auc_ci95,
        tpr_at_fpr={f"{fpr:g}": rate.value for fpr, rate in leak.tpr_at_fpr.items()},
        true_positives={f"{fpr:g}": rate.true_positives for fpr, rate in leak.tpr_at_fpr.items()},
        false_positives={f"{fpr:g}": rate.false_positives for fpr, rate in leak.tpr_at_fpr.items()},
        members=leak.members,
        non_members=leak.non_members,
        shadows=shadows,
        targets=leak.targets,
        baseline_auc=baseline_auc,
        baseline=attack in BASELINES,
        slices=sliced,
    )
