"""The game on noisy labels: votes of teachers that one private node turns from one class to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting.claim import Unit
from ...accounting.closed_forms import argmax_top_probability
from ...accounting.lower.one_run import canaries
from ...accounting.upper.tradeoff import curve
from ...models.graph.graph import Worlds
from ..case import Case, Outcome
from ..instruments.reach import unknown
from .gradients import family

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...models.graph.graph import Graph
    from ..key import Key
    from ..storage.store import Store

TRIALS = 1000  # sets of queries that are answered in one round


def refuses(case: Case) -> str | None:
    """It needs teachers that can be put words in the mouth of, and noise that the ledger charges for."""
    model: Any = case.model
    if model.name != "privgnn":
        return f"{model.name} has no teachers that vote"
    if case.claim.unit is not Unit.NODE:
        return f"votes are turned by a node; this claim is about {case.claim.unit}"
    if model.as_coded:
        return "as coded, noise is added to logarithms, which have no largest difference: nothing bounds what a node does"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else None


def play_votes(case: Case, graph: Graph, store: Store, key: Key, rounds: int, alpha: float) -> Outcome:
    """Teachers are sure of class 0; where the canary was sampled, of class 1: no node can do more. The votes are the model's own.

    The sample is secret, so that a query counts ln(1 - q + q e^z), z the log-ratio of its vote. Sampling and teaching are not
    looked at here.
    """
    model: Any = case.model
    count = rounds * TRIALS
    random = key.fold("coins").generator()
    bits = random.random((count, 1)) < 0.5
    seeds = key.fold("game").seeds(0, count)
    queries = np.tile(np.arange(model.queries), (count, 1))
    drawn = random.random((count, 1 if model.single else model.queries)) < model.rate
    labels = votes(model, Worlds(graph, seeds, np.zeros(0, dtype=np.int64)), queries, bits & drawn)
    scores = log_ratio(model, graph.classes, labels)[:, None]
    ledger = model.ledger
    common: dict[str, Any] = {"attack": "vote-ratio", "audit": "votes", "seed": key.fold("coin").seed}
    bound, apart = canaries(scores, bits, case.claim, curve(ledger), alpha, family=family(ledger), **common)
    reach = f"{count} sets of {model.queries} votes of teachers that one node turns around; independence: {apart.reason}"
    bound = bound if model.classes else unknown(bound)  # of an unknown number of classes the ledger charges more than votes show
    return Outcome("votes", (bound,), {}, reach, ("votes",))


def votes(model: Any, worlds: Worlds, queries: NDArray[np.int64], turned: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(K, queries) the model's noisy labels of teachers that are sure of class 0, or of 1 where `turned`, (K, queries or 1)."""
    from ...models.privgnn.privgnn import Taught

    sure = np.eye(worlds.graph.classes)[np.broadcast_to(turned, queries.shape).astype(np.int64)]
    with np.errstate(divide="ignore"):
        return np.asarray(model.votes(worlds, Taught(queries, np.log(sure))))


def log_ratio(model: Any, classes: int, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(K,) the log-likelihood ratio of all votes of a run, the canary's samples unknown. labels: (K, queries)."""
    top = argmax_top_probability(classes, model.sigma)
    z = np.zeros(classes)
    z[1] = np.log(top * (classes - 1) / (1 - top))
    z[0] = -z[1]
    each = z[labels]
    if model.rate == 1:
        return np.asarray(each.sum(1))
    out, into = np.log1p(-model.rate), np.log(model.rate)
    if model.single:
        return np.logaddexp(out, into + each.sum(1))
    return np.asarray(np.logaddexp(out, into + each).sum(1))
