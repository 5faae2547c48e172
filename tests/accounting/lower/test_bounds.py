"""The many-run bounds: exact, tight, 0 for scores without information, and refuting when and only when they should."""

import math
import re
from functools import lru_cache

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from gnnaudit.accounting import gaussian
from gnnaudit.accounting.claim import Claim
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.accounting.lower.detection.error_rates import Rule, epsilon_of_rates, rate_at_most, smallest_level
from gnnaudit.accounting.upper import tradeoff

DELTA = 1e-5
ALPHA = 1e-9  # for facts about samples: a thousand such tests fail once in a million honest suites


def quantile_scores(mu, n):
    """n normal quantiles as scores in each world, and their bits."""
    normal = special.ndtri((np.arange(n) + 0.5) / n)
    return np.concatenate([normal * mu - mu * mu / 2, normal * mu + mu * mu / 2]), np.arange(2 * n) >= n


def gaussian_case(epsilon):
    mu = float(gaussian.mu_of(epsilon, DELTA))
    return mu, Claim(epsilon, DELTA), tradeoff.gaussian(mu)


@pytest.mark.parametrize(("k", "n", "alpha"), [(0, 10, 0.05), (3, 10, 0.025), (9, 10, 1e-6), (500, 1000, 0.01), (0, 10**7, 0.5)])
def test_the_upper_end_of_a_rate_is_where_so_few_successes_become_rare(k, n, alpha):
    assert stats.binom.cdf(k, n, rate_at_most(k, n, alpha)) == pytest.approx(alpha, rel=1e-6)


def test_all_successes_and_no_trials_prove_nothing_about_a_rate():
    assert rate_at_most(7, 7, 0.05) == 1
    assert rate_at_most(0, 0, 0.05) == 1


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_epsilon_of_rates_is_the_edge_of_the_error_region(delta):
    draw = np.random.default_rng(0)
    for a, b in draw.random((200, 2)) ** 2:
        e = float(epsilon_of_rates(a, b, delta))

        def allowed(e, a=a, b=b):
            return a + math.exp(e) * b >= 1 - delta and b + math.exp(e) * a >= 1 - delta

        assert allowed(e + 1e-9)
        assert e == 0 or not allowed(e - 1e-9)


@pytest.mark.parametrize(("epsilon", "mu"), [(1, 0.2681), (2, 0.5016), (4, 0.9249), (8, 1.6660)])
def test_gaussian_epsilon_and_mu_are_inverse_and_agree_with_dp_accounting(epsilon, mu):
    from dp_accounting import get_epsilon_gaussian

    assert gaussian.mu_of(epsilon, DELTA) == pytest.approx(mu, abs=5e-5)
    assert gaussian.epsilon_of(gaussian.mu_of(epsilon, DELTA), DELTA) == pytest.approx(epsilon, rel=1e-9)
    assert gaussian.epsilon_of(mu, DELTA) == pytest.approx(get_epsilon_gaussian(1 / mu, DELTA), rel=1e-6)


def test_the_two_sample_bound_is_where_the_noncentral_t_puts_it():
    for n0, n1, difference in [(3, 5, 2.0), (50, 20, 0.6), (4000, 5000, 1.0)]:
        bound = float(gaussian.mu_lower(difference, 1.0, n0, n1, 0.05))
        error = math.sqrt(1 / n0 + 1 / n1)
        assert stats.nct.sf(difference / error, n0 + n1 - 2, bound / error) == pytest.approx(0.05, rel=1e-5)


@pytest.mark.parametrize("sd_known", [False, True])
def test_the_two_sample_bound_exceeds_the_truth_in_five_percent_of_audits(sd_known):
    draw = np.random.default_rng(1)
    n0, n1, mu, audits = 12, 7, 0.9, 20_000
    difference = mu + draw.standard_normal(audits) * math.sqrt(1 / n0 + 1 / n1)
    sd = 1.0 if sd_known else np.sqrt(draw.chisquare(n0 + n1 - 2, audits) / (n0 + n1 - 2))
    alarms = int((gaussian.mu_lower(difference, sd, n0, n1, 0.05, sd_known=sd_known) > mu).sum())
    assert stats.binomtest(alarms, audits, 0.05).pvalue > 1e-6  # fails once in a million honest runs


