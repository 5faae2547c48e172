"""The game on noisy labels: coins choose the class that the teachers vote for, and the audit guesses each coin from a label."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from ...accounting.checks.independence import separate_draws
from ...accounting.closed_forms import argmax_top_probability, noisy_argmax_epsilon
from ...accounting.lower.bounds import Bound, of_share, resting, unknown
from ...accounting.lower.elementary import SHARE, Kind, detectable, guesses, p_value, sum_at_least
from ...accounting.lower.one_run import COINS, canaries
from ...accounting.upper.tradeoff import curve
from ...models.capabilities import NoisyVotes
from ...models.graph.graph import Worlds
from ..case import Case, Outcome, Setting
from ..instruments.reach import family
from .exact import GRID, votes_epsilon

TRIALS = 1000  # number of sets of `model.queries` votes in one round
THEOREM = (
    "if a coin chooses between two inputs of a vote of epsilon x, the chance of a right guess is at most 1 / (1 + e^-x); the "
    "ledger's curve composes the votes"
)
LEAST, NEAR = 1e-3, 1e-4  # for `factor`: the smallest factor that is tried, and the relative precision of the result


def refuses(case: Case) -> str | None:
    """The audit needs a model with the capability NoisyVotes."""
    return case.lacks(NoisyVotes)


def play_votes(setting: Setting) -> Outcome:
    """For each vote, a coin gives class 0 or class 1 the share of votes that one node may change. All classes share the other
    votes equally, so a node cannot have a larger effect on a vote.

    The model itself adds the noise. All votes together prove a lower bound on the epsilon of one vote. The ledger's curve
    composes this bound over all votes and secret samples. The composition needs separate noise for each vote, and the audit
    checks whether the noise is separate. If the check fails, a test of whole sets of votes replaces the first test. Each of the
    two tests has its own share of alpha. This audit tests neither the sampling nor the training of the teachers.
    """
    model, key = setting.case.model, setting.key
    assert isinstance(model, NoisyVotes)
    shape = (setting.rounds, TRIALS, model.queries)
    turned = key.fold("coins").generator().random(shape) < 0.5
    seeds = key.fold("game").seeds(0, setting.rounds * TRIALS)
    queries = np.tile(np.arange(model.queries), (len(seeds), 1))
    worlds = Worlds(setting.graph, seeds, np.zeros(0, dtype=np.int64))
    labels = votes(model, worlds, queries, turned.reshape(len(seeds), -1)).reshape(shape)
    bound, why = of_votes(setting, labels, turned), "each vote was tested separately"
    if bound.failed:
        why = f"whole sets, because {bound.failed[0]}"
        bound = of_whole_sets(setting)
    reach = f"{len(seeds)} sets of {model.queries} votes of teachers that one node changes; {why}"
    return Outcome("votes", (bound,), {}, reach, ("votes",), attack="vote-ratio")


def of_votes(setting: Setting, labels: NDArray[np.int64], turned: NDArray[np.bool_]) -> Bound:
    """The bound from a guess of each vote's coin. labels, turned: (rounds, sets, queries), the votes and their coins."""
    model, claim, classes, alpha = setting.case.model, setting.case.claim, setting.graph.classes, SHARE * setting.alpha
    assert isinstance(model, NoisyVotes)
    scale = model.vote_noise or 0.0
    right, counted = guesses(turned, labels, setting.key.fold("fewer").generator())
    kinds = (Kind(right, counted, 1, noisy_argmax_epsilon(classes, scale)),)

    @cache
    def composed(kappa: float) -> float:
        return votes_epsilon(model, classes, claim.delta, kappa) * (1 - GRID)

    def vote(kappa: float) -> float:
        top = min(argmax_top_probability(classes, scale / kappa), 1 - 1e-15)
        return float(np.log(top * (classes - 1) / (1 - top)))

    allowed = vote(factor(composed, claim.epsilon))
    one, noticed = sum_at_least(kinds, alpha), detectable(kinds, allowed, SHARE * setting.level)
    proved = factor(vote, one) / (1 + NEAR)
    kappa = factor(vote, noticed * vote(1.0)) if np.isfinite(noticed) else np.inf
    bound = Bound(
        epsilon=composed(proved),
        alpha=setting.alpha,
        shape="ledger",
        method="elementary channels",
        trials=(int((~turned).sum()), int(turned.sum())),
        refuted=composed(proved) > claim.epsilon,
        p_value=min(1.0, p_value(kinds, allowed) / SHARE),
        notices=kappa,
        reach=composed(kappa) if np.isfinite(kappa) else np.inf,
        against="ledger",
    )
    each = np.where(labels == turned, 1.0, np.where((labels == 0) | (labels == 1), -1.0, 0.0))
    return resting(bound, THEOREM, COINS, separate_draws(each))


def factor(of: Callable[[float], float], value: float) -> float:
    """The factor by which noise is divided, between about 1/1000 and 1000, at which the increasing function `of` has this value.
    The relative precision is NEAR. If no factor in this range fits, the function returns an end of the range.
    """
    low, high = 1.0, 1.0
    while low > LEAST and of(low) > value:
        low /= 2
    while high < 1 / LEAST and of(high) <= value:
        high *= 2
    if not of(low) <= value < of(high):
        return low if of(low) > value else high
    return math.exp(optimize.brentq(lambda x: of(math.exp(x)) - value, math.log(low), math.log(high), xtol=NEAR / 2))


def of_whole_sets(setting: Setting) -> Bound:
    """The bound from the log-likelihood ratios of whole sets of votes, with one coin for each set. The canary changes only votes
    whose sample contains it, as in the model. See `log_ratio`.
    """
    key, model = setting.key.fold("whole"), setting.case.model
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
    alpha, seed = (1 - SHARE) * setting.alpha, key.fold("coin").seed
    bound, _ = canaries(scores, bits, setting.case.claim, curve(ledger), alpha, family=family(ledger), seed=seed)
    # without a declared number of classes, the ledger charges for the worst number, so the detectable violation is unknown
    return of_share(bound if model.classes else unknown(bound), 1 - SHARE, setting.alpha)


def votes(model: NoisyVotes, worlds: Worlds, queries: NDArray[np.int64], turned: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(K, queries) int64: the model's noisy labels, if the share of votes that one node may change is for class 0, or for class 1
    where `turned` is true. All classes have equally many of the other votes.

    worlds: K runs, one for each set of votes. queries: (K, queries). turned: (K, queries), or (K, 1) for all votes of a set.
    """
    classes = worlds.graph.classes
    chosen = np.eye(classes)[np.broadcast_to(turned, queries.shape).astype(np.int64)]
    return model.labels(worlds, queries, (1 - model.share) / classes + model.share * chosen)


def log_ratio(model: NoisyVotes, classes: int, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """(K,) float64: the log-likelihood ratio of each set of votes. labels: (K, queries).

    The adversary does not know which samples contain the canary. A sample contains it with probability q, so the score of a vote
    is ln(1 - q + q e^z), where z is the log-ratio of the vote. With one sample for all votes, z is the sum over all votes.
    """
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
