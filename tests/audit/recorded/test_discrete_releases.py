"""Releases that take few values, such as the index of a largest noisy count. Noise of a usual size often leaves such a value
as it is, which is no proof that no noise covers it. The truth is the exact privacy of the mechanism: all honest models here keep
their claim, and all faulty ones release a function of the graph alone.
"""

import dataclasses

import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, judge, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
NODE, EDGE, FEATURES = Unit.NODE, Unit.UNDIRECTED_EDGE, Unit.FEATURES


def counts(graph):
    return np.bincount(graph.y[graph.train], minlength=graph.classes)


def noisy_maximum(graph, rng):  # a label moves two counts by 1
    return int(np.argmax(counts(graph) + rng.laplace(0, 2.0, graph.classes)))


def exponential_mechanism(graph, rng):  # a node adds 1 to one count
    return np.argmax(counts(graph) + rng.gumbel(size=graph.classes))


def geometric_maximum(graph, rng):
    p = 1 - np.exp(-0.5)
    return np.argmax(counts(graph) + rng.geometric(p, graph.classes) - rng.geometric(p, graph.classes))


def three_largest(graph, rng):
    return np.argsort(-(counts(graph) + rng.laplace(0, 1.0, graph.classes)))[:3]


def maximum_of_many_counts(graph, rng):
    """A node adds 1 to many counts. The maximum costs 1 (Dwork & Roth 2014, claim 3.9), and all noisy counts cost more."""
    several = (graph.x[graph.train] > 0).sum(0)
    return int(np.argmax(several + rng.laplace(0, 1.0, several.shape)))


def above_a_bar(graph, rng):
    return graph.edges.shape[1] + rng.laplace(0, 1.0) > 3 * graph.nodes


def all_above_a_bar(graph, rng):
    return bool(np.all(counts(graph) + rng.laplace(0, 1.0, graph.classes) > 5))


HONEST = {
    noisy_maximum: FEATURES,
    exponential_mechanism: NODE,
    geometric_maximum: FEATURES,
    three_largest: NODE,
    maximum_of_many_counts: NODE,
    above_a_bar: EDGE,
    all_above_a_bar: NODE,
}


def bounds(way, unit, key, releases=("found",)):
    def train(graph, seed):
        found = way(graph, np.random.default_rng(seed))
        return dict(zip(releases, map(np.atleast_1d, found if len(releases) > 1 else [found]), strict=True))

    model = Looped(train, releases=releases, unit=unit, events=PureDpEvent(1.0))
    return differential(Setting(Case(model, Claim(1.0, 0.0, unit)), GRAPH, None, Key("discrete", key))).bounds


@pytest.mark.parametrize("key", nightly(*range(1, 12), among=range(12)))
@pytest.mark.parametrize("way", nightly(three_largest, maximum_of_many_counts, all_above_a_bar, among=HONEST))
def test_an_honest_release_of_few_values_is_not_refuted(way, key):
    assert [bound.method for bound in bounds(way, HONEST[way], key) if bound.refuted] == []


@pytest.mark.parametrize("way", [noisy_maximum, exponential_mechanism])
def test_an_honest_maximum_is_supported(way):
    assert any(np.isfinite(bound.reach) and not bound.failed for bound in bounds(way, HONEST[way], 0))


def maximum_without_noise(graph, rng):
    rng.laplace(0, 2.0, graph.classes)
    return np.argmax(counts(graph))


def maximum_beside_noise(graph, rng):
    return np.argmax(counts(graph)), counts(graph)[0] + rng.laplace(0, 1.0)


def parity_beside_a_noisy_bit(graph, rng):
    return graph.edges.shape[1] % 2, graph.edges.shape[1] + rng.laplace(0, 1.0) > 3 * graph.nodes


LEAKS = {maximum_without_noise: FEATURES, maximum_beside_noise: FEATURES, parity_beside_a_noisy_bit: EDGE}


@pytest.mark.parametrize("way", LEAKS)
def test_a_function_of_the_graph_alone_is_refuted(way):
    releases = ("found", "noisy") if "beside" in way.__name__ else ("found",)
    assert any(np.isinf(bound.epsilon) for bound in bounds(way, LEAKS[way], 0, releases) if bound.refuted)


def whether_dense(coin):
    """Noisy degrees, and whether the graph has more edges than nodes, perhaps turned round by a coin in an `if`."""

    def train(graph, seed):
        random, degrees = np.random.default_rng(seed), np.asarray(graph.adjacency().sum(1)).ravel()
        dense = graph.edges.shape[1] > graph.nodes
        if coin and random.random() < 0.3:
            dense = not dense
        return {"degrees": degrees + random.laplace(0, 2.0, degrees.shape), "dense": np.array([float(dense)])}

    return train


def verdict_on(train):
    claim = Claim(1.0, 0.0, EDGE, exposes=("degrees", "dense"))
    model = Looped(train, releases=("degrees", "dense"), events=PureDpEvent(1.0))
    outcome = differential(Setting(Case(model, claim), GRAPH, None, Key("two")))
    return judge(claim, [], [dataclasses.replace(bound, covers=outcome.covers) for bound in outcome.bounds])


def test_the_verdict_says_why_nothing_is_known_of_one_array_beside_noisy_ones():
    verdict = verdict_on(whether_dense(coin=True))
    assert verdict.kind == "inconclusive"
    assert "changes 'dense'" in verdict.sentence
    assert "the smallest detectable violation in dense is unknown" in verdict.sentence


def test_a_bit_that_one_edge_changes_where_others_are_absent_is_refuted_without_limit():
    """No single edge of the whole graph changes the bit."""
    verdict = verdict_on(whether_dense(coin=False))
    assert verdict.kind == "refuted"
    assert "with the same change of" in verdict.sentence
    assert "changes 1 entry of 'dense'" in verdict.sentence
