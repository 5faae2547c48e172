"""Privacy profiles and trade-off curves, against dp_accounting, closed forms, sampling and the definition."""

import math

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.claim import Claim, Relation
from gnnaudit.accounting.closed_forms import channel_epsilon
from gnnaudit.accounting.upper import exact, tradeoff

from ...nightly import nightly

LEDGERS = {
    "sampled Gaussian": events.dp_sgd(1.5, 0.02, 300),
    "node level": events.composed(events.gaussian_hops(1.5, 2), events.dp_sgd(1.5, 0.05, 200)),
    "Laplace": events.repeated(dp.LaplaceDpEvent(5.0), 30),
    "sampled Laplace": events.repeated(dp.PoissonSampledDpEvent(0.2, dp.LaplaceDpEvent(2.0)), 20),
    "Gaussian and Laplace": events.composed(events.gaussian_hops(2.0, 3), dp.LaplaceDpEvent(1.0)),
}


def library(ledger):
    accountant = dp.pld.PLDAccountant()
    accountant.compose(ledger)
    return accountant


@pytest.mark.parametrize("name", nightly("node level", among=LEDGERS))
def test_the_profile_is_that_of_dp_accounting(name):
    curve, reference = tradeoff.curve(LEDGERS[name]), library(LEDGERS[name])
    at = np.linspace(0, 6, 25)
    assert curve.delta(at) == pytest.approx(np.array([reference.get_delta(float(e)) for e in at]), abs=1e-6)
    for delta in (1e-3, 1e-5, 1e-7):
        assert curve.epsilon(delta) == pytest.approx(reference.get_epsilon(delta), abs=1e-5)


@pytest.mark.parametrize("name", [*nightly("node level", among=LEDGERS), "delta 0", "gaussian", "approximate"])
def test_a_trade_off_curve_is_convex_decreasing_and_symmetric(name):
    given = {"delta 0": tradeoff.approximate(0.7), "gaussian": tradeoff.gaussian(1.2)}
    given["approximate"] = tradeoff.approximate(0.7, 0.1)
    curve = given.get(name) or tradeoff.curve(LEDGERS[name])
    alpha = np.linspace(0, 1, 401)
    beta = curve.beta(alpha)
    assert np.all(np.diff(beta) <= 1e-12)
    assert np.all(np.diff(beta, 2) >= -1e-9)
    assert np.all(beta <= 1 - alpha + 1e-12)
    inside = (beta > 1e-6) & (alpha > 1e-6)
    assert curve.beta(beta[inside]) == pytest.approx(alpha[inside], abs=1e-6)


@pytest.mark.parametrize("name", nightly("node level", among=LEDGERS))
def test_profile_and_trade_off_say_the_same(name):
    """delta(e) = max over alpha of 1 - beta(alpha) - e^e alpha (Dong, Roth and Su 2022, proposition 6)."""
    curve = tradeoff.curve(LEDGERS[name])
    alpha = np.concatenate([[0], np.logspace(-9, 0, 50_001)])
    for e in (0.0, 1.0, 2.5):
        assert np.max(1 - curve.beta(alpha) - math.exp(e) * alpha) == pytest.approx(float(curve.delta(e)), abs=1e-6)


def product(pairs):
    """The two distributions of several independent pairs, by enumeration of all outcomes."""
    return [np.prod(np.meshgrid(*side), axis=0).ravel() for side in zip(*pairs, strict=True)]


ONE, OTHER = ((0.5, 0.5), (0.01, 0.99)), ((0.99, 0.01), (0.5, 0.5))  # their large log-ratios are in opposite orders
SAMPLED = ((0.3 * 0.5 + 0.7 * 0.01, 0.3 * 0.5 + 0.7 * 0.99), (0.01, 0.99))


