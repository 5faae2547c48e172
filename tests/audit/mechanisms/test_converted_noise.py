"""Noise that a program converts between NumPy, PyTorch and lists before it adds it to the degrees. The truth is the closed form
of the Gaussian mechanism: an edge moves two degrees by 1 each, so the sensitivity is the root of 2.
"""

import random

import numpy as np
import pytest
import torch

from gnnaudit import Claim, Looped
from gnnaudit.accounting.gaussian import epsilon_of
from gnnaudit.audit.audits.differential import differential
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key

from ...conftest import small_graph
from ...nightly import nightly

GRAPH = small_graph()
SCALE, DELTA, MORE = 2.0, 1e-5, 1.01


def to_float32(degrees, rng, scale):
    return torch.from_numpy(degrees).float() + torch.tensor(rng.normal(0, scale, degrees.size), dtype=torch.float32)


def from_a_tensor(degrees, rng, scale):
    generator = torch.Generator().manual_seed(int(rng.integers(2**30)))
    return torch.from_numpy(degrees + scale * np.asarray(torch.randn(degrees.size, generator=generator)))


def from_a_list(degrees, rng, scale):
    numbers = random.Random(int(rng.integers(2**62)))
    return torch.from_numpy(degrees) + torch.tensor([numbers.gauss(0, scale) for _ in degrees])


def shared(degrees, rng, scale):
    noise = rng.standard_normal(degrees.size)
    tensor = torch.from_numpy(noise)
    noise *= scale
    return torch.from_numpy(degrees) + tensor


def joined(degrees, rng, scale):
    blocks = [torch.from_numpy(rng.normal(0, scale, block.size)) for block in np.array_split(degrees, 3)]
    return torch.from_numpy(degrees) + torch.cat(blocks)


WAYS = [to_float32, from_a_tensor, from_a_list, shared, joined]


def bounds(way, scale=SCALE):
    def train(graph, seed):
        degrees = np.asarray(graph.adjacency().sum(1), dtype=np.float64).ravel()
        noisy = way(degrees, np.random.default_rng(seed), scale).double().clamp(min=0).numpy()
        return {"posteriors": np.log1p(noisy)[:, None] * np.arange(1, graph.classes + 1)}

    claim = Claim(MORE * cost(SCALE), DELTA)
    return differential(Setting(Case(Looped(train), claim), GRAPH, None, Key("converted"))).bounds


def cost(scale):
    return float(epsilon_of(np.sqrt(2) / scale, DELTA))


def supported(found):
    return any(np.isfinite(bound.reach) and not bound.failed for bound in found)


@pytest.mark.parametrize("way", nightly(from_a_list, shared, among=WAYS))
def test_enough_noise_is_supported(way):
    found = bounds(way)
    assert not any(bound.refuted for bound in found)
    assert supported(found)


@pytest.mark.parametrize("way", nightly(to_float32, joined, among=WAYS))
def test_half_the_noise_is_refuted(way):
    found = [bound.epsilon for bound in bounds(way, SCALE / 2) if bound.refuted]
    assert found == [pytest.approx(cost(SCALE / 2), 1e-3)]


def stale(degrees, rng, scale):
    return torch.from_numpy(degrees) + torch.from_numpy(np.random.default_rng(0).normal(0, scale, degrees.size))


def multiplied_by_zero_in_the_shared_memory(degrees, rng, scale):
    noise = rng.normal(0, scale, degrees.size)
    tensor = torch.from_numpy(noise)
    noise *= 0
    return torch.from_numpy(degrees) + tensor


def removed_again(degrees, rng, scale):
    noise = torch.tensor(rng.normal(0, scale, degrees.size))
    return (torch.from_numpy(degrees) + noise) - noise


@pytest.mark.parametrize(
    "way", nightly(multiplied_by_zero_in_the_shared_memory, among=[stale, multiplied_by_zero_in_the_shared_memory, removed_again])
)
def test_noise_that_hides_nothing_is_refuted(way):
    assert np.inf in [bound.epsilon for bound in bounds(way) if bound.refuted]


def clipped(degrees, rng, scale):
    return torch.from_numpy(degrees) + torch.from_numpy(np.clip(rng.normal(0, scale, degrees.size), -9 * scale, 9 * scale))


def clipped_in_the_shared_memory(degrees, rng, scale):
    noise = rng.normal(0, scale, degrees.size)
    tensor = torch.from_numpy(noise)
    np.clip(noise, -4 * scale, 4 * scale, out=noise)
    return torch.from_numpy(degrees) + tensor


def half_precision(degrees, rng, scale):
    return torch.from_numpy(degrees) / 3 + torch.from_numpy(rng.normal(0, scale, degrees.size).astype(np.float16)).double()


def twice(degrees, rng, scale):
    half = torch.from_numpy(rng.normal(0, scale, -(-degrees.size // 2)))
    return torch.from_numpy(degrees) + torch.cat([half, half])[: degrees.size]


@pytest.mark.parametrize("way", nightly(clipped, among=[clipped, clipped_in_the_shared_memory, half_precision, twice]))
def test_noise_of_another_law_is_not_supported(way):
    """A normal number is beyond 4 scales with a probability of 6e-5, more than the delta of the claim."""
    assert not supported(bounds(way))
