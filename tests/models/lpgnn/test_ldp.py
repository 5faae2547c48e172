"""Local encoders against closed forms, golden values of the published formulas, and frequencies."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from gnnaudit.models.lpgnn import ldp
from gnnaudit.models.lpgnn.published import bits_printed


@pytest.mark.parametrize(
    ("budget", "dim", "zero", "one", "plus"),
    [
        (0.01, 1433, 0.49750002, 0.50249998, 143301.694),
        (0.1, 1433, 0.47502081, 0.52497919, 14342.4397),
        (1, 1433, 0.26894142, 0.73105858, 1550.972621),
        (1, 500, 0.26894142, 0.73105858, 541.488353),
        (3, 1433, 0.04742587, 0.95257413, 792.083033),
        (5, 500, 0.07585818, 0.92414182, 147.856372),
        (10, 500, 0.07585818, 0.92414182, 74.178186),
    ],
)
def test_bits_and_rectified_values_are_the_papers(budget, dim, zero, one, plus):
    bits = bits_printed(budget, dim)
    ends = ldp.one_probability(np.array([0.0, 0.5, 1.0], np.float32), budget / bits, 0.0, 1.0)
    np.testing.assert_allclose(ends, [zero, 0.5, one], atol=6e-9)
    index, sign = np.array([[3]], np.int32).repeat(bits, 1), np.ones((1, bits), np.int8)
    value = ldp.rectify(index[:, :1], sign[:, :1], budget / bits, dim, 0.0, 1.0).toarray()[0, 3] / bits + 0.5
    assert value == pytest.approx(plus, rel=1e-6)


def test_every_set_of_features_is_as_likely_as_any_other():
    drawn = np.sort(ldp.distinct(np.random.default_rng(3), 60_000, 5, 3), axis=1)
    sets = list(itertools.combinations(range(5), 3))
    counts = [(drawn == s).all(axis=1).sum() for s in sets]
    assert sum(counts) == 60_000  # three different features each time
    assert stats.chisquare(counts).pvalue > 1e-6  # fails once in a million honest runs


@pytest.mark.parametrize(("budget", "bits"), [(1.0, 1), (3.0, 2), (0.7, 6)])
def test_rectified_features_are_unbiased_with_the_stated_variance(budget, bits):
    low, high, dim, draws = -1.0, 3.0, 6, 60_000
    x = np.tile(np.linspace(low, high, dim, dtype=np.float32), (draws, 1))
    report = ldp.multi_bit(x, budget, bits, low, high, np.random.default_rng(5))
    estimate = ldp.rectify(*report, budget, dim, low, high).toarray() + (low + high) / 2
    coth = 1 / math.tanh(budget / (2 * bits))
    variance = dim / bits * ((high - low) / 2 * coth) ** 2 - (x[0] - (low + high) / 2) ** 2
    z = (estimate.mean(axis=0) - x[0]) / np.sqrt(variance / draws)
    assert np.abs(z).max() < 6  # six entries: once in 10^8 honest runs
    np.testing.assert_allclose(estimate.var(axis=0), variance, rtol=0.1)


@pytest.mark.parametrize(("budget", "bits"), [(1.0, 1), (4.0, 3)])
def test_the_likelihood_of_a_report_moves_by_the_budget_and_no_more(budget, bits):
    def likelihoods(x):
        one = ldp.one_probability(np.array(x, np.float32), budget / bits, 0.0, 1.0)
        sets = list(itertools.combinations(range(4), bits))
        signs = list(itertools.product((0, 1), repeat=bits))
        return np.array(
            [[math.prod(one[i] if t else 1 - one[i] for i, t in zip(s, b, strict=True)) for b in signs] for s in sets]
        )

    users = [likelihoods(x) for x in ((0, 0, 0, 0), (1, 1, 1, 1), (0.2, 1, 0.5, 0), (0, 1, 0, 1))]
    losses = [np.log(a / b).max() for a, b in itertools.permutations(users, 2)]
    assert max(losses) == pytest.approx(budget, abs=1e-12)
    assert losses[0] == pytest.approx(budget, abs=1e-12)  # all-low against all-high


def test_bits_come_up_as_often_as_said():
    x = np.array([[0.0, 0.25, 1.0]], np.float32).repeat(40_000, axis=0)
    index, sign = ldp.multi_bit(x, 1.5, 1, 0.0, 1.0, np.random.default_rng(1))
    for feature, value in enumerate((0.0, 0.25, 1.0)):
        ones = sign[index == feature] > 0
        expected = float(ldp.one_probability(np.array(value), 1.5, 0.0, 1.0))
        assert stats.binomtest(int(ones.sum()), ones.size, expected).pvalue > 1e-6  # once in a million honest runs


def test_sparse_and_dense_features_give_the_same_report_and_one_user_moves_no_other():
    x = (np.random.default_rng(0).random((30, 9)) < 0.3).astype(np.float32)
    other = x.copy()
    other[4] = 1 - other[4]
    dense, sparse, changed = (ldp.multi_bit(v, 4.0, 2, 0.0, 1.0, np.random.default_rng(1)) for v in (x, sp.csr_array(x), other))
    for a, b in zip(dense, sparse, strict=True):
        np.testing.assert_array_equal(a, b)
    assert set(np.flatnonzero((dense[1] != changed[1]).any(axis=1))) <= {4}
    np.testing.assert_array_equal(dense[0], changed[0])


def test_the_one_bit_encoder_is_unbiased_at_budget_over_dim():
    assert float(ldp.one_probability(np.array(1.0), 1 / 1433, 0.0, 1.0)) == pytest.approx(0.5001744592, abs=1e-10)
    assert ldp.amplitude(1, 1433, 1433, 0.0, 1.0) == pytest.approx(1433.0001, abs=1e-4)
    assert ldp.amplitude(1, 1433, 1433, 0.0, 1.0) ** 2 - 0.25 == pytest.approx(2053488.92, abs=0.01)
    x = np.tile(np.array([0.0, 0.3, 1.0], np.float32), (50_000, 1))
    noisy = ldp.one_bit(x, 3.0, 0.0, 1.0, np.random.default_rng(2))
    assert len(np.unique(noisy)) == 2
    z = (noisy.mean(axis=0) - x[0]) / (noisy.std(axis=0) / math.sqrt(len(x)))
    assert np.abs(z).max() < 6


def test_laplace_and_gaussian_noise_have_their_scale():
    x = np.full((20_000, 4), 0.5, np.float32)
    noise = ldp.laplace(x, 2.0, 0.0, 1.0, np.random.default_rng(4)) - x
    assert stats.kstest(noise.ravel(), stats.laplace(scale=4 / 2.0).cdf).pvalue > 1e-6
    assert stats.kstest(noise.ravel(), stats.laplace(scale=4 / 3.0).cdf).pvalue < 1e-6
    noise = ldp.gaussian(x, 2.0, 0.0, 1.0, np.random.default_rng(4)) - x
    std = 2 * 3.025793544094656
    assert stats.kstest(noise.ravel(), stats.norm(scale=std).cdf).pvalue > 1e-6
    assert stats.kstest(noise.ravel(), stats.norm(scale=std * 1.1).cdf).pvalue < 1e-6


def test_the_gaussian_encoder_meets_its_delta_exactly():
    for budget, sigma in ((0.1, 54.206295836901084), (1, 5.867777749630529), (2, 3.025793544094656), (3, 2.062253178907407)):
        assert ldp.gaussian_sigma(budget) == pytest.approx(sigma, rel=1e-9)
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    theirs = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(1.0, 1e-10))
    assert ldp.gaussian_sigma(1.0) == pytest.approx(theirs.standard_deviation, rel=1e-4)


@pytest.mark.parametrize(
    ("budget", "classes", "kept", "other"),
    [
        (1, 7, 0.311791, 0.1147015),
        (1, 3, 0.57611688, 0.21194156),
        (2, 10, 0.45085306, 0.06101633),
        (0.5, 4, 0.35466124, 0.21511292),
    ],
)
def test_labels_are_kept_and_replaced_as_often_as_randomised_response_says(budget, classes, kept, other):
    assert ldp.keep_probability(budget, classes) == pytest.approx(kept, abs=1e-6)
    noisy = ldp.randomise_labels(np.full(50_000, classes - 1), budget, classes, np.random.default_rng(7))
    expected = np.full(classes, other * len(noisy))
    expected[-1] = kept * len(noisy)
    assert stats.chisquare(np.bincount(noisy, minlength=classes), expected, sum_check=False).pvalue > 1e-6


def test_infinite_budgets_keep_every_label_and_zero_budgets_none_in_particular():
    y = np.arange(6) % 3
    np.testing.assert_array_equal(ldp.randomise_labels(y, math.inf, 3, np.random.default_rng(0)), y)
    assert ldp.keep_probability(0.0, 5) == pytest.approx(0.2)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_released_scaling_is_min_max_without_constant_features(shift):
    from sklearn.preprocessing import MinMaxScaler

    x = np.random.default_rng(0).random((12, 5)).astype(np.float32) * (np.random.default_rng(1).random((12, 5)) < 0.6) + shift
    x[:, 2] = 1.0
    x = x.astype(np.float32)
    truth = MinMaxScaler().fit_transform(x)[:, [0, 1, 3, 4]]
    np.testing.assert_allclose(ldp.scaled(x), truth, atol=1e-6)
    sparse = ldp.scaled(sp.csr_array(x))
    if shift == 0:
        np.testing.assert_allclose(ldp.scaled(sp.csr_array(x[:, [0, 1, 3, 4]])).toarray(), truth, atol=1e-6)
    else:
        np.testing.assert_allclose(sparse, truth, atol=1e-6)
