"""Leaks past the noise that only some changes of the graph show: even functions of features, labels in a node's own row, features
of absent nodes, one edge of unusual weight, and noise that only nodes with edges have.
"""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, load
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.recorded.secrets.matchings import groups
from gnnaudit.audit.recorded.secrets.worlds import LEAVES
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly
from .votes import counts, released

GRAPH = load("campus:n=120:degree=6")
NOISE, HEAVY, HIDDEN, LONE = 6.0, 10.0, 5.0, 37  # node LONE has edges of weight HEAVY or HIDDEN
DELTA = 1e-5


def outcome(train, unit, ledger, epsilon, delta, folder, releases=("posteriors", "told")):
    case = Case(Looped(train, unit=unit, releases=releases, events=ledger), Claim(epsilon, delta, unit))
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(folder), Key("rows"), 3, 1e-9))


def code(*args, releases=("posteriors", "told")):
    found = outcome(*args, releases=releases)
    bounds = [dataclasses.replace(b, covers=found.covers) for b in found.bounds]
    return judge(Claim(args[3], args[4], args[1], exposes=releases), (), bounds, 1.5).exit_code


def histogram(graph, seed, told):
    """One user's new label moves two counts by 1: epsilon 2 by replacement, 1 by absence."""
    noisy = np.bincount(graph.y[graph.train], minlength=graph.classes) + np.random.default_rng(seed).laplace(0, 1, graph.classes)
    return released(np.tile(noisy, (graph.nodes, 1))) | {"told": noisy if told is None else told}


def plain(graph, seed):
    return histogram(graph, seed, None)


def second_moments(graph, seed):
    """Signs of features: a reflection of all features leaves their products as they are."""
    signs = 2 * np.asarray(graph.x, dtype=float) - np.asarray(graph.x).max() - np.asarray(graph.x).min()
    return histogram(graph, seed, signs.T @ signs)


def mean_of_all(graph, seed):
    return histogram(graph, seed, np.asarray(graph.x).mean(0))


def own_features(graph, seed):
    """Each node's answer is a function of its own features: the user supplies them."""
    return histogram(graph, seed, np.asarray(graph.x).sum(1))


def clamped(graph, seed):
    """The own row of a training node is its label."""
    made = histogram(graph, seed, None)
    made["posteriors"][graph.train] = released(20.0 * np.eye(graph.classes))["posteriors"][graph.y[graph.train]]
    return made


def sharper(graph, seed):
    """The own row of a training node is sharper than that of another node."""
    made = histogram(graph, seed, None)
    return made | released(made["told"] * np.where(graph.train, 0.2, 0.1)[:, None])


def flat(graph, seed):
    made = histogram(graph, seed, None)
    return made | released(made["told"] * np.full((graph.nodes, 1), 0.1))


def own_vote(graph, seed):
    """A training node counts in its own row too, but only in the noisy value."""
    sums = counts(graph) + np.eye(graph.classes)[graph.y] * graph.train[:, None]
    noisy = sums + np.random.default_rng(seed).laplace(0, LEAVES + 1.0, sums.shape)
    return released(noisy) | {"told": noisy}


@pytest.mark.parametrize(("train", "passes"), [(own_vote, True), (sharper, False), *nightly((flat, True))])
def test_an_own_row_that_shows_that_its_node_was_trained_on_is_seen(train, passes, tmp_path):
    assert (code(train, Unit.NODE, PureDpEvent(1.0), 1.0, 0.0, tmp_path) == 0) is passes


@pytest.mark.parametrize(("train", "passes"), [(plain, True), (second_moments, False), (mean_of_all, False)])
def test_of_features_also_even_functions_are_seen(train, passes, tmp_path):
    assert (code(train, Unit.FEATURES, PureDpEvent(2.0), 2.0, 0.0, tmp_path) == 0) is passes


@pytest.mark.parametrize(
    ("train", "passes"), [(own_features, True), (clamped, False), *nightly((plain, True), (mean_of_all, False))]
)
def test_of_nodes_the_features_of_the_absent_and_the_own_labels_are_seen(train, passes, tmp_path):
    assert (code(train, Unit.NODE, PureDpEvent(1.0), 1.0, 0.0, tmp_path) == 0) is passes


def measured(graph, seed, values, noise):
    """An honest histogram and noisy values beside it."""
    random = np.random.default_rng([seed, 1])
    return histogram(graph, seed, np.asarray(values) + random.laplace(0, noise, np.shape(values)))


def signs_of(graph):
    return 2 * np.asarray(graph.x, dtype=float) - np.asarray(graph.x).max() - np.asarray(graph.x).min()


def quiet_moments(graph, seed):
    return measured(graph, seed, signs_of(graph).T @ signs_of(graph), 1e-3)


def quiet_mean(graph, seed):
    return measured(graph, seed, np.asarray(graph.x).mean(0), 1e-5)


def loud_mean(graph, seed):
    """One user moves the mean by less than (max - min) / nodes in each entry, 1 in all, and this noise is far larger."""
    return measured(graph, seed, np.asarray(graph.x).mean(0), 1e4)


EVEN = [(loud_mean, Unit.FEATURES, 2.0, False), (quiet_mean, Unit.NODE, 1.0, True)]


