"""Noise other than Gaussian is judged by its own curve: too small a scale is refuted, an honest one is not."""

import dataclasses

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Looped, load
from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.closed_forms import channel_epsilon
from gnnaudit.accounting.events.types import FiniteDpEvent
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.faults import strangers
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own_bounds.released_noise import from_release
from gnnaudit.audit.recorded import laws
from gnnaudit.audit.recorded.laws import shifted_geometric
from gnnaudit.audit.storage.store import Store
from gnnaudit.reports.evidence import judge

from ...nightly import nightly

GEOMETRIC = (strangers.GeometricCounts, strangers.GeometricForOneCount)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_pair_of_two_sided_geometric_laws_costs_what_all_whole_numbers_cost(steps, delta):
    """All numbers from -200 to 200 one by one, beyond which less than 1e-40 lies."""
    z = np.arange(-200, 201)
    law = np.exp(-0.5 * np.abs(z))
    other = np.exp(-0.5 * np.abs(z - steps))
    table = np.array([law / law.sum(), other / other.sum()])
    pair = shifted_geometric(0.5, steps)
    assert channel_epsilon([pair.upper, pair.lower], delta) == pytest.approx(channel_epsilon(table, delta), rel=1e-9)


def played(model, seed, folder):
    claim = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE, exposes=strangers.Sums.offers)
    return claim, from_release(Setting(Case(model, claim), tiny(48), Store(folder), Key("laws", seed), 1, 1e-9)).bounds


@pytest.mark.parametrize("kind", [strangers.LaplaceSums, strangers.GeometricCounts])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.nightly
def test_honest_noise_of_either_law_is_not_refuted_and_the_smallest_detectable_violation_is_known(kind, seed, tmp_path):
    claim, bounds = played(kind(sigma=1.0), seed, tmp_path)
    assert not any(b.refuted for b in bounds)
    most = 1.05 if kind is strangers.GeometricCounts else 20  # Laplace noise here pays for rows of sixteen equal entries
    assert min(b.notices for b in bounds) < most
    assert judge(claim, (), bounds, most).exit_code == 0


@pytest.mark.parametrize("seed", range(3))
def test_geometric_noise_for_one_of_two_counts_costs_twice_the_claim(seed, tmp_path):
    _, bounds = played(strangers.GeometricForOneCount(sigma=1.0), seed, tmp_path)
    (bound,) = [b for b in bounds if b.refuted]
    assert 1.9 < bound.epsilon <= 2.0


@pytest.mark.parametrize("kind", GEOMETRIC)
def test_a_gaussian_ledger_does_not_pay_for_geometric_noise(kind, tmp_path):
    class Charged(kind):
        ledger = strangers.Sums.ledger

    _, bounds = played(dataclasses.replace(Charged(), sigma=1.0), 0, tmp_path)
    assert all(not b.refuted and np.isinf(b.reach) for b in bounds)


def test_losses_add_up_at_delta_zero():
    """The accountant knows no finite epsilon there, because it cuts off tails."""
    half = np.array([0.7310585786300049, 0.2689414213699951])  # randomised response of epsilon 1
    assert laws.laplace_epsilon([0.5, 0.5], 0.0) == pytest.approx(1.0, rel=3e-4)
    assert laws.reports_epsilon([(half, half[::-1])] * 2, 0.0) == pytest.approx(2.0, rel=3e-4)
    assert laws.laplace_epsilon([0.5, 0.5], 1e-12) <= 1.0
    assert laws.laplace_epsilon([0.5, 0.5], 0.0) <= 1.0


@pytest.mark.parametrize("count", [2, 64, 65, 1000])
def test_no_entry_is_left_out_at_delta_zero(count):
    """Laplace noise of scale 1 on entries that move by 2 / count each costs 2; `count` bits of randomised response add up."""
    half = np.array([0.7310585786300049, 0.2689414213699951])
    assert laws.laplace_epsilon([2 / count] * count, 0.0) == pytest.approx(2.0, rel=3e-4)
    assert laws.reports_epsilon([(half, half[::-1])] * count, 0.0) == pytest.approx(count, rel=3e-4)
    assert laws.laplace_epsilon(2 * 0.99 ** np.arange(count), 0.0) == pytest.approx(200 * (1 - 0.99**count), rel=3e-4)


