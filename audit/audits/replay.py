"""The same run again, noise and all, without one edge or one node: by how much every mean moves, over what its noise is for."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ...accounting.claim import Unit
from ...accounting.events.counts import charged
from ...accounting.upper.tradeoff import curve, scaled
from ...models.capabilities import BoundedDegree, DegreeFloor, declined, has
from ...models.graph.graph import Mask
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.canaries import cap_breaker, double_star, strange_rows
from ..games.edge_catalogue import catalogue
from ..instruments.reach import NOTHING
from ..instruments.recorder import Diverged, Noisy, recorded
from ..instruments.repetition import kept_row, moved, same_coins, world
from ..own.program import External
from . import replay_sums

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..key import Key
    from ..storage.store import Store

SENDERS = 5  # nodes of a cap breaker, for each that the cap allows
ROUNDING = 1e-4  # relative; float32 gradients and sums

Secrets = dict[str, tuple[Mask, int | None]]  # what is absent, by name; and which node it is, if it is one


def refuses(case: Case) -> str | None:
    """Edges: as `replay_sums.refuses`, unless rows have a minimum degree. Nodes: the ledger must charge for something."""
    model = case.model
    if case.claim.unit is not Unit.NODE and not at_a_threshold(case):
        return replay_sums.refuses(case)
    if np.isinf(case.claim.epsilon):
        return "nothing is claimed"
    if type(model.ledger).__name__ in ("NoOpDpEvent", "NonPrivateDpEvent"):
        return "the ledger charges for nothing that could move"
    if reason := declined(model, "RepeatsWithoutNode"):
        return reason
    return "a program of its own cannot be listened to" if isinstance(model, External) else None


def at_a_threshold(case: Case) -> bool:
    """Whether rows of low degree are treated in another way, so that a sum is not a plain sum of what is released."""
    return has(case.model, DegreeFloor) and "aggregates" not in offered(case.model) and case.model.mode == "sound"


def play(setting: Setting) -> Outcome:
    """Plain sums of edges are replayed all together, everything else one by one."""
    case, key = setting.case, setting.key
    if case.claim.unit is not Unit.NODE and not at_a_threshold(case):
        return replay_sums.replay(setting)
    return one_by_one(case, *secrets(case, setting.graph, key), setting.store, key)


def one_by_one(case: Case, graph: Graph, absent: Secrets, store: Store, key: Key) -> Outcome:
    """A run on the whole graph, and the same run without each secret of a catalogue.

    Every noisy value is made what it was, so that what changes before noise is added is computed and not estimated, and
    compared with what the ledger's noise is for. Rows that stay with their node are left out.
    """
    model = keeping(case.model, offered(case.model))
    whole = world(graph, key.fold("frozen").seed)
    release, before = recorded(model, whole, store.device)
    ledger, worst, told = charged(case.model.ledger), 0.0, "nothing moves" if before.releases else NOTHING
    for name, (mask, node) in absent.items():
        worlds = dataclasses.replace(whole, edges=mask) if node is None else dataclasses.replace(whole, nodes=mask)
        try:
            coins = same_coins(before, graph, node)
            _, after = recorded(model, worlds, store.device, before.releases, coins=coins)
        except Diverged as where:
            worst, told = np.inf, f"without '{name}' something else is run, from '{where}' on"
            break
        hidden = kept_row(release, node)
        for one, other in zip(before.releases, after.releases, strict=True):
            by = moved(one, other, ledger, hidden, graph.nodes)
            if by > worst:
                rows = rows_moved(one, other, hidden, graph.nodes)
                worst, told = by, f"'{name}' moves {rows}'{one.purpose}' by {by:.4g} times what its noise is for"
    epsilon = worth(case, worst)
    bound = replay_sums.replayed(case, epsilon, len(absent) + 1)
    return Outcome("replay", (bound,), {}, f"{len(absent)} secrets: {told}", model.releases)


def worth(case: Case, factor: float) -> float:
    """The epsilon of the ledger where everything moves `factor` times further than its noise is for."""
    if factor <= 1 + ROUNDING:
        return 0.0
    return float("inf") if np.isinf(factor) else curve(scaled(case.model.ledger, factor)).epsilon(case.claim.delta)


def secrets(case: Case, graph: Graph, key: Key) -> tuple[Graph, Secrets]:
    """The graph with canaries beside it, and what is worth removing.

    Edges: those of `catalogue`, and one whose ends fall below the minimum degree without it. Nodes: a hub, a lonely one,
    the last one, rows of zeros and of huge numbers, a twin, and as published one that breaks the cut of degrees.
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


def rows_moved(before: Noisy, after: Noisy, hidden: int | None, nodes: int) -> str:
    """How many rows of sums change, in words; nothing where there are no rows of nodes."""
    if before.shapes[0][1:-1] != (nodes,):
        return ""
    changed = np.flatnonzero((before.clean != after.clean).reshape(nodes, -1).any(1))
    return f"{np.setdiff1d(changed, [] if hidden is None else [hidden]).size} rows of "
