"""Repeats a run with the same noise but without one edge or one node, and computes how far each mean moves.

A move beyond the sensitivity that the ledger's noise covers contradicts the claim.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ...accounting.checks.conditions import Condition
from ...accounting.claim import Unit
from ...accounting.events.counts import charged
from ...accounting.upper.tradeoff import epsilon_at_least, scaled
from ...models.capabilities import BoundedDegree, DegreeFloor, declined, has
from ...models.graph.graph import Mask
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.canaries import cap_breaker, double_star, strange_rows
from ..games.edge_catalogue import catalogue
from ..instruments.reach import NOTHING
from ..instruments.recorder import Diverged, Noisy, recorded
from ..instruments.repetition import NO_NODE, Nodes, kept_rows, moved, same_coins, world
from ..own.program import External
from . import replay_sums

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..key import Key
    from ..storage.store import Store

SENDERS = 5  # the graph that defeats a degree cap has this many senders for each receiver that the cap allows
ROUNDING = 1e-4  # relative tolerance for float32 gradients and sums

Secrets = dict[str, tuple[Mask, int | None]]  # name of a unit -> the mask that removes it, and its id if it is a node


def refuses(case: Case) -> str | None:
    """For edges, the audit needs released sums, or a model that must not read edges; for nodes, a ledger that is not empty."""
    model = case.model
    if case.claim.unit is not Unit.NODE and not at_a_threshold(case):
        return replay_sums.refuses(case)
    if type(model.ledger).__name__ in ("NoOpDpEvent", "NonPrivateDpEvent"):
        return "the ledger charges for no mechanism that a node could move"
    if reason := declined(model, "RepeatsWithoutNode"):
        return reason
    return "the draws of a program cannot be recorded" if isinstance(model, External) else None


def at_a_threshold(case: Case) -> bool:
    """Whether the model treats nodes of low degree differently, so its messages are no plain sums of released rows."""
    return has(case.model, DegreeFloor) and "aggregates" not in offered(case.model) and case.model.mode == "sound"


def play(setting: Setting) -> Outcome:
    """Calls `replay_sums.replay` for claims about edges, and `one_by_one` for claims about nodes and for degree thresholds."""
    case, key = setting.case, setting.key
    if case.claim.unit is not Unit.NODE and not at_a_threshold(case):
        return replay_sums.replay(setting)
    return one_by_one(case, *secrets(case, setting.graph, key), setting.store, key)


def one_by_one(case: Case, graph: Graph, absent: Secrets, store: Store, key: Key) -> Outcome:
    """For each secret in `absent`, compares a run on the whole graph with the same run without the secret.

    The second run gets the noisy values of the first. Therefore the change of each clean value is computed and not estimated. The
    audit compares this change with the move that the ledger's noise covers. It does not count the removed node's own rows if the
    model does not release them.
    """
    model = keeping(case.model, offered(case.model))
    whole = world(graph, key.fold("frozen").seed)
    release, before = recorded(model, whole, store.device)
    ledger, worst, told = charged(case.model.ledger), 0.0, "nothing moves" if before.releases else NOTHING
    for name, (mask, node) in absent.items():
        worlds = dataclasses.replace(whole, edges=mask) if node is None else dataclasses.replace(whole, nodes=mask)
        own = NO_NODE if node is None else np.array([node])
        try:
            coins = same_coins(before, graph, own)
            _, after = recorded(model, worlds, store.device, before.releases, coins=coins)
        except Diverged as where:
            worst, told = np.inf, f"without '{name}' the run makes other noisy releases, beginning with '{where}'"
            break
        hidden = kept_rows(release, own)
        for one, other in zip(before.releases, after.releases, strict=True):
            by = moved(one, other, ledger, hidden, graph.nodes)
            if by > worst:
                rows = rows_moved(one, other, hidden, graph.nodes)
                worst, told = by, f"without '{name}', the move of {rows}'{one.purpose}' is {by:.4g} times what its noise covers"
    epsilon = worth(case, worst)
    known = replay_sums.MOVES if before.releases else Condition(replay_sums.MOVES.what, "failed", NOTHING)
    bound = replay_sums.replayed(case, epsilon, len(absent) + 1, moves=known)
    return Outcome("replay", (bound,), {}, f"{len(absent)} secrets: {told}", model.releases)


def worth(case: Case, factor: float) -> float:
    """The epsilon of the ledger if every mean moves `factor` times as far as its noise covers; 0 if the noise covers the moves.

    If the privacy-loss distribution overflows, the function uses half of the factor. The smaller epsilon is still a lower bound.
    """
    if factor <= 1 + ROUNDING:
        return 0.0
    if np.isinf(factor):
        return float("inf")
    try:
        found = epsilon_at_least(scaled(case.model.ledger, factor), case.claim.delta)
    except OverflowError:
        found = float("inf")
    return worth(case, factor / 2) if np.isinf(found) else found


def secrets(case: Case, graph: Graph, key: Key) -> tuple[Graph, Secrets]:
    """The graph with canaries added to it, and the edges or nodes to remove.

    Edges: those of `catalogue`, and an edge whose removal brings its ends below the minimum degree. Nodes: training nodes of the
    largest and the smallest degree, the last training node, nodes whose features are zeros or huge, one of two equal nodes, and
    in mode "paper" a node that defeats the degree cap.
    """
    gone = np.zeros((1, 1), dtype=bool)
    model = case.model
    if case.claim.unit is not Unit.NODE:
        assert isinstance(model, DegreeFloor)
        wider, edge = double_star(graph, model.floor)
        listed = {f"edge {e}": int(e) for e in catalogue(graph, key)} | {"edge at the minimum degree": edge}
        return wider, {name: (Mask(np.array([e]), gone), None) for name, e in listed.items()}
    trained = np.flatnonzero(graph.train)
    of_train = graph.degree[trained]
    found = {"hub": int(trained[of_train.argmax()]), "lonely": int(trained[of_train.argmin()]), "last": int(trained[-1])}
    wider, strange = strange_rows(graph)
    cap = model.max_degree if isinstance(model, BoundedDegree) else 0
    if cap and model.mode == "paper":
        wider, receivers = cap_breaker(wider, cap, SENDERS * cap)
        found["cap breaker"] = int(receivers[0])
    found |= {name: strange[name] for name in ("zero", "huge", "twin")}
    return wider, {name: (Mask(np.array([v]), gone), v) for name, v in found.items()}


def rows_moved(before: Noisy, after: Noisy, hidden: Nodes, nodes: int) -> str:
    """The number of changed rows in words, such as "3 rows of "; "" if the released value has no row for each node."""
    if before.shapes[0][1:-1] != (nodes,):
        return ""
    changed = np.flatnonzero((before.clean != after.clean).reshape(nodes, -1).any(1))
    return f"{np.setdiff1d(changed, hidden).size} rows of "
