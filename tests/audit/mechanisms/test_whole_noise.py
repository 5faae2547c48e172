"""Two-sided geometric noise on whole numbers that the run then clips, divides or counts. An edge moves two counts by 1, so the
noisy counts cost twice the rate, and nothing that is computed from them costs more.
"""

import numpy as np
import pytest
from scipy.stats import dlaplace

from gnnaudit import Claim, Looped, load
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...nightly import nightly

GRAPH, RATE = load("campus:n=120:degree=6"), 0.7
CHANCE = 1 - np.exp(-RATE)


def clipped(counts, noise):
    return np.clip(counts + noise, 0, 20)


def a_histogram(counts, noise):
    noisy = counts - noise
    return np.bincount(np.maximum(noisy, 0).ravel() % 50, minlength=50) / counts.size


def in_place(counts, noise):
    counts += noise
    return np.maximum(counts, 0) / 20


def as_floats(counts, noise):
    return np.log1p(np.maximum(noise.astype(float) + counts, 0))


def audited(
    answer, draws=lambda rng, shape: rng.geometric(CHANCE, shape) - rng.geometric(CHANCE, shape), claim=2.02 * RATE, delta=0.0
):
    def train(graph, seed):
        counts = np.asarray(graph.adjacency() @ np.eye(graph.classes)[graph.y]).astype(np.int64)
        return {"out": answer(counts, draws(np.random.default_rng(seed), counts.shape))}

    return differential(Setting(Case(Looped(train, releases=("out",)), Claim(claim, delta)), GRAPH, None, Key("whole")))


@pytest.mark.parametrize("answer", [clipped, *nightly(a_histogram, in_place, as_floats)])
@pytest.mark.parametrize("delta", [0.0, *nightly(1e-5)])
def test_enough_noise_on_whole_numbers_is_supported(answer, delta):
    found = audited(answer, delta=delta)
    assert not any(bound.refuted for bound in found.bounds)
    assert set(found.covers) == {"out"}
    assert max(bound.epsilon for bound in found.bounds) == pytest.approx(2 * RATE, rel=2e-2)


@pytest.mark.parametrize(("rate", "enough"), [(RATE, True), (2 * RATE, False)])
def test_discrete_laplace_noise_of_scipy_is_two_sided_geometric_noise(rate, enough):
    found = audited(clipped, lambda rng, shape: dlaplace.rvs(rate, size=shape, random_state=rng))
    assert not any(bound.refuted for bound in found.bounds)
    assert bool(found.covers) is enough


def test_too_little_noise_on_whole_numbers_is_not_supported():
    found = audited(clipped, claim=1.9 * RATE)
    assert not any(bound.refuted for bound in found.bounds)
    assert not found.covers


def cut_off(rng, shape):
    return np.clip(rng.geometric(CHANCE, shape) - rng.geometric(CHANCE, shape), -4, 4)


def cut_off_seldom(rng, shape):
    noise = rng.geometric(CHANCE, shape) - rng.geometric(CHANCE, shape)
    noise[np.abs(noise) > 30] = 0
    return noise


def of_one_seed(rng, shape):
    seed = int(rng.integers(2**60))
    one, other = (np.random.default_rng(seed).geometric(CHANCE, shape) for _ in range(2))
    return one - other


def for_whole_rows(rng, shape):
    return rng.geometric(CHANCE, (shape[0], 1)) - rng.geometric(CHANCE, (shape[0], 1))


def of_two_chances(rng, shape):
    return rng.geometric(CHANCE, shape) - rng.geometric(0.9, shape)


def one_sided(rng, shape):
    return rng.geometric(CHANCE, shape)


@pytest.mark.parametrize("draws", [cut_off_seldom, of_one_seed, *nightly(cut_off, for_whole_rows, of_two_chances, one_sided)])
def test_other_noise_on_whole_numbers_is_not_supported(draws):
    assert not audited(clipped, draws).covers


def halved(counts, noise):
    return np.clip(counts / 2 + noise, 0, 20)


def with_a_draw_in_common(counts, noise):
    return np.clip(np.stack([counts + noise, counts - noise]), 0, 20)


@pytest.mark.parametrize("answer", [halved, with_a_draw_in_common])
def test_noise_that_hides_no_fraction_or_serves_two_values_is_not_supported(answer):
    """The same noise on both values shows their sum, which has none: the claim may be refuted."""
    assert not audited(answer).covers