@pytest.mark.parametrize(
    ("ledger", "pairs"),
    [
        ([events.FiniteDpEvent(*ONE)] * 2, [ONE, ONE]),
        ([events.FiniteDpEvent(*ONE), events.FiniteDpEvent(*OTHER)], [ONE, OTHER]),
        ([dp.PoissonSampledDpEvent(0.3, events.FiniteDpEvent(*ONE))] * 3, [SAMPLED] * 3),
        ([events.randomised_response(0.7), events.FiniteDpEvent(*OTHER)], [((0.668188, 0.331812), (0.331812, 0.668188)), OTHER]),
    ],
)
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_epsilon_for_lower_bounds_is_that_of_enumeration(ledger, pairs, delta):
    both = np.stack(product(pairs))
    found = tradeoff.epsilon_at_least(dp.ComposedDpEvent(ledger), delta)
    assert found == pytest.approx(channel_epsilon(both, delta), abs=1e-5 if delta == 0 else 4e-4)


@pytest.mark.parametrize("ledger", [events.repeated(events.PureDpEvent(0.1), 100), events.noisy_argmax(4, 2.0, 0.1, 50)])
def test_a_finite_epsilon_at_delta_zero_is_not_exceeded_by_the_one_for_lower_bounds(ledger):
    curve, truth = tradeoff.curve(ledger), exact.epsilon(ledger, 0.0)
    assert curve.epsilon(0.0) == math.inf  # the accountant's tails
    assert 0.5 * truth < curve.epsilon_at_least(0.0) <= truth
    assert tradeoff.epsilon_at_least(ledger, 0.0) == pytest.approx(truth, rel=1e-9)


def test_gaussian_ledgers_take_the_closed_form():
    curve = tradeoff.curve(events.composed(events.gaussian_hops(3.0, 4), events.gaussian(1.5)))
    assert curve.mu == pytest.approx(math.sqrt(4 / 9 + 1 / 2.25))
    assert tradeoff.curve(events.gaussian_hops(10.0, 100)).epsilon(1e-5) == pytest.approx(4.377178, abs=5e-7)
    on_grid = tradeoff.curve(events.composed(events.gaussian_hops(3.0, 4), events.repeated(events.PureDpEvent(1e-9), 1)))
    alpha = np.linspace(0, 1, 101)
    closed = tradeoff.curve(events.gaussian_hops(3.0, 4))
    assert on_grid.mu is None
    assert on_grid.beta(alpha) == pytest.approx(closed.beta(alpha), abs=2e-6)
    assert on_grid.delta(np.linspace(-3, 3, 61)) == pytest.approx(closed.delta(np.linspace(-3, 3, 61)), abs=2e-6)


def test_pure_and_approximate_curves_are_those_of_randomised_response():
    alpha = np.array([0.0, 0.1, 1 / (1 + math.e), 0.5, 1.0])
    assert tradeoff.approximate(1.0).beta(alpha) == pytest.approx(np.maximum(1 - math.e * alpha, (1 - alpha) / math.e))
    both = np.maximum(0, np.maximum(0.95 - math.e * alpha, (0.95 - alpha) / math.e))
    assert tradeoff.approximate(1.0, 0.05).beta(alpha) == pytest.approx(both)
    assert tradeoff.approximate(1.0).epsilon(0.0) == 1.0
    assert tradeoff.approximate(1.0, 0.05).epsilon(0.05) == pytest.approx(1.0)
    assert tradeoff.approximate(1.0, 0.05).epsilon(0.04) == math.inf
    assert tradeoff.approximate(0.0).delta([0.0, 1.0]) == pytest.approx([0.0, 0.0])
    assert tradeoff.approximate(2000.0).beta([1e-9, 0.5]) == pytest.approx([0.0, 0.0])
    assert tradeoff.curve(events.PureDpEvent(1.0)).beta(alpha) == pytest.approx(tradeoff.approximate(1.0).beta(alpha), abs=1e-4)


@pytest.mark.parametrize("categories", [2, 7])
def test_label_response_is_that_of_dp_accounting(categories):
    one = events.randomised_response(0.8, categories)
    # It rounds every loss up to its grid, where `curve` connects the dots; a fine grid makes them meet.
    reference = dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-7)
    for _ in range(12):
        reference.compose(one)
    at = np.linspace(0, 8, 33)
    found = tradeoff.curve(events.repeated(one, 12), Relation.REPLACE).delta(at)
    assert found == pytest.approx(np.array([reference.get_delta(float(e)) for e in at]), abs=1e-6)


