"""Coins and Laplace numbers against draws one by one."""

from __future__ import annotations

import numpy as np
import pytest

from gnnaudit.models.random import draws, witness
from gnnaudit.models.random.draws import heads, laplaces
from gnnaudit.models.random.streams import stream

CHANCES = (0.0, 2.0**-60, 256 / 3325, 0.5, 1.0)


def pair(key: int = 3) -> tuple[np.random.Generator, np.random.Generator]:
    return stream(key, "test"), stream(key, "test")


@pytest.mark.parametrize("chance", CHANCES)
def test_coins_are_those_of_numpy(chance: float) -> None:
    places = np.where(np.arange(4425) % 4 == 1, -1, np.arange(4425)[::-1]).astype(np.int32)
    ours, theirs = pair()
    for size in (4425, 1, 255, 256, 257, 3):
        expected = [place for place, coin in zip(places, theirs.random(size), strict=False) if coin < chance and place >= 0]
        assert heads(ours, chance, places[:size]).tolist() == expected
    assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)


def of_streams(seeds: np.ndarray, lasts: np.ndarray, count: int) -> list[list[np.ndarray]]:
    return [[stream(s, "label", v).laplace(size=count) for v in row] for s, row in zip(seeds, lasts.tolist(), strict=True)]


@pytest.mark.parametrize("together", [draws.TOGETHER, 12])
def test_laplace_numbers_are_those_of_the_streams_bit_for_bit(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "TOGETHER", together)
    seeds, lasts = np.array([5, 2**64 - 1, 0], dtype=np.uint64), np.array([[0, 7, 2**40], [3, 3, 1], [0, 0, 9]])
    for count in (1, 4, 5, 6, 1000):
        assert np.array_equal(laplaces(seeds, ("label",), lasts, count), of_streams(seeds, lasts, count))


def test_a_zero_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, lasts = np.array([1], dtype=np.uint64), np.array([[2, 3]])
    monkeypatch.setattr(draws, "philox", lambda keys, count: np.zeros((len(keys), count), dtype=np.uint64))
    assert np.array_equal(laplaces(seeds, ("label",), lasts, 2), of_streams(seeds, lasts, 2))


def test_no_runs_draw_no_laplace_numbers() -> None:
    assert laplaces(np.zeros(0, dtype=np.uint64), ("label",), np.zeros((0, 3), dtype=np.int64), 2).shape == (0, 3, 2)


@pytest.mark.parametrize("count", [1, 4, 9])
def test_philox_is_that_of_numpy(count: int) -> None:
    keys = np.array([[0, 0], [2**64 - 1, 2**64 - 2], [0x0123456789ABCDEF, 0xFEDCBA9876543210]], dtype=np.uint64)
    expected = [np.random.Philox(key=key).random_raw(count) for key in keys]
    assert np.array_equal(draws.philox(keys, count), expected)


def test_a_witness_hears_every_number_of_noise() -> None:
    class Ear:
        def __init__(self) -> None:
            self.recorded: list[np.ndarray] = []

        def drew(self, seed: int, path: tuple[int | str, ...], numbers: np.ndarray) -> None:
            self.recorded.append(numbers.copy())

    ear = Ear()
    named = np.array([3], dtype=np.uint64), ("test",), np.array([[1, 2]])
    with witness.witnessed_by(ear):
        told = laplaces(*named, 40)
    assert np.array_equal(ear.recorded, told[0])
    assert np.array_equal(told, laplaces(*named, 40))
