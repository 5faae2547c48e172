"""All releases of one node added up: exact moves along recorded histories, over the noise that all residuals prove."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from ...accounting.claim import Unit
from ...accounting.events.tree import gaussian_mu
from ...accounting.lower.residuals import added_up
from ...models.capabilities import declined
from ...models.graph.graph import Mask, Worlds
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.canaries import hub
from ..heard.gate import a_strangers
from ..instruments.reach import NOTHING
from ..instruments.recorder import Record, recorded
from ..instruments.repetition import Nodes, kept_rows, same_coins, shift
from ..own.program import External

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "added-up"
HISTORIES = 3


def refuses(case: Case) -> str | None:
    """It needs a claim on nodes, a ledger of Gaussian mechanisms without sampling, and a training that can be listened to."""
    if case.claim.unit is not Unit.NODE:
        return f"it adds up what moves with one node; this claim is about {case.claim.unit}"
    if math.isinf(case.claim.epsilon):
        return "nothing is claimed"
    if isinstance(case.model, External):
        return "a program of its own cannot be listened to"
    if a_strangers(case.model):
        return "'differential' adds up the moves of a model of your own"
    if case.claim.unit is not case.model.unit:
        return f"the ledger counts one {case.model.unit}, the claim one {case.claim.unit}"
    if gaussian_mu(case.model.ledger) is None:
        return "its ledger is no composition of Gaussian mechanisms without sampling"
    return declined(case.model, "RepeatsWithoutNode")


def add_up(setting: Setting) -> Outcome:
    """A hub that is joined to all training nodes, and nobody else to anybody: the adversary chooses the graph.

    A run is recorded, and repeated without the hub while every noisy value is made the same again. What each mean moves is
    then exact; the noise is what is left of the noisy values. Rows that stay with the hub are left out.
    """
    case, model = setting.case, keeping(setting.case.model, offered(setting.case.model))
    wider, canary = hub(dataclasses.replace(setting.graph, edges=setting.graph.edges[:, :0]))
    residuals: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    moves: dict[str, float] = {}
    strengths = []
    for history in range(HISTORIES):
        seeds = np.array([setting.key.fold("run", history).seed], dtype=np.uint64)
        there, gone = (Worlds(wider, seeds, canary, nodes=Mask(canary, np.array([[bit]]))) for bit in (True, False))
        release, run = recorded(model, there, setting.store.device)
        if not run.releases:
            return Outcome(NAME, (), {}, NOTHING, offered(model))
        coins = same_coins(run, wider, canary)
        _, other = recorded(model, gone, setting.store.device, script=run.releases, coins=coins)
        moves = squared(run, other, kept_rows(release, canary), wider.nodes)
        strengths.append(math.sqrt(sum(moves.values())))
        for one in run.releases:
            residuals[one.purpose].append(one.residuals)
    parts = [np.concatenate(r) for r in residuals.values()]
    bound = added_up(parts, strengths, case.claim, setting.alpha, attack="hub", audit=NAME)
    each = ", ".join(f"'{purpose}' by {math.sqrt(square):.3g}" for purpose, square in moves.items())
    reach = (
        f"a hub moves {each}, by {strengths[-1]:.3g} noise sds in all; {sum(p.size for p in parts)} residuals of {HISTORIES} runs"
    )
    return Outcome(NAME, (bound,), {}, reach, offered(model))


def squared(run: Record, other: Record, hidden: Nodes, nodes: int) -> dict[str, float]:
    """Purpose -> the sum of the squared moves of its means, in noise sds, without the row of a node that keeps it."""
    found: dict[str, float] = defaultdict(float)
    for before, after in zip(run.releases, other.releases, strict=True):
        found[before.purpose] += float(np.square(shift(before, after, hidden, nodes) / before.scale).sum())
    return found
