"""The bound from one run is nearly tight, and it detects noise that is missing in one view only."""

import math

import numpy as np
import pytest
from scipy import special, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.residuals import assumptions, factorised, noise_at_most, repeats

DELTA = 1e-5
STAGES, ROWS, COLUMNS = 2, 400, 10


def moves(epsilon, stages=STAGES, columns=COLUMNS):
    """One row's steps, of different direction in every stage, that make exactly this epsilon."""
    d = np.random.default_rng(3).standard_normal((1, stages, columns))
    return d * float(gaussian.mu_of(epsilon, DELTA)) / np.linalg.norm(d)


def noise(seed=0, shape=(1, STAGES, ROWS, COLUMNS)):
    return np.random.default_rng(seed).standard_normal(shape)


def test_the_noise_bound_is_the_chi_squared_one_and_exceeded_in_five_percent():
    r = noise(shape=(500, 7))
    square = (r**2).sum(axis=1)
    bounds = np.array([noise_at_most(x, 0.05) for x in r])
    assert bounds == pytest.approx(np.sqrt(square / stats.chi2.ppf(0.05, 7)))
    assert stats.binomtest(int((bounds < 1).sum()), 500, 0.05).pvalue > 1e-6  # fails once in a million honest seeds


@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
def test_a_hundred_thousand_residuals_prove_99_percent_of_epsilon(epsilon):
    normal = special.ndtri((np.arange(100_000) + 0.5) / 100_000)  # normal quantiles
    r = np.random.default_rng(0).permutation(normal).reshape(1, 2, 2000, 25)
    found = factorised(r, moves(epsilon, 2, 25), Claim(epsilon, DELTA))
    assert 0.99 * epsilon <= found.epsilon < epsilon
    assert not found.refuted
    assert found.notices < 1.02


def test_noise_five_percent_too_small_is_refuted():
    found = factorised(0.95 * noise(), moves(4), Claim(4, DELTA), alpha=1e-4)
    assert found.refuted
    assert found.p_value < 1e-4


