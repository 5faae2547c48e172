"""Privacy-loss distributions and the lower bounds of compositions, against closed forms and ratios by hand."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.closed_forms import composed_pure_epsilon
from gnnaudit.accounting.events import tree
from gnnaudit.accounting.events.types import FiniteDpEvent, PureDpEvent
from gnnaudit.accounting.upper import exact, pld, tradeoff
from gnnaudit.accounting.upper.accountants import tightest, upper
from gnnaudit.accounting.upper.pld import epsilon_at_least

from ...nightly import nightly


@pytest.mark.parametrize("delta", [1e-3, 1e-12, 0.0, *nightly(1e-8, 1e-13, 1e-15, 1e-17)])
def test_a_composition_is_not_said_to_cost_more_than_its_closed_form_at_any_delta(delta):
    """n Gaussian mechanisms of mu = 1 / sqrt(n) are one of mu = 1. Its epsilon at 1e-10 is a bound at every smaller delta."""
    for count in (1, 100):
        found = epsilon_at_least(0.0, np.full(count, count**-0.5), 1.0, delta, 5e-4)
        assert found <= float(gaussian.epsilon_of(1.0, delta))
        assert found >= float(gaussian.epsilon_of(1.0, max(delta, 1e-10))) - 0.03


def test_a_sample_of_a_finite_pair_costs_as_much_as_its_worse_order():
    """Either distribution may be that of the unit that is present. Truth: the ratio of the sampled pair, by hand."""
    rare, even, rate = (0.999, 0.001), (0.5, 0.5), 0.1
    truth = math.log(((1 - rate) * 0.001 + rate * 0.5) / 0.001)
    for pair in ((rare, even), (even, rare)):
        ledger = dp.PoissonSampledDpEvent(rate, FiniteDpEvent(*pair))
        rows = [r for r in upper(ledger, 1e-6) if r.epsilon is not None and r.is_upper_bound]
        assert len(rows) >= 2
        assert all(truth - 0.01 < r.epsilon for r in rows), rows
        assert pld.distribution(ledger).get_epsilon_for_delta(1e-6) == pytest.approx(truth, abs=0.01)


def test_a_sample_of_a_pair_that_is_its_own_reverse_costs_the_same_as_before():
    """Control. Truth: the finite pair ((1-q) Q + q P, Q)."""
    rate, high = 0.1, math.e / (1 + math.e)
    pair = FiniteDpEvent((high, 1 - high), (1 - high, high))
    mixed = [(1 - rate) * q + rate * p for p, q in zip(pair.upper, pair.lower, strict=True)]
    truth = exact.finite_epsilon(FiniteDpEvent(tuple(mixed), pair.lower), 1e-3)
    ledger = dp.PoissonSampledDpEvent(rate, pair)
    assert pld.distribution(ledger).get_epsilon_for_delta(1e-3) == pytest.approx(truth, abs=2e-4)


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.01, 10_000, 1e-13), (0.1, 1000, 1e-14)])
def test_a_distribution_is_no_bound_where_rounding_outweighs_delta(epsilon, count, delta):
    """Truth: the closed form of Kairouz, Oh and Viswanath 2015, which randomised response attains. The rounding errors differ
    between processors: they make epsilon too small or several times too large.
    """
    ledger = dp.SelfComposedDpEvent(PureDpEvent(epsilon), count)
    rows = {row.accountant: row for row in upper(ledger, delta)}
    assert rows["dp_accounting-pld"].epsilon != pytest.approx(composed_pure_epsilon(epsilon, count, delta), rel=0.002)
    assert not rows["dp_accounting-pld"].is_upper_bound
    assert "not a bound below delta=" in rows["dp_accounting-pld"].note
    assert tightest(rows.values()).epsilon >= composed_pure_epsilon(epsilon, count, delta)
    assert {row.accountant: row for row in upper(ledger, 1e-9)}["dp_accounting-pld"].is_upper_bound


@pytest.mark.parametrize("delta", [1e-10, *nightly(1e-9, 1e-6)])
@pytest.mark.parametrize(
    ("epsilon", "count", "loose"), [(0.003, 100_000, 1.0), *nightly((0.0015, 200_000, 1.0), (1e-5, 1_000_000, 1.15))]
)
def test_a_lower_bound_of_many_small_mechanisms_is_not_above_their_closed_form(epsilon, count, loose, delta):
    """Truth: Kairouz, Oh and Viswanath 2015. Rounding errors once made 24.66 of 6.18. Losses below the grid are rounded up to it,
    so only RDP limits the last bound.
    """
    ledger = dp.SelfComposedDpEvent(PureDpEvent(epsilon), count)
    truth = composed_pure_epsilon(epsilon, count, delta)
    assert 0.9 * truth < tradeoff.epsilon_at_least(ledger, delta) < loose * truth + 1e-9


@pytest.mark.parametrize("sigma", [1e-320, 1e-200, 1e200])
def test_gaussians_of_any_noise_are_merged(sigma):
    both = dp.ComposedDpEvent([dp.GaussianDpEvent(sigma), dp.GaussianDpEvent(1.0)])
    mu = tree.gaussian_mu(both)
    assert mu is None if 1 / sigma == math.inf else mu == pytest.approx(max(1.0, 1 / sigma))
    assert tree.gaussian_mu(dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 9)) == pytest.approx(1.5)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.7, 40.0])
def test_the_losses_of_laplace_noise_are_those_of_the_library_bit_for_bit(scale):
    ours = pld.distribution(dp.LaplaceDpEvent(scale), interval=1e-3)
    theirs = pld.pld.identity(value_discretization_interval=1e-3).compose(
        pld.pld.from_laplace_mechanism(scale, value_discretization_interval=1e-3)
    )
    for one, other in ((ours._pmf_remove, theirs._pmf_remove), (ours._pmf_add, theirs._pmf_add)):
        dense, expected = one.to_dense_pmf(), other.to_dense_pmf()
        assert (dense._lower_loss, dense._infinity_mass) == (expected._lower_loss, expected._infinity_mass)
        np.testing.assert_array_equal(dense._probs, expected._probs)
