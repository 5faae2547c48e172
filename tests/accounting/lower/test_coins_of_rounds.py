"""Rounds as guesses of fair coins: which bits look fair, and coins that choose among rounds of fixed worlds."""

import itertools

import numpy as np
import pytest
from scipy import stats

from gnnaudit import lower
from gnnaudit.accounting import gaussian
from gnnaudit.accounting.checks.conditions import checked
from gnnaudit.accounting.checks.score_law import PLAYED
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.coins_of_rounds import FAIR, coins_of_rounds, drawn, fair, notices, rounds_needed
from gnnaudit.accounting.lower.guessing import FREE, groups_against, weighted_p_value
from gnnaudit.accounting.lower.one_run import steinke

from ...nightly import nightly

DELTA = 1e-5


def test_fair_coins_look_fair_as_often_as_the_level_says():
    draw = np.random.default_rng(0)
    bits = [draw.random(n) < 0.5 for n in (50, 1001) for _ in range(1000)]
    failed = sum(fair(b).how == "failed" for b in bits if abs(2 * b.sum() - b.size) > 1)
    assert stats.binom.sf(failed - 1, len(bits), 1e-3) > 1e-6 or failed == 0  # fails once in a million


@pytest.mark.parametrize(
    "bits",
    [
        np.arange(1001) < 500,
        np.arange(1001) % 2 == 0,
        np.random.default_rng(1).random(1001) < 0.6,
        np.arange(10) < 5,
        np.arange(7) < 3,
    ],
    ids=["blocks", "alternating", "unequal", "halves", "nearly halves"],
)
def test_bits_of_a_design_do_not(bits):
    assert fair(bits).how == "failed"


def refutes(ones, high, count, claim):
    """Whether `count` distinct scores refute the claim if `high` of the upper half of them are of world 1, and `ones` in all."""
    half = count // 2
    bits = np.zeros(count, dtype=bool)
    bits[half + np.arange(high)] = bits[np.arange(ones - high)] = True
    order = np.random.default_rng(ones).permutation(count)
    return steinke(np.arange(count)[order], bits[order], claim, coins=checked(FAIR, "stated", 1.0)).refuted


@pytest.mark.parametrize("count", [4, 8, 16, 18, 30, 62, 106])
def test_a_fixed_number_of_each_bit_is_refuted_in_at_most_five_percent_of_all_orders(count):
    """The true epsilon is 0, and each order of the bits is equally likely. 13 of 30 were refuted in 7.0 % of the orders, 15 of 30
    in 7.3 %.
    """
    half, claim = count // 2, Claim(0.0, 0.0)
    for ones in range(1, half + 1):
        wrong = sum(stats.hypergeom.pmf(k, count, ones, half) for k in range(ones + 1) if refutes(ones, k, count, claim))
        assert wrong <= 0.05


