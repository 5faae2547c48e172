"""Low bits of noisy sums: with noise in float64, rounded once, they reveal nothing; on a coarse grid they do (Mironov 2012)."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

from gnnaudit.models.random.streams import add_normal, stream

STD, DRAWS = 5.0, 400_000
SUMS = (0.0, 1.0, 0.7071)  # a neighbour's row changes a sum from one of these to another


def ours(value: float, seed: int) -> np.ndarray:
    to = torch.full((1, DRAWS), value)
    add_normal(to, [seed], STD, "floating point")
    return to[0].numpy()


def drawn_in_float32(value: float, seed: int) -> np.ndarray:
    """Noise of 24 bits at most, rounded before it is added: sums that need more bits leave a mark."""
    noise = np.float32(STD) * stream(seed, "coarse").standard_normal(DRAWS, dtype=np.float32)
    coarse = np.round(noise * 2**12) / np.float32(2**12)
    return (np.float32(value) + coarse).astype(np.float32)


def low_bits(released: np.ndarray) -> np.ndarray:
    """(256,): how often each pattern of the last eight bits of the mantissa was released."""
    # Numbers of one binary exponent only: others have other low bits whatever the noise.
    same = released[(np.abs(released) >= 4) & (np.abs(released) < 8)]
    return np.bincount(same.view(np.uint32) & 0xFF, minlength=256)


def p_value(mechanism: Callable[[float, int], np.ndarray], one: float, other: float) -> float:
    """Chi-squared test of "the low bits are the same whatever the sum"."""
    table = np.stack([low_bits(mechanism(one, 1)), low_bits(mechanism(other, 2))])
    return float(chi2_contingency(table[:, table.any(0)]).pvalue)


@pytest.mark.parametrize("other", SUMS[1:])
def test_low_bits_of_our_noisy_sums_do_not_tell_the_sum(other):
    assert p_value(ours, SUMS[0], other) > 1e-4  # an honest draw fails once in 10^4 keys; these keys are fixed


def test_low_bits_of_coarse_noise_do():
    assert p_value(drawn_in_float32, 0.0, 0.7071) < 1e-12


def test_every_pattern_of_low_bits_occurs_about_equally_often():
    counts = low_bits(ours(0.7071, 3))
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 346  # chi-squared, 255 degrees of freedom: p = 1e-4


def test_the_sum_is_rounded_once():
    noise = stream(4, "once").standard_normal(1000)
    to = torch.full((1, 1000), 0.1)
    add_normal(to, [4], STD, "once")
    exact = np.float64(np.float32(0.1)) + STD * noise
    np.testing.assert_array_equal(to[0].numpy(), exact.astype(np.float32))
