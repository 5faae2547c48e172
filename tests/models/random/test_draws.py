"""Coins against draws one by one, and what a witness hears."""

from __future__ import annotations

import numpy as np
import pytest

from gnnaudit.models.random import witness
from gnnaudit.models.random.draws import heads
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


def test_a_witness_hears_every_number_of_noise() -> None:
    class Ear:
        def __init__(self) -> None:
            self.recorded: list[np.ndarray] = []

        def drew(self, seed: int, path: tuple[int | str, ...], numbers: np.ndarray) -> None:
            self.recorded.append(numbers.copy())

    ear = Ear()
    with witness.witnessed_by(ear):
        told = stream(3, "test").laplace(size=40)
    assert np.array_equal(ear.recorded[0], told)
    assert np.array_equal(told, stream(3, "test").laplace(size=40))