@pytest.mark.parametrize(
    ("train", "unit", "claim", "refuted"),
    [*EVEN, *nightly((quiet_moments, Unit.FEATURES, 2.0, True), (loud_mean, Unit.NODE, 1.0, False))],
)
def test_the_features_of_one_node_are_drawn_anew_too(train, unit, claim, refuted, tmp_path):
    """Truth: the products and the mean move by hundreds of times their noise, or by next to nothing."""
    exit_code = code(train, unit, PureDpEvent(1.01 * claim), 1.01 * claim, 0.0, tmp_path)
    assert exit_code == (1 if refuted else 0)


def all_labels(graph, seed):
    """Two histograms, of the training nodes and of all nodes: each costs 1/2, since a node counts once in each of them."""
    random = np.random.default_rng(seed)
    first = np.bincount(graph.y[graph.train], minlength=graph.classes) + random.laplace(0, 2, graph.classes)
    second = np.bincount(graph.y, minlength=graph.classes) + random.laplace(0, 2, graph.classes)
    return released(np.tile(first, (graph.nodes, 1))) | {"told": second}


def test_an_absent_node_with_another_label_is_two_steps_away(tmp_path):
    found = outcome(all_labels, Unit.NODE, PureDpEvent(1.0), 1.0, 0.0, tmp_path)
    assert not any(b.refuted for b in found.bounds)


def weighted(graph, seed, weight, blocks=1):
    weights = np.where(np.arange(graph.nodes) == LONE, weight, 1.0)
    sums = graph.adjacency() @ (np.eye(graph.classes)[graph.y] * weights[:, None])
    random = np.random.default_rng(seed)
    drawn = [random.standard_normal((rows.size, graph.classes)) for rows in np.array_split(np.arange(graph.nodes), blocks)]
    sums = sums + NOISE * (np.concatenate(drawn) if blocks > 1 else drawn[0])
    return released(sums) | {"told": sums}


def one_heavy(graph, seed):
    return weighted(graph, seed, HEAVY)


def none_heavy(graph, seed):
    return weighted(graph, seed, 1.0)


def test_an_edge_that_moves_a_sum_much_farther_than_all_others_is_among_those_that_are_tried(tmp_path):
    """Truth: the edge moves one row by HEAVY and another by 1."""
    ledger, claim = dp.GaussianDpEvent(NOISE / 2**0.5), float(epsilon_of(2**0.5 / NOISE, DELTA))
    found = outcome(one_heavy, Unit.UNDIRECTED_EDGE, ledger, claim, DELTA, tmp_path)
    truth = float(epsilon_of((HEAVY**2 + 1) ** 0.5 / NOISE, DELTA))
    assert max(b.epsilon for b in found.bounds if b.refuted) == pytest.approx(truth, rel=1e-3)
    assert code(none_heavy, Unit.UNDIRECTED_EDGE, ledger, claim, DELTA, tmp_path) == 0


def hidden_among_others(graph, seed):
    """A weight of 5 in rows of 6 edges: no row stands out by its mean."""
    return weighted(graph, seed, HIDDEN)


def in_blocks(graph, seed):
    """The recorder does not follow joined noise, but finds it in the release."""
    return weighted(graph, seed, HIDDEN, blocks=4)


def ordinary_blocks(graph, seed):
    return weighted(graph, seed, 1.0, blocks=4)


@pytest.mark.parametrize(("train", "loud"), [(hidden_among_others, True), (in_blocks, True), (ordinary_blocks, False)])
def test_a_loud_edge_among_ordinary_ones_is_found_by_matchings(train, loud, tmp_path):
    ledger, claim = dp.GaussianDpEvent(NOISE / 2**0.5), float(epsilon_of(2**0.5 / NOISE, DELTA))
    found = outcome(train, Unit.UNDIRECTED_EDGE, ledger, claim, DELTA, tmp_path)
    truth = float(epsilon_of((HIDDEN**2 + 1) ** 0.5 / NOISE, DELTA))
    refuted = [b.epsilon for b in found.bounds if b.refuted]
    assert refuted == ([pytest.approx(truth, rel=1e-3)] if loud else [])
    assert loud or code(train, Unit.UNDIRECTED_EDGE, ledger, claim, DELTA, tmp_path) == 0


@pytest.mark.parametrize("most", [24, 3])
def test_each_edge_is_in_one_group_and_the_groups_are_matchings_where_degrees_are_small(most):
    few = GRAPH.edges[:, np.random.default_rng(0).permutation(GRAPH.edges.shape[1])[:200]]
    found = groups(dataclasses.replace(GRAPH, edges=few), np.random.default_rng(0), most)
    assert sorted(np.concatenate(found)) == list(range(200))
    assert len(found) <= most
    assert all(np.unique(few[:, some]).size == 2 * some.size for some in found) is (most == 24)


def of_the_connected(graph, seed):
    """A node that loses its last edge has a row of zeros."""
    noise = NOISE * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes)) * (graph.degree > 0)[:, None]
    return released(counts(graph) + noise)


def of_all(graph, seed):
    return released(counts(graph) + NOISE * np.random.default_rng(seed).standard_normal((graph.nodes, graph.classes)))


@pytest.mark.parametrize(("train", "passes"), [(of_all, True), (of_the_connected, False)])
def test_noise_that_vanishes_with_the_last_edge_of_a_node_is_seen(train, passes, tmp_path):
    ledger, claim = dp.GaussianDpEvent(NOISE / 2**0.5), float(epsilon_of(2**0.5 / NOISE, DELTA))
    args = (train, Unit.UNDIRECTED_EDGE, ledger, claim, DELTA, tmp_path)
    assert (code(*args, releases=("posteriors",)) == 0) is passes
