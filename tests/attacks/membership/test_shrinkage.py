"""Shrinkage, against simulated challenges with known parameters, and Bayes' rule by brute force."""

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal

from gnnaudit.attacks.membership.shrinkage import prior_freedom, shrunk

CENTRE, SPREAD, ERROR = np.array([1.0, -2.0]), np.array([[2.0, 1.5], [1.5, 2.0]]), np.array([[0.7, 0.2], [0.2, 1.5]])


@pytest.mark.parametrize("prior", [0.5, 4.0, 30.0])
def test_the_worth_of_the_pooled_variance_is_found_from_how_alike_the_variances_are(prior):
    rng = np.random.default_rng(0)
    freedom = rng.integers(3, 12, size=20_000)
    true = prior / rng.chisquare(prior, size=freedom.size)
    assert prior_freedom(true * rng.chisquare(freedom) / freedom, freedom) == pytest.approx(prior, rel=0.1)


def test_variances_that_are_alike_are_pooled_and_those_of_one_challenge_too():
    quantiles = chi2(5).ppf((np.arange(2000) + 0.5) / 2000)  # quantiles of sample variances with this prior freedom
    assert prior_freedom(0.99 * quantiles, np.full(2000, 5)) > 500
    assert prior_freedom(np.ones(2000), np.full(2000, 5)) == np.inf
    assert prior_freedom(np.ones(1), np.array([5])) == np.inf


def sampled(count, seed=0):
    """True means and sample means, (count, 2), and the precision of the latter."""
    rng = np.random.default_rng(seed)
    true = rng.multivariate_normal(CENTRE, SPREAD, size=count)
    means = true + rng.multivariate_normal(np.zeros(2), ERROR, size=count)
    return true, means, np.tile(np.linalg.inv(ERROR), (count, 1, 1))


def test_means_are_drawn_as_bayes_rule_would_and_miss_by_as_much_as_is_said():
    true, means, precision = sampled(50_000)
    mean, unsure = shrunk(means, precision)
    grid = np.stack(np.meshgrid(np.linspace(-7, 9, 400), np.linspace(-10, 6, 400)), -1)
    for i in range(3):
        weight = multivariate_normal(CENTRE, SPREAD).pdf(grid) * multivariate_normal(means[i], ERROR).pdf(grid)
        expected = (weight[..., None] * grid).sum((0, 1)) / weight.sum()
        np.testing.assert_allclose(mean[i], expected, atol=0.05)
    missed = mean - true
    np.testing.assert_allclose(missed.T @ missed / len(missed), unsure[0], atol=0.02)
    assert ((missed**2).mean(0) < 0.8 * ((means - true) ** 2).mean(0)).all()


def test_a_mean_that_was_never_sampled_follows_from_the_others():
    true, means, precision = sampled(20_000)
    precision[:10] = np.diag([1e9, 0.0])
    means[:10] = np.stack([true[:10, 0], np.full(10, 1e3)], 1)
    mean, unsure = shrunk(means, precision)
    np.testing.assert_allclose(mean[:10, 0], true[:10, 0], atol=1e-3)
    regression = CENTRE[1] + SPREAD[1, 0] / SPREAD[0, 0] * (true[:10, 0] - CENTRE[0])
    np.testing.assert_allclose(mean[:10, 1], regression, atol=0.1)
    np.testing.assert_allclose(unsure[:10, 1, 1], SPREAD[1, 1] - SPREAD[1, 0] ** 2 / SPREAD[0, 0], atol=0.1)


def test_groups_have_centres_of_their_own_and_one_spread():
    _, means, precision = sampled(10_000)
    groups = np.arange(10_000) % 2
    shift = 20.0 * groups[:, None]
    apart, unsure = shrunk(means + shift, precision, groups)
    together, usual = shrunk(means, precision, groups)
    np.testing.assert_allclose(apart - shift, together, atol=1e-9)
    np.testing.assert_allclose(unsure, usual, atol=1e-9)


def test_equal_true_means_are_pooled_and_challenges_without_company_keep_their_own():
    means = CENTRE + 0.1 * np.random.default_rng(0).multivariate_normal(np.zeros(2), ERROR, size=500)
    precision = np.tile(np.linalg.inv(ERROR), (500, 1, 1))
    mean, unsure = shrunk(means, precision)  # less variation than the errors alone would cause
    np.testing.assert_allclose(mean, np.tile(means.mean(0), (500, 1)))
    np.testing.assert_allclose(unsure, 0)
    mean, unsure = shrunk(means, precision, np.arange(500))
    np.testing.assert_allclose(mean, means)
    np.testing.assert_allclose(unsure, np.tile(ERROR, (500, 1, 1)))