@pytest.mark.parametrize(
    ("fault", "view"),
    [
        (lambda r: np.repeat(r[:, :1], STAGES, axis=1), "weighted stages and columns"),  # reused in every stage
        (lambda r: np.repeat(r[:, :, :1], ROWS, axis=2) / max(1e-9, np.abs(r[:, :, :1]).std()), "the difference of equal rows"),
        # the same noise in each block of rows, then in any order
        (lambda r: r[:, :, np.arange(ROWS) % (ROWS // 4)], "the difference of equal rows"),
        (lambda r: r[:, :, np.random.default_rng(1).integers(0, ROWS // 2, ROWS)], "the difference of equal rows"),
        (
            lambda r: np.where(np.arange(ROWS)[:, None] % 2, 1e-2 * r + np.roll(r, 1, axis=2), r),
            "the difference of neighbouring rows",
        ),
        (lambda r: r * np.where(np.arange(COLUMNS) < 5, 0.0, math.sqrt(2)), "weighted stages and columns"),  # half the columns
        (lambda r: r * np.where(np.arange(COLUMNS) < 5, 0.5, 1.3), "weighted stages and columns"),
    ],
)
def test_noise_that_is_small_in_one_view_only_is_seen_there(fault, view):
    found = factorised(fault(noise()), moves(2), Claim(2, DELTA), alpha=1e-6)
    assert found.refuted
    assert view in found.method


def test_more_noise_than_claimed_is_no_violation():
    assert not factorised(1.5 * noise(), moves(2), Claim(2, DELTA)).refuted


def test_a_larger_step_than_claimed_is_refuted_by_one_run():
    assert factorised(noise(), math.sqrt(2) * moves(4), Claim(4, DELTA), alpha=1e-6).refuted


def test_honest_noise_is_refuted_in_at_most_five_percent_of_runs():
    claim, d = Claim(1 + 1e-9, DELTA), moves(1, 2, 4)
    alarms = sum(factorised(noise(seed, (1, 2, 30, 4)), d, claim).refuted for seed in range(400))
    assert alarms <= 43  # a binomial count of mean 20 exceeds 43 once in a million


def test_the_p_value_is_the_level_at_which_a_run_is_refuted():
    r, d, claim = 0.97 * noise(), moves(4), Claim(4, DELTA)
    p = factorised(r, d, claim).p_value
    assert 1e-9 < p < 0.05
    assert factorised(r, d, claim, alpha=p * 1.01).refuted
    assert not factorised(r, d, claim, alpha=p * 0.99).refuted


def test_honest_residuals_pass_every_assumption_and_planted_faults_fail_theirs():
    r = noise(1)
    assert min(assumptions(r).values()) > 1e-3  # seven tests of one fixed seed
    assert assumptions(1.2 * r)["variance"] < 1e-6
    assert assumptions(r + 0.2)["mean"] < 1e-6
    assert assumptions(np.sign(r) * np.sqrt(np.abs(r)))["normality"] < 1e-6
    assert assumptions(r * np.where(np.arange(COLUMNS) < 5, 0.8, 1.2))["columns"] < 1e-6
    assert assumptions(np.repeat(r[:, :1], STAGES, axis=1))["stages"] < 1e-6
    assert assumptions(r + 0.5 * np.roll(r, 1, axis=2))["rows"] < 1e-6
    again = r.copy()
    again[0, 1, 7] = again[0, 0, 3]
    assert assumptions(again)["duplicates"] == 0


def test_nothing_moves_nothing_is_bounded_and_bad_shapes_are_named():
    found = factorised(noise(), np.zeros((1, STAGES, COLUMNS)), Claim(1, DELTA))
    assert found.epsilon == 0
    assert found.p_value == 1
    with pytest.raises(ValueError, match="moves"):
        factorised(noise(), np.zeros((STAGES, COLUMNS)), Claim(1, DELTA))
    with pytest.raises(ValueError, match="finite"):
        factorised(noise() * np.nan, moves(1), Claim(1, DELTA))


@pytest.mark.parametrize("rows", [3, 400])
def test_half_of_alpha_pays_for_the_noise_as_a_whole_and_all_of_it_where_there_is_no_other_view(rows):
    r, d, alpha = noise(2, (1, STAGES, rows, COLUMNS)), moves(2), 0.02
    found = factorised(r, d, Claim(1, DELTA), alpha=alpha)
    assert found.method == "replay and residuals"  # the view with the largest bound
    share = alpha if rows < 4 else alpha / 2
    sd = math.sqrt((r**2).sum() / stats.chi2.ppf(share, r.size))
    assert found.epsilon == pytest.approx(float(gaussian.epsilon_of(np.linalg.norm(d) / sd, DELTA)), rel=1e-9)


def test_the_p_values_of_assumptions_are_those_of_their_laws():
    r = 1.02 * noise(3) + 0.01
    found, squares = assumptions(r), (r**2).sum(axis=(0, 1, 2))
    tail = stats.chi2.cdf((r**2).sum(), r.size)
    assert found["variance"] == pytest.approx(2 * min(tail, 1 - tail), rel=1e-9)
    assert found["mean"] == pytest.approx(2 * stats.norm.sf(abs(r.sum()) / math.sqrt((r**2).sum())), rel=1e-9)
    # A column's sum of squares has variance 2 n times the fourth power of the sd.
    n, each = r.size // COLUMNS, squares.mean()
    truth = stats.chi2.sf(((squares / each - 1) ** 2 * n / 2).sum(), COLUMNS - 1)
    assert found["columns"] == pytest.approx(truth, rel=1e-9)
    assert found["normality"] == pytest.approx(stats.kstest((r.ravel() - r.mean()) / r.std(), "norm", method="asymp").pvalue)


def test_rows_of_other_noise_than_the_row_that_moves_prove_nothing_of_it():
    """Noise .7 on rows without a secret, and 1 on the row that moves: an honest model, refuted in 300 of 300 runs before."""
    moves = np.full((1, 2, 16), 0.1)
    claim = Claim(float(gaussian.epsilon_of(np.linalg.norm(moves), 1e-5)) * (1 + 1e-9), 1e-5)
    for seed in range(20):
        residuals = np.random.default_rng(seed).standard_normal((1, 2, 500, 16))
        residuals[:, :, 1::2] *= 0.7
        bound = factorised(residuals, moves, claim)
        assert not bound.refuted
        assert bound.withdrawn > claim.epsilon
        assert bound.reach == np.inf
        assert bound.failed[0].startswith("the noise is normal, of one variance and independent (law, variances")


def test_honest_noise_keeps_its_bound_and_names_what_it_rests_on():
    """400 honest runs at a level of 1e-3 for each of three views: over 9 without a bound come once in a million seeds."""
    moves, draw = np.full((1, 2, 5), 0.1), np.random.default_rng(3)
    claim = Claim(float(gaussian.epsilon_of(np.linalg.norm(moves), 1e-5)) * (1 + 1e-9), 1e-5)
    found = [factorised(draw.standard_normal((1, 2, 60, 5)), moves, claim) for _ in range(400)]
    assert sum(bound.withdrawn is not None for bound in found) <= 9
    assert {bound.against for bound in found} == {"ledger"}
    assert {c.how for bound in found for c in bound.conditions} <= {"proved", "checked", "failed"}


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([1, 2, 3, 1, 2, 3], True),
        ([1, 2, 3, 1, 2, 4], False),  # two numbers that occur again are chance
        ([0, 0, 0, 0], True),
        ([0, 0, 0], False),
        ([1, 2], False),
    ],
)
def test_three_numbers_that_occur_again_are_found(numbers, found):
    assert repeats(np.array(numbers, float)) == found


def test_repeated_numbers_are_found_among_many():
    numbers = np.random.default_rng(0).standard_normal(100_000)
    rounded = np.round(numbers, 4)  # single numbers occur again and again
    assert not repeats(numbers)
    assert not repeats(rounded[:1000])
    numbers[70_000:70_003] = numbers[5:8]
    assert repeats(numbers)
