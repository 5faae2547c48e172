"""An audit detects the violation that it states as its smallest detectable one."""

import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.independence import FEWEST_RUNS
from gnnaudit.accounting.checks.score_law import FEWEST, pooled_sd
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.detection.error_rates import mu_of_rates, pilot_rounds, rate_at_most
from gnnaudit.accounting.lower.detection.power import METHODS, coins_detect, notices, power_of_coins, rounds_needed
from gnnaudit.accounting.lower.guessed_coins import guessed
from gnnaudit.accounting.upper import tradeoff

from ....nightly import nightly

DELTA = 1e-5
ROOT2 = math.sqrt(2)


@pytest.mark.parametrize(("epsilon", "ratio", "gate"), [(1, 1800, 5000), (8, 47, 200), *nightly((2, 510, 1500), (4, 150, 490))])
def test_rounds_for_a_factor_of_root_two_are_those_of_the_literature(epsilon, ratio, gate):
    claim, mu = Claim(epsilon, DELTA), float(gaussian.mu_of(epsilon, DELTA))
    assert rounds_needed(claim, ROOT2, method="likelihood-ratio, noise known") == pytest.approx(ratio, rel=0.06)
    # Taking the sd from the scores costs mu^2 / 8 more under the claim, (kappa mu)^2 / 8 under the violation.
    assert rounds_needed(claim, ROOT2, method="likelihood-ratio") == pytest.approx(ratio * (1 + 1.5 * mu**2 / 8), rel=0.06)
    # `lower` also needs a pilot; at the best threshold, the literature's number is enough
    assert notices(claim, gate, gate, method="gate", power=0.95)[0] == pytest.approx(ROOT2, rel=0.03)
    assert 1.3 * gate < rounds_needed(claim, ROOT2, method="gate") < 2.5 * gate


def test_a_factor_of_root_two_at_epsilon_four_needs_few_rounds():
    claim = Claim(4, DELTA)
    assert rounds_needed(claim, ROOT2, method="likelihood-ratio, noise known") <= 170
    assert rounds_needed(claim, ROOT2, method="likelihood-ratio") <= 171
    assert rounds_needed(claim, ROOT2, method="gate") <= 800


@pytest.mark.parametrize("sd_known", [False, True])
def test_the_likelihood_ratio_test_has_the_power_that_was_promised(sd_known):
    claim, mu = Claim(4, DELTA), float(gaussian.mu_of(4, DELTA))
    n, audits = rounds_needed(claim, ROOT2, method="likelihood-ratio"), 4000
    draw = np.random.default_rng(0)
    difference = ROOT2 * mu + draw.standard_normal(audits) * math.sqrt(2 / n)
    sd = 1.0 if sd_known else np.sqrt(draw.chisquare(2 * n - 2, audits) / (2 * n - 2))
    power = (gaussian.mu_lower(difference, sd, n, n, 0.05, sd_known=sd_known) > mu).mean()
    assert power > 0.95 - 5 * math.sqrt(0.95 * 0.05 / audits)  # fails once in a million seeds


def test_a_known_sd_notices_root_two_at_epsilon_four_in_170_rounds():
    mu, n, audits = float(gaussian.mu_of(4, DELTA)), 170, 4000
    difference = ROOT2 * mu + np.random.default_rng(0).standard_normal(audits) * math.sqrt(2 / n)
    assert (gaussian.mu_lower(difference, 1.0, n, n, 0.05, sd_known=True) > mu).mean() > 0.95


def test_the_gate_has_the_power_that_was_promised_at_its_best_threshold():
    mu, n, audits = float(gaussian.mu_of(4, DELTA)), 550, 2000
    draw, best = np.random.default_rng(1), 0.0
    for rate in (0.03, 0.05, 0.08, 0.12, 0.2):  # a threshold fixed beforehand, one for all audits
        fp = draw.binomial(n, rate, audits)
        fn = draw.binomial(n, float(gaussian.tradeoff(ROOT2 * mu, rate)), audits)
        best = max(best, float((mu_of_rates(rate_at_most(fp, n, 0.025), rate_at_most(fn, n, 0.025)) > mu).mean()))
    assert best > 0.95


def test_the_reach_that_is_printed_is_noticed_in_nine_audits_of_ten():
    claim, n = Claim(2, DELTA), 300
    kappa, reach = notices(claim, n, n, 0.05, "likelihood-ratio")
    mu = kappa * float(gaussian.mu_of(2, DELTA))
    assert gaussian.epsilon_of(mu, DELTA) == pytest.approx(reach)
    scores = mu * np.random.default_rng(2).standard_normal((300, 2, n)) + mu * mu * np.array([[0], [1]])
    differences, sds = scores[:, 1].mean(1) - scores[:, 0].mean(1), np.array([pooled_sd(*worlds) for worlds in scores])
    seen = (gaussian.mu_lower(differences, sds, n, n, 0.05) > gaussian.mu_of(2, DELTA)).sum()
    assert seen >= 240  # a binomial count of mean 270 falls below 240 once in a million


def test_more_rounds_notice_smaller_violations_and_a_bound_carries_what_it_noticed():
    claim = Claim(1, DELTA)
    for method in METHODS:
        factors = [notices(claim, n, n, method=method)[0] for n in (100, 1000, 10_000)]
        assert factors == sorted(factors, reverse=True)
    bits = np.arange(2000) >= 1000
    found = from_rounds(bits * 1.0, bits, claim, shape="ledger", ledger_curve=tradeoff.gaussian(1.0))
    best, reach = notices(claim, 750, 750, 0.05, "gate")  # at the best threshold, which no pilot finds exactly
    assert best < found.notices < 1.5 * best
    assert reach < found.reach < 1.5 * reach


