"""LPGNN: the encoder's coins, its rectified values and variance, the number of bits, and randomised response."""

import math

import numpy as np
import pytest

from gnnaudit.accounting.gaussian import mu_of
from gnnaudit.accounting.upper.exact import epsilon as closed_form
from gnnaudit.models.lpgnn import published as paper


@pytest.mark.parametrize(
    ("epsilon", "dim", "bits", "at_0", "at_1", "low", "high", "variance"),
    [
        (0.01, 1433, 1, 0.49750002, 0.50249998, -143300.694, 143301.694, 14330238.58),
        (0.1, 1433, 1, 0.47502081, 0.52497919, -14341.4397, 14342.4397, 143538.643),
        (1, 1433, 1, 0.26894142, 0.73105858, -1549.972621, 1550.972621, 1677.3253),
        (1, 500, 1, 0.26894142, 0.73105858, -540.488353, 541.488353, 585.0868),
        (3, 1433, 1, 0.04742587, 0.95257413, -791.083033, 792.083033, 437.0171),
        (5, 500, 2, 0.07585818, 0.92414182, -146.856372, 147.856372, 86.6056),
        (10, 500, 4, 0.07585818, 0.92414182, -73.178186, 74.178186, 43.1778),
    ],
)
def test_encoder(epsilon, dim, bits, at_0, at_1, low, high, variance):
    """The variance column of small budgets is per feature in units of dim; it is checked against the definition as well."""
    assert paper.bit_probability(0.0, epsilon, bits) == pytest.approx(at_0, abs=5e-9)
    assert paper.bit_probability(1.0, epsilon, bits) == pytest.approx(at_1, abs=5e-9)
    assert paper.bit_probability(0.5, epsilon, bits) == pytest.approx(0.5, abs=1e-15)
    assert paper.rectified(-1, dim, epsilon, bits) == pytest.approx(low, rel=1e-8)
    assert paper.rectified(1, dim, epsilon, bits) == pytest.approx(high, rel=1e-8)
    assert paper.rectified(0, dim, epsilon, bits) == 0.5
    assert paper.rectified_variance(0.0, dim, epsilon, bits) == pytest.approx(variance, rel=1e-6)
    p = paper.bit_probability(0.0, epsilon, bits)
    values = np.array([paper.rectified(s, dim, epsilon, bits) for s in (-1, 0, 1)])
    weights = np.array([(1 - p) * bits / dim, 1 - bits / dim, p * bits / dim])
    mean = weights @ values
    assert mean == pytest.approx(0.0, abs=1e-9 * dim / epsilon)
    assert weights @ (values - mean) ** 2 == pytest.approx(variance, rel=1e-6)


def test_one_bit_for_every_feature():
    assert paper.bit_probability(1.0, 1.0, 1433) == pytest.approx(0.5001744592, abs=5e-11)
    assert paper.rectified(1, 1433, 1.0, 1433) - 0.5 == pytest.approx(1433.0001, abs=5e-5)
    assert paper.rectified_variance(0.0, 1433, 1.0, 1433) == pytest.approx(2053488.92, rel=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "dim", "printed", "best"),
    [
        (1, 500, 1, 1),
        (3, 500, 1, 1),
        (3.1, 500, 1, 2),
        (4, 500, 1, 2),
        (4.36, 500, 2, 2),
        (5, 500, 2, 2),
        (6, 500, 2, 3),
        (8, 500, 3, 4),
        (10, 500, 4, 5),
        (16, 500, 7, 7),
        (32, 500, 14, 15),
        (100, 500, 45, 46),
        (100, 10, 10, 10),
    ],
)
def test_number_of_sampled_features(epsilon, dim, printed, best):
    assert paper.bits_printed(epsilon, dim) == printed
    assert paper.bits_best(epsilon, dim) == best
    by_brute_force = min(range(1, dim + 1), key=lambda m: paper.rectified_variance(0.5, dim, epsilon, m))
    assert paper.bits_best(epsilon, dim) == by_brute_force


def test_where_one_bit_gives_way_to_two_and_two_to_three():
    for at, fewer in ((3.0571418389619978, 1), (5.319868393300416, 2)):
        assert paper.bits_best(at - 1e-9, 500) == fewer
        assert paper.bits_best(at + 1e-9, 500) == fewer + 1


def test_the_printed_rule_costs_a_third_more_variance_at_worst():
    ratio = paper.rectified_variance(0.5, 500, 4.35, 1) / paper.rectified_variance(0.5, 500, 4.35, 2)
    assert ratio == pytest.approx(1.334, abs=6e-4)
    assert math.sinh(paper.OPTIMUM) == pytest.approx(2 * paper.OPTIMUM, rel=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "classes", "kept", "other"),
    [
        (1, 7, 0.311791, 0.1147015),
        (1, 3, 0.57611688, 0.21194156),
        (2, 10, 0.45085306, 0.06101633),
        (0.5, 4, 0.35466124, 0.21511292),
    ],
)
def test_randomised_response(epsilon, classes, kept, other):
    p, q = paper.response_probabilities(epsilon, classes)
    assert p == pytest.approx(kept, abs=6e-7)
    assert q == pytest.approx(other, abs=6e-8)
    assert p + (classes - 1) * q == pytest.approx(1)
    assert paper.response_epsilon(p, classes) == pytest.approx(epsilon)


def test_a_user_spends_the_sum():
    from gnnaudit.accounting import events

    ledger = events.composed(events.multi_bit(5.0, 2), events.randomised_response(1.5, 7))
    assert closed_form(ledger, 0.0) == pytest.approx(paper.lpgnn_epsilon(5.0, 1.5), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.1, 54.206296), (1, 5.867778), (2, 3.025794), (3, 2.062253)])
def test_analytic_gaussian_of_the_baseline(epsilon, sigma):
    assert 1 / float(mu_of(epsilon, 1e-10)) == pytest.approx(sigma, rel=1e-6)
