"""Noise that a program adds one number to one value at a time. The truth is the closed form of the Gaussian and the Laplace
mechanism: an edge moves two degrees by 1 each.
"""

import random

import numpy as np
import pytest
import torch
from scipy.stats import dlaplace

from gnnaudit import Claim, Looped
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...conftest import small_graph
from ...nightly import nightly
from ..recorded.votes import released

GRAPH = small_graph(nodes=16, edges=30)  # each of its numbers is a draw of its own
SCALE, MORE, DELTA = 2.0, 1.01, 1e-5


def gauss(degrees, seed, scale):
    draw = random.Random(seed)
    return [float(degree) + draw.gauss(0, scale) for degree in degrees]


def laplace(degrees, seed, scale):
    draw = np.random.default_rng(seed)
    noisy = []
    for degree in degrees:
        noise = scale * draw.laplace()
        noisy.append(degree + noise)
    return noisy


def rounded(degrees, seed, scale):
    draw = np.random.default_rng(seed)
    noisy = np.zeros(len(degrees))
    for i, degree in enumerate(degrees):
        noisy[i] = max(0.0, np.round(degree + draw.laplace(0, scale), 1))
    return noisy


def tensors(degrees, seed, scale):
    draw = torch.Generator().manual_seed(int(seed) % 2**32)
    return torch.stack(
        [torch.tensor(degree) + torch.randn((), generator=draw, dtype=torch.float64) * scale for degree in degrees]
    )


WAYS = {gauss: DELTA, laplace: 0.0, rounded: 0.0, tensors: DELTA}


def cost(scale, delta):
    """Of two degrees that move by 1 each."""
    return float(epsilon_of(2**0.5 / scale, delta)) if delta else 2 / scale


def bounds(way, scale=SCALE, delta=0.0, seed=None):
    def train(graph, own):
        noisy = way(np.asarray(graph.adjacency().sum(1)).ravel(), own if seed is None else seed, scale)
        return released(np.asarray(noisy, dtype=np.float64)[:, None] * np.arange(1, graph.classes + 1) / 10)

    claim = Claim(MORE * cost(SCALE, delta), delta)
    return differential(Setting(Case(Looped(train), claim), GRAPH, None, Key("single numbers"))).bounds


@pytest.mark.parametrize(("way", "delta"), nightly((laplace, 0.0), (rounded, 0.0), (tensors, DELTA), among=WAYS.items()))
def test_enough_noise_is_supported(way, delta):
    found = bounds(way, SCALE, delta)
    assert not any(bound.refuted for bound in found)
    assert any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize(("way", "delta"), [(laplace, 0.0), *nightly((gauss, DELTA), (tensors, DELTA))])
def test_half_the_noise_is_refuted(way, delta):
    found = [bound.epsilon for bound in bounds(way, SCALE / 2, delta) if bound.refuted]
    assert found == [pytest.approx(cost(SCALE / 2, delta), 1e-3)]


@pytest.mark.parametrize(("way", "delta"), [(gauss, DELTA), *nightly((laplace, 0.0))])
def test_a_constant_seed_is_refuted(way, delta):
    assert any(np.isinf(bound.epsilon) for bound in bounds(way, SCALE, delta, seed=5) if bound.refuted)


def in_each_call(degrees, seed, scale):
    return [degree + np.random.default_rng(5).laplace(0, scale) for degree in degrees]


def one_for_all(degrees, seed, scale):
    noise = np.random.default_rng(seed).laplace(0, scale)
    return [degree + noise for degree in degrees]


def one_for_two(degrees, seed, scale):
    draw = np.random.default_rng(seed)
    noise = [draw.laplace(0, scale) for _ in degrees]
    return [degree + noise[i // 2] for i, degree in enumerate(degrees)]


@pytest.mark.parametrize("fault", [in_each_call, one_for_all, *nightly(one_for_two)])
def test_a_number_that_serves_several_values_is_refuted(fault):
    assert any(bound.refuted for bound in bounds(fault))


def truncated(degrees, seed, scale):
    draw = np.random.default_rng(seed)
    return [degree + max(0.0, draw.laplace(0, scale)) for degree in degrees]


def cast(degrees, seed, scale):
    draw = np.random.default_rng(seed)
    return [degree + float(draw.laplace(0, scale)) for degree in degrees]


def whole_of_scipy(degrees, seed, scale):
    draw = np.random.RandomState(seed % 2**32)
    return [degree + int(dlaplace.rvs(1 / scale, random_state=draw)) for degree in degrees]


@pytest.mark.parametrize("way", [truncated, cast, whole_of_scipy])
def test_numbers_that_are_not_followed_are_named(way):
    (found,) = bounds(way)
    assert not found.refuted
    assert any("the recorder did not follow" in c.detail and "test_single_numbers.py, line" in c.detail for c in found.conditions)


def compared(graph, seed):
    """The sparse vector technique of Chen et al. (2015): edges among some nodes, compared with a noisy threshold."""
    draw = random.Random(seed)
    inside = np.random.default_rng(2024).random((40, graph.nodes)) < 0.7
    counts = (inside[:, graph.edges[0]] & inside[:, graph.edges[1]]).sum(1)
    noise = draw.expovariate(1 / SCALE) - draw.expovariate(1 / SCALE)
    answers = [c + draw.expovariate(1 / SCALE) - draw.expovariate(1 / SCALE) >= np.median(counts) + noise for c in counts]
    return {"answers": np.array(answers, dtype=float)}


def test_a_reason_that_many_numbers_share_is_said_once():
    model = Looped(compared, releases=("answers",), claim=Claim(1.0, 0.0))
    found = differential(Setting(Case(model, model.claim), GRAPH, None, Key("compared"))).bounds
    said = [why.count("add the noise last") for bound in found for why in bound.failed]
    assert max(said) == 1
