"""Counts agree with the ledger as built, and the tests distinguish independent coins from other samplers."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit.accounting import events
from gnnaudit.accounting.events.counts import Charged, charged, coin_p_values, recounted
from gnnaudit.accounting.upper.accountants import tightest, upper


def test_mechanisms_on_everybody_and_on_samples_are_counted_apart():
    ledger = events.composed(events.gaussian_hops(2.0, 3), events.dp_sgd(1.5, 0.1, 40))
    assert charged(ledger) == Charged(3, 40, 0.1, 1.0, 2.0, 1.5)


def test_one_sample_for_everything_is_not_a_sample_for_each():
    ledger = events.on_sampled_nodes(0.2, events.gaussian_hops(2.0, 3), events.dp_sgd_capped(3.0, 0.05, 2, 10))
    found = charged(ledger)
    assert (found.plain, found.steps, found.whole) == (3, 10, 0.2)
    assert found.rate == pytest.approx(0.05)  # the rate is computed from the weights of the mixture


@pytest.mark.parametrize("cap", [0, 1, 4])
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_the_rate_of_a_capped_step_is_read_from_its_weights(cap, rate):
    assert charged(events.dp_sgd_capped(1.0, rate, cap, 3)).rate == pytest.approx(rate)


def test_batches_without_replacement_have_no_rate_of_coins():
    assert charged(events.dp_sgd_occurrences(1.0, 500, 4, 20, 7)).rate is None
    assert charged(dp.SampledWithoutReplacementDpEvent(500, 20, dp.GaussianDpEvent(1.0))).rate is None


def test_twice_as_many_steps_cost_what_a_ledger_of_twice_as_many_steps_costs():
    once, twice = (events.composed(events.gaussian_hops(4.0, 2), events.dp_sgd(2.0, 0.1, n)) for n in (20, 40))
    found = tightest(upper(recounted(once, 1.0, 2.0), 1e-5))
    assert found.epsilon == tightest(upper(twice, 1e-5)).epsilon
    assert recounted(dp.GaussianDpEvent(1.0), 3.0, 1.0) == events.gaussian_hops(1.0, 3)


def coins(seed, batches=40, people=300, rate=0.1):
    return np.random.default_rng(seed).random((batches, people)) < rate


def fixed(seed, batches=40, people=300, size=30):
    luck = np.random.default_rng(seed).random((batches, people))
    return luck <= np.sort(luck, 1)[:, [size - 1]]


def shuffled(seed, batches=40, people=300, size=30):
    random, joined = np.random.default_rng(seed), np.zeros((batches, people), dtype=bool)
    for epoch in range(batches // (people // size)):
        for i, part in enumerate(random.permutation(people).reshape(-1, size)):
            joined[epoch * (people // size) + i, part] = True
    return joined


@pytest.mark.nightly
def test_honest_coins_are_doubted_no_more_often_than_chance_allows():
    p = np.array([list(coin_p_values(coins(seed), 0.1).values()) for seed in range(2000)])
    for level in (0.1, 0.01):
        # Exact tests on few values are conservative: at most the level, up to four standard errors.
        assert ((p <= level).mean(0) <= level + 4 * np.sqrt(level / 2000)).all()


@pytest.mark.parametrize(
    ("sampler", "test"),
    [
        (fixed, "sizes"),
        (shuffled, "visits"),
        (lambda s: np.repeat(coins(s)[:20], 2, axis=0), "repeats"),
        (lambda s: np.tile(coins(s)[:3], (13, 1)), "twins"),
        (coins, "rate"),
    ],
)
def test_each_way_of_not_tossing_coins_has_its_test(sampler, test):
    rate = 0.07 if sampler is coins else 0.1
    assert all(coin_p_values(sampler(seed), rate)[test] < 1e-6 for seed in range(20))
