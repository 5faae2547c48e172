"""Noise to which a program adds its data later, in several sums. The truth is the closed form of the Laplace and the Gaussian
mechanism.
"""

import random

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.inside import Inside, inside
from gnnaudit.audit.recorded.study import study

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
SCALE, MORE, DELTA = 2.0, 1.01, 1e-5


def in_place(graph, seed, scale):
    total = np.zeros(graph.nodes)
    total += np.random.default_rng(seed).laplace(0, scale, graph.nodes)
    total += np.asarray(graph.adjacency().sum(1)).ravel()
    return {"degrees": total}


def by_index(graph, seed, scale):
    generator = torch.Generator().manual_seed(seed % 2**32)
    first, second = (torch.empty(graph.nodes, dtype=torch.float64).exponential_(1 / scale, generator=generator) for _ in range(2))
    total, ones = first - second, torch.ones(graph.edges.shape[1], dtype=torch.float64)
    for ends in torch.from_numpy(graph.edges):
        total.index_add_(0, ends, ones)
    return {"degrees": total.numpy()}


def edges_one_by_one(graph, seed, scale):
    total = 0.0
    total += random.Random(seed).gauss(0, scale)
    for _ in graph.edges.T:
        total += 1
    return {"count": np.array([total])}


def sum_of_a_list(graph, seed, scale):
    draw = np.random.RandomState(seed % 2**32)
    return {"count": np.array([sum([draw.laplace(scale=scale), 3, graph.edges.shape[1]])])}


COSTS = {  # an edge moves two degrees by 1 each, or the count of edges by 1
    in_place: lambda scale: (2 / scale, 0.0),
    by_index: lambda scale: (2 / scale, 0.0),
    edges_one_by_one: lambda scale: (float(epsilon_of(1 / scale, DELTA)), DELTA),
    sum_of_a_list: lambda scale: (1 / scale, 0.0),
}


def bounds(way, scale, cost):
    epsilon, delta = cost(SCALE)
    model = Looped(lambda graph, seed: way(graph, seed, scale), releases=tuple(way(GRAPH, 1, scale)))
    return differential(Setting(Case(model, Claim(MORE * epsilon, delta)), GRAPH, None, Key("later"))).bounds


def read_before(graph, seed, scale):
    first = np.zeros(graph.nodes) + np.random.default_rng(seed).laplace(0, scale, graph.nodes)
    return {"degrees": first + np.asarray(graph.adjacency().sum(1)).ravel(), "noise": first}


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("way", nightly(edges_one_by_one, sum_of_a_list, by_index, among=COSTS))
def test_enough_noise_is_supported(way):
    found = bounds(way, SCALE, COSTS[way])
    assert not any(bound.refuted for bound in found)
    assert any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize("way", nightly(edges_one_by_one, sum_of_a_list, among=COSTS))
def test_half_the_noise_is_refuted(way):
    found = [bound.epsilon for bound in bounds(way, SCALE / 2, COSTS[way]) if bound.refuted]
    assert found == [pytest.approx(COSTS[way](SCALE / 2)[0], 1e-3)]


def test_a_noisy_value_that_is_released_before_its_data_are_added_is_not_supported():
    assert all(bound.failed or bound.refuted for bound in bounds(read_before, SCALE, COSTS[in_place]))


def past(train, *names):
    """Array -> the sentence about its path past the noise."""
    made = study(Looped(train, releases=names), GRAPH, Key("past"), probed=False)
    found = inside(made, Claim(1.0, 0.0), Key("past"))
    assert isinstance(found, Inside)
    return found.past


def test_a_sum_that_is_multiplied_is_named_as_another_reason_for_the_change():
    def train(graph, seed):
        return {"count": np.array([(1 + np.random.default_rng(seed).laplace()) * graph.edges.shape[1]])}

    assert "the single noise number at test_data_added_later.py, line" in past(train, "count")["count"]


def test_no_other_reason_is_given_for_an_array_that_does_not_depend_on_the_noise():
    def train(graph, seed):
        count = graph.edges.shape[1]
        return {"count": np.array([count + np.random.default_rng(seed).laplace()]), "exact": np.array([count / 7])}

    assert "single noise number" not in past(train, "count", "exact")["exact"]
