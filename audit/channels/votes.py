"""The game on noisy labels: one private node changes the vote of every teacher from one class to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...accounting.claim import Unit
from ...accounting.closed_forms import argmax_top_probability
from ...accounting.lower.one_run import canaries
from ...accounting.upper.tradeoff import curve
from ...models.capabilities import NoisyVotes, lacks
from ...models.graph.graph import Worlds
from ..case import Case, Outcome, Setting
from ..instruments.reach import family, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray


TRIALS = 1000  # sets of queries that are answered in one round


def refuses(case: Case) -> str | None:
    """It needs a model whose teachers' answers the audit can set, and noise that the ledger charges for."""
    if case.claim.unit is not Unit.NODE:
        return f"the audit of votes is about nodes; this claim is about {case.claim.unit}"
    return "nothing is claimed" if np.isinf(case.claim.epsilon) else lacks(case.model, NoisyVotes)


def play_votes(setting: Setting) -> Outcome:
    """Teachers are certain of class 0, or of class 1 if the canary was sampled: the largest effect that a node can have.

    The model itself adds the noise. The sample is secret, so a query counts ln(1 - q + q e^z), where z is the log-ratio of its
    vote. This audit tests neither the sampling nor the training of the teachers.
    """
    key = setting.key
    model = setting.case.model
    assert isinstance(model, NoisyVotes)
    count = setting.rounds * TRIALS
    random = key.fold("coins").generator()
    bits = random.random((count, 1)) < 0.5
    seeds = key.fold("game").seeds(0, count)
    queries = np.tile(np.arange(model.queries), (count, 1))
    drawn = random.random((count, 1 if model.single else model.queries)) < model.rate
    labels = votes(model, Worlds(setting.graph, seeds, np.zeros(0, dtype=np.int64)), queries, bits & drawn)
    scores = log_ratio(model, setting.graph.classes, labels)[:, None]
    ledger = setting.case.model.ledger
    common: dict[str, Any] = {"attack": "vote-ratio", "audit": "votes", "seed": key.fold("coin").seed}
    bound, apart = canaries(scores, bits, setting.case.claim, curve(ledger), setting.alpha, family=family(ledger), **common)
    reach = f"{count} sets of {model.queries} votes of teachers that one node changes; independence: {apart.reason}"
    # for an unknown number of classes the ledger charges more than two-class votes can leak
    bound = bound if model.classes else unknown(bound)
    return Outcome("votes", (bound,), {}, reach, ("votes",))


def votes(model: NoisyVotes, worlds: Worlds, queries: NDArray[np.int64], turned: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(K, queries) the model's noisy labels of teachers that are certain of class 0, or of 1 where `turned`, (K, queries or
    1).
    """
    sure = np.eye(worlds.graph.classes)[np.broadcast_to(turned, queries.shape).astype(np.int64)]
    return model.labels(worlds, queries, sure)


def log_ratio(model: NoisyVotes, classes: int, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(K,) the log-likelihood ratio of all votes of a run, the canary's samples unknown. labels: (K, queries)."""
    top = argmax_top_probability(classes, model.vote_noise or 0.0)
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
