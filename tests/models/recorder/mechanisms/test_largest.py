"""The probabilities of the largest of several noisy numbers."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from gnnaudit.models.recorder.mechanisms.largest import chances_of_largest

SCORES = np.array([0.3, -1.2, 4.0, 3.7, -20.0])
LAWS = {"laplace": stats.laplace, "normal": stats.norm}


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0, 50.0, 400.0])
def test_of_two_laplace_numbers_it_is_the_law_of_their_difference(gap):
    lower = chances_of_largest("laplace", np.array([7.0, 7.0 + gap]))[0]
    assert lower == pytest.approx(np.exp(-gap) * (1 + gap / 2) / 2, rel=1e-10)


@pytest.mark.parametrize("gap", [0.0, 0.5, 3.0, 20.0, 40.0])
def test_of_two_normal_numbers_it_is_the_law_of_their_difference(gap):
    lower = chances_of_largest("normal", np.array([gap, 0.0]))[1]
    assert lower == pytest.approx(stats.norm.sf(gap / np.sqrt(2)), rel=1e-10)


@pytest.mark.parametrize("law", LAWS)
def test_of_several_numbers_it_is_the_integral_by_another_quadrature(law):
    def density(x, k):
        others = np.delete(SCORES, k)
        return np.exp(LAWS[law].logpdf(x - SCORES[k]) + LAWS[law].logcdf(x - others).sum())

    found = chances_of_largest(law, SCORES)
    for k, chance in enumerate(found):
        parts = np.sort([-60.0, *SCORES, *(SCORES[k] + SCORES) / 2, 60.0])
        truth = sum(integrate.quad(density, *part, args=(k,), epsabs=0, epsrel=1e-11)[0] for part in pairwise(parts))
        assert chance == pytest.approx(truth, rel=1e-8)
    assert found.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("law", LAWS)
def test_rows_are_computed_one_by_one_and_match_samples(law):
    rows = np.stack([SCORES, SCORES[::-1]])
    found = chances_of_largest(law, rows)
    assert np.array_equal(found[1], chances_of_largest(law, rows[1]))
    drawn = LAWS[law].rvs(size=(200_000, 5), random_state=1) + SCORES
    seen = np.bincount(drawn.argmax(1), minlength=5) / 200_000
    assert np.abs(seen - found[0]).max() < 5 * np.sqrt(0.25 / 200_000)