@pytest.mark.parametrize(("epsilon", "share"), [(1, 0.85), (2, 0.92), (4, 0.95), (8, 0.97)])
def test_ten_thousand_trials_prove_most_of_a_gaussian_epsilon(epsilon, share):
    mu, claim, curve = gaussian_case(epsilon)
    found = from_rounds(*quantile_scores(mu, 5000), claim, shape="ledger", ledger_curve=curve, likelihood_ratio=True)
    assert share * epsilon <= found.epsilon < epsilon


@pytest.mark.parametrize(("epsilon", "share"), [(1, 0.55), (2, 0.75), (4, 0.85), (8, 0.91)])
def test_one_run_of_a_thousand_canaries_proves_much_of_a_gaussian_epsilon(epsilon, share):
    mu, claim, curve = gaussian_case(epsilon)
    found = from_rounds(*quantile_scores(mu, 500), claim, shape="ledger", ledger_curve=curve, likelihood_ratio=True)
    assert share * epsilon <= found.epsilon < epsilon


@pytest.mark.parametrize("options", [{}, {"likelihood_ratio": True}, {"likelihood_ratio": True, "sd": 0.9249}])
def test_noise_half_as_large_is_refuted_and_honest_noise_is_not(options):
    mu, claim, curve = gaussian_case(4)
    honest, bits = quantile_scores(mu, 1000)
    options = options if "sd" not in options else {**options, "sd": mu}
    found = from_rounds(honest, bits, claim, shape="ledger", ledger_curve=curve, **options)
    assert not found.refuted
    assert found.p_value > 0.05
    caught = from_rounds(
        *quantile_scores(2 * mu, 1000), claim, shape="ledger", ledger_curve=curve, alpha=1e-6, likelihood_ratio=True
    )
    assert caught.refuted
    assert caught.epsilon > 6
    assert caught.p_value < 1e-6


def test_randomised_response_is_bounded_by_its_own_epsilon():
    q = 1 / (1 + math.exp(-2.0))
    n = 20_000
    scores = np.concatenate([np.arange(n) >= q * n, np.arange(n) < q * n]).astype(float)
    bits = np.arange(2 * n) >= n
    found = from_rounds(scores, bits, Claim(2, 0), seed=1)
    assert 1.85 < found.epsilon < 2.0  # ten standard errors on either side
    assert not found.refuted
    assert from_rounds(scores, bits, Claim(1.8, 0), seed=1).refuted


def test_a_threshold_fixed_beforehand_and_one_from_pilot_runs_let_all_rounds_count():
    scores, bits = quantile_scores(1.0, 500)
    fixed = from_rounds(scores, bits, Claim(1, DELTA), rule=Rule(1.0, 1))
    piloted = from_rounds(scores, bits, Claim(1, DELTA), pilot=(scores + 1e-9, bits))
    assert fixed.trials == piloted.trials == (500, 500)
    assert sum(from_rounds(scores, bits, Claim(1, DELTA)).trials) < 900


def test_scores_that_point_the_wrong_way_are_turned_round():
    scores, bits = quantile_scores(2.0, 2000)
    first, drawn = quantile_scores(2.0, 500)
    there, back = (from_rounds(s * scores, bits, Claim(1, DELTA), pilot=(s * first, drawn)) for s in (1, -1))
    assert there.epsilon > 2
    assert back.epsilon == pytest.approx(there.epsilon, rel=0.05)
    moved = from_rounds(10.0 - scores, bits, Claim(1, DELTA), pilot=(10.0 - first, drawn))
    assert moved.epsilon == pytest.approx(back.epsilon, rel=1e-9)


@pytest.mark.parametrize("ledger", [LaplaceDpEvent(1.0), PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))])
@pytest.mark.nightly
def test_the_gate_bounds_a_ledger_of_any_shape_by_its_copies_with_less_noise(ledger):
    curve, n, a = tradeoff.curve(ledger), 100_000, 0.02
    epsilon = curve.epsilon(DELTA)

    @lru_cache
    def family(kappa):
        return tradeoff.curve(tradeoff.scaled(ledger, kappa))

    b = float(curve.beta(np.array([a]))[0])  # an attack that is exactly as good as the ledger allows
    scores = np.concatenate([np.arange(n) < a * n, np.arange(n) >= b * n]).astype(float)
    bits = np.arange(2 * n) >= n
    options = {"shape": "ledger", "ledger_curve": curve, "family": family, "rule": Rule(0.5, 1)}
    found = from_rounds(scores, bits, Claim(epsilon, DELTA), **options)
    assert 0.7 * epsilon < found.epsilon <= epsilon
    assert not found.refuted
    caught = from_rounds(scores, bits, Claim(0.65 * epsilon, DELTA), **options)
    assert caught.refuted
    assert caught.p_value < 0.05


