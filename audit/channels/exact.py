"""Computes the epsilon of finite channels by enumeration of their outputs, without sampling."""

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
from dp_accounting import DpEvent, LaplaceDpEvent
from numpy.typing import NDArray

from ...accounting.checks.conditions import assumed, proved
from ...accounting.closed_forms import argmax_pair, channel_epsilon
from ...accounting.events.mechanisms import composed, edge_response, on_sampled_nodes, repeated
from ...accounting.events.tree import parts
from ...accounting.events.types import FiniteDpEvent
from ...accounting.lower.bounds import Bound, resting
from ...accounting.upper.tradeoff import epsilon_at_least
from ...models.capabilities import FiniteChannels, NoisyVotes, RandomisedEdges, has
from ...reports.rounding import several
from ..case import Case, Outcome, Setting, offered
from ..own.model_file import is_built_in

GRID = 1e-4  # relative tolerance: for many votes, the rounding of privacy losses to a grid raises epsilon by less than this
STEP = 1e-4  # nats: step of the grid of privacy losses for a single entry
FINEST = 1e-6  # nats: smallest step of the grid of privacy losses for many draws
THEOREM = "the definition of (epsilon, delta) over the outputs of a channel, composed over independent draws"
OURS = proved(
    "the channel is as declared", "this package draws from the channel; 'reports', 'votes' and 'entries' test the draws"
)
DENSITIES = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9)  # graph densities that are tried; the entries' probabilities depend on them


def refuses(case: Case) -> str | None:
    """The audit needs finite channels that the model declares, labels by noisy argmax, or randomised response on edges."""
    if any(has(case.model, capability) for capability in (NoisyVotes, RandomisedEdges, FiniteChannels)):
        return None
    return case.lacks(FiniteChannels)


def enumerate_channels(setting: Setting) -> Outcome:
    """Computes epsilon from the channels and the noise as the model declares them. The games on these channels test whether the
    model draws as it declares.

    Finite channels: the costs of all channels together are `channels_epsilon`.

    Noisy labels: the teachers are certain of one class, or of another class if the node is sampled. The composition of all votes
    includes the secret samples. Randomised response on edges: the bound is about one entry and the noisy density.
    """
    case, graph = setting.case, setting.graph
    model, delta = case.model, case.claim.delta
    if isinstance(model, NoisyVotes):
        epsilon = votes_epsilon(model, graph.classes, delta) * (1 - GRID)
        text = f"{several(model.queries, 'vote')}{' on secret samples' * (model.rate < 1)}: {epsilon:.4g} nats"
    elif isinstance(model, RandomisedEdges):
        epsilon, density = response_epsilon(model, case.model.ledger, delta)
        at = f" at density {density:g}" if len({model.entry_chances(d) for d in DENSITIES}) > 1 else ""
        beside = ", and Laplace noise on the density" if density_noise(case.model.ledger) else ""
        text = f"one entry{at}{beside}: {epsilon:.4g} nats"
    else:
        assert isinstance(model, FiniteChannels)
        channels = model.channels(graph.dim, graph.classes)
        epsilon = channels_epsilon(channels, delta)
        text = f"channels of {' + '.join(f'{copies * channel_epsilon(matrix):.4g}' for matrix, copies in channels)} nats"
    bound = Bound(
        epsilon=epsilon,
        alpha=0.0,
        shape="exact",
        method="enumeration",
        trials=(0, 0),
        refuted=epsilon > case.claim.epsilon,
        p_value=None,
        notices=math.inf,
        reach=math.inf,
    )
    bound = resting(bound, THEOREM, OURS if is_built_in(model) else assumed("the channel is as declared"))
    sent = tuple(name for name in offered(case.model) if name != "posteriors")
    return Outcome("exact", (bound,), {}, text, sent, attack="enumeration")


def channels_epsilon(channels: Sequence[tuple[NDArray[np.float64], int]], delta: float) -> float:
    """A lower bound on epsilon (nats) at delta of independent channels: (inputs, outputs) matrices with their copies.

    At delta = 0 the epsilons of the worst pairs of inputs add up. At delta > 0, two users with one such pair in each channel
    send two product distributions, and epsilon is that of these two.
    """
    pure = float(sum(copies * channel_epsilon(matrix) for matrix, copies in channels)) * (1 - 1e-9)  # rounding of the matrices
    if delta == 0 or pure == 0:
        return pure
    worst = [max(permutations(matrix, 2), key=lambda pair: channel_epsilon(np.stack(pair))) for matrix, _ in channels]
    pairs = [FiniteDpEvent(tuple(map(float, p)), tuple(map(float, q))) for p, q in worst]
    draws = sum(copies for _, copies in channels)
    step = max(FINEST, STEP / draws)
    both = composed(*(repeated(pair, copies) for pair, (_, copies) in zip(pairs, channels, strict=True)))
    # the grid rounds each loss up by less than one step
    return min(pure, max(0.0, epsilon_at_least(both, delta, step) - draws * step))


def votes_epsilon(model: NoisyVotes, classes: int, delta: float, kappa: float = 1.0) -> float:
    """The epsilon (nats) of all noisy labels, if the teachers are certain of one class, or of another if one node is sampled.

    All noise is divided by kappa. One label has three outcomes: the class that the teachers are certain of without the node, the
    one with it, and any other class. Epsilon follows from the privacy-loss distribution of these outcomes.
    """
    one = FiniteDpEvent(*argmax_pair(classes, (model.vote_noise or 0.0) / kappa))
    if model.single:
        return epsilon_at_least(on_sampled_nodes(model.rate, repeated(one, model.queries)), delta)
    return epsilon_at_least(repeated(on_sampled_nodes(model.rate, one), model.queries), delta)


def response_epsilon(model: RandomisedEdges, ledger: DpEvent, delta: float) -> tuple[float, float]:
    """A lower bound on the epsilon (nats) of one edge under randomised response, and the one of DENSITIES where it is largest.

    The bound uses the probabilities with which the model draws, and the declared noise on the density. The two privacy losses add
    up, because one more edge raises both the entry and the density.
    """
    noise = density_noise(ledger)
    entries = {d: edge_response(*model.entry_chances(d)) for d in DENSITIES}
    # the grid rounds the losses of the entry and of the density up, each by less than one step
    return max((epsilon_at_least(composed(entry, *noise), delta, STEP) - 2 * STEP, d) for d, entry in entries.items())


def density_noise(ledger: DpEvent) -> list[DpEvent]:
    """The noise on the density for which the ledger of a model with randomised edges charges."""
    return [event for event, _ in parts(ledger) if isinstance(event, LaplaceDpEvent)]
