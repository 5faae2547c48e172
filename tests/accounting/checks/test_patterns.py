"""Repetition in a sequence is found at the stated rate, and not invented in laws with many equal values."""

import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting.checks.patterns import copied, lagged, periodic, repeated

from ...nightly import nightly

LAWS = {
    "normal": lambda draw, n: draw.standard_normal(n),
    "two digits": lambda draw, n: np.round(draw.standard_normal(n), 2),
    "answers": lambda draw, n: (draw.random(n) < 0.3) * 1.0,
    "rare": lambda draw, n: (draw.random(n) < 0.02) * 1.0,
    "counts": lambda draw, n: draw.poisson(2 * np.sqrt(n), n) * 1.0,
    "many atoms": lambda draw, n: draw.integers(0, n, n) * 1.0,
    "heavy tails": lambda draw, n: np.round(draw.standard_t(1, n), 1),
    "cut": lambda draw, n: np.maximum(draw.standard_normal(n), 0.0),
}


@pytest.mark.parametrize("n", [9, 300, *nightly(40)])
@pytest.mark.parametrize("name", LAWS)
def test_independent_draws_are_rejected_no_more_often_than_the_level_says(name, n):
    """400 sequences at a level of 1 %: over 20 fail once in ten million."""
    draw, bits = np.random.default_rng(n), np.zeros(n, dtype=bool)
    rejected = np.zeros(4)
    for _ in range(400):
        x = LAWS[name](draw, n)
        e = x - x.mean() if name != "heavy tails" else np.sign(x - np.median(x))
        rejected += np.array([lagged(e), periodic(np.sign(draw.random(n) - 0.5)), repeated(x, bits), copied(x, bits)]) < 0.01
    assert rejected.max() <= 20


@pytest.mark.parametrize("copies", [2, 3, 5])
@pytest.mark.parametrize("name", ["normal", "two digits", "many atoms"])
def test_rows_that_were_copied_are_found_in_any_order(name, copies):
    for seed in range(10):
        draw = np.random.default_rng(seed)
        x = LAWS[name](draw, 500)
        assert copied(x, np.zeros(500, dtype=bool)) > 1e-4
        assert copied(draw.permutation(np.tile(x, copies)), np.zeros(500 * copies, dtype=bool)) < 1e-4
        if name == "normal":  # half of the rows twice
            assert copied(draw.permutation(np.concatenate([x, x[:250]])), np.zeros(750, dtype=bool)) < 1e-4


def test_a_period_is_found_at_its_lag_and_at_its_frequency():
    draw = np.random.default_rng(0)
    for period in (2, 4, 7, 40):
        x = np.resize(draw.permutation(np.resize([-1.0, 1.0], period)), 400)
        x -= x.mean()
        assert lagged(x) < 1e-4
        assert period in (2, 40) or periodic(x) < 1e-4
    wave = np.sign(np.sin(np.arange(400) / 3) + draw.standard_normal(400))
    assert periodic(wave - wave.mean()) < 1e-4


def test_the_share_of_the_largest_frequency_has_fishers_distribution():
    """Normal noise: the p-value is at most 5 % in 5 % of sequences, less the pairs that the union bound counts twice."""
    draw = np.random.default_rng(1)
    seen = sum(periodic(draw.standard_normal(101)) <= 0.05 for _ in range(2000))
    assert 1e-6 < stats.binom.cdf(seen, 2000, 0.05) < 1 - 1e-6
