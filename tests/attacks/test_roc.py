"""ROC figures against scikit-learn, closed forms and brute force."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.metrics import roc_auc_score, roc_curve

from gnnaudit.attacks.roc import auc, auc_interval, clopper_pearson, mean_interval, measure, measure_slices, roc_points


def draw(targets=6, challenges=400, shift=1.0, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    bits = rng.random((targets, challenges)) < 0.5
    scores = rng.normal(size=bits.shape) + shift * bits
    return (scores if digits is None else np.round(scores, digits)), bits


def test_auc_is_scikit_learns_with_and_without_ties():
    for digits in (None, 0):
        scores, bits = draw(digits=digits)
        assert [auc(s, b) for s, b in zip(scores, bits, strict=True)] == pytest.approx(
            [roc_auc_score(b, s) for s, b in zip(scores, bits, strict=True)]
        )


def test_tpr_at_an_fpr_is_scikit_learns_largest_under_it():
    scores, bits = draw(targets=1)
    fpr, tpr, _ = roc_curve(bits[0], scores[0], drop_intermediate=False)
    leak = measure(scores, bits, fprs=(0.01, 0.1))
    assert leak.tpr_at_fpr[0.01].value == pytest.approx(tpr[fpr <= 0.01].max())
    assert leak.tpr_at_fpr[0.1].value == pytest.approx(tpr[fpr <= 0.1].max())


def test_counts_say_how_few_false_positives_an_fpr_allows():
    scores, bits = draw(targets=1, challenges=1354)
    rate = measure(scores, bits).tpr_at_fpr[0.001]
    assert rate.false_positives == 0
    assert rate.true_positives == (scores[bits] > scores[~bits].max()).sum()


def test_a_constant_score_gains_nothing_and_its_ties_are_broken_by_the_seed():
    _, bits = draw(targets=200)
    leak = measure(np.zeros(bits.shape), bits, fprs=(0.1,))
    assert leak.auc == 0.5
    # The mean over 200 targets of a coin's TPR at 10 %: std about 0.03 each; fails once in a million honest runs.
    assert abs(leak.tpr_at_fpr[0.1].value - 0.1) < 5 * 0.03 / np.sqrt(200)
    assert measure(np.zeros(bits.shape), bits, fprs=(0.1,)) == leak


def test_a_single_column_is_one_roc_over_its_runs():
    scores, bits = draw(targets=1)
    assert measure(scores.T, bits.T) == measure(scores, bits)


def test_the_curve_of_a_gaussian_score_is_its_closed_form():
    scores, bits = draw(targets=5, challenges=20000)
    fpr, tpr = roc_points(scores, bits)
    assert fpr.shape == tpr.shape == (200,)
    seen = fpr > 0.01
    np.testing.assert_allclose(tpr[seen], norm.sf(norm.isf(fpr[seen]) - 1), atol=0.02)  # about 5 standard errors


def test_clopper_pearson_is_scipys():
    for hits, of in [(0, 30), (7, 30), (30, 30)]:
        interval = binomtest(hits, of).proportion_ci(0.95, "exact")
        assert clopper_pearson(hits, of) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("targets", [2, 5, 20])
def test_the_interval_over_targets_covers_the_mean_about_as_often_as_it_says(targets):
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        low, high = mean_interval(rng.normal(size=targets), rng)
        covered += low <= 0 <= high
    # Nominal 380 of 400. Percentiles alone cover 84 % at five targets; below 355 once in 10^5 if coverage is 94 %.
    assert covered >= 355


def test_delongs_interval_covers_the_auc_about_as_often_as_it_says():
    rng, truth, covered = np.random.default_rng(2), norm.cdf(1 / np.sqrt(2)), 0
    for _ in range(400):
        bits = np.arange(120) < 60
        low, high = auc_interval(rng.normal(size=120) + bits, bits)
        covered += low <= truth <= high
    assert covered >= 355


def test_a_perfect_attack_on_few_challenges_is_not_certain():
    bits = np.arange(20) < 10
    low, high = auc_interval(bits.astype(float), bits)
    assert high == 1
    assert low == pytest.approx(0.025**0.1)


def test_slices_are_measured_against_their_own_negatives():
    scores, bits = draw()
    groups = np.arange(400) % 3
    scores[:, groups == 1] += 100 * bits[:, groups == 1]
    slices = measure_slices(scores, bits, groups)
    assert set(slices) == {"0", "1", "2"}
    assert slices["1"].auc == 1
    assert slices["0"] == measure(scores[:, groups == 0], bits[:, groups == 0])


def test_nan_and_one_sided_bits_are_refused():
    scores, bits = draw()
    with pytest.raises(ValueError, match="1 scores are NaN"):
        measure(np.where(np.arange(400) + 400 * np.arange(6)[:, None] == 5, np.nan, scores), bits)
    with pytest.raises(ValueError, match="none of 6 targets"):
        measure(scores, np.ones_like(bits))
