"""The game on what one party sends the other: log-likelihood ratios of the messages themselves."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting.gaussian import mu_of_claim
from ...accounting.lower.one_run import canaries
from ...accounting.lower.rank_test import gaussian_family
from ...accounting.upper.tradeoff import curve
from ...attacks.canary.direction_ratio import DirectionRatio
from ..case import EDGES, Case, Outcome, keeping, offered
from ..games.canaries import pairs
from ..games.game import Game

if TYPE_CHECKING:
    from ...models.graph.graph import Graph
    from ..key import Key
    from ..storage.store import Store

CANARIES = 1000  # edges in one run
DECOYS = 2000  # pairs without an edge and without a coin: the world without the edge is seen more often, for no more runs
READ = ("transcript",)


def refuses(case: Case) -> str | None:
    """It needs messages that are unit vectors of noisy sums, on which nothing unknown stands."""
    model: Any = case.model
    if "transcript" not in offered(model):
        return f"in {model.name} no party sends messages to another"
    if not hasattr(model, "aggregator"):
        return f"{model.name} does not say what its messages are made of"
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
    sum and not its length, so that the ratio is not quite normal: it is held against the ledger's curve by ranks. Its mean
    moves by about the square of the mu that it shows, from which follows what would have been noticed.
    """
    wider, edges, ends = pairs(graph, CANARIES, DECOYS)
    game = Game(wider, "edge", edges, key.fold("game"))
    seen, attack = store.fit(keeping(case.model, READ), game, rounds), DirectionRatio()
    every = attack.score(seen.release, dataclasses.replace(seen.challenge, items=ends))
    scores, decoys, bits = every[:, :CANARIES], every[:, CANARIES:], seen.bits
    strength = math.sqrt(max(scores[bits].mean() - decoys.mean(), 0.0))
    more: dict[str, Any] = {"decoys": decoys, "shown": gaussian_family(min(strength, mu_of_claim(case.claim))), "normal": False}
    named: dict[str, Any] = {"attack": attack.name, "audit": "transcript", "seed": key.fold("coin").seed}
    bound, apart = canaries(scores, bits, case.claim, curve(case.model.ledger), alpha, **more, **named)
    reach = f"{len(seen)} rounds of {CANARIES} planted edges and {DECOYS} that are never there; independence: {apart.reason}"
    return Outcome("transcript", (bound,), {}, reach, READ)
