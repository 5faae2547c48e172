"""The classifiers against the best test of Neyman and Pearson, whose error rates are closed forms for the laws used here."""

import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit import Claim, Unit
from gnnaudit.accounting.lower.bounds import from_rounds
from gnnaudit.attacks.two_worlds import learned

from ..nightly import nightly

ROUNDS, NUMBERS, ALPHA = 1024, 20, 0.05
SPREAD = np.full(NUMBERS, 2 / math.sqrt(NUMBERS))  # a move of 2 in all
PURE = Claim(1.0, 0.0, Unit.NODE)


def bound(worlds, moves, seed, claim=PURE):
    """The lower bound from fresh rounds. worlds: (bits, rng) -> the released numbers, (rounds, numbers)."""
    rng = np.random.default_rng(seed)
    (pilot, coins), (x, bits) = ((worlds(b, rng), b) for b in (rng.random(ROUNDS) < 0.5 for _ in range(2)))
    guesser = learned(pilot, coins, moves, claim.delta, ALPHA, seed)
    return from_rounds(guesser.score(x), bits, claim, alpha=ALPHA, rule=guesser.rule).epsilon


def first(move):
    return np.where(np.arange(NUMBERS) < 1, move, 0.0)


def laplace(bits, rng):
    return rng.laplace(size=(len(bits), NUMBERS)) + bits[:, None] * first(2.0)


def spread(bits, rng):
    return rng.normal(size=(len(bits), NUMBERS)) + bits[:, None] * SPREAD


def bounded(bits, rng):
    return rng.random((len(bits), NUMBERS)) + bits[:, None] * first(0.3)


def answers(bits, rng):
    """The first number is the bit, or a lie with probability 0.1; all others are coins."""
    lies = rng.random((len(bits), NUMBERS)) < np.where(np.arange(NUMBERS) < 1, 0.1, 0.5)
    return (lies ^ (bits[:, None] & (np.arange(NUMBERS) < 1))).astype(float)


def scales(bits, rng):
    """Only the size of the noise differs, so no number has another mean."""
    return rng.normal(size=(len(bits), NUMBERS)) * np.where(bits[:, None] & (np.arange(NUMBERS) < 1), 3.0, 1.0)


def shared(bits, rng):
    """Pairs of numbers have the same noise, which hides neither of them from the difference of both."""
    return np.repeat(rng.normal(size=(len(bits), NUMBERS // 2)), 2, axis=1) + bits[:, None] * first(0.2)


def expected(false_positive, false_negative):
    """The bound from the mean counts of a test with these error rates, in `ROUNDS` rounds."""
    half = ROUNDS // 2
    limits = [stats.beta.ppf(1 - ALPHA / 2, e * half + 1, half - e * half) for e in (false_positive, false_negative)]
    return max(math.log((1 - limits[1]) / limits[0]), math.log((1 - limits[0]) / limits[1]))


@pytest.mark.parametrize(
    ("worlds", "moves", "best"),
    [
        (laplace, first(2.0), expected(math.exp(-2) / 2, 0.5)),  # a threshold at the larger mean
        *nightly((spread, SPREAD, max(expected(stats.norm.sf(t), stats.norm.cdf(t - 2)) for t in (1, 2, 3)))),
        *nightly((bounded, first(0.3), expected(0.0, 0.7))),
        *nightly((answers, first(1.0), expected(0.1, 0.1))),
        *nightly((shared, first(0.2), expected(0.0, 0.0))),
        (scales, first(0.0), expected(2 * stats.norm.sf(3), 1 - 2 * stats.norm.sf(1))),
    ],
)  # fmt: skip
def test_the_bound_is_near_that_of_the_best_test(worlds, moves, best):
    assert np.median([bound(worlds, moves, seed) for seed in range(3)]) > 0.75 * best


@pytest.mark.parametrize("seed", [0, *nightly(1, 2)])
def test_equal_worlds_give_no_bound(seed):
    def alike(bits, rng):
        return rng.laplace(size=(len(bits), NUMBERS))

    assert bound(alike, first(1.0), seed) < 0.2


def test_numbers_without_limit_and_constant_numbers_do_no_harm():
    def strange(bits, rng):
        x = laplace(bits, rng)
        x[:, 1] = 1e31
        x[:, 2] = rng.standard_cauchy(len(bits)) * 1e20
        return x

    assert bound(strange, first(2.0), 0) > 0.5 * expected(math.exp(-2) / 2, 0.5)


def test_few_rounds_suffice_where_no_noise_is_left():
    """64 rounds of each world without an error: Clopper and Pearson."""

    def exact(bits, rng):
        return np.full((len(bits), NUMBERS), 7.25) + bits[:, None] * first(0.001)

    few, rng = 128, np.random.default_rng(1)
    bits = np.arange(2 * few) % 2 == 1
    guesser = learned(exact(bits[:few], rng), bits[:few], first(0.001), 0.0, ALPHA, 1)
    found = from_rounds(guesser.score(exact(bits[few:], rng)), bits[few:], PURE, alpha=ALPHA, rule=guesser.rule)
    limit = 1 - (ALPHA / 2) ** (1 / (few // 2))
    assert found.epsilon == pytest.approx(math.log((1 - limit) / limit))
