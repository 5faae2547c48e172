"""Two randomised reports with the same coins are found, however the coins were drawn: their difference has no noise."""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.libraries.of_numpy import default_rng
from gnnaudit.models.recorder.mechanisms.found import Mechanisms
from gnnaudit.models.recorder.mechanisms.sharing import again

NODES, CHANCE = 40, 0.3
ALL = np.random.default_rng(1).random((NODES, NODES)) < 0.2
SOME = ALL & (np.random.default_rng(2).random((NODES, NODES)) < 0.5)


def reports(way):
    recorded = Mechanisms()
    with recording(None, recorded) as found:
        way()
    assert len(recorded.found) == 2
    return again(recorded.found, found.draws, {})


def one_mask():
    flips = default_rng(3).binomial(1, CHANCE, ALL.shape).astype(bool)
    return ALL ^ flips, SOME ^ flips


def thresholds():
    numbers = default_rng(3).random(ALL.shape)
    return [numbers < np.where(data, 1 - CHANCE, CHANCE) for data in (ALL, SOME)]


def copied(seeds):
    pairs = zip(seeds, (ALL, SOME), strict=True)
    return [data ^ default_rng(seed).binomial(1, CHANCE, data.shape).astype(bool) for seed, data in pairs]


def reseeded(seeds):
    """`torch.bernoulli` compares the same uniform numbers with other probabilities."""
    for seed, data in zip(seeds, (ALL, SOME), strict=True):
        torch.manual_seed(seed)
        torch.bernoulli(torch.from_numpy(np.where(data, 1 - CHANCE, CHANCE)))


def of_other_shapes(seeds):
    pairs = zip(seeds, (ALL, ALL[:30]), strict=True)
    return [default_rng(seed).random(data.shape) < np.where(data, 1 - CHANCE, CHANCE) for seed, data in pairs]


SHARED = [one_mask, thresholds, *(lambda way=way: way((3, 3)) for way in (copied, reseeded, of_other_shapes))]


@pytest.mark.parametrize("way", SHARED)
def test_reports_of_different_data_with_the_same_coins_have_no_cost(way):
    same, why = reports(way)
    assert not same
    assert "share noise" in why


def two_streams():
    generator = default_rng(3)
    return ALL ^ (generator.random(ALL.shape) < CHANCE), SOME ^ (generator.random(ALL.shape) < CHANCE)


def two_halves():
    flips = default_rng(3).random(ALL.shape) < CHANCE
    return ALL ^ np.triu(flips, 1), SOME ^ np.tril(flips, -1)


def adaptive():
    """The second report asks about what the first one told."""
    generator = default_rng(3)
    first = ALL ^ (generator.random(ALL.shape) < CHANCE)
    return first, (first & SOME) ^ (generator.random(ALL.shape) < CHANCE)


FRESH = [two_streams, two_halves, adaptive, *(lambda way=way: way((3, 4)) for way in (copied, reseeded, of_other_shapes))]


@pytest.mark.parametrize("way", FRESH)
def test_reports_with_coins_of_their_own_are_two_mechanisms(way):
    assert reports(way) == ({}, "")


def test_a_report_of_the_same_data_with_the_same_coins_is_one_mechanism():
    def twice():
        flips = default_rng(3).random(ALL.shape) < CHANCE
        return ALL ^ flips, ALL ^ flips

    assert reports(twice) == ({1: 0}, "")


@pytest.mark.parametrize("rare", [1e-3, 0.5])
def test_independent_coins_are_seldom_taken_for_the_same(rare):
    """At most one in a million pairs by the inequalities; 2,000 pairs of rare or of fair coins."""
    generator = default_rng(5)
    for _ in range(2_000 // 100):
        recorded = Mechanisms()
        with recording(None, recorded) as found:
            told = [np.zeros(500, dtype=bool) ^ (generator.random(500) < rare) for _ in range(15)]
        assert len(told) == len(recorded.found)
        assert again(recorded.found, found.draws, {})[1] == ""
