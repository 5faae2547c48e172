"""Exact epsilons against closed forms; two computations that disagree give no certificate."""

import math

import pytest

from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.findings import certificate, exact_epsilons


def test_two_computations_that_disagree_give_no_certificate():
    with pytest.raises(ValueError, match="agree"):
        certificate.confirmed(Claim(1.0, 0.0), {"one": 2.0, "other": 2.1}, "", certificate.Figure("x", "y", {}))


@pytest.mark.nightly
def test_a_mixture_of_one_gaussian_costs_that_gaussian():
    found = exact_epsilons.mixture([1.0], [1.0], 2.0, 1, 1e-5)
    assert found[exact_epsilons.LIBRARY] == pytest.approx(float(epsilon_of(0.5, 1e-5)), rel=2e-3)
    assert found[exact_epsilons.PRV] == pytest.approx(float(epsilon_of(0.5, 1e-5)), rel=2e-3)


def test_coin_flips_at_delta_zero_cost_their_log_odds():
    found = exact_epsilons.coin_flips(0.75, 0.25, 3, 0.0)
    assert found[exact_epsilons.CLOSED] == pytest.approx(3 * math.log(3))
