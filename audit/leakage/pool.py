"""Runs membership attacks. All attacks on a game share one pool of runs: shadow runs with known bits, and target runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...accounting.claim import Unit
from ...attacks.base import Attack, missing
from ...attacks.links.model_free import FEATURES
from ...attacks.membership.cross_fit import scores_within
from ...attacks.registry import ALONE, ATTACKS, BASELINES, DEPLOYED, GAMES, UNITS, how_asked
from ...attacks.roc import Leak, measure, measure_slices, roc_points
from ...attacks.subgroups import slices
from ...models.capabilities import ANSWERS
from ...models.fitted import apart
from ...models.graph.graph import Graph, Worlds
from ...reports.results import AttackRow, SkippedRow, Slice
from ..case import Case, keeping
from ..games.game import Seen
from ..key import Key
from ..storage.store import Store
from .question import Question, public_part, question, view

QUERIED = 100  # largest number of members, and of non-members, that are scored by attacks which query models


@dataclass(frozen=True)
class Measured:
    """Rows for the report, their ROC curves, and skipped rows."""

    rows: tuple[AttackRow, ...] = ()
    rocs: dict[str, Any] = dataclasses.field(default_factory=dict)
    skips: tuple[SkippedRow, ...] = ()

    def joined(self, other: Measured) -> Measured:
        return Measured(self.rows + other.rows, self.rocs | other.rocs, self.skips + other.skips)


@dataclass(frozen=True, eq=False)
class Pool:
    """The runs of one game. asked: the challenges. pilot: the shadow runs, whose bits the attacker knows. target: the target
    runs.
    """

    asked: Question
    pilot: Seen
    target: Seen


def membership(
    case: Case,
    graph: Graph,
    store: Store,
    key: Key,
    names: tuple[str, ...],
    shadows: int,
    targets: int,
    games: tuple[str, ...] = tuple(GAMES),
) -> Measured:
    """Runs every named attack on each game. Of a game's pool of runs, the first `shadows` are shadow runs, the others target
    runs.
    """
    found, seen = Measured(), view(case)
    for kind, query in ((kind, query) for kind, query in GAMES.items() if kind in games):
        attacks = [a for a in (ATTACKS[name](query) for name in names) if kind in a.kinds]
        if kind == "node" and ALONE not in seen:  # the label game runs the attacks that the node game cannot run
            if "label" not in games and names:
                reason = f"{case.model.name} answers no queries for a node without its edges; the label game runs these attacks"
                found = found.joined(Measured(skips=(case.skipped("game node", f"{reason}: --games label"),)))
            continue
        given = f"{case.model.name} assumes that the edges are public" if case.claim.unit is Unit.FEATURES else None
        reasons = [given if kind == "edge" and given else missing(a, seen) for a in attacks]
        able = [a for a, reason in zip(attacks, reasons, strict=True) if reason is None]
        refused = [case.skipped(a.name, reason) for a, reason in zip(attacks, reasons, strict=True) if reason]
        found = found.joined(Measured(skips=tuple(refused)))
        if able:
            found = found.joined(attacked(case, graph, kind, store, key.fold("membership"), able, shadows, targets))
    return found


def attacked(
    case: Case, graph: Graph, kind: str, store: Store, key: Key, attacks: list[Attack], shadows: int, targets: int
) -> Measured:
    """Runs these attacks and the baselines on one game. Only attacks that query models, or use shadow models of public data, need
    further training.
    """
    asked = question(graph, kind, key)
    live = [a for a in attacks if set(ANSWERS) & set(a.needs)]
    public = [a for a in attacks if a.public]
    stored = [*(b for b in BASELINES if kind in b.kinds), *(a for a in attacks if a not in live + public)]
    read = tuple(dict.fromkeys((DEPLOYED, *(name for a in stored + public for name in a.needs))))
    pool = store.fit(keeping(case.model, read), asked.game, shadows + targets, read)
    split = Pool(asked, pool[:shadows], pool[shadows:])
    groups = slices(pool.challenge, graph)
    found = scored_rows(case, split, stored, groups)
    if live:
        few = dataclasses.replace(split, asked=asked.few(QUERIED))
        found = found.joined(scored_rows(case, few, list(with_models(live, case.model, split, store.device)), groups))
    if public:
        try:
            lesson = question(public_part(graph, key.fold("public")), kind, key.fold("public"))
            taught = dataclasses.replace(split, pilot=store.fit(keeping(case.model, read), lesson.game, shadows, read))
            found = found.joined(scored_rows(case, taught, public, groups))
        except ValueError as reason:  # for example, the model accepts only one number of nodes
            found = found.joined(Measured(skips=tuple(case.skipped(a.name, str(reason)) for a in public)))
    return found


def with_models(attacks: list[Any], model: Any, split: Pool, device: str) -> Iterator[Any]:
    """Yields the attacks with the models that they query. The models are those of the pool's runs, trained again from the same
    seeds. Raises ValueError if a training changes the arrays of its graph in place.
    """
    shadows, targets = len(split.pilot), len(split.target)
    worlds = split.asked.game.rounds(shadows + targets).worlds

    def answering(method: Any, part: Worlds) -> Any:
        answers, changed = apart(method, part, device)
        if changed:
            raise ValueError(changed)
        return answers

    behind_api = functools.cache(lambda: answering(model.deployed, worlds[shadows:]))
    anywhere = functools.cache(lambda: [answering(model.anywhere, part) for part in (worlds[shadows:], worlds[:shadows])])
    for attack in attacks:
        if "queries" in attack.needs:
            yield dataclasses.replace(attack, query=behind_api())
        else:
            target, others = anywhere()
            yield dataclasses.replace(attack, target=target, shadows=others)


def scored_rows(case: Case, split: Pool, attacks: list[Attack], groups: dict[str, NDArray[np.str_]]) -> Measured:
    """Fits attacks on the shadow runs and scores the target runs. groups: as `slices` gives them."""
    asked, target, kind = split.asked, split.target, split.asked.game.kind
    bits = asked.bits(target.bits)
    rows: list[AttackRow] = []
    rocs: dict[str, Any] = {}
    skips: list[SkippedRow] = []
    usual: dict[str, float] = {}
    if kind == "edge":
        plain = {negatives: measured(s, bits[:, columns]) for negatives, columns, s in scored(FEATURES, target, asked)}
        usual = {negatives: leak.auc for negatives, leak in plain.items() if isinstance(leak, Leak)}
    for attack in attacks:
        try:
            answers = list(answers_of(attack, split, bits))
        except ValueError as reason:  # too few shadow models, or no known edge
            skips.append(case.skipped(attack.name, str(reason)))
            continue
        for negatives, columns, scores in answers:
            true = bits[:, columns]
            leak = measured(scores, true)
            if not isinstance(leak, Leak):
                skips.append(case.skipped(f"{attack.name} against {negatives}", leak))
                continue
            whole = negatives == UNITS[kind] and len(columns) == len(target.challenge)
            sliced = sliced_leaks(scores, true, groups) if whole else {}
            rows.append(row(case, attack, kind, negatives, leak, len(split.pilot), usual.get(negatives), sliced))
            if attack not in BASELINES:
                rocs[f"{attack.name} ({kind}, {negatives})"] = roc_points(scores, true)
    return Measured(tuple(rows), rocs, tuple(skips))


def measured(scores: NDArray[np.float64], bits: NDArray[np.bool_]) -> Leak | str:
    """The success of scores (targets, columns), or the reason why they have no ROC curve, for example that all bits are equal."""
    try:
        return measure(scores, bits)
    except ValueError as reason:
        return str(reason)


def answers_of(
    attack: Attack, split: Pool, bits: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.float64]]]:
    """The result of `scored` for an attack that is fitted on the shadow runs.

    An attack with `within` is instead fitted on half of the challenges of each target, and scored on the other half.
    """
    asked, target = split.asked, split.target
    if not attack.within:
        return scored(attack.fit(split.pilot.pilot), target, asked)
    tried = np.arange(len(asked.challenge)) % 2 == 1
    scores = scores_within(attack, target.release, asked.challenge, bits, ~tried)
    return iter([(UNITS[asked.game.kind], np.flatnonzero(tried), scores)])


def scored(attack: Attack, target: Seen, asked: Question) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.float64]]]:
    """Yields, for each kind of non-member, its name, the columns of the challenge, and their scores, (targets, columns)."""
    kinds = asked.kinds
    if attack.of_each_unit:
        kinds = {UNITS[asked.game.kind]: kinds[UNITS[asked.game.kind]]}
    columns = np.unique(np.concatenate(list(kinds.values())))
    challenge = dataclasses.replace(asked.challenge, items=asked.challenge.items[columns])
    scores = attack.score(target.release, challenge)
    for negatives, those in kinds.items():
        yield negatives, those, scores[:, np.searchsorted(columns, those)]


def sliced_leaks(
    scores: NDArray[np.float64], bits: NDArray[np.bool_], groups: dict[str, NDArray[np.str_]]
) -> dict[str, dict[str, Slice]]:
    """The AUC of each group: grouping -> group -> slice. groups: grouping -> the group of each unit."""
    return {
        by: {
            group: Slice(auc=leak.auc, auc_ci95=leak.auc_ci95, members=leak.members, non_members=leak.non_members)
            for group, leak in measure_slices(scores, bits, those, fprs=()).items()
        }
        for by, those in groups.items()
    }


def row(
    case: Case,
    attack: Attack,
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
