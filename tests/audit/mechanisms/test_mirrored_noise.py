"""Symmetric noise on a table of pairs: the entries (i, j) and (j, i) have one noise number. The truth is the closed form of the
Gaussian mechanism: an edge moves one number by 1.
"""

import re

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped, Relation, Unit
from gnnaudit.accounting.gaussian import epsilon_of, mu_of_claim
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.inside import Inside
from gnnaudit.audit.mechanisms.overview.recorded_runs import Recorded
from gnnaudit.audit.own_bounds.within_run import described

from ...conftest import small_graph
from ...nightly import nightly

GRAPH, DELTA = small_graph(40, 120), 1e-5
STD = 1 / mu_of_claim(Claim(3.0, DELTA))


def released(graph, noisy, everything=True):
    votes = noisy @ (np.eye(graph.classes)[graph.y] * graph.train[:, None])
    return {"posteriors": votes - np.logaddexp.reduce(votes, axis=1, keepdims=True)} | ({"noisy": noisy} if everything else {})


def table(noisy, everything=True, unit=Unit.UNDIRECTED_EDGE):
    """The model that releases `noisy(adjacency matrix, square table of numbers)`."""

    def train(graph, seed):
        pairs = graph.adjacency().toarray().astype(np.float64)
        return released(graph, noisy(pairs, STD * np.random.default_rng(seed).standard_normal(pairs.shape)), everything)

    return Looped(train, unit=unit, releases=("posteriors", "noisy") if everything else ("posteriors",))


def bounds(model, epsilon, delta=DELTA):
    claim = Claim(epsilon, delta, unit=model.unit, relation=Relation.ADD_REMOVE)
    return differential(Setting(Case(model, claim), GRAPH, None, Key("mirrored"))).bounds


def refuted(model, epsilon, delta=DELTA):
    return [bound.epsilon for bound in bounds(model, epsilon, delta) if bound.refuted]


def supported(model, epsilon):
    found = bounds(model, epsilon)
    return not any(b.refuted for b in found) and any(np.isfinite(b.reach) and not b.failed for b in found)


def one_after_the_other(pairs, numbers):
    upper = np.triu(numbers, 1)
    return pairs + upper + upper.T


def at_once(pairs, numbers):
    upper = np.triu(numbers, 1)
    return pairs + (upper + upper.T)


def with_its_diagonal(pairs, numbers):
    return pairs + (np.tril(numbers) + np.tril(numbers, -1).T)


def of_both(pairs, numbers):
    """A sum of two numbers for each pair, and twice one number on the diagonal."""
    return pairs + (numbers + numbers.T) / 2**0.5


def by_a_mask(pairs, numbers):
    upper = numbers * np.triu(np.ones(pairs.shape), 1)
    return pairs + upper + upper.T


def both_in_turn(pairs, numbers):
    return pairs + numbers / 2**0.5 + numbers.T / 2**0.5


WAYS = [one_after_the_other, *nightly(at_once, with_its_diagonal, of_both, by_a_mask, both_in_turn)]


@pytest.mark.parametrize("way", WAYS)
def test_a_pair_costs_as_one_number(way):
    assert supported(table(way), 3.01)


@pytest.mark.parametrize("way", WAYS)
def test_half_the_noise_of_a_pair_is_refuted(way):
    assert refuted(table(lambda pairs, numbers: way(pairs, numbers / 2)), 3.0) == [
        pytest.approx(epsilon_of(2 / STD, DELTA), 1e-3)
    ]


def test_symmetric_tensors_are_tables_too():
    def train(graph, seed, share=1.0):
        draw = torch.Generator().manual_seed(seed)
        upper = torch.triu(share * STD * torch.randn(graph.nodes, graph.nodes, generator=draw, dtype=torch.float64), 1)
        return released(graph, (torch.from_numpy(graph.adjacency().toarray().astype(float)) + upper + upper.T).numpy())

    names = ("posteriors", "noisy")
    assert supported(Looped(train, releases=names), 3.01)
    half = Looped(lambda graph, seed: train(graph, seed, 0.5), releases=names)
    assert refuted(half, 3.0) == [pytest.approx(epsilon_of(2 / STD, DELTA), 1e-3)]


def directed(pairs, numbers):
    return at_once(np.triu(pairs), numbers)


def over_degrees(pairs, numbers):
    return of_both(pairs / np.maximum(1, pairs.sum(1, keepdims=True)), numbers)


@pytest.mark.parametrize("fault", [directed, *nightly(over_degrees)])
def test_values_that_are_not_symmetric_have_a_difference_without_noise(fault):
    assert refuted(table(fault), 3.0) == [np.inf]


@pytest.mark.parametrize("fault", [directed, *nightly(over_degrees)])
def test_a_difference_that_the_release_does_not_show_is_not_charged(fault):
    found = bounds(table(fault, everything=False), 3.0)
    assert not any(b.refuted for b in found)
    assert not any(np.isfinite(b.reach) and not b.failed for b in found)


def antisymmetric(pairs, numbers):
    upper = np.triu(numbers, 1)
    return pairs + upper - upper.T


def off_the_diagonal(pairs, numbers):
    """The diagonal holds degrees, without noise."""
    return at_once(np.diag(pairs.sum(1)) - pairs, numbers)


def other_noise_on_half(pairs, numbers):
    """The lower triangle gets a copy with twice the scale, so a weighted difference has no noise."""
    upper = np.triu(numbers, 1)
    return pairs + (upper + 2 * upper.T)


@pytest.mark.parametrize("fault", [antisymmetric, *nightly(off_the_diagonal, other_noise_on_half)])
def test_other_shared_noise_supports_no_claim(fault):
    assert not supported(table(fault), 3.01)


def test_a_function_that_reads_one_triangle_tells_each_number_once():
    def lowest(pairs, numbers):
        values, vectors = np.linalg.eigh(one_after_the_other(pairs, numbers))
        return vectors * values @ vectors.T

    assert supported(table(lowest), 3.01)
    assert not refuted(table(lambda pairs, numbers: lowest(np.triu(pairs), numbers)), 3.0)


def test_an_absent_node_moves_each_of_its_pairs_once():
    """In truth the node with most edges moves `most` numbers by 1, its row and its column together."""
    most = max(GRAPH.degree)
    model = table(at_once, unit=Unit.NODE, everything=False)
    assert not refuted(model, epsilon_of(most**0.5 / STD, DELTA) * 1.001)


def test_a_second_use_of_the_numbers_costs_nothing_that_is_computed():
    def again(pairs, numbers):
        return of_both(pairs, numbers) * 1e-9 + (pairs + numbers)

    model = table(again)
    assert not supported(model, 3.01)


def test_the_verdict_names_the_scale_of_the_noise_on_the_pair_that_moves():
    """The diagonal of the table has noise of a scale that is larger by the square root of two, and no edge moves it."""
    within = Recorded(Case(table(of_both), Claim(1.0, DELTA)), GRAPH, Key("mirrored")).inside
    assert isinstance(within, Inside)
    told = described("an edge", within.run, within.shifts)
    assert re.fullmatch(
        rf"an edge moves 1 mechanism at .* \(scale {STD:.4g}\) by {1 / STD:.4g} times the scale of the noise", told
    )
