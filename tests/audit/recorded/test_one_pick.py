"""One place picked with probabilities that a program computes from data, as in the exponential mechanism. The truth is the
largest log-ratio of the probabilities of two neighbouring graphs.
"""

import random

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, PureDpEvent, Unit, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")


def by_numpy(chances, seed):
    return np.random.default_rng(seed).choice(len(chances), p=chances)


def by_random_state(chances, seed):
    return np.random.RandomState(seed % 2**32).choice(np.arange(len(chances)), size=1, p=chances)[0]


def by_value(chances, seed):
    grid = np.linspace(0, 1, len(chances))
    return np.random.default_rng(seed).choice(grid, p=chances)


def by_python(chances, seed):
    names = [f"class {c}" for c in range(len(chances))]
    return names.index(random.Random(seed).choices(names, weights=chances.tolist())[0])


def by_cumulative_weights(chances, seed):
    return random.Random(seed).choices(range(len(chances)), cum_weights=np.cumsum(chances).tolist())[0]


def by_multinomial(chances, seed):
    return int(torch.multinomial(torch.from_numpy(chances), 1, generator=torch.Generator().manual_seed(seed % 2**32)))


def by_categorical(chances, seed):
    torch.manual_seed(seed)
    return torch.distributions.Categorical(torch.from_numpy(chances)).sample().item()


WAYS = [by_numpy, by_random_state, by_value, by_python, by_cumulative_weights, by_multinomial, by_categorical]


def chances_of(graph, factor):
    counts = np.bincount(graph.y[graph.train], minlength=graph.classes)
    powers = np.exp(factor * (counts - counts.max()))
    return powers / powers.sum()


def bounds(way, factor):
    def train(graph, seed):
        return {"mode": np.array([way(chances_of(graph, factor), seed)])}

    model = Looped(train, releases=("mode",), unit=Unit.NODE, events=PureDpEvent(1.0))
    return differential(Setting(Case(model, Claim(1.0, 0.0, Unit.NODE)), GRAPH, None, Key("pick"))).bounds


@pytest.mark.parametrize("way", nightly(*set(WAYS) - {by_numpy, by_python, by_categorical}, among=WAYS))
def test_an_honest_pick_is_supported(way):
    """A node adds 1 to one count, which changes each probability by a factor of at most e."""
    found = bounds(way, 1.0)
    assert not any(bound.refuted for bound in found)
    assert any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize("way", [by_numpy, by_python, by_categorical])
def test_a_pick_with_too_large_a_factor_is_refuted(way):
    worst = max(bound.epsilon for bound in bounds(way, 2.0) if bound.refuted)
    assert 1 < worst <= 2


def public(chances, seed):
    return np.random.default_rng(seed).choice(3, p=[0.5, 0.3, 0.2])


def test_a_pick_with_public_probabilities_reveals_nothing():
    assert not any(bound.refuted for bound in bounds(public, 1.0))


def two_sided_geometric(chances, seed):
    steps = np.arange(81)
    weights = np.exp(-np.abs(steps - 40.0))
    return np.random.default_rng(seed).choice(81, p=weights / weights.sum()) - 40


def test_one_noise_number_picked_by_its_place_is_not_refuted():
    def train(graph, seed):
        return {"nodes": np.array([int(graph.train.sum()) + two_sided_geometric(None, seed)])}

    model = Looped(train, releases=("nodes",), unit=Unit.NODE, events=PureDpEvent(1.0))
    setting = Setting(Case(model, Claim(1.0, 1e-6, Unit.NODE)), GRAPH, None, Key("pick"))
    assert not any(bound.refuted for bound in differential(setting).bounds)


def with_a_constant_seed(chances, seed):
    return np.random.default_rng(5).choice(len(chances), p=chances)


def test_a_pick_with_a_constant_seed_is_not_supported():
    found = bounds(with_a_constant_seed, 1.0)
    assert not any(np.isfinite(bound.reach) and not bound.failed for bound in found)


def hub(graph, factor):
    """The probabilities of the nodes in the exponential mechanism. Each end of an edge has a score of its own: an edge moves two
    scores by `factor`, and the sum of all powers by less.
    """
    scores = factor * np.asarray(graph.degree, dtype=np.float64)
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def gumbel(chances, seed):
    with np.errstate(divide="ignore"):
        return int((np.log(chances) + np.random.default_rng(seed).gumbel(size=len(chances))).argmax())


def hub_bounds(way, factor, claim):
    model = Looped(
        lambda graph, seed: {"hub": np.array([way(hub(graph, factor), seed)])},
        releases=("hub",),
        unit=Unit.UNDIRECTED_EDGE,
        events=PureDpEvent(claim),
    )
    return differential(Setting(Case(model, Claim(claim, 0.0, Unit.UNDIRECTED_EDGE)), GRAPH, None, Key("hub"))).bounds


@pytest.mark.parametrize("way", [by_numpy, gumbel, *nightly(by_categorical, by_python)])
def test_a_pick_among_all_nodes_is_judged_by_its_probabilities(way):
    """On the small graph of unusual nodes, all probabilities but one are below 1e-20, and their ratios count."""
    found = hub_bounds(way, 0.5, 1.0)
    assert not any(bound.refuted for bound in found)
    assert any(0.49 < bound.epsilon <= 0.5 and np.isfinite(bound.reach) for bound in found)
    assert 1 < max(bound.epsilon for bound in hub_bounds(way, 2.0, 1.0) if bound.refuted) <= 2


def test_probabilities_that_rounding_makes_0_refute_no_honest_pick():
    """The ratio of two probabilities is at most exp(12); of the probabilities on the small graph, most are 0 in float64."""
    assert not any(bound.refuted for bound in hub_bounds(by_numpy, 6.0, 12.0))


def test_a_pick_that_drops_bits_of_its_seed_is_refuted():
    def with_few_seeds(chances, seed):
        return np.random.default_rng(seed % 97).choice(len(chances), p=chances)

    assert any(bound.refuted for bound in hub_bounds(with_few_seeds, 0.5, 1.0))
