"""Noise that a program computes from uniform or exponential numbers. The truth is the closed form of the Laplace mechanism: an
edge moves two degrees by 1 each.
"""

import math
import random

import numpy as np
import pytest
import scipy.stats
import torch

from gnnaudit import Claim, Looped
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...conftest import small_graph
from ...nightly import nightly

GRAPH = small_graph()
SCALE, MORE = 2.0, 1.01


def of_a_uniform_number(rng, least=0.0):
    u = rng.random() - 0.5
    return -math.copysign(1.0, u) * math.log(max(least, 1.0 - 2.0 * abs(u)))


def one_by_one(degrees, seed, scale):
    rng = random.Random(seed)
    return [degree + scale * of_a_uniform_number(rng) for degree in degrees]


def exponentials(degrees, seed, scale):
    rng = np.random.default_rng(seed)
    return degrees + (rng.exponential(scale, degrees.size) - rng.exponential(scale, degrees.size))


def tensors(degrees, seed, scale):
    u = torch.rand(degrees.size, generator=torch.Generator().manual_seed(seed % 2**32), dtype=torch.float64) - 0.5
    return torch.from_numpy(degrees.astype(float)) - scale * u.sign() * torch.log1p(-2 * u.abs())


def of_an_inverse(degrees, seed, scale):
    return degrees + scipy.stats.laplace.ppf(np.random.default_rng(seed).random(degrees.size), scale=scale)


WAYS = [one_by_one, exponentials, tensors, of_an_inverse]


def bounds(way, scale=SCALE):
    def train(graph, seed):
        noisy = np.maximum(np.asarray(way(np.asarray(graph.adjacency().sum(1)).ravel(), seed, scale), dtype=np.float64), 0)
        return {"posteriors": np.log1p(noisy)[:, None] * np.arange(1, graph.classes + 1)}

    return differential(Setting(Case(Looped(train), Claim(MORE * 2 / SCALE, 0.0)), GRAPH, None, Key("computed"))).bounds


def supported(found):
    return any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize("way", nightly(one_by_one, exponentials, among=WAYS))
def test_enough_noise_is_supported(way):
    found = bounds(way)
    assert not any(bound.refuted for bound in found)
    assert supported(found)


@pytest.mark.parametrize("way", nightly(one_by_one, of_an_inverse, among=WAYS))
def test_half_the_noise_is_refuted(way):
    assert [bound.epsilon for bound in bounds(way, SCALE / 2) if bound.refuted] == [pytest.approx(4 / SCALE, 1e-3)]


def cut_off(degrees, seed, scale):
    rng = random.Random(seed)
    return [degree + scale * of_a_uniform_number(rng, least=1e-7) for degree in degrees]


def small_ones_left_out(degrees, seed, scale):
    rng = random.Random(seed)
    noise = [scale * of_a_uniform_number(rng) for _ in degrees]
    return [degree + z if abs(z) > 1e-4 * scale else degree for degree, z in zip(degrees, noise, strict=True)]


def one_side_cut_off(degrees, seed, scale):
    rng = np.random.default_rng(seed)
    return degrees + (rng.exponential(scale, degrees.size) - np.minimum(rng.exponential(scale, degrees.size), 12 * scale))


def one_sided(degrees, seed, scale):
    return degrees + np.random.default_rng(seed).exponential(scale, degrees.size)


@pytest.mark.parametrize("fault", [one_side_cut_off, one_sided, *nightly(cut_off, small_ones_left_out)])
def test_noise_that_is_cut_off_is_not_supported(fault):
    assert not supported(bounds(fault))


def one_number_for_all(degrees, seed, scale):
    return degrees + scale * of_a_uniform_number(random.Random(seed))


def a_constant_seed(degrees, seed, scale):
    return one_by_one(degrees, 5, scale)


@pytest.mark.parametrize("fault", [one_number_for_all, *nightly(a_constant_seed)])
def test_noise_that_serves_several_values_is_refuted(fault):
    assert any(np.isinf(bound.epsilon) for bound in bounds(fault) if bound.refuted)
