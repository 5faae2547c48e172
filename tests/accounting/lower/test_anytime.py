"""Bounds that stay valid if one tests after every round and stops at the first refutation."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.anytime import STAKES, STEP, TUNED, any_shape, anytime, log_e_values, mu_reached
from gnnaudit.accounting.lower.detection.error_rates import Rule
from gnnaudit.accounting.upper import tradeoff

DELTA = 1e-5


def stream(mu, true, n, seed):
    draw = np.random.default_rng(seed)
    return np.concatenate([mu * draw.standard_normal(n), mu * draw.standard_normal(n) + mu * true]), np.arange(2 * n) >= n


def test_the_mixture_is_the_integral_that_it_says_it_is():
    x, mu, scale = np.array([0.7, -0.3, 1.9, 0.4]), 0.2, 0.8

    def likelihood(shift, t):
        return math.exp(
            float((stats.norm.logpdf(x[:t], mu + shift, math.sqrt(2)) - stats.norm.logpdf(x[:t], mu, math.sqrt(2))).sum())
        )

    for t in range(1, 5):
        mixed = integrate.quad(lambda s, t=t: likelihood(s, t) * 2 * stats.norm.pdf(s, 0, scale), 0, 12)[0]
        assert log_e_values(x, mu, scale)[t - 1] == pytest.approx(math.log(mixed), abs=1e-9)


def test_stopping_at_the_first_refutation_is_wrong_in_at_most_five_percent():
    draw = np.random.default_rng(0)
    mu, audits, n = 0.9, 4000, 1000
    log_e = log_e_values(draw.standard_normal((audits, n)) * math.sqrt(2) + mu, mu, (TUNED - 1) * mu)
    alarms = int((log_e.max(axis=1) >= -math.log(0.05)).sum())
    assert alarms <= 271  # a binomial count of mean 200 exceeds 271 once in a million
    assert alarms >= 40  # the process has power too


def test_the_bound_is_where_the_e_value_meets_one_over_alpha():
    x = np.random.default_rng(1).standard_normal(50) * math.sqrt(2) + 1.5
    bounds = mu_reached(x, 0.05, 0.4)
    for t in (10, 30, 50):
        assert bounds[t - 1] > 0
        assert log_e_values(x[:t], bounds[t - 1], 0.4)[-1] == pytest.approx(-math.log(0.05), abs=1e-6)


def test_a_stream_that_goes_on_never_lowers_its_bound():
    mu = float(gaussian.mu_of(2, DELTA))
    scores, bits = stream(mu, 1.5 * mu, 3000, 2)
    claim, curve = Claim(2, DELTA), tradeoff.gaussian(mu)
    alternating = np.argsort(np.tile(np.arange(3000), 2), kind="stable")
    scores, bits = scores[alternating], bits[alternating]
    found = [anytime(scores[:k], bits[:k], claim, curve, 1e-4, sd=mu).epsilon for k in (200, 1000, 3000, 6000)]
    assert found == sorted(found)
    last = anytime(scores, bits, claim, curve, 1e-4, sd=mu)
    assert last.refuted
    assert last.p_value < 1e-6
    assert 2 < last.epsilon < float(gaussian.epsilon_of(1.5 * mu, DELTA))


def test_betting_refutes_a_leaky_answer_and_spares_an_honest_one():
    draw = np.random.default_rng(4)
    n, q = 4000, 1 / (1 + math.exp(-2.0))
    scores = np.concatenate([draw.random(n) > q, draw.random(n) < q]).astype(float)
    bits = np.arange(2 * n) >= n
    honest = any_shape(scores, bits, Claim(2, 0), Rule(0.5, 1), alpha=1e-3)
    assert not honest.refuted  # fails once in a thousand honest draws; this one is fixed
    assert 1.6 < honest.epsilon < 2
    assert any_shape(scores, bits, Claim(1, 0), Rule(0.5, 1), alpha=1e-6).refuted


def wealth(above0, above1, epsilon, delta):
    """The largest mean wealth, coin by coin, of all stakes on either rule; worlds as in (epsilon, delta)-DP."""
    paths, most, price = np.ones(2 * len(STAKES)), 1.0, math.exp(epsilon)
    for zero, one in zip(above0, above1, strict=True):
        for at, (won, lost) in enumerate([(one, zero), (not zero, not one)]):
            for i, stake in enumerate(STAKES):
                paths[at * len(STAKES) + i] *= 1 + stake * (won - price * lost - delta) / (price + delta)
        most = max(most, paths.mean())
    return most


@pytest.mark.parametrize("delta", [0.0, 0.04])
@pytest.mark.parametrize(("zero", "one"), [(0.02, 0.5), (0.5, 0.95)])
def test_the_wealth_is_what_bets_one_by_one_come_to(zero, one, delta):
    draw = np.random.default_rng(6)
    above0, above1 = draw.random(150) < zero, draw.random(150) < one
    scores, bits = np.concatenate([above0, above1]).astype(float), np.arange(300) >= 150
    found = any_shape(scores, bits, Claim(0.7, delta), Rule(0.5, 1))
    assert found.p_value == pytest.approx(1 / wealth(above0, above1, 0.7, delta), rel=1e-9)
    assert found.epsilon > 0
    # All smaller epsilons are rejected, the next one on the grid is not.
    assert wealth(above0, above1, found.epsilon, delta) >= 20 > wealth(above0, above1, found.epsilon + STEP, delta)
    # With the worlds exchanged the bound is 0, because the rule has a fixed direction.
    turned = any_shape(scores, ~bits, Claim(0.7, delta), Rule(0.5, 1))
    assert (turned.epsilon, turned.p_value) == (0, 1)


@pytest.mark.nightly
def test_betting_against_the_truth_is_wrong_in_at_most_five_percent():
    draw, q, alarms = np.random.default_rng(5), 1 / (1 + math.exp(-1.0)), 0
    bits = np.arange(600) >= 300
    for _ in range(100):
        scores = np.where(draw.random(600) < q, bits, ~bits).astype(float)
        alarms += any_shape(scores, bits, Claim(1, 0), Rule(0.5, 1)).p_value <= 0.05
    assert alarms <= 18  # a binomial count of mean 5 exceeds 18 once in a million


def test_no_rounds_of_one_world_prove_nothing_and_a_ledger_of_another_shape_is_refused():
    bits = np.array([False, True])
    assert anytime([0.0, 0.0], bits, Claim(1, DELTA), tradeoff.gaussian(1.0), sd=1.0).epsilon == 0
    assert any_shape([0.0, 0.0], bits, Claim(1, DELTA), Rule(0.5, 1)).epsilon == 0
    with pytest.raises(ValueError, match="exactly Gaussian"):
        anytime([0.0, 0.0], bits, Claim(1, DELTA), tradeoff.approximate(1.0), sd=1.0)
