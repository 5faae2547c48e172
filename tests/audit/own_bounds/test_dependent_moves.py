"""Moves of one run add up only if they are the same along runs whose noisy values tell most about the secret."""

import itertools

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, PureDpEvent, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

from ...nightly import nightly

GRAPH = load("campus:n=120:degree=6")
PICKS, SCALE = 3, 4.0


def scores(graph):
    return np.bincount(graph.y[graph.train], minlength=graph.classes) / SCALE


RAREST = int(scores(GRAPH).argmin())


def log_chance(order, own):
    """The log probability that the exponential mechanism picks these classes in this order, without replacement."""
    rest, total = list(range(len(own))), 0.0
    for k in order:
        total += own[k] - np.logaddexp.reduce(own[rest])
        rest.remove(k)
    return total


def true_epsilon():
    """By enumeration of all orders, over the classes of the node that leaves."""
    before = scores(GRAPH)
    without = [before - np.eye(GRAPH.classes)[k] / SCALE for k in range(GRAPH.classes)]
    orders = list(itertools.permutations(range(GRAPH.classes), PICKS))
    return max(abs(log_chance(o, before) - log_chance(o, after)) for o in orders for after in without)


def picks(graph, seed):
    """Three classes, one after the other, each by the exponential mechanism among those that are left."""
    rng, rest, chosen = np.random.default_rng(seed), list(range(graph.classes)), []
    for _ in range(PICKS):
        k = int(np.argmax(scores(graph)[rest] + rng.gumbel(size=len(rest))))
        chosen.append(rest.pop(k))
    posteriors = np.full((graph.nodes, graph.classes), -5.0)
    posteriors[:, chosen] = -np.arange(PICKS)
    return {"posteriors": posteriors, "chosen": np.array(chosen, dtype=float)}


def rare(scale, handicap):
    """A class by the exponential mechanism; if it is the rarest class of GRAPH, also its size with Laplace noise of this scale.
    handicap: a public number by which this class has a lower score.
    """

    def train(graph, seed):
        rng, own = np.random.default_rng(seed), 4 * scores(graph) - handicap * (np.arange(graph.classes) == RAREST)
        k = int(np.argmax(own + rng.gumbel(size=len(own))))
        size = SCALE * scores(graph)[k] * (k == RAREST) + rng.laplace(0, scale, size=1)
        return {"posteriors": np.zeros((graph.nodes, graph.classes)) + size, "chosen": np.array([k], dtype=float)}

    return train


def audited(train, claim, tmp_path, key):
    case = Case(Looped(train, unit=Unit.NODE, releases=("posteriors", "chosen")), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), key, 3, 1e-4)).bounds


@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 8))])
def test_a_class_that_was_picked_is_not_picked_again(seed, tmp_path):
    """Each pick alone costs up to 0.25, and a run in which the node's class is not picked seems to cost 0.73."""
    truth = true_epsilon()
    assert 0.5 < truth < 0.55
    bounds = audited(picks, Claim(1.02 * truth, 0.0, Unit.NODE), tmp_path, Key("p", seed))
    assert not any(b.refuted for b in bounds)
    assert max(b.epsilon for b in bounds) <= truth


def test_a_claim_below_what_one_pick_costs_is_refuted(tmp_path):
    bounds = audited(picks, Claim(0.2, 0.0, Unit.NODE), tmp_path, Key("p", 5))
    assert any(b.refuted for b in bounds)
    assert 0.2 < max(b.epsilon for b in bounds) <= true_epsilon()


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize(("scale", "detects"), [(0.05, False), (20.0, True)])
def test_a_leak_behind_a_rare_pick_leaves_no_reach(scale, detects, tmp_path):
    """The rarest class is practically never picked. Its size with noise of scale 0.05 costs 20; with scale 20, 0.05."""
    bounds = audited(rare(scale, 40.0), Claim(1.2, 0.0, Unit.NODE), tmp_path, Key("rare"))
    assert any(np.isfinite(b.reach) or b.refuted for b in bounds) == detects


@pytest.mark.usefixtures("thorough")
def test_a_leak_behind_a_pick_that_is_rare_on_this_graph_alone_is_refuted_on_another(tmp_path):
    """A class of one node less costs at most 4 / SCALE by the pick, and 1 / 0.05 by its size."""
    own = 4 * scores(GRAPH)
    assert np.exp(own[RAREST] - np.logaddexp.reduce(own)) < 1e-4
    bound = max(audited(rare(0.05, 0.0), Claim(1.2, 0.0, Unit.NODE), tmp_path, Key("rare")), key=lambda b: b.epsilon)
    assert bound.refuted
    assert 20 * 0.999 < bound.epsilon <= 20 + 4 / SCALE


def hubs(graph, seed):
    """Three nodes of large degree, each at a cost of at most 0.5, and then their degrees, at a cost of 2 / 4."""
    rng, scores, chosen = np.random.default_rng(seed), graph.degree.astype(float), []
    for _ in range(3):
        chosen.append(int(np.argmax(scores + rng.gumbel(0, 2.0, graph.nodes))))
        scores[chosen[-1]] = -np.inf
    return {"hubs": np.array(chosen, dtype=float), "degrees": graph.degree[chosen] + rng.laplace(0, 4.0, 3)}


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("seed", [0, *nightly(*range(1, 6))])
def test_no_run_in_which_a_node_is_picked_twice_counts_against_an_honest_selection(seed, tmp_path):
    events = dp.ComposedDpEvent([dp.SelfComposedDpEvent(PureDpEvent(0.5), 3), dp.LaplaceDpEvent(2.0)])
    case = Case(Looped(hubs, releases=("hubs", "degrees"), events=events), Claim(2.0, 0.0))
    outcome = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("h", seed), 3, 1e-4))
    bound = max(outcome.bounds, key=lambda b: b.epsilon)
    assert 1.0 < bound.epsilon <= 2.0
    assert 2.0 <= bound.reach < 3.5
    assert outcome.covers.keys() == {"hubs", "degrees"}