@pytest.mark.parametrize("count", [17, 18, 28, 38, 62, 106])
def test_a_fixed_number_of_each_bit_reaches_a_sum_of_weights_in_at_most_five_percent_of_all_orders(count):
    """At delta > 0, where guesses have weights: the law of the sum over all orders of the bits, by the number of ones so far.
    Half of all bits, or as nearly half as possible, do not pass the check.
    """
    groups, most_ones = groups_against(0.0, DELTA, count, 0.05, True)[0], (count - 2) // 2
    each = [w for w, n in groups for _ in range(n // 2)]
    law = np.zeros((most_ones + 1, 2 * sum(each) + 1))
    law[0, 0] = 1.0
    for one, zero in [*((w, 0) for w in each), *((0, w) for w in each), *[(0, 0)] * (count - 2 * len(each))]:
        after = np.zeros_like(law)  # a 1 among the highest scores is a right guess, and a 0 among the lowest
        after[1:, one:] += law[:-1, : law.shape[1] - one]
        after[:, zero:] += law[:, : law.shape[1] - zero]
        law = after / 2
    sums = range(law.shape[1])
    least = next(v for v in sums if weighted_p_value(0.0, FREE, groups, v) < 0.05) + min(w for w, _ in groups)
    for ones in range(1, most_ones + 1):
        assert law[ones, least:].sum() <= 0.05 * law[ones].sum()


@pytest.mark.parametrize(("zeros", "ones"), [(2, 2), (1, 3), (3, 4), (4, 5), (3, 6)])
def test_few_rounds_are_refuted_in_at_most_five_percent_of_all_orders(zeros, ones):
    """All orders of the bits, with scores that do not depend on them. 3 and 4 were refuted in 2 of 35 orders."""
    scores, wrong, orders = np.random.default_rng(1).normal(size=zeros + ones), 0, 0
    for chosen in itertools.combinations(range(zeros + ones), ones):
        bits = np.isin(np.arange(zeros + ones), chosen)
        orders += 1
        wrong += lower(scores, bits, Claim(0.0, 1e-12)).refuted
    assert wrong <= 0.05 * orders


def test_bits_too_few_to_check_are_drawn_again_or_assumed():
    """No sixteen bits could fail the check: 4 * 2^-15 is above its level."""
    bits = np.arange(16) < 5
    assert fair(bits).how == "assumed"
    assert coins_of_rounds(np.arange(16.0), bits, Claim(1, DELTA), rounds=PLAYED) is None


def test_drawn_coins_are_fair_and_take_each_round_once():
    bits, draw = np.arange(1000) >= 400, np.random.default_rng(2)
    ones, pairs, count = 0, 0, 0
    for _ in range(200):
        chosen = drawn(bits, draw)
        assert len(np.unique(chosen)) == len(chosen)
        ones += int(bits[chosen].sum())
        pairs += int((bits[chosen][1:] != bits[chosen][:-1]).sum())
        count += len(chosen)
    assert 600 < count / 200 <= 800
    for seen, trials in ((ones, count), (pairs, count - 200)):
        assert abs(seen / trials - 0.5) < 5 * 0.5 / trials**0.5  # fails once in two million
    assert len(drawn(np.arange(10) < 1, draw)) == 0


def test_fair_bits_keep_every_round_and_a_design_keeps_most():
    draw = np.random.default_rng(3)
    bits = draw.random(1001) < 0.5
    scores = draw.standard_normal(1001) + 1.2 * bits
    found = coins_of_rounds(scores, bits, Claim(1, DELTA), rounds=PLAYED)
    assert found.epsilon == steinke(scores, bits, Claim(1, DELTA), coins=fair(bits), apart=True).epsilon
    assert found.trials == (int((~bits).sum()), int(bits.sum()))
    fixed = np.arange(1001) >= 500
    scores = draw.standard_normal(1001) + 1.2 * fixed
    found = coins_of_rounds(scores, fixed, Claim(1, DELTA), rounds=PLAYED)
    assert 800 < sum(found.trials) < 1001
    assert found.conditions[-1] == PLAYED
    assert coins_of_rounds(scores, np.arange(1001) >= 800, Claim(1, DELTA), rounds=PLAYED) is None


@pytest.mark.nightly
def test_an_honest_design_is_refuted_in_at_most_five_percent_of_audits():
    """Two hundred rounds in each world of a Gaussian mechanism that attains its epsilon."""
    claim, draw, fixed = Claim(1.0, DELTA), np.random.default_rng(4), np.arange(400) >= 200
    mu, wrong = gaussian.mu_of_claim(claim), 0
    for seed in range(200):
        scores = draw.standard_normal(400) + mu * fixed
        wrong += coins_of_rounds(scores, fixed, claim, rounds=PLAYED, seed=seed).p_value < 0.05
    assert stats.binom.sf(wrong - 1, 200, 0.05) > 1e-6  # fails once in a million


def test_a_design_of_pairs_is_found_at_a_fixed_distance_and_granted_in_words_in_random_order():
    """100 pairs with one member each and 21 other bits. In random order no test of the bits can see the pairs."""
    draw = np.random.default_rng(6)
    member, free = draw.random(100) < 0.5, np.arange(21) < 5
    bits = np.concatenate([member, free, ~member])
    assert fair(bits).how == "failed"
    for order in (draw.permutation(bits), draw.random(221) < 0.5):
        found = fair(order)
        assert (found.how, found.what) == ("granted", f"if {FAIR}")
        assert "bits that somebody chose may look random" in found.detail


@pytest.mark.parametrize(("epsilon", "kappa"), [(1.0, 4.0), *nightly((4.0, 2.0))])
def test_the_rounds_that_a_factor_needs_detect_it_in_19_of_20_audits_and_a_quarter_of_them_do_not(epsilon, kappa):
    """At a power of 95 %, fewer than the limit of 16 audits detect it once in 10,000 seeds."""
    claim, needed, audits = Claim(epsilon, DELTA), rounds_needed(Claim(epsilon, DELTA), kappa), 16

    def detected(rounds):
        draw, seen = np.random.default_rng(rounds), 0
        for _ in range(audits):
            bits = draw.random(2 * rounds) < 0.5
            scores = kappa * gaussian.mu_of_claim(claim) * bits + draw.standard_normal(2 * rounds)
            seen += lower(scores, bits, claim).refuted
        return seen

    assert detected(needed) >= stats.binom.ppf(1e-4, audits, 0.95)
    assert detected(needed // 4) < stats.binom.ppf(1e-4, audits, 0.95)
    assert notices(claim, needed)[0] <= kappa < notices(claim, needed // 4)[0]


@pytest.mark.parametrize("chances", [{"alpha": -1.0}, {"alpha": float("nan")}, {"power": 1.0}])
def test_chances_outside_their_range_are_refused_before_anything_is_computed(chances, monkeypatch):
    monkeypatch.setattr("gnnaudit.accounting.lower.coins_of_rounds.CoinTest", None)
    for ask in (lambda: notices(Claim(1.0, DELTA), 100, **chances), lambda: rounds_needed(Claim(1.0, DELTA), 2.0, **chances)):
        with pytest.raises(ValueError, match="must be between 0 and 1"):
            ask()
