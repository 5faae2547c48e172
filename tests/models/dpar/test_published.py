"""DPAR: the epsilons that its code prints, and the correct epsilons of the same steps."""

import math

import pytest

from gnnaudit.accounting import closed_forms
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.models.dpar import published as paper

ROW = {"clip": 0.01, "delta": 1e-4}


@pytest.mark.parametrize(
    ("sigma", "row", "reported", "exact_clip", "exact_wide"),
    [
        (0.15082, 0.2879997549329512, 1.1312639492333951, 0.138, 0.292),
        (0.08104, 0.5359837492471335, 2.20605332665059, 0.580, 1.494),
        (0.05619, 0.7730222000353748, 3.263939895337362, 1.576, 3.781),
        (0.04326, 1.004, 4.3140, 3.095, 6.618),
        (0.02590, 1.677, 7.4429, 9.152, 17.25),
        (0.0067, 6.4830034, 31.0471628, 102.1, 191.4),
    ],
)
def test_gaussian_rows(sigma, row, reported, exact_clip, exact_wide):
    found = paper.gaussian_row_epsilon(sigma, **ROW)
    digits = 1e-6 if row > 1e-4 and len(str(row)) > 8 else 6e-4
    assert found == pytest.approx(row, rel=digits)
    printed, delta = paper.page_rank_printed(found, 70, 1e-4, 0.09)
    assert printed == pytest.approx(reported, rel=1e-9 if len(str(reported)) > 12 else 1e-4)
    assert delta == pytest.approx(1.26e-3)
    for widening, truth in ((1.0, exact_clip), (math.sqrt(2), exact_wide)):
        whole = float(epsilon_of(math.sqrt(70) * widening * 0.01 / sigma, 0.014))
        assert closed_forms.amplified(whole, 0.09) == pytest.approx(truth, rel=5e-3)


def test_default_gaussian_rows_match_the_log_of_the_official_code():
    row = paper.gaussian_row_epsilon(0.0067, **ROW)
    assert row == pytest.approx(6.4830034, abs=5e-8)
    assert paper.rows_epsilon(row, 70, 1e-4) == pytest.approx(344.96848, abs=5e-6)
    assert paper.page_rank_printed(row, 70, 1e-4, 0.09)[0] == pytest.approx(31.0471627630, abs=2e-8)


@pytest.mark.parametrize(
    ("picks", "epsilon", "values", "row", "reported"),
    [
        (2, 0.1, -1, 0.4, 1.6114374260289024),
        (2, 0.1, 0, 0.2, 0.7625756857422751),
        (2, 0.3, -1, 1.2, 5.215519904382876),
        (2, 1.3, -1, 5.2, 24.6153910),
        (2, 1.3, 0, 2.6, 11.8433496),
        (4, 1.3, -1, 10.4, 51.0138568),
        (4, 1.3, 0, 5.2, 24.6153910),
    ],
)
def test_exponential_rows(picks, epsilon, values, row, reported):
    found = paper.exponential_row_epsilon(epsilon, picks, 1e-4, values)
    assert found == pytest.approx(row, rel=1e-12)
    assert paper.page_rank_printed(found, 70, 1e-4, 0.09)[0] == pytest.approx(reported, rel=1e-8)


@pytest.mark.parametrize(
    ("row", "printed", "optimum"),
    [(0.1, 3.98, 1.93), (0.288, 12.57, 7.97), (0.5, 22.75, 17.58), (1, 47.73, 49.01), (2.6, 131.6, 176.8), (5.2, 273.5, 364.0)],
)
def test_the_corollary_is_loose_below_and_wrong_above(row, printed, optimum):
    assert paper.rows_epsilon(row, 70, 1e-4) == pytest.approx(printed, rel=2e-3)
    failed = -math.expm1(70 * math.log1p(-1e-4))  # Kairouz, Oh and Viswanath, theorem 3.3
    assert closed_forms.composed_pure_epsilon(row, 70, (0.014 - failed) / (1 - failed)) == pytest.approx(optimum, rel=2e-3)


@pytest.mark.parametrize(
    ("records", "inner", "printed"),
    [
        (211, 78.5806412, 7.0722577),
        (208, None, 7.2231226),
        (1287, 22.2736226, 2.0046260),
        (1386, None, 1.9257208),
    ],
)
def test_dp_sgd_as_logged(records, inner, printed):
    if inner is not None:
        assert paper.dp_sgd_unamplified(0.95, records, 60, 200, 0.09) == pytest.approx(inner, abs=5e-7)
    assert paper.dp_sgd_printed(0.95, records, 60, 200, 0.09) == pytest.approx(printed, abs=5e-7)


def test_dp_sgd_amplified_as_it_should_be():
    assert closed_forms.amplified(paper.dp_sgd_unamplified(0.95, 211, 60, 200, 0.09), 0.09) == pytest.approx(76.17, abs=0.005)
    assert closed_forms.amplified(paper.dp_sgd_unamplified(0.95, 1287, 60, 200, 0.09), 0.09) == pytest.approx(19.87, abs=0.005)


def test_dp_sgd_by_privacy_loss_distribution():
    from gnnaudit.accounting import events
    from gnnaudit.accounting.upper.tradeoff import curve

    steps = events.dp_sgd(0.95, 60 / 211, 800)
    whole = curve(steps).epsilon(1e-3 / 0.09)
    assert whole == pytest.approx(69.13, abs=0.01)
    assert closed_forms.amplified(whole, 0.09) == pytest.approx(66.72, abs=0.01)
    assert curve(events.on_sampled_nodes(0.09, steps)).epsilon(1e-3) == pytest.approx(66.72, abs=0.01)


@pytest.mark.parametrize(("printed", "right"), [(0.5, 3.19), (1, 8.70), (2, 19.8), (4, 42.0), (8, 86.5)])
def test_a_sampling_rate_is_not_a_factor(printed, right):
    assert closed_forms.amplified(printed / 0.09, 0.09) == pytest.approx(right, rel=3e-3)
