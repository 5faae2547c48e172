"""Alpha is divided before looking; many looks are not many chances."""

import math

import numpy as np
import pytest

from gnnaudit.accounting.multiplicity import average, divide, holm, spend


def test_the_looks_of_a_plan_share_alpha():
    assert divide(0.05, 10) == pytest.approx(0.005)
    with pytest.raises(ValueError, match="looks=0"):
        divide(0.05, 0)
    with pytest.raises(ValueError, match="alpha=2"):
        divide(2, 1)


def test_endless_repetitions_spend_no_more_than_alpha():
    spent = sum(spend(0.05, t) for t in range(1, 200_000))
    assert 0.0499 < spent < 0.05
    with pytest.raises(ValueError, match="counted from 1"):
        spend(0.05, 0)


def test_averaged_e_values_keep_their_promise_under_full_dependence():
    draw = np.random.default_rng(0)
    e = np.exp(draw.standard_normal(100_000) - 0.5)  # mean 1: a fair bet
    same = np.array([average([x, x, x]) for x in e[:1000]])
    assert same == pytest.approx(e[:1000])
    assert (e >= 20).mean() <= 0.05
    with pytest.raises(ValueError, match="none negative"):
        average([-1.0])


def test_holm_refutes_what_the_textbook_example_refutes():
    p = [0.01, 0.04, 0.03, 0.005]  # thresholds 0.0125, 0.0167, 0.025, 0.05 in ascending order of p
    assert holm(p, 0.05).tolist() == [True, False, False, True]
    assert holm([], 0.05).tolist() == []


def test_holm_refutes_a_true_claim_in_at_most_a_share_alpha_of_plans():
    draw = np.random.default_rng(1)
    p = draw.random((20_000, 5))
    p[:, 3:] *= 1e-4  # two false claims beside three true ones
    wrong = np.mean([holm(row, 0.05)[:3].any() for row in p])
    assert wrong < 0.05 + 5 * math.sqrt(0.05 * 0.95 / 20_000)
    assert np.mean([holm(row, 0.05)[3:].all() for row in p[:500]]) == 1
