"""Repeats a run with the same noise but without one edge or one node, and computes how far each mean moves.

A move beyond the sensitivity that the ledger's noise covers contradicts the claim.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent, NoOpDpEvent

from ...accounting.claim import Unit
from ...accounting.events.counts import Charged, charged
from ...accounting.events.tree import parts
from ...accounting.gaussian import epsilon_of, mu_of_claim
from ...models.capabilities import BoundedDegree, DegreeFloor, declined, has
from ...models.graph.graph import Graph, Mask
from ...reports.rounding import as_far, several
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.canaries import cap_breaker, double_star, strange_rows
from ..games.edge_catalogue import catalogue
from ..instruments.reach import UNREPORTED
from ..instruments.repetition import NO_NODE, Nodes, distance, kept_rows, moved, same_coins, world
from ..instruments.reported_run import Diverged, Noisy, Record, recorded
from ..key import Key
from ..storage.store import Store
from . import replay_sums
from .differential import executed

SENDERS = 5  # the graph that defeats a degree cap has this many senders for each receiver that the cap allows
ROUNDING = 1e-4  # relative tolerance for float32 gradients and sums

NODES = {  # nodes to remove, in words
    "hub": "the training node with the most edges",
    "lonely": "the training node with the fewest edges",
    "last": "the last training node",
    "cap breaker": "a node whose removal changes which edges the degree cap drops",
    "zero": "an added node whose features are zeros",
    "huge": "an added node with huge features",
    "twin": "one of two added nodes with equal features",
}

Secrets = dict[str, tuple[Mask, int | None]]  # name of a unit -> the mask that removes it, and its id if it is a node


def refuses(case: Case) -> str | None:
    """For edges, the audit needs released sums, or a model that must not read edges; for nodes, a ledger that is not empty."""
    model = case.model
    if case.claim.unit is not Unit.NODE and not at_a_threshold(case):
        return replay_sums.refuses(case)
    if isinstance(model.ledger, NoOpDpEvent | NonPrivateDpEvent):
        return "the ledger charges for no mechanism that a node could move"
    return declined(model, "RepeatsWithoutNode")


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
    moves of all Gaussian values by one secret add up to mu, which proves an epsilon. The audit does not count the removed node's
    own rows if the model does not release them.

    The audit also compares the moves with those that the ledger's noise covers: the sum of all that add up, and each of the
    others alone. Such a contradiction refutes only the ledger, because a smaller move of another value may make up for it.
    """
    model = keeping(case.model, offered(case.model))
    whole = world(graph, key.fold("frozen").seed)
    release, before = recorded(model, whole, store.device)
    if not before.releases:
        return Outcome("replay", (), {}, UNREPORTED, model.releases)
    ledger, worst, summary = charged(case.model.ledger), 0.0, "nothing moves"
    gaussian = [one.order == 2 and adds_up(one.purpose, before, ledger) for one in before.releases]
    together: dict[str, float] = {}  # secret -> mu of all moves that add up
    alone: dict[str, float] = {}  # secret -> its largest other move, divided by the move that the noise covers
    diverged = False
    for name, (mask, node) in absent.items():
        worlds = dataclasses.replace(whole, edges=mask) if node is None else dataclasses.replace(whole, nodes=mask)
        own = NO_NODE if node is None else np.array([node])
        try:
            coins = same_coins(before, graph, own)
            _, after = recorded(model, worlds, store.device, before.releases, coins=coins)
        except Diverged as where:
            diverged, summary = True, f"without {name} the run makes other noisy releases, beginning with '{where}'"
            break
        hidden = kept_rows(release, own)
        squares, beyond = 0.0, 0.0
        for one, other, added in zip(before.releases, after.releases, gaussian, strict=True):
            by = moved(one, other, ledger, hidden, graph.nodes)
            if by > worst:
                moves = moving_rows(one, other, hidden, graph.nodes)
                worst, summary = by, f"without {name}, {moves} {as_far(by)} the ledger's noise covers"
            if added:
                squares += distance(one, other, hidden, graph.nodes) ** 2
            else:
                beyond = max(beyond, by)
        together[name], alone[name] = math.sqrt(squares) / (1 + ROUNDING), beyond
    mu, most = max(together.values(), default=0.0), max(alone.values(), default=0.0)
    epsilon = math.inf if diverged else float(epsilon_of(mu, case.claim.delta))
    bound = replay_sums.replayed(case, epsilon, len(absent) + 1)
    counted = added_in_words(before, gaussian)
    if mu > 0 and not diverged:
        summary += f"; the moves{counted} by one secret add up to at most {mu:.4g} standard deviations of the noise"
    allowed = mu_of_claim(case.claim) if epsilon > case.claim.epsilon else covered(case.model.ledger)
    if not bound.refuted and (most > 1 + ROUNDING or mu > allowed):
        bound = dataclasses.replace(bound, refuted=True, against="ledger", method=f"replay: {summary}")
    limit = replay_sums.limit(case) if epsilon > case.claim.epsilon else "covered by the ledger's noise"
    curve: dict[str, Any] = {"of": together, "by": f"{replay_sums.SPREADS}{counted}", "allowed": allowed, "limit": limit}
    if most > 1 and not mu > allowed:
        curve |= {"of": alone, "by": "times the move that the ledger's noise covers", "allowed": 1.0}
    said = f"{several(len(absent), 'secret')} removed one by one: {summary}" + (
        "" if bound.refuted else f". {replay_sums.SIZE_UNTESTED}"
    )
    curves = {} if diverged or not any(curve["of"].values()) else {"moves": curve}
    return Outcome("replay", (bound,), curves, said, model.releases, attack="replay")


def adds_up(purpose: str, record: Record, ledger: Charged) -> bool:
    """Whether the moves of this mechanism and of others on all records add up: whether the ledger or the run has no samples, or
    the run reports all samples of the ledger, and none for this mechanism.
    """
    if ledger.whole < 1 or record.samples.get(purpose):
        return False
    return not ledger.steps or executed(record, ledger)[0] <= ledger.plain


def covered(ledger: DpEvent) -> float:
    """The mu of all mechanisms of a ledger that are Gaussian on all records, together; 0 without any."""
    return next((1 / event.noise_multiplier for event, _ in parts(ledger) if isinstance(event, GaussianDpEvent)), 0.0)


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
        listed = {"edge {}–{}".format(*graph.edges[:, e]): int(e) for e in catalogue(graph, key)}
        listed["an edge at the minimum degree"] = edge
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
    return wider, {NODES[name]: (Mask(np.array([v]), gone), v) for name, v in found.items()}


def added_in_words(record: Record, added: Sequence[bool]) -> str:
    """The mechanisms whose moves add up, such as " of 'rows'"; "" if all do. added: whether each release is one of them."""
    names = dict.fromkeys(f"'{one.purpose}'" for one, counts in zip(record.releases, added, strict=True) if counts)
    return "" if all(added) else f" of {' and '.join(names)}"


def moving_rows(before: Noisy, after: Noisy, hidden: Nodes, nodes: int) -> str:
    """What moves, with its verb: "3 rows of 'sums' move", or "'steps' moves" for a value without a row for each node."""
    if before.shapes[0][1:-1] != (nodes,):
        return f"'{before.purpose}' moves"
    changed = np.flatnonzero((before.clean != after.clean).reshape(nodes, -1).any(1))
    count = np.setdiff1d(changed, hidden).size
    return f"{several(count, 'row')} of '{before.purpose}' {'moves' if count == 1 else 'move'}"
