"""Tests of elementary channels: exact tails, the largest p-value over all divisions, and the check of separate draws."""

import math

import numpy as np
import pytest
from scipy import special, stats

from gnnaudit.accounting.checks.independence import separate_draws, separate_trials
from gnnaudit.accounting.lower.elementary import SIDES, Kind, chance, detectable, guesses, least_rejected, p_value, sum_at_least


def kinds(bits, labels, copies=2, declared=(0.7, 1.2), right=(0, 0)):
    return Kind(right[0], bits, copies, declared[0]), Kind(right[1], labels, 1, declared[1])


def test_the_tail_of_two_kinds_is_the_sum_over_all_pairs_of_counts():
    both, epsilons = kinds(30, 17), (0.4, 1.7)
    p, q = special.expit(epsilons)
    for least in (0.0, 3.1, 5.0, 7.7, 9.0, 99.0):
        brute = sum(
            stats.binom.pmf(x, 30, p) * stats.binom.pmf(y, 17, q)
            for x in range(31)
            for y in range(18)
            if both[0].weight * x + both[1].weight * y >= least - 1e-9
        )
        assert chance(both, epsilons, least) == pytest.approx(brute, abs=1e-12)


def test_one_kind_gives_the_log_odds_of_the_limit_of_clopper_and_pearson():
    one = (Kind(700, 1000, 1, 0.5),)
    limit = special.betaincinv(700, 301, 0.01)
    assert sum_at_least(one, 0.01) == pytest.approx(math.log(limit / (1 - limit)), abs=1e-5)
    assert sum_at_least((Kind(480, 1000, 1, 0.5),), 0.05) == 0.0
    assert sum_at_least((Kind(1000, 1000, 1, 0.5),), 0.05) == pytest.approx(
        math.log(0.05 ** (1 / 1000) / (1 - 0.05 ** (1 / 1000))), abs=1e-4
    )


def test_no_division_of_the_sum_has_a_larger_p_value():
    both = kinds(400, 250, right=(300, 210))
    least, worst = sum(k.weight * k.right for k in both), p_value(both, 3.0)
    for share in np.linspace(0, 1, 301):
        assert chance(both, (share * 3.0 / 2, (1 - share) * 3.0), least) <= worst * (1 + 1e-3)


def test_no_division_is_worse_for_kinds_of_many_sizes():
    """The largest of 401 values; the true maximum is no smaller. A search near one grid point alone missed 1.7 % of it."""
    draw = np.random.default_rng(1)
    for _ in range(12):
        bits, labels = (int(n) for n in draw.integers(50, 3000, 2))
        both = kinds(bits, labels, int(draw.integers(1, 20)), (draw.uniform(0.05, 2), draw.uniform(0.05, 4)))
        total = draw.uniform(0.3, 4)
        middle = sum(k.weight * k.guesses * special.expit(total / 2 / k.copies) for k in both)
        least = middle * draw.uniform(1, 1.06)
        every = [chance(both, (s * total / both[0].copies, (1 - s) * total), least) for s in np.linspace(0, 1, 401)]
        assert p_value(both, total, least) >= max(every) * (1 - 1e-6)


@pytest.mark.parametrize("true", [(0.7, 1.2), (1.3, 0.0), (0.0, 2.6)])
def test_the_sum_is_overstated_in_at_most_five_percent_of_audits(true):
    """Whatever division of 2 * 0.7 + 1.2 is the true one."""
    draw, both = np.random.default_rng(4), kinds(2000, 900)
    least = least_rejected(both, 2.6, 0.05)
    counted = [kind.weight * draw.binomial(kind.guesses, special.expit(e), 10_000) for kind, e in zip(both, true, strict=True)]
    alarms = int((sum(counted) >= least).sum())
    assert stats.binom.sf(alarms - 1, 10_000, 0.05) > 1e-6  # fails once in a million


def test_nine_of_ten_audits_detect_the_smallest_detectable_violation():
    draw, both = np.random.default_rng(5), kinds(2000, 900)
    kappa, least = detectable(both, 2.6, 0.01), least_rejected(both, 2.6, 0.01)
    counted = [k.weight * draw.binomial(k.guesses, special.expit(kappa * k.declared), 4000) for k in both]
    assert abs((sum(counted) >= least).mean() - 0.9) < 0.03
    assert detectable((Kind(3, 4, 1, 0.5),), 0.5, 1e-3) == math.inf


def test_a_channel_whose_outputs_leak_differently_is_not_overstated():
    """P(1 | 1) = 0.5, P(1 | 0) = 0.1: log-ratios ln 5 and ln 1.8. Their mean is proved, not more."""
    draw = np.random.default_rng(6)
    bits = draw.random(400_000) < 0.5
    sent = (draw.random(bits.size) < np.where(bits, 0.5, 0.1)).astype(np.int64)
    right, count = guesses(bits[:, None], sent[:, None], draw)
    assert count == pytest.approx(2 * sent.sum(), rel=0.01)
    assert sum_at_least((Kind(right, count, 1, 1.0),), 1e-6) < (math.log(5) + math.log(1.8)) / 2


