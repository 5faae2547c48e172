"""Compiled draws against numpy, whose streams they continue bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from gnnaudit.models.kernels import library
from gnnaudit.models.random import fast as draws
from gnnaudit.models.random import witness
from gnnaudit.models.random.fast import heads, laplaces, normals
from gnnaudit.models.random.streams import stream

compiled = pytest.mark.skipif(library.library() is None, reason="no C compiler on this machine: numpy draws")
CHANCES = (0.0, 2.0**-60, 256 / 3325, 0.5, 1.0)


def pair(key: int = 3) -> tuple[np.random.Generator, np.random.Generator]:
    return stream(key, "test"), stream(key, "test")


@compiled
def test_this_numpy_is_one_whose_draws_are_known() -> None:
    assert draws._state(stream(0, "test")) is not None


@pytest.mark.parametrize("count", [1, 2, 7, 8, 511, 512, 513, 4438, 1_000_001])
def test_normal_numbers_are_those_of_numpy_bit_for_bit(count: int) -> None:
    ours, theirs = pair()
    for _ in range(3):
        drawn = normals(ours, count)
        assert np.array_equal(drawn, theirs.standard_normal(count, dtype=np.float32))
    assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)
    assert count < 1_000_000 or np.abs(drawn).max() > 3.6542  # the tail of the ziggurat, reached by one in 3,900


@pytest.mark.parametrize("chance", CHANCES)
def test_coins_are_those_of_numpy(chance: float) -> None:
    places = np.where(np.arange(4425) % 4 == 1, -1, np.arange(4425)[::-1]).astype(np.int32)
    ours, theirs = pair()
    for size in (4425, 1, 255, 256, 257, 3):
        expected = [place for place, coin in zip(places, theirs.random(size), strict=False) if coin < chance and place >= 0]
        assert heads(ours, chance, places[:size]).tolist() == expected
    assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)


def test_laplace_numbers_are_those_of_the_streams_bit_for_bit() -> None:
    lasts = [0, 7, 2**40, 3]
    for count in (1, 4, 5, 6, 1000):
        expected = [stream(5, "label", last).laplace(size=count) for last in lasts]
        assert np.array_equal(laplaces(5, ("label",), lasts, count), expected)
        with library.unused():
            assert np.array_equal(laplaces(5, ("label",), lasts, count), expected)


def test_numpy_may_go_on_where_compiled_draws_stop_and_the_other_way_round() -> None:
    ours, theirs = pair(5)
    order = np.random.default_rng(0)
    places = np.arange(600, dtype=np.int32)
    for _ in range(300):
        kind, count = order.integers(5), int(order.integers(1, 600))
        match kind:
            case 0:
                a, b = normals(ours, count), theirs.standard_normal(count, dtype=np.float32)
            case 1:
                a, b = heads(ours, 0.3, places[:count]), np.flatnonzero(theirs.random(count) < 0.3)
            case 2:
                a, b = ours.standard_normal(count), theirs.standard_normal(count)
            case 3:
                a, b = (g.integers(2**31, size=count, dtype=np.uint32) for g in (ours, theirs))
            case _:
                a, b = (g.random(count) for g in (ours, theirs))
        assert np.array_equal(a, b)
        assert repr(ours.bit_generator.state) == repr(theirs.bit_generator.state)


def test_without_compiled_code_the_draws_are_the_same() -> None:
    ours, theirs = pair(7)
    fast = normals(ours, 700), heads(ours, 0.2, np.arange(700, dtype=np.int32))
    with library.unused():
        slow = normals(theirs, 700), heads(theirs, 0.2, np.arange(700, dtype=np.int32))
    assert all(np.array_equal(a, b) for a, b in zip(fast, slow, strict=True))


def test_other_generators_of_numpy_draw_for_themselves() -> None:
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    assert np.array_equal(normals(ours, 9), theirs.standard_normal(9, dtype=np.float32))


def test_a_witness_hears_every_number_of_noise() -> None:
    class Ear:
        def __init__(self) -> None:
            self.heard: list[np.ndarray] = []

        def drew(self, seed: int, path: tuple[int | str, ...], numbers: np.ndarray) -> None:
            self.heard.append(numbers.copy())

    ear = Ear()
    with witness.heard_by(ear):
        told = normals(stream(3, "test"), 40)
    assert np.array_equal(ear.heard[0], told)
    assert np.array_equal(told, normals(stream(3, "test"), 40))
    with witness.heard_by(ear):
        told = laplaces(3, ("test",), [1], 40)[0]
    assert np.array_equal(ear.heard[1], told)