def test_dp_accounting_counts_a_repeated_response_once():
    """A bug of dp_accounting 0.6: `curve` therefore never passes a composition of responses to its accountant."""
    one = events.randomised_response(0.8, 7)
    asked = [dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE).compose(e) for e in (one, events.repeated(one, 12))]
    assert asked[0].get_delta(0.1) == asked[1].get_delta(0.1)
    assert tradeoff.curve(events.repeated(one, 12)).delta(0.1) > 1.5 * asked[1].get_delta(0.1)


def test_nothing_released_and_nothing_hidden():
    alpha = np.linspace(0, 1, 11)
    assert tradeoff.curve(dp.NoOpDpEvent()).beta(alpha) == pytest.approx(1 - alpha)
    assert tradeoff.curve(dp.NoOpDpEvent()).epsilon(0.0) == 0.0
    assert tradeoff.curve(dp.NonPrivateDpEvent()).epsilon(0.5) == math.inf
    assert tradeoff.curve(dp.NonPrivateDpEvent()).delta([0.0, 100.0]) == pytest.approx([1.0, 1.0])
    assert tradeoff.curve(dp.NonPrivateDpEvent()).beta(alpha[1:]) == pytest.approx(np.zeros(10))


def test_sampled_privacy_losses_agree_with_the_profile():
    """delta(e) is the mean of (1 - e^(e - loss))_+ over outputs of one world."""
    rng = np.random.default_rng(3)
    steps, rate, sigma, runs = 20, 0.1, 1.2, 100_000
    curve = tradeoff.curve(events.dp_sgd(sigma, rate, steps))
    noise = sigma * rng.standard_normal((runs, steps))
    losses = []
    for shifted in (True, False):  # removing a record and adding one
        seen = noise + (rng.random((runs, steps)) < rate if shifted else 0)
        ratio = np.log(1 - rate + rate * np.exp((2 * seen - 1) / (2 * sigma**2))).sum(axis=1)
        losses.append(ratio if shifted else -ratio)
    for e in (0.0, 0.5, 1.0):
        drawn = [np.maximum(0, -np.expm1(np.minimum(e - loss, 0))) for loss in losses]
        means = [float(d.mean()) for d in drawn]
        worst = max(range(2), key=lambda i: means[i])
        error = float(drawn[worst].std()) / math.sqrt(runs)
        assert abs(means[worst] - float(curve.delta(e))) < 5 * error  # fails less than once in a million honest runs


def test_sampled_gaussian_hops_agree_with_the_trade_off_curve():
    rng = np.random.default_rng(4)
    hops, sigma, runs = 3, 2.0, 200_000
    curve = tradeoff.curve(events.gaussian_hops(sigma, hops))
    absent = rng.standard_normal((runs, hops)).sum(axis=1)
    present = (rng.standard_normal((runs, hops)) + 1 / sigma).sum(axis=1)
    for alpha in (0.01, 0.1, 0.5):
        threshold = np.quantile(absent, 1 - alpha)
        assert abs(float(np.mean(present <= threshold)) - float(curve.beta(alpha))) < 5 * math.sqrt(0.5 / runs)


def test_a_seen_batch_is_a_mixture():
    """One step: with probability q a Gaussian, and the adversary sees whether it happens."""
    curve, alone = tradeoff.curve(events.dp_sgd_seen(1.0, 0.3, 1)), tradeoff.gaussian(1.0)
    at = np.linspace(0, 3, 31)
    assert curve.delta(at) == pytest.approx(0.3 * alone.delta(at), abs=1e-7)


def test_amplification_of_a_composed_mechanism_is_the_textbook_one():
    inner = events.composed(events.repeated(dp.LaplaceDpEvent(2.0), 5), events.gaussian(1.0))
    whole = tradeoff.curve(inner)
    sampled = tradeoff.curve(events.on_sampled_nodes(0.1, inner))
    for delta in (1e-4, 1e-6):
        assert sampled.epsilon(delta) == pytest.approx(math.log1p(0.1 * math.expm1(whole.epsilon(delta / 0.1))), abs=1e-4)


