"""Computes, from what a faulty model does, the factor by which its noise is too small for the claim."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import DpEvent

from ...accounting import events
from ...accounting.claim import Claim, Unit
from ...accounting.closed_forms import channel_epsilon
from ...accounting.events.tree import scaled
from ...accounting.upper import rdp
from ...accounting.upper.calibration import calibrate
from ...models.facts import Facts
from ...models.graph.graph import Graph, Worlds
from .fault import LOCAL, NODE, VOTES, Recipe, Shortfall


def constant(value: float) -> Shortfall:
    return lambda model, graph: value


def of_model(value: Callable[[Any], float]) -> Shortfall:
    return lambda model, graph: float(value(model))


def against_honest_noise(honest: Recipe, claim: Claim) -> Shortfall:
    """The factor of a model with faulty accounting: the sigma that honest accounting requires, over the sigma of the model."""
    return lambda model, graph: float(calibrate(honest(Facts.of(graph)), claim).sigma / model.sigma)


def against_true_ledger(true: Callable[[Any], DpEvent]) -> Shortfall:
    """The factor by which the declared ledger's noise must be divided until it costs as much as the true ledger, both by RDP."""

    def factor(model: Any, graph: Graph) -> float:
        target, low, high = rdp.epsilon(true(model), NODE.delta), 1.0, 64.0
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if rdp.epsilon(scaled(model.ledger, middle), NODE.delta) < target else (low, middle)
        return high

    return factor


def longest_row(model: Any, graph: Graph) -> float:
    """The root mean square, over hops, of the length of the longest row. The ledger assumes rows of length one."""
    release = dataclasses.replace(model, keep=("aggregates", "inputs")).fit(Worlds.of(graph, [1]))
    return float(np.sqrt((np.square(release["inputs"]).sum(3).max((0, 2))).mean()))


def changed_rows(model: Any, graph: Graph) -> float:
    """sqrt(changed rows / 2) for the worst of a hundred edges. The ledger assumes that one edge changes two rows."""
    present = np.ones((101, graph.edges.shape[1]), dtype=bool)
    present[np.arange(1, 101), np.linspace(0, present.shape[1] - 1, 100).astype(int)] = False
    kept = np.stack([model.bounded(graph, p) for p in present])
    ends = [set(graph.edges[:, row != kept[0]].ravel().tolist()) for row in kept[1:]]
    return math.sqrt(max(len(e) for e in ends) / 2)


def with_own_row(model: Any, graph: Graph) -> float:
    """The factor by which the noise is too small if the release contains a node's own sum.

    A node moves the sums of max_degree other nodes by one row each, and its own sum by the rows of all its neighbours.
    """
    return math.sqrt(1 + float(graph.degree.max()) ** 2 / model.max_degree)


def by_enumeration(model: Any, graph: Graph) -> float:
    """The epsilon of the model's finite channels, by enumeration, divided by the claimed epsilon."""
    spent = sum(copies * channel_epsilon(matrix) for matrix, copies in model.channels(graph.dim, graph.classes))
    return spent / (VOTES if model.unit is Unit.NODE else LOCAL).epsilon


def largest_degree(model: Any, graph: Graph) -> float:
    """The square root of a ratio: the largest degree of a training node, divided by the degree bound."""
    return math.sqrt(float(graph.degree[graph.train].max()) / model.max_degree)


def undivided_budget(model: Any, graph: Graph) -> float:
    """The budget that the model spends, divided by the claimed epsilon.

    The model spends the label budget once, and the feature budget twice: on two features, or on two reports of one feature.
    """
    return (2 * model.feature_budget + model.label_budget) / LOCAL.epsilon


@against_true_ledger
def all_steps(model: Any) -> DpEvent:
    steps = model.epochs * -(-model.train_nodes // model.batch)
    return events.dp_sgd(model.sigma, model.batch / model.train_nodes, steps)


@against_true_ledger
def with_replacement(model: Any) -> DpEvent:
    """In a batch of fixed size, a node replaces another, whose gradient may be the opposite. So the sum moves by two norms."""
    steps = model.epochs * (model.train_nodes // model.batch)
    return events.dp_sgd(model.sigma / 2, model.batch / model.train_nodes, steps)


@against_true_ledger
def one_sample(model: Any) -> DpEvent:
    """The ledger if each batch is sampled once for all epochs: the steps on a batch are composed first and amplified last."""
    batches, rate = model.train_nodes // model.batch, model.batch / model.train_nodes
    return events.repeated(events.on_sampled_nodes(rate, events.gaussian_hops(model.sigma, model.epochs)), batches)


INFINITE = constant(math.inf)
ROOT_TWO = constant(math.sqrt(2))
ONE_HOP_MORE = of_model(lambda m: (m.hops / (m.hops - 1)) ** 0.5)
LESS_NOISE = of_model(lambda m: 1 / m.share)
