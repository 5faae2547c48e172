"""The game on what one party sends the other: log-likelihood ratios of the messages themselves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.curves import curve
from ..accounting.one_run import canaries
from ..attacks.likelihood_directions import DirectionRatio
from .canaries import pairs
from .case import EDGES, Case, Outcome, keeping, offered
from .game import Game
from .reach import unknown

if TYPE_CHECKING:
    from ..models.graph import Graph
    from .key import Key
    from .store import Store

CANARIES = 1000  # edges in one run
READ = ("transcript",)


def refuses(case: Case) -> str | None:
    """It needs messages that are unit vectors of noisy sums, on which nothing unknown stands."""
    model: Any = case.model
    if "transcript" not in offered(model):
        return f"in {model.name} no party sends messages to another"
    if case.claim.unit not in EDGES:
        return f"the game on messages is about edges; this claim is about {case.claim.unit}"
    if np.isinf(case.claim.epsilon):
        return "nothing is claimed"
    if model.batched:
        return "party A's weights, which its messages go through, are trained on the private edges without noise"
    if model.variant != "s1":
        return f"in variant {model.variant} messages go through weights of party A; their noisy sums are in the game on sums"
    return None if model.aggregator == "gin" else f"{model.aggregator} divides by degrees, which an edge changes too"


def play_messages(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """The likelihood-ratio game on all messages, with many disjoint canary edges in every run.

    Given the earlier messages, canaries that move different rows are independent. A message shows the direction of a noisy
    sum and not its length, so that the ratio is not quite normal: it is held against the ledger's curve by counting.
    """
    started = time.perf_counter()
    wider, edges = pairs(graph, CANARIES)
    game = Game(wider, "edge", edges, key.fold("game"))
    seen, attack = store.fit(keeping(case.model, READ), game, rounds), DirectionRatio()
    scores = attack.score(seen.release, seen.challenge)
    common: dict[str, Any] = {"attack": attack.name, "audit": "transcript", "seed": key.fold("coin").seed}
    bound, apart = canaries(scores, seen.bits, case.claim, curve(case.model.ledger), alpha, normal=False, **common)
    reach = f"{len(seen)} rounds of {len(seen.challenge)} planted edges; independence: {apart.reason}"
    return Outcome("transcript", (unknown(bound),), {}, reach, time.perf_counter() - started, READ)
