"""Coins against draws one by one, and what a witness hears."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit.models.random import witness
from gnnaudit.models.random.draws import heads
from gnnaudit.models.random.streams import normal32, stream

CHANCES = (0.0, 2.0**-60, 256 / 3325, 0.5, 1.0)


def pair(key: int = 3) -> tuple[np.random.Generator, np.random.Generator]:
    return stream(key, "test"), stream(key, "test")


@pytest.mark.parametrize("chance", CHANCES)
def test_every_place_has_its_own_coin_of_32_bits(chance: float) -> None:
    places = np.where(np.arange(4425) % 4 == 1, -1, np.arange(4425)[::-1]).astype(np.int32)
    ours, theirs = pair()
    for size in (4425, 1, 255, 256, 257, 3):
        words = theirs.bit_generator.random_raw((size + 1) // 2).tolist()
        coins = [coin for word in words for coin in (word % 2**32, word >> 32)]
        expected = [at for at, coin in zip(places[:size], coins, strict=False) if (coin + 1) / 2**32 <= chance and at >= 0]
        assert heads(ours, chance, places[:size]).tolist() == expected
    assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)


@pytest.mark.parametrize("size", [1, 2, 3, 4400])
def test_normal32_turns_three_words_of_bits_into_two_pairs(size: int) -> None:
    ours, theirs = pair()
    pairs = (size + 1) // 2
    words = theirs.bit_generator.random_raw(pairs + (pairs + 1) // 2).tolist()
    halves = [half for word in words[pairs:] for half in (word % 2**32, word >> 32)][:pairs]
    radius = np.sqrt([-2 * math.log(word / 2**64) for word in words[:pairs]])
    angle = 2 * np.pi * np.array(halves) / 2**32
    expected = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]
    found = normal32(ours, size)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)


def test_normal32_draws_a_normal_distribution() -> None:
    drawn = normal32(stream(3, "many"), 1_000_001).astype(np.float64)
    assert drawn.shape == (1_000_001,)
    assert stats.kstest(drawn, "norm").pvalue > 0.001
    first, second = drawn[:500_000], drawn[500_001:]  # both numbers of each pair
    for a, b in ((first, second), (first**2, second**2), (np.abs(first), second)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / 500_000**0.5
    for limit in (3, 4, 4.5):
        expected = 2_000_002 * stats.norm.sf(limit)
        assert abs((np.abs(drawn) > limit).sum() - expected) < 4 * expected**0.5
    assert np.isfinite(drawn).all()


def test_normal32_is_finite_for_all_words_of_bits() -> None:
    class Bits:
        def __init__(self, word: int) -> None:
            self.bit_generator, self.word = self, word

        def random_raw(self, size: int) -> np.ndarray:
            return np.full(size, self.word, dtype=np.uint64)

    for word, longest in ((0, 9.5), (2**64 - 1, 0.001), (2**63, 1.2)):
        assert np.abs(normal32(Bits(word), 4)).max() <= longest  # type: ignore[arg-type]


def test_a_witness_hears_every_number_of_noise() -> None:
    class Ear:
        def __init__(self) -> None:
            self.recorded: list[np.ndarray] = []

        def drew(self, seed: int, path: tuple[int | str, ...], numbers: np.ndarray) -> None:
            self.recorded.append(numbers.copy())

    ear = Ear()
    with witness.witnessed_by(ear):
        told, fast = stream(3, "test").laplace(size=40), normal32(stream(3, "test"), 5)
    assert np.array_equal(ear.recorded[0], told)
    assert np.array_equal(ear.recorded[1], fast)
    assert np.array_equal(told, stream(3, "test").laplace(size=40))