def test_a_pure_claim_is_measured_by_randomised_response():
    n = rounds_needed(Claim(1, 0), 1.5, method="any")
    draw, q = np.random.default_rng(3), 1 / (1 + math.exp(-1.5))
    bits, seen = np.arange(2 * n) >= n, 0
    for _ in range(400):
        scores = np.where(draw.random(2 * n) < q, bits, ~bits) * 1.0
        seen += from_rounds(scores, bits, Claim(1, 0)).refuted
    assert seen >= 353  # a binomial count of mean 380 falls below 353 once in a million


def test_what_cannot_be_noticed_is_said_and_bad_input_is_named():
    assert notices(Claim(8, DELTA), 5, 5, method="any") == (math.inf, math.inf)
    assert notices(Claim(math.inf, DELTA), 500, 500) == (math.inf, math.inf)
    for change, message in (
        ({"kappa": 1.0}, "kappa=1"),
        ({"alpha": 0.0}, "alpha=0"),
        ({"power": 1.0}, "power=1"),
        ({"method": "x"}, "'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            rounds_needed(Claim(1, DELTA), **({"kappa": 2.0} | change))


@pytest.mark.parametrize(("limit", "chance", "coins"), [(0.7, 0.8, 100), (0.6, 0.63, 2000), (0.9, 0.95, 7)])
def test_guessed_coins_have_the_power_that_enumeration_says(limit, chance, coins):
    counts = np.arange(coins + 1)
    proves = [stats.binom.sf(v - 1, coins, limit) < 0.05 for v in counts]
    assert power_of_coins(limit, chance, coins, 0.05) == pytest.approx(stats.binom.pmf(counts, coins, chance)[proves].sum())


def test_a_weak_attack_needs_a_larger_violation():
    limit = float(stats.norm.cdf(1.0))
    strong, weak = (coins_detect(limit, seen, 4000, 0.05) for seen in (limit, float(stats.norm.cdf(0.5))))
    assert 1 < strong < 1.2
    assert weak == pytest.approx(2 * strong, rel=0.02)
    assert coins_detect(limit, 0.5, 4000, 0.05) == math.inf


def test_no_number_is_given_where_the_binomial_functions_have_no_precision_left():
    few, none = (rounds_needed(Claim(1.0, 1e-5), kappa, method="any") for kappa in (1.4, 1.02))
    assert few is not None
    assert few < 10**9
    assert none is None


def test_few_trainings_detect_nothing_by_guessed_coins():
    """`guessed` withdraws its bound below ten trainings. Truth: the rule itself, played many times."""
    claim = Claim(8, DELTA)
    rounds = rounds_needed(claim, 1.5, method="coins")
    assert rounds == 20 * FEWEST_RUNS
    assert notices(claim, rounds - 20, rounds - 20, method="coins") == (math.inf, math.inf)


@pytest.mark.parametrize(("epsilon", "kappa"), [(8, 1.3), *nightly((1, 2.0), (4, 1.5))])
def test_guessed_coins_have_the_power_that_was_promised(epsilon, kappa):
    claim, draw = Claim(epsilon, DELTA), np.random.default_rng(1)
    mu, audits = float(gaussian.mu_of(epsilon, DELTA)), 600
    trainings = -(-rounds_needed(claim, kappa, method="coins") // 20)
    found = 0
    for _ in range(audits):
        bits = draw.random((trainings, 40)) < 0.5
        scores = draw.standard_normal(bits.shape) + kappa * mu * (bits - 0.5)
        found += guessed(scores, bits, claim, tradeoff.gaussian(mu)).refuted
    assert found / audits == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize(
    ("epsilon", "kappa", "method"), [(8, 1.5, "gate"), (1, 4.0, "any"), *nightly((4, 3.0, "gate"), (1, 1.5, "gate"))]
)
def test_a_threshold_that_a_pilot_chooses_has_the_power_that_was_promised(epsilon, kappa, method):
    """Truth: the audits that `audit bound` makes. With the rounds for the best threshold, the first refuted in 43 % of them."""
    claim, mu, draw = Claim(epsilon, DELTA), float(gaussian.mu_of(epsilon, DELTA)), np.random.default_rng(1)
    n, found, audits = rounds_needed(claim, kappa, method=method), 0, 120
    own, bits = np.arange(n) < pilot_rounds(n, n)[0], np.arange(2 * n) >= n
    pilot = np.concatenate([own, own])
    for _ in range(audits):
        scores = draw.standard_normal(2 * n) + kappa * mu * bits
        if method == "gate":
            found += from_rounds(scores, bits, claim, shape="ledger", ledger_curve=tradeoff.gaussian(mu)).refuted
        else:
            found += from_rounds(scores[~pilot], bits[~pilot], claim, pilot=(scores[pilot], bits[pilot])).refuted
    assert found >= 101  # a binomial count of mean 114 falls below 101 in two of ten thousand seeds


def test_scores_too_few_to_be_tested_for_normality_detect_nothing():
    """Normality of fewer is assumed, and a bound with an assumption refutes nothing."""
    for method in ("likelihood-ratio", "likelihood-ratio, noise known"):
        assert rounds_needed(Claim(8, DELTA), 10.0, method=method) == FEWEST
        assert notices(Claim(8, DELTA), FEWEST - 1, 1000, method=method) == (math.inf, math.inf)