def test_amplification_of_gaussians_is_the_one_of_dp_accounting():
    """Two ways to the same number: folded Gaussians under a sample, and the general rule for any composition."""
    folded = events.repeated(dp.PoissonSampledDpEvent(0.2, events.gaussian_hops(2.0, 4)), 25)
    reference = library(events.dp_sgd(1.0, 0.2, 25))
    assert tradeoff.curve(folded).epsilon(1e-5) == pytest.approx(reference.get_epsilon(1e-5), abs=1e-5)
    general = dp.PoissonSampledDpEvent(0.2, events.composed(events.gaussian(1.0), events.PureDpEvent(1e-6)))
    assert tradeoff.curve(events.repeated(general, 25)).epsilon(1e-5) == pytest.approx(reference.get_epsilon(1e-5), abs=2e-3)


def test_replacement_doubles_a_sampled_record_only():
    ledger = events.dp_sgd(1.0, 0.05, 100)
    reference = dp.pld.PLDAccountant(dp.NeighboringRelation.REPLACE_ONE)
    reference.compose(events.dp_sgd(2.0, 0.05, 100))
    assert tradeoff.curve(ledger, Relation.REPLACE).epsilon(1e-5) == pytest.approx(reference.get_epsilon(1e-5), abs=1e-5)
    assert tradeoff.curve(events.gaussian_hops(2.0, 3), Relation.REPLACE).mu == tradeoff.curve(events.gaussian_hops(2.0, 3)).mu


def test_losses_far_beyond_float_range_do_not_break_the_curve():
    curve = tradeoff.curve(events.repeated(dp.LaplaceDpEvent(0.01), 40))
    assert curve.epsilon(1e-5) > 700
    assert curve.beta([0.1]) == pytest.approx([0.0], abs=1e-6)


def test_unsupported_parts_say_so():
    with pytest.raises(tradeoff.Unsupported, match="SampledWithoutReplacement"):
        tradeoff.curve(dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0)))
    with pytest.raises(ValueError, match="mu=-1"):
        tradeoff.gaussian(-1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tradeoff.curve("x"), "ledger='x': must be a DpEvent"),
        (lambda: tradeoff.curve(dp.LaplaceDpEvent(1.0), interval=0), "interval=0: must be a finite number of nats above 0"),
        (lambda: tradeoff.curve(dp.LaplaceDpEvent(1.0), interval=-1), "interval=-1: must be"),
        (lambda: tradeoff.curve(dp.LaplaceDpEvent(1.0), relation="x"), "relation='x': must be one of"),
        (lambda: tradeoff.gaussian_curve(1.0), "claim=1.0: must be a Claim"),
        (lambda: tradeoff.gaussian_curve(Claim(1.0, 0.0)), "delta=0: must be above 0"),
    ],
)
def test_a_curve_of_what_is_no_ledger_or_no_claim_is_refused(make, said):
    with pytest.raises(ValueError, match=f"^{said}.*$"):
        make()


def test_scaled_noise_is_noise_with_another_multiplier():
    ledger = events.composed(events.gaussian_hops(3.0, 2), events.dp_sgd(3.0, 0.1, 10), dp.LaplaceDpEvent(6.0))
    wanted = events.composed(events.gaussian_hops(1.5, 2), events.dp_sgd(1.5, 0.1, 10), dp.LaplaceDpEvent(3.0))
    assert tradeoff.scaled(ledger, 2.0) == wanted
    assert tradeoff.scaled(ledger, 1.0) == ledger
    assert tradeoff.scaled(events.PureDpEvent(0.5), 2.0) == events.PureDpEvent(1.0)
    assert tradeoff.scaled(events.dp_sgd_seen(2.0, 0.5, 3), 2.0) == events.dp_sgd_seen(1.0, 0.5, 3)
    assert tradeoff.scaled(dp.NoOpDpEvent(), 2.0) == dp.NoOpDpEvent()
    coin = tradeoff.scaled(events.FiniteDpEvent((0.6, 0.4), (0.4, 0.6)), 2.0)
    assert math.log(coin.upper[0] / coin.lower[0]) == pytest.approx(2 * math.log(0.6 / 0.4))
    with pytest.raises(ValueError, match="kappa=0"):
        tradeoff.scaled(ledger, 0)
