"""Numbers at the ends of their ranges: nothing overflows, divides by zero or is silently rounded."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent

from gnnaudit import Claim, PureDpEvent, upper
from gnnaudit.accounting.checks.independence import separate_draws
from gnnaudit.accounting.closed_forms import argmax_error_probability, noisy_argmax_epsilon
from gnnaudit.accounting.events.language import ledger
from gnnaudit.accounting.lower.detection.power import rounds_needed
from gnnaudit.accounting.lower.residuals import Moves

HARDLY = GaussianDpEvent(1e-300)


@pytest.mark.parametrize("scale", [0.02, 0.005, 1.0, 40.0])
def test_the_error_of_a_noisy_label_of_two_classes_is_that_of_a_difference_of_laplace_variables(scale):
    """P(L1 - L2 > 1) = e^(-1/b) (2 + 1/b) / 4"""
    expected = math.exp(-1 / scale) * (2 + 1 / scale) / 4
    assert argmax_error_probability(2, scale) == pytest.approx(expected, rel=1e-12)
    assert noisy_argmax_epsilon(2, scale) == pytest.approx(math.log1p(-expected) - math.log(expected), rel=1e-12)


def test_a_label_with_hardly_any_noise_has_no_finite_epsilon():
    assert noisy_argmax_epsilon(3, 1e-3) == math.inf


def test_a_pure_mechanism_beyond_the_largest_float_keeps_its_epsilon():
    found = [u.epsilon for u in upper(PureDpEvent(710.0), Claim(800.0, 1e-5)) if u.is_upper_bound and u.epsilon is not None]
    assert min(found) == pytest.approx(710, rel=1e-6)


@pytest.mark.parametrize("noise", [1e-5, 1e-7, 1e-15, 1e-150, 1e-300])
def test_hardly_any_gaussian_noise_costs_no_less_than_its_curve_without_a_warning(noise, recwarn):
    """Half of mu squared is less than the epsilon at every delta below one half."""
    found = [u for u in upper(GaussianDpEvent(noise), 1e-5, stored=False) if u.accountant == "exact"]
    assert found[0].epsilon >= 0.5 / noise**2 if noise > 1e-150 else found[0].epsilon > 1e299
    assert not recwarn.list


@pytest.mark.parametrize(
    "event", [LaplaceDpEvent(1e300), PoissonSampledDpEvent(1e-300, GaussianDpEvent(1.0)), PoissonSampledDpEvent(0.01, HARDLY)]
)
def test_numbers_at_the_ends_of_their_ranges_are_no_reason_to_warn(event, recwarn, caplog):
    assert all(u.epsilon is None or u.epsilon < 1 for u in upper(event, 1e-5, stored=False))
    assert not recwarn.list
    assert not caplog.records


def test_channels_that_never_vary_share_no_draws():
    assert separate_draws(np.ones((100, 5, 2))).how == "checked"


def test_randomised_response_needs_a_whole_number_of_categories():
    with pytest.raises(ValueError, match=r"categories=2\.5"):
        ledger("randomized_response(1, 2.5)", {})


@pytest.mark.parametrize("method", ["likelihood-ratio", "gate", "any"])
def test_no_number_of_rounds_detects_a_violation_of_an_infinite_claim(method):
    assert rounds_needed(Claim(math.inf, 1e-5), 2.0, method=method) is None


def test_a_secret_that_moves_nothing_costs_nothing():
    still = Moves(0.0, np.zeros(3), 0.1)
    assert still.epsilon(1.0, 1e-5) == 0
    assert still.factor(Claim(1.0, 1e-5)) == math.inf
