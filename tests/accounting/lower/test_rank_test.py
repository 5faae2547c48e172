"""The rank gate: its integral against brute force, its false alarms, and how much more it proves than two intervals."""

import math
from functools import lru_cache

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from scipy import special, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.events.mechanisms import repeated
from gnnaudit.accounting.events.tree import Unsupported
from gnnaudit.accounting.events.types import FiniteDpEvent, PureDpEvent
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.guessed_coins import guessed
from gnnaudit.accounting.lower.one_run import mahloujifar
from gnnaudit.accounting.lower.rank_test import best_place, chance_of_so_few, misses, ranked
from gnnaudit.accounting.upper import tradeoff

from ...nightly import nightly

DELTA = 1e-5


def quantile_scores(mu, n):
    """n normal quantiles as scores in each world, and their bits."""
    normal = special.ndtri((np.arange(n) + 0.5) / n)
    return np.concatenate([normal, normal + mu]), np.arange(2 * n) >= n


def gaussian_case(epsilon):
    mu = float(gaussian.mu_of(epsilon, DELTA))
    return mu, Claim(epsilon, DELTA), tradeoff.gaussian(mu)


@pytest.mark.parametrize("gate", ["rank gate", "profile gate", "guessed coins", "Mahloujifar"])
def test_a_composition_of_pure_mechanisms_keeps_a_claim_at_delta_zero(gate):
    """The scores are the numbers of right answers of 20 randomised responses, which cost exactly 2 nats in all."""
    claim, curve, family = Claim(2.0, 0.0), tradeoff.curve(repeated(PureDpEvent(0.1), 20)), pure_family
    draw = np.random.default_rng(7)
    bits = draw.random(20_000) < 0.5
    scores = draw.binomial(20, special.expit(np.where(bits, 0.1, -0.1))) - 10.0
    bound = {
        "rank gate": lambda: ranked(scores, bits, claim, curve, family=family),
        "profile gate": lambda: from_rounds(scores, bits, claim, shape="ledger", ledger_curve=curve, family=family),
        "guessed coins": lambda: guessed(scores[:, None], bits[:, None], claim, curve, family=family),
        "Mahloujifar": lambda: mahloujifar(scores[:2000], bits[:2000], claim, curve, family=family),
    }[gate]()
    assert not bound.refuted
    assert 0.1 < bound.epsilon <= 2
    assert bound.p_value > 1e-6  # fails once in a million honest audits


@lru_cache
def pure_family(kappa):
    return tradeoff.curve(repeated(PureDpEvent(0.1 * kappa), 20), interval=1e-3)


@pytest.mark.parametrize(("missed", "place", "trials"), [(3, 2, (5, 8)), (0, 1, (1, 3)), (12, 30, (60, 40))])
def test_the_chance_of_so_few_misses_is_the_integral_that_quadrature_gives(missed, place, trials):
    from scipy.integrate import quad

    curve = tradeoff.gaussian(1.3)
    rate = stats.beta(place, trials[0] - place + 1)
    truth = quad(lambda a: stats.binom.cdf(missed, trials[1], curve.beta(a)) * rate.pdf(a), 0, 1, limit=200)[0]
    found = chance_of_so_few(missed, place, trials, curve.beta)
    assert truth - 1e-12 <= found <= truth * 1.02  # rounded up


def test_without_any_leak_every_order_of_the_scores_is_equally_likely():
    # of 7 scores, 4 in world 0: fewer than one in world 1 ranks below the highest of world 0 in so many orders
    orders, few = 0, 0
    for world1 in range(1 << 7):
        bits = [(world1 >> i) & 1 for i in range(7)]  # in ascending order
        if sum(bits) == 3:
            orders += 1
            highest = max(i for i in range(7) if not bits[i])
            few += sum(bits[:highest]) <= 1
    assert chance_of_so_few(1, 1, (4, 3), tradeoff.gaussian(0.0).beta) == pytest.approx(few / orders, rel=0.02)


def test_equal_scores_are_put_in_random_order():
    draw = np.random.default_rng(0)
    counts = [misses(np.zeros(9), np.zeros(40), 3, draw) for _ in range(4000)]
    # a threshold at the third of nine coins: a miss has the chance 7 / 10; fails once in a million honest runs
    assert abs(np.mean(counts) - 28) < 5 * np.std(counts) / math.sqrt(4000)
    assert misses(np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.5, 3.5]), 2, draw) == 1
    assert misses(np.array([1.0, 2.0, math.inf]), np.array([-math.inf, 2.5, math.inf]), 2, draw) == 1