@pytest.mark.parametrize("delta", [1e-9, *nightly(1e-3)])
def test_equal_moves_are_one_mechanism_composed_with_itself(delta):
    """The truth is the curve of 500 equal Laplace mechanisms, and of 200 equal bits."""
    truth = curve(dp.SelfComposedDpEvent(dp.LaplaceDpEvent(50.0), 500)).epsilon(delta)
    assert truth * 0.98 < laws.laplace_epsilon(0.02 * (1 + 1e-4 * np.arange(500) / 500), delta) < truth
    assert truth * 0.98 < laws.laplace_epsilon([0.01] * 500, delta, 2.0) < truth
    pair = (0.6, 0.4), (0.4, 0.6)
    truth = curve(dp.SelfComposedDpEvent(FiniteDpEvent(*pair), 200)).epsilon(delta)
    assert truth * 0.98 < laws.reports_epsilon([(np.array(pair[0]), np.array(pair[1]))] * 200, delta) < truth


def test_groups_of_moves_lose_no_entry_and_raise_none():
    entries = np.random.default_rng(0).lognormal(size=400)
    groups = laws.grouped(entries)
    below = np.repeat(list(groups), list(groups.values()))
    assert below.size == 400
    assert (below <= np.sort(entries)[::-1]).all()
    assert (below >= 0.99 * np.sort(entries)[::-1]).all()


def test_of_noise_with_too_many_different_moves_no_smallest_violation_is_stated():
    entries = 0.5 * 0.95 ** np.arange(100)
    some = laws.laplace_epsilon(entries, 1e-6)
    assert 0 < some < entries.sum()
    assert laws.laplace_epsilon(entries, 1e-6, 2.0) == 0.0
    assert laws.laplace_epsilon(entries[:60], 1e-6, 2.0) > some


GRAPH = load("campus:n=120:degree=6")
RATE = 0.7
VALUES = np.arange(-40, 41)
CHANCES = np.exp(-RATE * np.abs(VALUES)) / np.exp(-RATE * np.abs(VALUES)).sum()


def edges_by_class(*kinds):
    """The numbers of edges of each class of their first ends, once with each of these kinds of noise."""

    def train(graph, seed):
        rng, counts = np.random.default_rng(seed), np.bincount(graph.y[graph.edges[0]], minlength=graph.classes)
        drawn = {
            "geometric": lambda: rng.geometric(1 - np.exp(-RATE), counts.size) - rng.geometric(1 - np.exp(-RATE), counts.size),
            "choice": lambda: rng.choice(VALUES, size=counts.size, p=CHANCES),
            "laplace": lambda: rng.laplace(0, 1 / RATE, counts.size),
        }
        return {kind: counts + drawn[kind]() for kind in kinds}

    return Looped(train, releases=kinds, events=dp.LaplaceDpEvent(1 / RATE))


@pytest.mark.parametrize(
    ("kinds", "delta"),
    [
        (("geometric", "laplace"), 0.0),
        (("geometric", "laplace"), 1e-6),
        (("choice", "laplace"), 1e-6),
        (("geometric", "choice", "laplace"), 1e-6),
    ],
)
def test_noise_of_several_laws_costs_what_all_of_them_cost_together(kinds, delta, tmp_path):
    """An edge moves one count by 1, which each kind of noise covers at RATE nats. At this delta almost nothing is saved."""
    truth = RATE * len(kinds)
    for claim, refuted in ((truth * 0.97, True), (truth * 1.01, False)):
        case = Case(edges_by_class(*kinds), Claim(claim, delta, Unit.UNDIRECTED_EDGE, exposes=kinds))
        bounds = from_release(Setting(case, GRAPH, Store(tmp_path), Key("together"), 1, 1e-9)).bounds
        assert truth * 0.98 < max(b.epsilon for b in bounds) <= truth
        assert any(b.refuted for b in bounds) is refuted


def test_equal_mechanisms_of_two_laws_count_together():
    """Two-sided geometric noise on a move by one step, and a bit that is flipped with the same odds, cost 0.5 each."""
    geometric = shifted_geometric(0.5, 1)
    bit = FiniteDpEvent(geometric.upper, geometric.lower)
    assert geometric == bit
    assert laws.together({geometric: 1}, {bit: 2}) == {bit: 3}
    assert laws.composed(laws.together({geometric: 1}, {bit: 2}), 0.0) == pytest.approx(1.5, rel=1e-3)
