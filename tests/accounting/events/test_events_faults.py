"""Faults that only an accountant detects: each changes the mechanism or the claim, and epsilon must change with it."""

import math

import dp_accounting as dp
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.accounting.upper import rdp
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.accounting.upper.tradeoff import curve
from gnnaudit.models.gap import published

DELTA = 1e-5


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("GNNAUDIT_CACHE", "off")


def best(ledger):
    return tightest(upper(ledger, DELTA, accountants=("dp_accounting-pld", "dp_accounting-rdp", "exact"))).epsilon


def test_one_stage_less_on_the_ledger_than_was_run():
    assert best(events.gaussian_hops(3.0, 3)) == pytest.approx(float(epsilon_of(math.sqrt(3) / 3, DELTA)))
    assert best(events.gaussian_hops(3.0, 3)) > 1.15 * best(events.gaussian_hops(3.0, 2))


def test_steps_rounded_down_on_the_ledger_and_up_in_the_loader():
    records, batch, epochs = 300, 256, 10
    counted, run = epochs * records // batch, epochs * math.ceil(records / batch)
    assert (counted, run) == (11, 20)
    assert best(events.dp_sgd(2.0, batch / records, run)) > 1.3 * best(events.dp_sgd(2.0, batch / records, counted))


def test_poisson_on_the_ledger_and_a_shuffled_epoch_in_the_loader():
    assert best(events.dp_sgd(1.0, 0.01, 1000)) == pytest.approx(1.83, abs=0.005)
    assert best(events.dp_sgd_fixed(1.0, 10)) == pytest.approx(17.9, abs=0.05)


def test_a_fresh_aggregation_at_every_query_is_more_hops():
    trained, asked = events.gaussian_hops(5.0, 2), events.gaussian_hops(5.0, 2)
    assert best(events.composed(trained, *[asked] * 4)) == pytest.approx(best(events.gaussian_hops(5.0, 10)))


def test_modules_that_see_the_same_people_add_up():
    module = events.gaussian_hops(4.0, 1)
    assert best(events.composed(module, module)) > 1.3 * best(module)


def test_only_answered_queries_charged():
    asked, answered = events.pate(20.0, 1000), events.pate(20.0, 600)
    assert best(asked) > best(answered)


def test_tiny_divergences_are_not_rounded_to_nothing():
    assert float(rdp.curve(events.gaussian_hops(1e5, 1), orders=(2.0,))[0]) == pytest.approx(1e-10)
    assert 0 < best(events.gaussian_hops(1e3, 1)) <= 1.001 * float(epsilon_of(1e-3, DELTA))
    assert curve(events.gaussian_hops(1e5, 1)).delta(0.0) == pytest.approx(1e-5 / math.sqrt(2 * math.pi), rel=1e-6)


def test_epsilon_in_other_units_does_not_fit_its_own_profile():
    ledger = events.dp_sgd(1.0, 0.02, 200)
    epsilon = best(ledger)
    profile = curve(ledger)
    assert float(profile.delta(epsilon)) == pytest.approx(DELTA, rel=1e-3)
    assert float(profile.delta(epsilon / math.log(10))) > 10 * DELTA


def test_amplification_of_the_parts_understates_the_whole():
    parts = events.gaussian(1.0), dp.LaplaceDpEvent(1.0)
    whole = events.on_sampled_nodes(0.1, *parts)
    apart = events.composed(*(dp.PoissonSampledDpEvent(0.1, p) for p in parts))
    assert curve(whole).epsilon(DELTA) > 1.05 * curve(apart).epsilon(DELTA)


def test_a_digit_of_delta_moves_a_published_number():
    assert published.progap_edge_coded(7.038242, 2, 1e-7) == pytest.approx(1.0, rel=1e-4)
    assert published.progap_edge_coded(1.930543, 2, 0.1) == pytest.approx(1.0, rel=1e-4)
