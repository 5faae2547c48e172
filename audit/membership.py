"""Utility and membership: trainings without secrets, and runs in which every unit has a coin of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.claim import Unit
from ..attacks.base import Challenge, missing
from ..attacks.link import FeatureDistance, LinkStealing
from ..attacks.lira import Lira
from ..attacks.multi_lira import MultiLira
from ..attacks.relative import Relative
from ..attacks.roc import Leak, measure, roc_points
from ..attacks.threshold import Confidence, Entropy, LabelOnly, ModifiedEntropy
from ..reports.results import AttackRow, UtilityRow
from .case import Case, Skip, keeping
from .game import Game, Seen, sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..models.graph import Graph
    from .key import Key
    from .store import Store

UNITS_WATCHED = 1000  # challenged nodes or edges in a membership game
QUERY = "posteriors"  # members and non-members are asked in the same way: as the deployed model answers
ATTACKS: dict[str, Callable[[], Any]] = {
    "label-only": LabelOnly,
    "confidence": Confidence,
    "entropy": Entropy,
    "modified-entropy": ModifiedEntropy,
    "lira": lambda: Lira(query=QUERY),
    "rmia": lambda: Relative(gamma=1.0, query=QUERY),
    "link-stealing": LinkStealing,
    "edge-lira": lambda: Lira(signal="ends", query=QUERY),
    "edge-multi-lira": lambda: MultiLira("edge", logits=(QUERY,), scalars=(QUERY,)),
}
NEEDS_SHADOWS = (Lira, MultiLira, Relative)


@dataclass(frozen=True, eq=False)
class Quiz:
    """Pairs of nodes, and which of them are edges in every run. pairs: (q, 2) int64. there: (q,) bool."""

    pairs: NDArray[np.int64]
    there: NDArray[np.bool_]


@dataclass(frozen=True)
class Measured:
    """Rows for the report and the ROC curves behind them."""

    rows: tuple[AttackRow | UtilityRow, ...]
    rocs: dict[str, Any]
    skips: tuple[Skip, ...] = ()


def utility(case: Case, graph: Graph, store: Store, key: Key, repeats: int) -> Measured:
    """Accuracy and macro F1 on the test nodes: means over `repeats` trainings with Student's 95 % interval."""
    test = np.flatnonzero(graph.test)
    game = Game(graph, "edge", np.zeros(0, dtype=np.int64), key.fold("utility"), watch=test)
    seen = store.fit(keeping(case.model, ("posteriors",)), game, repeats)
    guess = seen.release["posteriors"].argmax(-1)
    truth = graph.y[test]
    figures = {"accuracy": (guess == truth).mean(1), "macro_f1": np.array([macro_f1(g, truth) for g in guess])}
    sigma = float(getattr(case.model, "sigma", 0.0))
    rows = [
        UtilityRow(**case.where, metric=metric, split="test", value=float(v.mean()), ci95=interval(v), runs=repeats, sigma=sigma)
        for metric, v in figures.items()
    ]
    return Measured(tuple(rows), {})


def membership(case: Case, graph: Graph, store: Store, key: Key, names: tuple[str, ...], shadows: int, targets: int) -> Measured:
    """Every membership attack on one pool of runs: the first `shadows` tell their bits, the other `targets` are attacked."""
    rows: list[AttackRow | UtilityRow] = []
    rocs: dict[str, Any] = {}
    skips: list[Skip] = []
    for kind in ("label", "edge"):
        attacks = [a for a in (ATTACKS[n]() for n in names) if kind in a.kinds]
        if kind == "edge" and case.claim.unit is Unit.FEATURES:
            skips += [Skip(case, a.name, f"{case.model.name} takes the edges to be public") for a in attacks]
            continue
        refused = {a.name: reason for a in attacks if (reason := missing(a, case.claim.exposes))}
        skips += [Skip(case, name, reason) for name, reason in refused.items()]
        able = [a for a in attacks if a.name not in refused]
        if not able:
            continue
        game, quizzes = question(graph, kind, key.fold("membership"))
        seen = store.fit(keeping(case.model, ("posteriors",)), game, shadows + targets)
        pilot, target = seen[:shadows], seen[shadows:]
        for attack in able:
            fitted = attack.fit(pilot.pilot)
            for negatives, question_seen, scores in asked(fitted, target, {} if isinstance(attack, NEEDS_SHADOWS) else quizzes):
                leak = measure(scores, question_seen.bits)
                baseline = feature_only(question_seen) if kind == "edge" else None
                rows.append(row(case, attack.name, kind, negatives, leak, shadows, baseline))
                rocs[f"{attack.name} ({kind}, {negatives})"] = roc_points(scores, question_seen.bits)
    return Measured(tuple(rows), rocs, tuple(skips))