@pytest.mark.parametrize(("epsilon", "share"), [(1, 0.82), (8, 0.96), *nightly((2, 0.9), (4, 0.94))])
def test_ten_thousand_trials_prove_more_than_two_intervals_do(epsilon, share):
    mu, claim, curve = gaussian_case(epsilon)
    scores, bits = quantile_scores(mu, 5000)
    found = ranked(scores, bits, claim, curve)
    assert share * epsilon <= found.epsilon < epsilon
    assert not found.refuted
    assert found.p_value > 0.05
    assert found.epsilon > from_rounds(scores, bits, claim, shape="ledger", ledger_curve=curve).epsilon


def test_one_world_alone_may_have_many_more_trials():
    mu, claim, curve = gaussian_case(2)
    few = ranked(*quantile_scores(mu, 2000), claim, curve)
    more = special.ndtri((np.arange(20_000) + 0.5) / 20_000)
    scores, bits = quantile_scores(mu, 2000)
    many = ranked(np.concatenate([scores, more]), np.concatenate([bits, np.zeros(20_000, bool)]), claim, curve)
    assert few.epsilon < many.epsilon < 2


@pytest.mark.nightly
def test_noise_that_is_too_small_is_refuted_where_the_reach_says():
    mu, claim, curve = gaussian_case(4)
    honest = ranked(*quantile_scores(mu, 1000), claim, curve, 1e-4)
    assert 1.1 < honest.notices < 1.6
    assert honest.reach == pytest.approx(gaussian.epsilon_of(honest.notices * mu, DELTA), rel=0.02)
    draw = np.random.default_rng(0)

    def refuted(kappa):
        bits = np.arange(2000) >= 1000
        return ranked(draw.standard_normal(2000) + kappa * mu * bits, bits, claim, curve, 1e-4).refuted

    caught = sum(refuted(honest.notices) for _ in range(100))
    assert 0.75 < caught / 100 < 1.0  # nine in ten; outside of this once in ten thousand choices of the seed
    assert ranked(*quantile_scores(2 * mu, 1000), claim, curve, 1e-6).refuted


@pytest.mark.nightly
def test_a_ledger_of_any_shape_is_bounded_by_its_copies_with_less_noise():
    ledger = SelfComposedDpEvent(PoissonSampledDpEvent(0.2, GaussianDpEvent(1.5)), 10)
    curve = tradeoff.curve(ledger)
    epsilon = curve.epsilon(DELTA)

    @lru_cache
    def family(kappa):
        return tradeoff.curve(tradeoff.scaled(ledger, kappa))

    place = best_place(curve.beta, 5000)
    share = place / 5001
    # the fewest misses that the ledger allows at that place, and a few more
    scores = np.concatenate([np.linspace(0, 1, 5000), np.full(5000, 2.0)])
    scores[5000 : 5000 + int(5000 * float(curve.beta(share))) + 1] = -1.0
    bits = np.arange(10_000) >= 5000
    found = ranked(scores, bits, Claim(epsilon, DELTA), curve, family=family)
    assert 0.85 * epsilon < found.epsilon < epsilon
    assert not found.refuted
    assert ranked(scores, bits, Claim(0.8 * epsilon, DELTA), curve, family=family).refuted
    alone = ranked(scores, bits, Claim(epsilon, DELTA), curve)
    assert alone.epsilon == 0  # only the curve of the ledger itself is known, and the test does not refute it
    assert alone.reach == math.inf


