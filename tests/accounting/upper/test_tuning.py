"""The cost of choosing among trainings, against closed forms, dp_accounting, enumeration and simulation."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import _gamma_truncated_negative_binomial as stopping
from scipy import stats

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.events.types import FiniteDpEvent, PureDpEvent
from gnnaudit.accounting.upper import exact, rdp
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.accounting.upper.tuning import SELECTIONS, tuned

RANDOM = [name for name, shape in SELECTIONS.items() if shape is not None]
ORDERS = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0)


@pytest.mark.parametrize("selection", RANDOM)
@pytest.mark.parametrize(("sigma", "mean"), [(1.0, 10.0), (5.0, 3.0), (0.7, 200.0), (2.0, 1.0)])
def test_the_curve_of_a_gaussian_is_that_of_dp_accounting(selection, sigma, mean):
    event = tuned(dp.GaussianDpEvent(sigma), mean, selection)
    library = RdpAccountant(list(ORDERS)).compose(event).rdp
    assert rdp.curve(event, orders=ORDERS) == pytest.approx(np.array(library), rel=1e-7)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("stop", [1e-4, 0.1, 0.5, 0.99])
def test_the_stopping_chance_gives_the_mean_of_the_distribution(shape, stop):
    k = np.arange(1, 400_000)
    if shape:
        weight = np.exp(stats.nbinom.logpmf(k, shape, stop))
    else:
        weight = np.exp(stats.logser.logpmf(k, 1 - stop))
    mean = float((k * weight).sum() / weight.sum())
    assert stopping(shape, mean) == pytest.approx(stop, rel=1e-6)


@pytest.mark.parametrize(("selection", "times"), [("logarithmic", 2), ("geometric", 3)])
def test_a_pure_mechanism_costs_two_or_three_times_as_much_however_many_trainings(selection, times):
    for mean in (2, 10, 1000):
        event = tuned(PureDpEvent(0.7), mean, selection)
        assert exact.epsilon(event, 0.0) == pytest.approx(times * 0.7)
        assert rdp.epsilon(event, 1e-9, orders=(2.0, 10.0, 1e4, 1e6)) <= times * 0.7 * 1.01


def generating(selection, mean, s):
    """E[s^K], from the definition of each distribution."""
    if selection == "fixed":
        return s**mean
    if selection == "poisson":
        return np.exp(mean * (s - 1))
    g = stopping(SELECTIONS[selection], mean)
    if selection == "geometric":
        return g * s / (1 - (1 - g) * s)
    return np.log(1 - (1 - g) * s) / np.log(g)


def best_of(pmf, selection, mean):
    """The exact distribution of the best of K draws from outcomes that are sorted from worst to best; the last is "nothing"."""
    below = generating(selection, mean, np.concatenate([[0.0], np.cumsum(pmf)]))
    return np.append(np.diff(below), below[0])


PAIR = FiniteDpEvent((0.5, 0.3, 0.2), (0.3, 0.3, 0.4))


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("mean", [2, 5, 20])
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_no_bound_is_below_the_enumerated_epsilon_of_the_best_training(selection, mean, delta):
    sides = [best_of(np.array(side), selection, mean) for side in (PAIR.upper, PAIR.lower)]
    truth = exact.finite_epsilon(FiniteDpEvent(*(tuple(side) for side in sides)), delta)
    bound = tightest(upper(tuned(PAIR, mean, selection), delta))
    assert bound is not None
    assert bound.epsilon is not None
    assert bound.epsilon >= truth
    if selection != "logarithmic" and mean == 20:
        assert truth > exact.finite_epsilon(PAIR, delta)  # the bound of one training would be too small


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.nightly
def test_the_enumeration_agrees_with_simulated_trainings(selection):
    rng = np.random.default_rng(7)
    mean, tries = 4, 40_000
    g = stopping(SELECTIONS[selection], mean) if selection in ("geometric", "logarithmic") else 0.5
    count = {
        "fixed": np.full(tries, mean),
        "poisson": rng.poisson(mean, tries),
        "geometric": rng.geometric(g, tries),
        "logarithmic": rng.logseries(1 - g, tries),
    }[selection]
    found = [rng.choice(3, size=k, p=PAIR.upper).max() if k else 3 for k in count]
    expected = best_of(np.array(PAIR.upper), selection, mean) * tries
    seen = np.bincount(found, minlength=4)
    possible = expected > 1e-9
    assert not seen[~possible].any()
    assert stats.chisquare(seen[possible], expected[possible]).pvalue > 1e-6  # fails once in a million runs


def test_a_fixed_number_of_pure_trainings_costs_exactly_that_many_times_as_much():
    worst_first = best_of(np.array([0.75, 0.25]), "fixed", 5), best_of(np.array([0.25, 0.75]), "fixed", 5)
    truth = exact.finite_epsilon(FiniteDpEvent(*(tuple(side[:2]) for side in worst_first)), 0.0)
    bound = exact.epsilon(tuned(FiniteDpEvent((0.75, 0.25), (0.25, 0.75)), 5), 0.0)
    assert (truth, bound) == (pytest.approx(5 * math.log(3)), pytest.approx(5 * math.log(3)))


def test_a_claim_that_was_tuned_counts_every_training():
    event = dp.GaussianDpEvent(5.0)
    once, chosen = (upper(event, Claim(1.0, 1e-6, tuned_over=n)) for n in (1, 9))
    thrice_the_mu = upper(dp.GaussianDpEvent(5.0 / 3), 1e-6)
    assert tightest(chosen).epsilon == pytest.approx(tightest(thrice_the_mu).epsilon, rel=1e-9)
    assert tightest(once).epsilon < tightest(chosen).epsilon


@pytest.mark.parametrize(
    ("over", "selection", "message"),
    [
        (0, "fixed", "tuned_over=0: must be at least 1"),
        (math.nan, "geometric", "must be at least 1"),
        (math.inf, "geometric", "must be at least 1"),
        (2.5, "fixed", "whole number"),
        (2, "grid", "selection='grid': must be one of fixed, logarithmic, geometric, poisson"),
    ],
)
def test_a_wrong_number_or_selection_is_refused(over, selection, message):
    with pytest.raises(ValueError, match=message):
        tuned(PureDpEvent(1.0), over, selection)


def test_an_accountant_without_a_theorem_on_selection_declines():
    rows = {row.accountant: row for row in upper(RepeatAndSelectDpEvent(dp.GaussianDpEvent(3.0), 10.0, 1.0), 1e-6)}
    assert rows["dp_accounting-rdp"].epsilon is not None
    for name in ("dp_accounting-pld", "autodp-rdp", "opacus-rdp", "opacus-prv", "exact"):
        assert rows[name].epsilon is None
        assert rows[name].unsupported