def question(graph: Graph, kind: str, key: Key) -> tuple[Game, dict[str, Quiz]]:
    """The game, and for edges the pairs that are asked beside it and need no coins: edges against pairs without one."""
    if kind == "label":
        items = sample(np.flatnonzero(graph.train), UNITS_WATCHED, key.fold("nodes"))
        return Game(graph, "label", items, key.fold("label"), watch=items, paired=True), {}
    order = key.fold("edges").generator().permutation(graph.edges.shape[1])
    items, known = np.sort(order[:UNITS_WATCHED]), graph.edges[:, order[UNITS_WATCHED : 2 * UNITS_WATCHED]].T
    quizzes = {name: quiz(known, pairs(graph, UNITS_WATCHED, key.fold(name))) for name, pairs in NON_EDGES.items()}
    ends = [graph.edges[:, items].ravel(), *(q.pairs.ravel() for q in quizzes.values())]
    return Game(graph, "edge", items, key.fold("edge"), watch=np.unique(np.concatenate(ends)), paired=True), quizzes


def quiz(edges: NDArray[np.int64], others: NDArray[np.int64]) -> Quiz:
    there = np.zeros(len(edges) + len(others), dtype=bool)
    there[: len(edges)] = True
    return Quiz(np.concatenate([edges, others]), there)


def asked(attack: Any, target: Seen, quizzes: dict[str, Quiz]) -> Iterator[tuple[str, Seen, NDArray[np.float64]]]:
    """For each kind of non-member, what was asked and the scores: units whose coin said no, pairs that never were edges."""
    played = "dropped" if target.challenge.kind == "edge" else "unlabelled"
    yield played, target, attack.score(target.release, target.challenge)
    for negatives, q in quizzes.items():
        challenge = Challenge("edge", target.challenge.known, q.pairs)
        bits = np.tile(q.there, (len(target), 1))
        yield negatives, Seen(target.release, challenge, bits), attack.score(target.release, challenge)


def random_pairs(graph: Graph, count: int, key: Key) -> NDArray[np.int64]:
    """(<= count, 2) int64: distinct pairs of different nodes without an edge, evenly among all such pairs."""
    drawn = key.generator().integers(graph.nodes, size=(4 * count, 2))
    return without_edges(graph, drawn)[:count]


def two_hop_pairs(graph: Graph, count: int, key: Key) -> NDArray[np.int64]:
    """(<= count, 2) int64: distinct pairs without an edge that have a common neighbour: two random steps along the arcs."""
    rng = key.generator()
    send, receive = graph.arcs[:, np.argsort(graph.arcs[0], kind="stable")]
    first = np.searchsorted(send, np.arange(graph.nodes + 1))
    step = rng.integers(send.size, size=8 * count)
    middle = receive[step]
    out = first[middle + 1] - first[middle]
    last = receive[np.minimum(first[middle] + (rng.random(step.size) * out).astype(np.int64), send.size - 1)]
    return without_edges(graph, np.stack([send[step], last], 1)[out > 0])[:count]


def without_edges(graph: Graph, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs of different nodes that no edge joins in either direction, each once, in the order given."""
    low, high = pairs.min(1), pairs.max(1)
    code = low * graph.nodes + high
    edges = graph.edges.min(0) * graph.nodes + graph.edges.max(0)
    _, once = np.unique(code, return_index=True)
    once.sort()
    free = once[(low[once] != high[once]) & ~np.isin(code[once], edges)]
    return pairs[free]


NON_EDGES: dict[str, Callable[[Graph, int, Key], NDArray[np.int64]]] = {"random": random_pairs, "2-hop": two_hop_pairs}


def feature_only(target: Seen) -> float:
    """AUC of the attack that sees no model, on the same questions."""
    scores = FeatureDistance().score(target.release, target.challenge)
    return measure(scores, target.bits).auc


def macro_f1(guess: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """The mean over classes of the F1 score."""
    from sklearn.metrics import f1_score

    return float(f1_score(truth, guess, average="macro", zero_division=0.0))


def interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Student's 95 % interval of the mean of (runs,) values in [0, 1]; None for a single one."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return max(0.0, float(values.mean()) - half), min(1.0, float(values.mean()) + half)


def row(case: Case, attack: str, kind: str, negatives: str, leak: Leak, shadows: int, baseline: float | None) -> AttackRow:
    return AttackRow(
        **case.where,
        attack=attack,
        game=kind,
        query="full",
        negatives=negatives,
        auc=leak.auc,
        auc_ci95=leak.auc_ci95,
        tpr_at_fpr={f"{fpr:g}": rate.value for fpr, rate in leak.tpr_at_fpr.items()},
        members=leak.members,
        non_members=leak.non_members,
        shadows=shadows,
        targets=leak.targets,
        baseline_auc=baseline,
    )
