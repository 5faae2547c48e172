"""Bounds from posteriors alone: planted canary edges whose ends are aligned, and one run full of coins."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..accounting.claim import Unit
from ..accounting.curves import curve
from ..accounting.ledger import Unsupported
from ..accounting.lower import lower
from ..accounting.one_run import mahloujifar, steinke
from ..attacks.link import LinkStealing
from ..attacks.signals import logs
from ..attacks.threshold import Confidence
from ..models.graph import Graph
from .case import EDGES, Case, Outcome, keeping, offered
from .game import Game, sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..accounting.curves import Curve
    from ..accounting.lower import Bound
    from .key import Key
    from .store import Store

PAIRS = 500  # planted canary edges in one run
COINS = 1000  # units with a coin in the one-run audit


def ledger_curve(case: Case) -> Curve | None:
    """The curve of the model's own ledger, or None where it has none."""
    try:
        return curve(case.model.ledger)
    except (Unsupported, ValueError):
        return None


def planted(graph: Graph, pairs: int) -> tuple[Graph, NDArray[np.int64]]:
    """The graph with `pairs` pairs of new nodes beside it, each pair joined by an edge and by nothing else, and those edges' ids.

    Features are public under edge privacy, so the adversary chooses them: one end of a pair has the mean features of the
    commonest class, the other those of the second. New nodes are in no part of the split, so nothing is trained on them; a
    pair can be told from another by its own noise only, which makes the canaries of one run independent trials.
    """
    common = np.argsort(-np.bincount(graph.y, minlength=graph.classes), kind="stable")[:2]
    means = np.concatenate([np.asarray(graph.x[graph.y == c].mean(axis=0), dtype=np.float32).reshape(1, -1) for c in common])
    x_new = np.repeat(means, pairs, axis=0)
    x = sp.csr_array(sp.vstack([graph.x, sp.csr_array(x_new)])) if sp.issparse(graph.x) else np.vstack([graph.x, x_new])
    first, second = graph.nodes + np.arange(pairs), graph.nodes + pairs + np.arange(pairs)
    edges = np.concatenate([graph.edges, np.stack([first, second])], axis=1)
    outside = np.zeros(2 * pairs, dtype=bool)
    masks: dict[str, Any] = {name: np.concatenate([getattr(graph, name), outside]) for name in ("train", "val", "test")}
    y = np.concatenate([graph.y, np.repeat(common, pairs)])
    wider = dataclasses.replace(graph, x=x, y=y, edges=edges, name=f"{graph.name} with canaries", **masks)
    return wider, np.arange(graph.edges.shape[1], edges.shape[1], dtype=np.int64)


def refuses_canaries(case: Case) -> str | None:
    if case.claim.unit not in EDGES:
        return f"aligned canary edges are about edges; this claim is about {case.claim.unit}"
    return refuses_coins(case)


def aligned_canaries(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """Posteriors of the two ends of each canary edge: how far each end leans to the other's class.

    A quarter of the rounds chooses the threshold, the others are counted. Two looks: the ledger's own curve, and any shape.
    """
    started = time.perf_counter()
    wider, edges = planted(graph, PAIRS)
    union = case.counted(wider)
    ends = union.edges[:, edges]
    game = Game(union, "edge", edges, key.fold("game"), watch=np.unique(ends))
    seen = store.fit(keeping(case.model, ("posteriors",)), game, rounds)
    one, other = wider.y[ends[:, 0]]
    at_first, at_second = (logs(seen.release, nodes) for nodes in ends)
    scores = (at_second[..., one] - at_second[..., other]) + (at_first[..., other] - at_first[..., one])
    common: dict[str, Any] = {"alpha": alpha, "attack": "aligned-canary", "audit": "blackbox", "seed": key.fold("coin").seed}
    shaped = ledger_curve(case)
    found = [lower(scores, seen.bits, case.claim, shape="any", **common)]
    if shaped is not None:
        found.append(lower(scores, seen.bits, case.claim, shape="ledger", ledger_curve=shaped, **common))
    told = f"{rounds} rounds of {PAIRS} planted edges"
    return Outcome("blackbox", unknown_reach(found), {}, told, time.perf_counter() - started, ("posteriors",))


def unknown_reach(bounds: list[Bound]) -> tuple[Bound, ...]:
    """Power is known for the best attack only, and an attack on posteriors is not: what it would have noticed, nobody knows."""
    return tuple(dataclasses.replace(b, notices=np.inf, reach=np.inf) for b in bounds)


def refuses_coins(case: Case) -> str | None:
    if case.claim.unit is Unit.FEATURES:
        return "coins that swap one node's features need a second set of features; the reports are enumerated instead"
    if "posteriors" not in offered(case.model):
        return f"{case.model.name} does not release 'posteriors'"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else None


def one_run(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """A single training in which a thousand units have coins, guessed from posteriors: valid for any mechanism and dependence."""
    started = time.perf_counter()
    node = case.claim.unit is Unit.NODE
    union = case.counted(graph)
    ids = np.flatnonzero(graph.train) if node else np.arange(union.edges.shape[1])
    items = sample(ids, min(COINS, len(ids) // 2), key.fold("items"))
    watch = items if node else np.unique(union.edges[:, items])
    game = Game(union, "node" if node else "edge", items, key.fold("game"), watch=watch)
    seen = store.fit(keeping(case.model, ("posteriors",)), game, 1)
    attack = Confidence() if node else LinkStealing()
    scores = attack.score(seen.release, seen.challenge)[0]
    common: dict[str, Any] = {"attack": attack.name, "audit": "one-run", "seed": key.fold("coin").seed}
    found = [steinke(scores, seen.bits[0], case.claim, alpha, **common)]
    shaped = ledger_curve(case)
    if shaped is not None:
        found.append(mahloujifar(scores, seen.bits[0], case.claim, shaped, alpha, **common))
    told = f"one run with {len(items)} coins"
    return Outcome("one-run", unknown_reach(found), {}, told, time.perf_counter() - started, ("posteriors",))
