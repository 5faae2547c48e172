"""Counts of edges with two-sided geometric noise, alone and beside Laplace noise. An edge moves each count by 1, so the truth at
delta = 0 is the sum of the rates.
"""

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

GRAPH = load("campus:n=120:degree=6")
EDGE = Unit.UNDIRECTED_EDGE


def two_sided(rng, rate):
    return int(rng.geometric(1 - np.exp(-rate))) - int(rng.geometric(1 - np.exp(-rate)))


def degrees(graph, rng, scale):
    """The numbers of nodes of each degree, of which an edge moves four by 1, with Laplace noise; clipped at 0."""
    counts = np.bincount(np.minimum(graph.degree, 11), minlength=12)
    return np.clip([count + rng.laplace(0, scale) for count in counts], 0, None)


def outcome(train, *releases):
    model = Looped(lambda graph, seed: train(graph, np.random.default_rng(seed)), releases=releases, unit=EDGE)
    return differential(Setting(Case(model, Claim(1.0, 0.0, EDGE)), GRAPH, None, Key("geometric")))


def with_a_sum(rate, scale):
    def train(graph, rng):
        edges = graph.edges.shape[1]
        return {"edges": edges + two_sided(rng, rate), "again": edges + rng.laplace(0, scale)}

    return outcome(train, "edges", "again")


def test_geometric_and_laplace_noise_cost_the_sum():
    found = with_a_sum(0.5, 2.0)
    assert max(bound.epsilon for bound in found.bounds) == pytest.approx(1.0, rel=1e-3)
    assert set(found.covers) == {"edges", "again"}
    assert not any(bound.refuted for bound in found.bounds)


@pytest.mark.parametrize(("rate", "scale"), [(1.0, 2.0), (0.5, 1.0)])
def test_half_of_either_noise_is_refuted(rate, scale):
    found = with_a_sum(rate, scale)
    assert max(bound.epsilon for bound in found.bounds if bound.refuted) == pytest.approx(1.5, rel=1e-3)


def test_a_geometric_count_beside_clipped_counts_is_supported():
    def train(graph, rng):
        return {"edges": graph.edges.shape[1] + two_sided(rng, 0.5), "degrees": degrees(graph, rng, 8.0)}

    found = outcome(train, "edges", "degrees")
    assert set(found.covers) == {"edges", "degrees"}
    assert not any(bound.refuted for bound in found.bounds)


def test_clipped_counts_that_tell_the_geometric_noise_are_not_supported():
    def train(graph, rng):
        noise = two_sided(rng, 0.5)
        return {"edges": graph.edges.shape[1] + noise, "degrees": degrees(graph, rng, 8.0) - noise}

    assert "degrees" not in (outcome(train, "edges", "degrees").covers or {})


@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_samples_of_the_geometric_distribution_of_torch_are_followed(rate):
    """An edge moves two degrees by 1, so the truth is twice the rate."""

    def train(graph, rng):
        torch.manual_seed(int(rng.integers(2**60)))
        noise = torch.distributions.Geometric(probs=1 - float(np.exp(-rate)))
        degrees = torch.from_numpy(graph.degree).double()
        return {"degrees": (degrees + noise.sample(degrees.shape) - noise.sample(degrees.shape)).numpy()}

    found = outcome(train, "degrees")
    assert max(bound.epsilon for bound in found.bounds) == pytest.approx(2 * rate, rel=1e-3)
    assert any(bound.refuted for bound in found.bounds) == (rate > 0.5)
    assert ("degrees" in (found.covers or {})) or rate > 0.5


def of_a_constant_seed(graph, rng):
    return two_sided(np.random.default_rng(8), 0.5)


def of_two_generators(graph, rng):
    seed = int(rng.integers(2**60))
    one, other = (np.random.default_rng(seed) for _ in range(2))
    return int(one.geometric(0.4)) - int(other.geometric(0.4))


@pytest.mark.parametrize("noise", [of_a_constant_seed, of_two_generators])
def test_geometric_numbers_that_hide_nothing_are_not_supported(noise):
    """Two generators with one seed draw the same number, so their difference is 0."""
    found = outcome(lambda graph, rng: {"edges": graph.edges.shape[1] + noise(graph, rng)}, "edges")
    assert any(bound.refuted for bound in found.bounds) or not found.covers
