"""Two released values that have only some noise numbers in common, because each call makes its generator from one seed. Where a
secret moves the entries of one number apart, their difference is a function of the graph, so no finite epsilon holds.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.own_bounds.adversary.overlapping_noise import equal_numbers

from ...nightly import nightly

GRAPH, SCALE = load("campus:n=120:degree=6"), 8.0


def counts(graph):
    return graph.adjacency() @ np.eye(graph.classes)[graph.y]


def released(seed, degree, count, law="laplace", size=SCALE, again=0):
    """Noisy degrees and counts, each with the noise of a new generator. again: what the second seed adds to the first."""
    noise = [getattr(np.random.default_rng([seed, n]), law) for n in (0, again)]
    noisy = degree + noise[0](0, SCALE, degree.shape)
    table = count + noise[1](0, size, count.shape)
    return {"posteriors": table - np.logaddexp.reduce(table, axis=1, keepdims=True), "degree": noisy, "counts": table}


def same_seed(graph, seed):
    return released(seed, graph.degree.astype(float), counts(graph))


def same_seed_other_scale(graph, seed):
    return released(seed, graph.degree.astype(float), counts(graph), "normal", SCALE / 4)


def other_seed(graph, seed):
    return released(seed, graph.degree.astype(float), counts(graph), again=1)


def one_of_both_released(graph, seed):
    return released(seed, graph.degree.astype(float), counts(graph)) | {"degree": np.zeros(graph.nodes)}


def more_noise_on_top(graph, seed):
    """Nobody sees the first noisy degrees alone."""
    found = released(seed, graph.degree.astype(float), counts(graph))
    return found | {"degree": found["degree"] + np.random.default_rng([seed, 9]).normal(0, SCALE, graph.nodes)}


def public_where_shared(graph, seed):
    """The numbers in common are noise on public zeros in one of both: their difference shows the noise, and counts cost alone."""
    return released(seed, np.zeros(graph.nodes), counts(graph))


def bounds(train):
    model = Looped(train, releases=("posteriors", "degree", "counts"))
    claim = Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE)
    return differential(Setting(Case(model, claim), GRAPH, None, Key("overlap"), 3, 1e-4)).bounds


@pytest.mark.parametrize("train", [same_seed, *nightly(same_seed_other_scale)])
def test_released_values_with_some_noise_numbers_in_common_have_no_finite_epsilon(train):
    (found,) = (b for b in bounds(train) if b.refuted)
    assert found.epsilon == np.inf
    assert "120 numbers drawn at test_overlapping_noise.py, line" in found.method
    assert " and again at test_overlapping_noise.py, line" in found.method


@pytest.mark.parametrize("train", [other_seed, *nightly(one_of_both_released, more_noise_on_top)])
def test_without_the_difference_of_both_nothing_is_infinite(train):
    assert all(np.isfinite(b.epsilon) for b in bounds(train))


def test_the_difference_to_noise_on_public_zeros_shows_the_counts():
    """With the noise known from the zeros, the counts are exact where it is shared."""
    assert any(b.epsilon == np.inf for b in bounds(public_where_shared))


def few(kind, numbers, again):
    """Noisy degrees, and numbers of edges by the remainder of their lower node, with noise from a second generator. kind: "array"
    draws an array of `numbers`; "scalar" draws one number with size=(); "torch" draws an array of float32. again: what the second
    seed adds to the first one.
    """

    def laplace(seed, shape):
        if kind == "torch":
            torch.manual_seed(seed)
            return torch.distributions.Laplace(torch.zeros(shape), 2.0).sample().numpy()
        return np.random.default_rng(seed).laplace(0, 2.0, shape)

    def train(graph, seed):
        parts = np.bincount(graph.edges[0] % numbers, minlength=numbers)
        shown = parts + laplace(seed + again, numbers) if kind != "scalar" else parts.sum() + laplace(seed + again, ())
        return {"degree": graph.degree + laplace(seed, graph.nodes), "parts": np.atleast_1d(shown)}

    return train


KINDS = [("array", 1), ("scalar", 1), *nightly(("array", 3), ("array", 16), ("torch", 2))]


@pytest.mark.parametrize(("kind", "numbers"), KINDS)
@pytest.mark.parametrize("again", [0, 1])
def test_even_one_noise_number_in_common_is_found(kind, numbers, again):
    claim = Claim(1.5, 0.0)  # two degrees and one part move by 1, and the noise has scale 2
    case = Case(Looped(few(kind, numbers, again), releases=("degree", "parts"), claim=claim), claim)
    found = differential(Setting(case, GRAPH, None, Key("few"), 3, 1e-4)).bounds
    assert [b.epsilon for b in found if b.refuted] == [np.inf] * (not again)
    assert again == 0 or max(b.epsilon for b in found) == pytest.approx(1.5, rel=1e-2)


def pick_and_table(again):
    """The class with most noisy edges within it, and noisy numbers of edges by the class of the lower node."""

    def train(graph, seed):
        low, high = graph.y[graph.edges]
        within = np.bincount(low[low == high], minlength=graph.classes)
        noise = [np.random.default_rng(seed + n).laplace(0, 2.0, graph.classes) for n in (0, again)]
        return {"best": int((within + noise[0]).argmax()), "low": np.bincount(low, minlength=graph.classes) + noise[1]}

    return train


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
@pytest.mark.parametrize("again", [0, 1])
def test_a_comparison_with_the_noise_of_a_released_value_gets_no_support(again, seed):
    """The released table tells the noise, given the graph; then the pick is exact. With noise of its own it costs .5."""
    claim = Claim(1.05, 0.0)
    case = Case(Looped(pick_and_table(again), releases=("best", "low"), claim=claim), claim)
    outcome = differential(Setting(case, GRAPH, None, Key("pick", seed), 3, 1e-4))
    refuted = any(bound.refuted for bound in outcome.bounds)
    assert not refuted if again else (refuted or set(outcome.covers) != {"best", "low"})


def test_numbers_in_common_are_found_at_their_entries_and_others_are_not():
    one, other = np.random.default_rng(1).standard_normal((5, 4)), np.random.default_rng(0).standard_normal(50)
    two = np.concatenate([one.ravel()[[7, 2]] + 1e-6, other])
    everywhere = [SimpleNamespace(units=units, own=np.full(units.shape, True)) for units in (one, two)]
    assert [places.tolist() for places in equal_numbers(*everywhere)] == [[7, 2], [0, 1]]
    nowhere = SimpleNamespace(units=one, own=np.full(one.shape, False))
    assert not equal_numbers(nowhere, everywhere[1])[0].size
