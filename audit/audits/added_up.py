"""Adds up how far one node moves the means of all releases of a run, and compares the total with the noise.

The audit computes the moves exactly, along released histories. The residuals of all releases prove an upper bound on the noise.
"""

import dataclasses
import math
from collections import defaultdict
from functools import partial
from typing import Any

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from ...accounting.events.tree import gaussian_mu, parts
from ...accounting.lower.residuals import Moves, added_up
from ...models.capabilities import BoundedDegree, ClippedGradients, NoisyRows, RunsElsewhere, declined, has
from ...models.graph.graph import Graph, Mask, Worlds
from ..case import Case, Outcome, Setting, keeping, offered
from ..games.canaries import hub, stars
from ..instruments.reach import UNREPORTED, worth
from ..instruments.repetition import Nodes, kept_rows, same_coins, shift
from ..instruments.reported_run import Record, recorded
from ..mechanisms.overview.gate import a_strangers

NAME = "added-up"
HISTORIES = 3  # number of recorded runs, with different seeds


def refuses(case: Case) -> str | None:
    """The audit needs a training that reports its noise, and a ledger of Gaussian mechanisms."""
    if isinstance(case.model, RunsElsewhere):
        return "for a program, the audit 'differential' adds up the moves that it records"
    if a_strangers(case.model):
        return "for a model of your own, the audit 'differential' adds up the moves"
    return case.other_unit or _obstacle(case) or declined(case.model, "RepeatsWithoutNode")


def _sampled(case: Case) -> bool:
    """Whether the ledger has other mechanisms than Gaussians on all records, such as Gaussians on secret samples."""
    return gaussian_mu(case.model.ledger) is None


def _obstacle(case: Case) -> str | None:
    """Why the moves do not determine the epsilon of the composition, or None if they do.

    They do if all mechanisms are Gaussian on all records. They also do if some are Gaussian on samples, each node joins a sample
    by an independent coin of known probability, and the canary's clipped gradient can be computed alone.
    """
    model = case.model
    if not _sampled(case):
        return None
    kinds = [event.event if isinstance(event, dp.PoissonSampledDpEvent) else event for event, _ in parts(model.ledger)]
    if not all(isinstance(event, dp.GaussianDpEvent) for event in kinds):
        return "added-up needs a ledger of Gaussian mechanisms, each on all records or on a Poisson sample of them"
    if has(model, NoisyRows):
        return "the model trains on samples, and its rows need other training nodes; their gradients hide the canary's gradient"
    if reason := case.lacks(ClippedGradients):
        return reason
    return None if _rate(case) else "its batches are not drawn by independent coins"


def _rate(case: Case) -> float:
    """The probability that a node is in a sample; 0 if the model does not draw an independent coin for each node."""
    model: Any = case.model
    return float(model.inclusion_chance or 0.0)


def crafted(case: Case, graph: Graph) -> tuple[Graph, NDArray[np.int64]]:
    """A graph that the adversary chooses, and the id of the canary node, (1,).

    Without sampling, the canary is a hub that is joined to all training nodes, and there are no other edges. With sampling, the
    canary is the centre of a star with as many leaves as the degree bound allows, or with one leaf if there is no bound. It is
    then the only training node, so no other gradient is added to its gradient.
    """
    bare = dataclasses.replace(graph, edges=graph.edges[:, :0])
    if not _sampled(case):
        return hub(bare)
    model: Any = case.model
    leaves = model.max_degree if has(model, BoundedDegree) else 1
    wider, centre, _ = stars(bare, 1, leaves)
    alone = np.isin(np.arange(wider.nodes), centre)
    return dataclasses.replace(wider, train=alone, test=wider.test | (wider.train & ~alone)), centre


def add_up(setting: Setting) -> Outcome:
    """Records HISTORIES runs on a crafted graph, and repeats each without the canary. The repetition gets the noisy values of the
    recorded run.

    Therefore the move of each mean is exact, and a noisy value minus its mean is the noise. A mechanism on samples moves only if
    the canary is in the sample, so another repetition forces the canary into each sample. The moves do not count rows that the
    model does not release.
    """
    case, model = setting.case, keeping(setting.case.model, offered(setting.case.model))
    wider, canary = crafted(case, setting.graph)
    every, rate = np.arange(wider.nodes), _rate(case) if _sampled(case) else 1.0
    residuals: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    each: dict[str, float] = {}
    histories = []
    for history in range(HISTORIES):
        seeds = np.array([setting.key.fold("run", history).seed], dtype=np.uint64)
        there, gone = (Worlds(wider, seeds, every, nodes=Mask(canary, np.array([[bit]]))) for bit in (True, False))
        release, run = recorded(model, there, setting.store.device)
        if not run.releases:
            return Outcome(NAME, (), {}, UNREPORTED, offered(model))
        script, joined = run.releases, run
        if _sampled(case):
            _, joined = recorded(model, there, setting.store.device, script=script, join=lambda _, count: np.arange(count))
        _, other = recorded(model, gone, setting.store.device, script=script, coins=same_coins(run, wider, canary))
        by = squared(joined, other, kept_rows(release, canary), wider.nodes)
        on_samples = run.samples.keys() if _sampled(case) else ()
        steps = [square for purpose, squares in by.items() if purpose in on_samples for square in squares]
        plain = [square for purpose, squares in by.items() if purpose not in on_samples for square in squares]
        histories.append(Moves(math.sqrt(sum(plain)), np.sqrt(steps), rate))
        each = {purpose: math.sqrt(sum(squares)) for purpose, squares in by.items()}
        for one in run.releases:
            residuals[one.purpose].append(one.residuals)
    gathered = [np.concatenate(r) for r in residuals.values()]
    worst = partial(worth, case.model.ledger, case.claim)
    bound = added_up(gathered, histories, case.claim, setting.alpha, worth=worst)
    moves = ", ".join(f"'{purpose}' by {by:.3g}" for purpose, by in each.items())
    sampled = f", {histories[0].steps.size} of them on samples of rate {rate:.3g}" if histories[0].steps.size else ""
    count = sum(p.size for p in gathered)
    reach = f"one node moves {moves} standard deviations of the noise in all{sampled}; {count} residuals of {HISTORIES} runs"
    return Outcome(NAME, (bound,), {}, reach, offered(model), attack="canary")


def squared(run: Record, other: Record, hidden: Nodes, nodes: int) -> dict[str, list[float]]:
    """Name of a mechanism -> the squared moves of its means, in squared noise sds, one for each time that it ran.

    hidden: nodes whose rows are not released; these rows do not count.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for before, after in zip(run.releases, other.releases, strict=True):
        found[before.purpose].append(float(np.square(shift(before, after, hidden, nodes) / before.scale).sum()))
    return found