def test_guesses_on_one_output_alone_prove_what_that_output_leaks():
    """The OR of two answers of epsilon 1: a 0 has the log-ratio 2, both outputs together show less."""
    draw = np.random.default_rng(8)
    bits = draw.random(400_000) < 0.5
    each = draw.random((2, bits.size)) < special.expit(np.where(bits, 1.0, -1.0))
    sent = each.any(0).astype(np.int64)
    proved = {sides: sum_at_least((Kind(*guesses(bits[:, None], sent[:, None], draw, sides), 1, 1.0),), 1e-6) for sides in SIDES}
    assert 1.93 < proved[0,] < 2
    assert proved[1,] < proved[0, 1] < 1.93


@pytest.mark.parametrize("silent", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("sides", SIDES)
def test_a_channel_that_leaks_nothing_does_not_count_as_much_as_the_one_beside_it(sides, silent):
    """Two channels of one person: randomised response of epsilon 1, and a bit that is 1 with a fixed probability. Together 1."""
    draw = np.random.default_rng(9)
    coins = draw.random(200_000) < 0.5
    leaks = np.where(draw.random(coins.size) < special.expit(1.0), coins, ~coins)
    sent = np.stack([leaks, draw.random(coins.size) < silent], 1).astype(np.int64)
    counted = guesses(np.stack([coins, coins], 1), sent, draw, sides)
    assert sum_at_least([Kind(*counted, 2, 0.5)], 1e-6) < 1.0


def test_every_output_of_every_channel_is_guessed_equally_often():
    sent = np.zeros((1000, 4), dtype=np.int64)
    for k, often in enumerate((500, 17, 990, 30)):
        sent[:often, k] = 1
    assert guesses(sent == 1, sent, np.random.default_rng(1)) == (8 * 10, 8 * 10)  # the third channel has ten zeros
    assert guesses(sent == 1, sent, np.random.default_rng(1), (1,)) == (4 * 17, 4 * 17)


def test_three_kinds_are_refused():
    with pytest.raises(ValueError, match="3 kinds"):
        p_value((Kind(5, 10, 1, 1.0),) * 3, 1.0)


SHAPE = (10, 4000, 2)


def shared(kind):
    """Uniform numbers of which some are used twice."""
    draw = np.random.default_rng(7)
    u = draw.random(SHAPE)
    if kind == "by the channels of a unit":
        u[:, :, 1] = u[:, :, 0]
    elif kind == "by all runs":
        u[:] = u[0]
    elif kind == "by two runs far apart":
        u[9] = u[0]
    elif kind == "by neighbours":
        u[:, 1::2] = u[:, ::2]
    elif kind == "as one minus it":
        u[:, :, 1] = 1 - u[:, :, 0]
    return u


@pytest.mark.parametrize(
    "kind", ["by the channels of a unit", "by all runs", "by two runs far apart", "by neighbours", "as one minus it"]
)
def test_numbers_that_are_used_twice_are_found(kind):
    assert separate_draws(np.where(shared(kind) < 0.6, 1.0, -1.0)).how == "failed"


@pytest.mark.parametrize("rates", [np.linspace(0.5, 0.7, 10)[:, None, None], np.linspace(0.3, 0.9, 4000)[:, None]])
def test_runs_and_units_whose_channels_differ_are_found(rates):
    assert separate_draws(np.where(shared("") < rates, 1.0, -1.0)).how == "failed"


def test_separate_draws_pass_as_often_as_the_level_says():
    draw, failed = np.random.default_rng(8), 0
    for k in range(400):
        right = np.where(draw.random((10, 300, 3)) < 0.8, 1.0, -1.0) * (draw.random((10, 300, 3)) < 0.6)
        right[..., 2] = 1.0 if k % 2 else right[..., 2]  # a channel whose guesses are always right shows nothing
        failed += separate_draws(right).how == "failed"
    assert stats.binom.sf(failed - 1, 400, 1e-3) > 1e-4 or failed == 0


def worlds(draw, runs=10, coins=600, decoys=1400):
    """Guesses of entries that are there with chance .9 in world 1 and .2 in world 0, where all decoys are, and their bits."""
    bits = np.concatenate([draw.random((runs, coins)) < 0.5, np.zeros((runs, decoys), dtype=bool)], axis=1)
    return bits, np.where(bits, 0.9, 0.2)


def test_trials_of_two_worlds_pass_as_often_as_the_level_says():
    draw, failed = np.random.default_rng(9), 0
    for _ in range(400):
        bits, chances = worlds(draw)
        failed += separate_trials(draw.random(bits.shape) < chances, bits, "own numbers").how == "failed"
    assert stats.binom.sf(failed - 1, 400, 1e-3) > 1e-4 or failed == 0


@pytest.mark.parametrize("shared", ["by neighbours", "by two runs", "by a run"])
def test_trials_of_two_worlds_that_share_numbers_are_found(shared):
    draw = np.random.default_rng(10)
    bits, chances = worlds(draw)
    u = draw.random(bits.shape)
    if shared == "by neighbours":
        u[:, 1::2] = u[:, ::2]
    elif shared == "by two runs":
        u[7] = u[2]
    else:
        chances = np.clip(chances + draw.normal(0, 0.05, (len(u), 1)), 0, 1)
    assert separate_trials(u < chances, bits, "own numbers").how == "failed"
