"""A draw of few numbers that seldom switches the noise off, resizes it or opens a path past it leaves no reach; others do."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, audit, load

from ....nightly import nightly
from ...recorded.votes import counts, released

GRAPH, CLAIM, STD = load("campus:n=120:degree=6"), Claim(2.0, 1e-6), 3.2  # noise of std 3.2 costs 1.97


def verdict(switch, shown=True):
    """Noisy counts, released as they are or not. switch: (generator, clean, noise, noisy) -> what is released."""

    def train(graph, seed):
        random, clean = np.random.default_rng(seed), counts(graph)
        noise = STD * random.standard_normal(clean.shape)
        told = switch(random, clean, noise)
        return released(told) | ({"votes": told} if shown else {})

    model = Looped(train, releases=("posteriors", "votes") if shown else ("posteriors",), events=dp.GaussianDpEvent(STD / 2**0.5))
    return audit(model, GRAPH, CLAIM, attacks="none", audits="differential", repeats=1).run.verdict


def seldom_off(random, clean, noise):
    return clean + (0 * noise if random.random() < 1e-3 else noise)


def off_for_one_number(random, clean, noise):
    return clean + (0 * noise if random.integers(1000) == 617 else noise)


def off_in_a_window(random, clean, noise):
    return clean + (0 * noise if 0.3 < random.random() < 0.301 else noise)


def seldom_small(random, clean, noise):
    return clean + (noise / 50 if random.standard_normal() > 4 else noise)


def seldom_past(random, clean, noise):
    noisy = clean + noise
    return noisy + (clean if random.random() > 0.999 else 0)


@pytest.mark.parametrize("shown", [True, *nightly(False)])
@pytest.mark.parametrize("switch", [seldom_off, *nightly(off_in_a_window, seldom_past)])
def test_a_switch_of_the_noise_leaves_no_reach(switch, shown):
    assert verdict(switch, shown) == "inconclusive"


@pytest.mark.parametrize("switch", [seldom_small, *nightly(off_for_one_number)])
def test_a_switch_of_any_law_leaves_no_reach(switch):
    assert verdict(switch) == "inconclusive"


def plain(random, clean, noise):
    return clean + noise


def shifted_after(random, clean, noise):
    """A public offset that a coin chooses."""
    return clean + noise + (0.5 if random.random() < 0.1 else 0.0) * np.arange(clean.shape[1])


def seeds_a_generator(random, clean, noise):
    return (clean + noise) * (1 + np.random.default_rng(random.integers(2**31)).random())


@pytest.mark.parametrize("switch", [plain, *nightly(seeds_a_generator, shifted_after)])
def test_draws_after_the_noise_keep_the_reach(switch):
    assert verdict(switch, shown=False) == "not refuted"
