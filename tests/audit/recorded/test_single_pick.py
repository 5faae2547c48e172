"""Noise that is one pick of a whole number with given probabilities, added to a count: its cost is the decay of these."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.accounting.events.types import PureDpEvent
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.storage.store import Store

pytestmark = pytest.mark.usefixtures("thorough")
GRAPH, DECAY, DELTA = load("campus:n=120:degree=6"), 0.7, 1e-6
VALUES = np.arange(-60, 61)


def picked(rng, decay=DECAY):
    """A number n of VALUES with a probability proportional to exp(-decay |n|)."""
    weights = np.exp(-decay * np.abs(VALUES))
    return rng.choice(VALUES, p=weights / weights.sum())


def edges(graph):
    return graph.edges.shape[1]


def within(graph):
    """The number of edges within a class."""
    return int((graph.y[graph.edges[0]] == graph.y[graph.edges[1]]).sum())


def audited(release, tmp_path, epsilon, count=1):
    """The bounds for a function of the graph and a generator. count: how often the ledger charges for DECAY."""

    def train(graph, seed):
        return release(graph, np.random.default_rng(seed))

    names = tuple(release(GRAPH, np.random.default_rng(0)))
    ledger = dp.ComposedDpEvent([PureDpEvent(DECAY)] * count)
    claim = Claim(epsilon, DELTA, Unit.UNDIRECTED_EDGE, exposes=names)
    case = Case(Looped(train, releases=names, events=ledger), claim)
    return AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("pick"), 3, 1e-4)).bounds


def of_two(graph, rng):
    return {"total": edges(graph) + picked(rng), "within": np.array([within(graph) + picked(rng)])}


def beside_its_multiple(graph, rng):
    noisy = int(within(graph) + picked(rng))
    return {"within": noisy, "share": noisy / GRAPH.nodes}


@pytest.mark.parametrize(("release", "count"), [(of_two, 2), (beside_its_multiple, 1)])
def test_counts_with_one_pick_each_cost_the_decay_of_its_probabilities(release, count, tmp_path):
    """At DELTA the truth is smaller than the decay by less than 3 %."""
    bounds = audited(release, tmp_path, 1.001 * count * DECAY, count)
    assert not any(b.refuted for b in bounds)
    strongest = min(bounds, key=lambda b: b.reach)
    assert 0.97 * count * DECAY < strongest.epsilon <= count * DECAY
    assert strongest.reach < 1.05 * count * DECAY


def test_a_pick_with_a_decay_of_twice_the_claim_is_refuted_at_that_decay(tmp_path):
    bounds = audited(lambda graph, rng: {"within": within(graph) + picked(rng, 2 * DECAY)}, tmp_path, 1.001 * DECAY)
    found = max(b.epsilon for b in bounds if b.refuted)
    assert 1.9 * DECAY < found <= 2 * DECAY


def same_for_both(graph, rng):
    noise = picked(rng)
    return {"total": edges(graph) + noise, "within": within(graph) + noise}


def moved_twice(graph, rng):
    noise = picked(rng)
    return {"within": within(graph) + noise, "share": (2 * within(graph) + noise) / GRAPH.nodes}


def exact_beside(graph, rng):
    return {"within": np.array([within(graph) + picked(rng), within(graph)])}


def by_parity(graph, rng):
    return {"within": within(graph) + picked(rng, DECAY * (1 + edges(graph) % 2))}


@pytest.mark.parametrize("release", [same_for_both, moved_twice, exact_beside, by_parity])
def test_a_pick_that_does_not_cover_all_changes_does_not_support_the_claim(release, tmp_path):
    """The pick is in two counts, the count is released beside it, or the number of edges chooses the probabilities."""
    bounds = audited(release, tmp_path, 2.001 * DECAY, 2)
    assert any(b.refuted for b in bounds) or all(np.isinf(b.reach) for b in bounds)


@pytest.mark.parametrize("release", [same_for_both, moved_twice])
def test_two_counts_with_one_pick_are_refuted_at_infinity(release, tmp_path):
    assert any(b.refuted and np.isinf(b.epsilon) for b in audited(release, tmp_path, 2.001 * DECAY, 2))
