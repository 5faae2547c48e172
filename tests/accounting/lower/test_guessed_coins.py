"""Guessed coins: exact at the curve, tighter than two error rates, and valid for trials that differ."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.independence import OF_COINS
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.detection.error_rates import Rule
from gnnaudit.accounting.lower.guessed_coins import FEWEST_RUNS, guessed, together
from gnnaudit.accounting.lower.one_run import luck
from gnnaudit.accounting.upper import tradeoff

DELTA = 1e-6


def told(right, count):
    """Scores with so many correct signs, from trainings of one canary each."""
    bits = np.arange(count)[:, None] % 2 == 0
    return np.where((np.arange(count)[:, None] < right) == bits, 1.0, -1.0), bits


def gaussian_case(epsilon):
    mu = float(gaussian.mu_of(epsilon, DELTA))
    return mu, Claim(epsilon, DELTA), tradeoff.gaussian(mu)


@pytest.mark.parametrize(("right", "count", "alpha"), [(60, 100, 0.05), (1500, 2000, 1e-4), (40, 40, 0.05)])
def test_the_bound_is_where_so_many_right_guesses_become_rare(right, count, alpha):
    _, claim, curve = gaussian_case(8.0)
    bound = guessed(*told(right, count), claim, curve, alpha)
    mu = float(gaussian.mu_of(bound.epsilon, DELTA))
    assert stats.binom.sf(right - 1, count, special.ndtr(mu / 2)) == pytest.approx(alpha, rel=1e-6)


def test_the_check_passes_seven_times_in_ten_if_the_guesses_vary_twice_as_much_as_independent_ones():
    random = np.random.default_rng(11)
    pairs = random.random((2000, 10, 20)) < 0.8  # both canaries of a pair are right, or both are wrong
    passed = np.mean([together(np.repeat(right, 2, axis=1)).how == "checked" for right in pairs])
    least = stats.chi2.isf(OF_COINS, 9)
    assert passed == pytest.approx(stats.chi2.cdf(least / 2, 9), abs=0.04) == pytest.approx(0.71, abs=0.005)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_best_guesses_of_a_gaussian_mechanism_exceed_its_epsilon_in_at_most_alpha_of_all_audits(epsilon):
    """Every possible count, with its exact probability: nothing is sampled."""
    mu, claim, curve = gaussian_case(epsilon)
    chance = stats.binom.pmf(np.arange(201), 200, special.ndtr(mu / 2))
    refuted = np.array([guessed(*told(v, 200), claim, curve, 0.05).refuted for v in range(201)])
    assert 0.02 < chance[refuted].sum() <= 0.05  # counts are whole numbers, so the test cannot use all of 0.05


def test_trials_of_different_hardness_exceed_epsilon_no_more_often():
    """All counts of twelve coins. The attack on each trial is the best possible, a weaker one, or a guess."""
    mu, claim, curve = gaussian_case(8.0)
    chances = special.ndtr(mu / 2) * np.ones(12)
    chances[:4], chances[4:8] = 0.5, special.ndtr(mu / 4)
    refuted = [guessed(*told(v, 12), claim, curve, 0.05).refuted for v in range(13)]
    total = 0.0
    for right in itertools.product([False, True], repeat=12):
        total += refuted[sum(right)] * np.prod(np.where(right, chances, 1 - chances))
    assert 0 < total <= 0.05


def test_the_p_value_is_the_level_at_which_the_claim_just_falls():
    _, claim, curve = gaussian_case(2.0)
    p = guessed(*told(640, 1000), claim, curve).p_value
    assert 1e-6 < p < 0.05
    assert guessed(*told(640, 1000), claim, curve, p * 1.001).refuted
    assert not guessed(*told(640, 1000), claim, curve, p * 0.999).refuted


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_it_proves_as_much_as_two_error_rates_of_2_8_times_as_many_trials(epsilon):
    """The expected counts of a Gaussian mechanism, not a sample."""
    mu, claim, curve = gaussian_case(epsilon)

    def usual(n):
        return told(round(2 * n * special.ndtr(mu / 2)), 2 * n)

    def rates(n):
        return from_rounds(*usual(n), claim, shape="ledger", ledger_curve=curve, rule=Rule(0.0, 1)).epsilon

    ours = guessed(*usual(1000), claim, curve).epsilon
    assert rates(2800) == pytest.approx(ours, rel=0.02)
    assert rates(1000) < 0.95 * ours < epsilon


def test_randomised_response_is_guessed_as_often_as_its_epsilon_says():
    for epsilon in (0.5, 3.0):
        assert luck(tradeoff.approximate(epsilon)) == pytest.approx(1 / (1 + math.exp(-epsilon)))
        assert luck(tradeoff.approximate(epsilon, 0.1)) == pytest.approx((math.exp(epsilon) + 0.1) / (math.exp(epsilon) + 1))


@pytest.mark.parametrize("claim", [Claim(1.0, 0.0), Claim(1.0, 0.01)])
def test_a_ledger_that_is_not_gaussian_is_refuted_by_the_count_that_its_region_rules_out(claim):
    curve = tradeoff.approximate(claim.epsilon, claim.delta)
    chance = stats.binom.sf(np.arange(401) - 1, 400, luck(curve))
    for v in range(200, 401):
        bound = guessed(*told(v, 400), claim, curve, 0.05)
        assert bound.refuted == (chance[v] < 0.05)
        assert bound.p_value == pytest.approx(chance[v], abs=1e-9)


def test_wrong_guesses_and_scores_of_zero_prove_nothing():
    _, claim, curve = gaussian_case(8.0)
    assert guessed(*told(0, 500), claim, curve).epsilon == 0
    assert guessed(np.zeros(500), np.arange(500) % 2 == 0, claim, curve).epsilon == 0


def test_no_claim_is_not_refuted():
    bound = guessed(*told(500, 500), Claim(math.inf, DELTA), tradeoff.gaussian(math.inf))
    assert not bound.refuted
    assert bound.p_value == 1


def trainings(epsilon, runs, canaries, seed, shared):
    """Guesses of the best attack. shared: each training draws one absolute privacy loss for all of its canaries.

    Each canary is exactly mu-GDP given all others either way.
    """
    mu, claim, curve = gaussian_case(epsilon)
    draw = np.random.default_rng(seed)
    bits = draw.random((runs, canaries)) < 0.5
    loss = np.abs(mu * (mu / 2 + draw.standard_normal((runs, 1))))
    right = draw.random(bits.shape) < (1 / (1 + np.exp(-loss)) if shared else special.ndtr(mu / 2))
    return np.where(right == bits, 1.0, -1.0), bits, claim, curve


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
@pytest.mark.nightly
def test_trainings_that_share_a_privacy_loss_are_refuted_no_more_often_than_alpha(epsilon, shared):
    """200 honest audits of 50 x 40 at 0.05. Without Student's test, 6 to 22 % were refuted; a rate of 0.05 gives over 27 once in
    a million seeds.
    """
    refuted = sum(guessed(*trainings(epsilon, 50, 40, seed, shared)).refuted for seed in range(200))
    assert refuted <= 27


def test_a_loss_that_trainings_share_withdraws_the_bound_and_says_why():
    """At epsilon = 8 the sums of the trainings vary five times as much as coins: fewer than one in a million pass the check.

    Of twenty independent ones, each is withdrawn with probability 0.01; over four of them come once in a million.
    """
    withdrawn = 0
    for seed in range(20):
        bound = guessed(*trainings(8.0, 50, 40, seed, shared=True))
        assert bound.withdrawn is not None
        assert "correct guesses between trainings" in bound.failed[0]
        withdrawn += guessed(*trainings(8.0, 50, 40, seed + 100, shared=False)).withdrawn is not None
    assert withdrawn <= 4


def test_half_the_noise_is_refuted_and_hardly_less_is_proved_than_by_counting_alone():
    """50 x 40 at epsilon = 4, medians of 41: Student's test lowers the bound by under two hundredths."""
    with_all, alone = [], []
    for seed in range(41):
        scores, bits, claim, curve = trainings(4.0, 50, 40, seed, shared=False)
        with_all.append(guessed(scores, bits, claim, curve).epsilon)
        alone.append(guessed(scores.reshape(-1, 1), bits.reshape(-1, 1), claim, curve).epsilon)
    assert 0.98 * np.median(alone) <= np.median(with_all) <= np.median(alone)
    mu, claim, curve = gaussian_case(4.0)
    draw = np.random.default_rng(0)
    bits = draw.random((50, 40)) < 0.5
    scores = draw.standard_normal(bits.shape) + 2 * mu * (bits - 0.5)
    assert guessed(scores, bits, claim, tradeoff.gaussian(mu)).refuted


def test_of_a_few_trainings_nobody_can_tell_what_they_share():
    scores, bits, claim, curve = trainings(8.0, FEWEST_RUNS - 1, 400, 0, shared=False)
    assert "too few for the bound from coins" in guessed(scores, bits, claim, curve).failed[0]
    one = guessed(scores.reshape(-1, 1), bits.reshape(-1, 1), claim, curve)
    assert one.withdrawn is None
    assert "each training has one canary" in str(one.conditions[-1])


def test_a_count_refutes_the_claim_itself_only_beyond_the_corner_of_its_region():
    """The corner for epsilon = 1: e / (1 + e) = 0.731 right, whatever the mechanism; its Gaussian curve allows 0.553."""
    claim = Claim(1.0, DELTA)
    curve = tradeoff.gaussian(gaussian.mu_of_claim(claim))
    assert guessed(*told(1300, 2000), claim, curve).against == "ledger"
    assert guessed(*told(1300, 2000), claim, curve).refuted
    assert guessed(*told(1600, 2000), claim, curve).against == "claim"