@pytest.mark.parametrize(
    "pair",
    [
        ((0.1, 0.9, 0.0), (0.0, 0.9, 0.1)),
        ((1.0, 0.0), (0.4, 0.6)),
        pytest.param(((0.3, 0.5, 0.2), (0.0, 0.2, 0.8)), marks=pytest.mark.nightly),
    ],
)
def test_outcomes_that_one_world_alone_has_are_no_violation_of_a_ledger_that_has_them(pair):
    ledger = FiniteDpEvent(*pair)
    ins, outs = np.array(pair)
    copy = tradeoff.scaled(ledger, 1.0)
    assert np.array(copy.upper) == pytest.approx(ins, abs=1e-15)
    assert np.array(copy.lower) == pytest.approx(outs, abs=1e-15)
    rates = np.linspace(0, 1, 101)
    strengths = [tradeoff.curve(tradeoff.scaled(ledger, kappa)).beta(rates) for kappa in (0.5, 1.0, 2.0, 8.0)]
    assert (np.diff(strengths, axis=0) <= 1e-9).all()  # less noise is never more private
    with np.errstate(divide="ignore"):
        ratio = np.log(ins) - np.log(outs)

    @lru_cache
    def family(kappa):
        return tradeoff.curve(tradeoff.scaled(ledger, kappa))

    claim, draw, refuted, audits = Claim(family(1.0).epsilon(0.35), 0.35), np.random.default_rng(0), 0, 60
    for seed in range(audits):
        bits = draw.random(400) < 0.5
        seen = np.where(bits, draw.choice(len(ins), 400, p=ins), draw.choice(len(ins), 400, p=outs))
        refuted += ranked(ratio[seen], bits, claim, family(1.0), family=family, seed=seed).refuted
    assert stats.binom.sf(refuted - 1, audits, 0.05) > 1e-6  # fails once in a million honest runs


@pytest.mark.parametrize("kappa", [50.0, 1e3, 1e6])
def test_a_finite_ledger_with_next_to_no_noise_is_worth_more_than_any_claim(kappa):
    louder = tradeoff.scaled(FiniteDpEvent((0.6, 0.3, 0.1), (0.1, 0.3, 0.6)), kappa)
    assert tradeoff.curve(louder).epsilon(1e-5) > min(0.9 * kappa * math.log(6), 300)


def test_a_finite_ledger_is_scaled_about_the_geometric_mean_of_its_distributions():
    louder = tradeoff.scaled(FiniteDpEvent((0.6, 0.3, 0.1), (0.1, 0.3, 0.6)), 50.0)
    assert louder.upper[1] / louder.upper[0] == pytest.approx(0.3 / (math.sqrt(0.06) * 6**25), rel=1e-9)
    assert louder.upper == pytest.approx(louder.lower[::-1], rel=1e-12)


def test_distributions_without_a_common_outcome_are_told_to_have_no_privacy():
    apart = FiniteDpEvent((1.0, 0.0), (0.0, 1.0))
    assert tradeoff.scaled(apart, 3.0) == apart
    with pytest.raises(Unsupported, match="no common outcome, so there is no privacy"):
        tradeoff.curve(apart)


def test_bad_scores_are_named():
    curve = tradeoff.gaussian(1.0)
    with pytest.raises(ValueError, match="NaN"):
        ranked([math.nan, 1.0], [0, 1], Claim(1, DELTA), curve)
    with pytest.raises(ValueError, match="both worlds"):
        ranked([0.0, 1.0], [1, 1], Claim(1, DELTA), curve)


def alarms(epsilon, sample, seed, audits, trials):
    """How many audits at 95 % refute the true curve of the scores."""
    mu, _, curve = gaussian_case(epsilon)
    draw, place = np.random.default_rng(seed), best_place(curve.beta, trials[0])
    missed = [misses(*sample(mu, draw, *trials), place, draw) for _ in range(audits)]
    return sum(chance_of_so_few(m, place, trials, curve.beta) <= 0.05 for m in missed)


def alike(mu, draw, n0, n1):
    return draw.standard_normal(n0), draw.standard_normal(n1) + mu


def unlike(mu, draw, n0, n1):
    """Canaries whose scores have different means: the trials are independent, but not identically distributed."""
    scores0, scores1 = alike(mu, draw, n0, n1)
    return scores0 + 3 * draw.integers(0, 3, n0), scores1 + 3 * draw.integers(0, 3, n1)


@pytest.mark.parametrize("sample", [alike, unlike])
def test_the_gate_exceeds_the_truth_in_five_percent_of_audits_at_most(sample):
    assert alarms(2, sample, 5, 1000, (200, 150)) < stats.binom.isf(1e-6, 1000, 0.05)  # fails once in a million honest suites


@pytest.mark.nightly
@pytest.mark.parametrize("sample", [alike, unlike])
@pytest.mark.parametrize(("epsilon", "trials"), [(1, (50, 50)), (2, (500, 200)), (4, (5000, 1000)), (8, (100, 1000))])
def test_ten_thousand_audits_exceed_the_truth_in_five_percent_of_them_at_most(epsilon, trials, sample):
    assert alarms(epsilon, sample, 6, 10_000, trials) < stats.binom.isf(
        1e-6, 10_000, 0.05
    )  # 609; once in a million honest suites