def test_the_gate_states_no_reach_for_a_ledger_that_is_not_gaussian():
    """Its power is computed for Gaussian scores."""
    scores, bits = quantile_scores(2.0, 2000)
    for known, ledger in ((True, tradeoff.gaussian(2.0)), (False, tradeoff.approximate(3.0))):
        found = from_rounds(scores, bits, Claim(12, DELTA), shape="ledger", ledger_curve=ledger)
        assert (found.notices < np.inf, found.reach < np.inf) == (known, known)


def test_the_p_value_is_the_level_at_which_the_claim_begins_to_be_refuted():
    scores, bits = quantile_scores(2.0, 2000)
    for epsilon, options in ((2.5, {}), (9, {"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0)})):
        p = from_rounds(scores, bits, Claim(epsilon, DELTA), **options, rule=Rule(2.2, 1)).p_value
        assert 1e-6 < p < 0.5
        for alpha, refuted in ((p * 1.01, True), (p * 0.99, False)):
            assert from_rounds(scores, bits, Claim(epsilon, DELTA), alpha=alpha, rule=Rule(2.2, 1), **options).refuted is refuted
    assert smallest_level(lambda level: level > 1e-12) == pytest.approx(1e-12, rel=1e-4)


def test_without_a_claim_nothing_is_refuted_and_the_bound_is_still_there():
    scores, bits = quantile_scores(3.0, 1000)
    for options in ({}, {"shape": "ledger", "ledger_curve": tradeoff.gaussian(3.0), "likelihood_ratio": True}):
        found = from_rounds(scores, bits, Claim(math.inf, DELTA), **options)
        assert found.epsilon > 2
        assert not found.refuted
        assert found.p_value == 1


def test_a_bound_prints_its_side_confidence_and_shape():
    scores, bits = quantile_scores(0.0, 100)
    assert str(from_rounds(scores, bits, Claim(1, DELTA), alpha=0.008)) == "at least 0.00 (99.2 %, any shape)"


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(values=[1.7e308, 1.7e308], repeat=1, epsilon=0.0, delta=0.0, options="sd")  # their sum overflows
@given(
    values=st.lists(
        st.one_of(st.floats(allow_nan=False), st.sampled_from([0.0, 1.0, math.inf, -math.inf])), min_size=1, max_size=40
    ),
    repeat=st.sampled_from([1, 1, 3, 50]),
    epsilon=st.floats(0, 50),
    delta=st.floats(0, 0.1),
    options=st.sampled_from(["any", "gate", "llr", "sd", "family"]),
)
def test_scores_that_are_alike_in_both_worlds_prove_exactly_nothing(values, repeat, epsilon, delta, options):
    one = np.repeat(np.array(values), repeat)
    scores, bits = np.concatenate([one, one]), np.arange(2 * len(one)) >= len(one)
    named = {
        "any": {},
        "gate": {"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0)},
        "llr": {"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0), "likelihood_ratio": True},
        "sd": {"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0), "likelihood_ratio": True, "sd": 1.0},
        "family": {"shape": "ledger", "ledger_curve": tradeoff.approximate(1.0), "family": tradeoff.approximate},
    }[options]
    found = from_rounds(scores, bits, Claim(epsilon, delta), pilot=(scores + 1e-9, bits), **named)
    assert found.epsilon == 0
    assert not found.refuted
    assert 0 <= found.p_value <= 1
    assert found.notices >= 1
    assert found.reach >= epsilon or math.isinf(found.reach)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10**6])
@pytest.mark.parametrize("likelihood_ratio", [False, True])
def test_any_number_of_rounds_is_answered(n, likelihood_ratio):
    scores = np.arange(2 * n) % n + np.where(np.arange(2 * n) >= n, 0.5, 0.0)
    named = {"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0), "likelihood_ratio": True} if likelihood_ratio else {}
    found = from_rounds(scores, np.arange(2 * n) >= n, Claim(1, DELTA), alpha=ALPHA, **named)
    assert 0 <= found.epsilon < 1
    assert not math.isnan(found.reach)


@pytest.mark.nightly
def test_ten_million_rounds_are_answered():
    draw = np.random.default_rng(0)
    bits = np.arange(10**7) % 2 == 1
    found = from_rounds(
        draw.standard_normal(10**7) + bits, bits, Claim(1, DELTA), shape="ledger", ledger_curve=tradeoff.gaussian(1.0)
    )
    assert 0.98 < found.epsilon / float(gaussian.epsilon_of(1.0, DELTA)) < 1  # the gate loses less than 1 % here


@pytest.mark.parametrize("sure", [20, 200, 5000])
def test_a_perfect_attack_is_worth_what_its_number_of_rounds_can_prove(sure):
    bits = np.arange(2 * sure) >= sure
    found = from_rounds(bits * 1.0, bits, Claim(1, 0), rule=Rule(0.5, 1))
    assert found.epsilon == pytest.approx(math.log(1 / (1 - 0.025 ** (1 / sure)) - 1), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [0.0, math.nan, 1.0, 2.0]}, "1 NaN of 4"),
        ({"bits": [1, 1, 1, 1]}, "all 4 bits are 1"),
        ({"bits": [0, 1]}, "must be equal"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"shape": "round"}, "shape='round'"),
        ({"shape": "ledger"}, "needs ledger_curve"),
        ({"likelihood_ratio": True}, "likelihood_ratio=True needs"),
        ({"shape": "ledger", "ledger_curve": tradeoff.gaussian(1.0), "likelihood_ratio": True, "sd": 0.0}, "sd=0.0"),
        ({"scores": [1j, 0, 1, 2]}, "must be real numbers, but have type complex128"),
        ({"scores": ["a", "b", "c", "d"]}, "scores=['a', 'b', 'c', 'd']: must be real numbers"),
        ({"scores": None}, "scores=None: must be real numbers"),
        ({"scores": [[1], [2, 3]]}, "scores=[[1], [2, 3]]: must be an array of numbers"),
        ({"scores": [], "bits": []}, "there are no rounds"),
        ({"bits": [0, 2, 0, 1]}, "bits hold 2 (1 of 4): each must be 0 or 1"),
        ({"bits": [-1, 1, -1, 1]}, "bits hold -1 (2 of 4): each must be 0 or 1. For bits that are -1 and 1 give bits > 0"),
        ({"bits": [0, math.nan, 0, 1]}, "bits hold nan (1 of 4)"),
        ({"bits": ["0", "1", "0", "1"]}, "bits=['0', '1', '0', '1']: must be real numbers"),
        ({"claim": 1.0}, "claim=1.0: must be a Claim"),
        ({"alpha": "x"}, "alpha='x': must be between 0 and 1"),
        ({"shape": "ledger", "ledger_curve": 3}, "ledger_curve=3: must be a curve"),
        ({"ledger_curve": tradeoff.gaussian(1.0)}, "is not used with shape='any'"),
        ({"sd": 1.0}, "sd=1.0: is used with likelihood_ratio=True alone"),
        ({"pilot": [0.0, 1.0, 2.0]}, "pilot=[0.0, 1.0, 2.0]: must be a pair"),
        ({"pilot": ([0.0, 1.0], [1, 1])}, "pilot: all 2 bits are 1"),
        ({"rule": 0.3}, "rule=0.3: must be a Rule"),
        ({"rule": Rule(0.3, 1), "pilot": ([0.0, 1.0], [0, 1])}, "pilot and rule: each gives the threshold"),
        ({"rounds": "independent"}, "rounds='independent': must be a Condition"),
        ({"seed": -1}, "seed=-1: must be a whole number of at least 0"),
        ({"seed": "a"}, "seed='a': must be a whole number"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"scores": [0.0, 1.0, 2.0, 3.0], "bits": [0, 1, 0, 1], "claim": Claim(1, DELTA)} | change
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        from_rounds(**arguments)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("delta", "false_positives", "false_negatives"), [(0.0, 12, 5), (0.01, 3, 30), (0.01, 200, 1)])
def test_worlds_of_unequal_size_have_an_interval_each(delta, false_positives, false_negatives):
    """Clopper and Pearson's ends by the quantiles of their Beta laws, at half of alpha each."""
    outs, ins, alpha = 300, 70, 0.04
    scores = np.concatenate([np.arange(outs) < false_positives, np.arange(ins) >= false_negatives]).astype(float)
    bits = np.arange(outs + ins) >= outs
    a = stats.beta.isf(alpha / 2, false_positives + 1, outs - false_positives)
    b = stats.beta.isf(alpha / 2, false_negatives + 1, ins - false_negatives)
    truth = max(0.0, *(math.log((1 - delta - x) / y) if 1 - delta - x > 0 else -math.inf for x, y in ((a, b), (b, a))))
    rule, claim = Rule(0.5, 1), Claim(0.9 * truth, delta)
    found = from_rounds(scores, bits, claim, rule=rule, alpha=alpha)
    assert found.epsilon == pytest.approx(truth, rel=1e-9)
    assert found.trials == (outs, ins)
    assert from_rounds(scores, bits, claim, rule=rule, alpha=found.p_value * 1.001).refuted
    assert not from_rounds(scores, bits, claim, rule=rule, alpha=found.p_value * 0.999).refuted
    if delta:
        curve = tradeoff.gaussian(1.0)
        gate = from_rounds(scores, bits, claim, shape="ledger", ledger_curve=curve, rule=rule, alpha=alpha)
        mu = max(-special.ndtri(a) - special.ndtri(b), 0.0)
        assert gate.epsilon == pytest.approx(float(gaussian.epsilon_of(mu, delta)), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 1e-5])
def test_a_likelihood_ratio_notices_what_its_normal_law_says(alpha):
    claim, curve = Claim(4.0, 1e-5), tradeoff.gaussian(gaussian.mu_of_claim(Claim(4.0, 1e-5)))
    scores, bits = np.random.default_rng(0).standard_normal(1200), np.arange(1200) >= 900
    options = {"shape": "ledger", "ledger_curve": curve, "likelihood_ratio": True, "alpha": alpha}
    error = math.sqrt(1 / 900 + 1 / 300) * (stats.norm.isf(alpha) + stats.norm.ppf(0.9))
    for sd, more in ((1.0, 1.006), (None, 1.03)):  # estimating the sd from the scores costs a little
        found = from_rounds(scores, bits, claim, sd=sd, **options)
        assert 1 + error / curve.mu <= found.notices < more * (1 + error / curve.mu)
        assert found.reach == pytest.approx(float(gaussian.epsilon_of(found.notices * curve.mu, claim.delta)))


def test_what_holds_for_any_shape_holds_for_the_ledgers_too():
    scores, bits = np.concatenate([np.arange(500) < 10, np.arange(500) < 480]).astype(float), np.arange(1000) >= 500
    claim, rule = Claim(1.0, 0.0), Rule(0.5, 1)
    alone = from_rounds(
        scores, bits, claim, shape="ledger", ledger_curve=tradeoff.approximate(1.0), rule=rule
    )  # refutes the ledger, and no other member of the family is known
    assert alone.epsilon == from_rounds(scores, bits, claim, rule=rule).epsilon > 2.5
    assert alone.refuted


@pytest.mark.parametrize("sd", [1.0, None])
def test_the_p_value_of_a_likelihood_ratio_is_the_level_at_which_it_refutes(sd):
    claim, draw = Claim(1.0, DELTA), np.random.default_rng(4)
    bits = np.arange(260) >= 60
    scores = draw.standard_normal(260) + 0.5 * bits
    options = {
        "shape": "ledger",
        "ledger_curve": tradeoff.gaussian(gaussian.mu_of_claim(claim)),
        "likelihood_ratio": True,
        "sd": sd,
    }
    p = from_rounds(scores, bits, claim, **options).p_value
    assert 1e-6 < p < 0.05
    assert from_rounds(scores, bits, claim, alpha=p * 1.001, **options).refuted
    assert not from_rounds(scores, bits, claim, alpha=p * 0.999, **options).refuted


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.3, 0.9])
def test_the_epsilon_of_any_mu_spends_delta_exactly(mu, delta):
    epsilon = float(gaussian.epsilon_of(mu, delta))
    profile = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon + stats.norm.logcdf(-epsilon / mu - mu / 2))
    assert profile == pytest.approx(delta, rel=1e-6, abs=1e-15) if epsilon > 0 else profile <= delta


@pytest.mark.parametrize("shared", [0.0, 0.05, 1.0])
def test_a_pilot_of_the_tested_rounds_in_another_order_chooses_no_threshold(shared):
    draw, claim = np.random.default_rng(3), Claim(0.0, 0.0)
    scores, bits = draw.standard_normal(600), np.arange(600) % 2 == 0
    other = draw.permutation(600)
    pilot = np.where(draw.random(600) < shared, scores[other], draw.standard_normal(600)), bits[other]
    found = from_rounds(scores, bits, claim, pilot=pilot)
    assert (found.withdrawn is not None) is (shared > 0)
    whole, same = np.round(3 * scores), (np.round(3 * pilot[0]), pilot[1])  # equal whole numbers tell nothing, so it is granted
    assert "if the pilot has other rounds than those tested" in from_rounds(whole, bits, claim, pilot=same).granted
