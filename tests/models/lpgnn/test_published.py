"""LPGNN: the number of sampled features, and what a user spends."""

import math

import pytest

from gnnaudit.accounting.upper.exact import epsilon as closed_form
from gnnaudit.models.lpgnn import published as paper


def variance(dim, epsilon, bits):
    """Of the server's estimate of a feature in the middle of its range, which is that middle unless its bit is sent."""
    return bits / dim * (dim / (2 * bits) / math.tanh(epsilon / (2 * bits))) ** 2


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
    by_brute_force = min(range(1, dim + 1), key=lambda m: variance(dim, epsilon, m))
    assert paper.bits_best(epsilon, dim) == by_brute_force


def test_where_one_bit_gives_way_to_two_and_two_to_three():
    for at, fewer in ((3.0571418389619978, 1), (5.319868393300416, 2)):
        assert paper.bits_best(at - 1e-9, 500) == fewer
        assert paper.bits_best(at + 1e-9, 500) == fewer + 1


def test_the_printed_rule_costs_a_third_more_variance_at_worst():
    ratio = variance(500, 4.35, 1) / variance(500, 4.35, 2)
    assert ratio == pytest.approx(1.334, abs=6e-4)
    assert math.sinh(paper.OPTIMUM) == pytest.approx(2 * paper.OPTIMUM, rel=1e-14)


def test_a_user_spends_the_sum():
    from gnnaudit.accounting import events

    ledger = events.composed(events.multi_bit(5.0), events.randomised_response(1.5, 7))
    assert closed_form(ledger, 0.0) == pytest.approx(paper.lpgnn_epsilon(5.0, 1.5), rel=1e-12)
