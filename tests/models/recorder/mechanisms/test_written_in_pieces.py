"""Noise that a program writes into an array or a tensor piece by piece. The truth is the program itself: the noise is
`noisy - clean`.
"""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

CLEAN = np.arange(24.0).reshape(6, 4)
DATA = torch.from_numpy(CLEAN)


def row(count=4):
    return 0.5 * torch.randn(count, dtype=torch.float64)


def rows(scale=1.0, among=range(6), into=torch.empty):
    noise = into(6, 4, dtype=torch.float64)
    for i in among:
        noise[i] = scale * row()
    return noise


def columns():
    noise = torch.empty(6, 4, dtype=torch.float64)
    for k in range(4):
        noise[:, k] = row(6)
    return noise


def blocks():
    noise = torch.empty(6, 4, dtype=torch.float64)
    with torch.no_grad():
        noise[:2].copy_(row(8).view(2, 4))
        noise[2:] = torch.from_numpy(np.random.default_rng(1).normal(0, 0.5, (4, 4)))
    return noise


def written_again():
    noise = rows(7.0)
    for i in range(6):
        noise[i] = row()
    return noise


def array_rows(scale=1.0, among=range(6), make="empty", law="normal", dtype=np.float64):
    draw, noise = np.random.RandomState(torch.initial_seed() % 2**32), getattr(np, make)((6, 4), dtype)
    for i in among:
        noise[i] = scale * getattr(draw, law)(0, 0.5, 4)
    return noise


def array_columns():
    draw, noise = np.random.default_rng(torch.initial_seed()), np.empty_like(CLEAN)
    for k in range(4):
        noise[..., k] = draw.normal(0, 0.5, 6)
    return noise


def array_blocks():
    draw, noise = np.random.default_rng(torch.initial_seed()), np.zeros_like(CLEAN)
    noise[:2, :] = draw.normal(0, 0.5, (2, 4))
    noise[2:] = draw.normal(0, 0.5, (4, 4))
    noise *= 4
    return noise / 4


def followed(way, seed=1, script=None):
    torch.manual_seed(seed)
    with recording(follow=Mechanisms(script)) as recorded:
        noisy = way()
    return np.asarray(noisy), recorded.follow.found, recorded.notes


WAYS = [
    lambda: DATA + rows(),
    lambda: DATA + 0.25 * rows(4.0),
    lambda: DATA + columns(),
    lambda: DATA + blocks(),
    lambda: DATA + written_again(),
    lambda: CLEAN + rows().numpy(),
    lambda: DATA + rows().float().double(),
    lambda: CLEAN + array_rows(),
    lambda: CLEAN + 0.25 * array_rows(4.0, make="zeros"),
    lambda: CLEAN + array_rows(law="laplace", dtype=np.float32),
    lambda: CLEAN + array_columns(),
    lambda: CLEAN + array_blocks(),
    lambda: DATA + torch.from_numpy(array_rows()),
    lambda: DATA + torch.tensor(array_rows()),
]


@pytest.mark.parametrize("way", WAYS)
def test_the_pieces_are_one_mechanism(way):
    noisy, (mechanism,), notes = followed(way)
    assert notes == []
    assert np.array_equal(mechanism.noisy, noisy)
    assert np.array_equal(mechanism.clean, CLEAN)
    assert np.allclose(mechanism.scale, 0.5)
    drawn = np.concatenate([draw.units.ravel() for draw in (mechanism.draw, *mechanism.beside)])
    assert np.allclose(np.sort(mechanism.units, None), np.sort(drawn), rtol=0, atol=1e-6)
    again, _, _ = followed(way, 2, [mechanism])
    assert np.array_equal(again, noisy)


SOME = [
    lambda: DATA + rows(among=(0, 2, 5), into=torch.zeros),
    lambda: CLEAN + array_rows(among=(0, 2, 5), make="zeros"),
]


@pytest.mark.parametrize("way", SOME)
def test_rows_that_were_not_written_have_no_noise(way):
    _, (mechanism,), _ = followed(way)
    assert mechanism.covered.all(1).tolist() == mechanism.covered.any(1).tolist() == [True, False, True, False, False, True]


def a_row_of_data():
    noise = rows()
    noise[2] = DATA[2]
    return DATA + noise


def a_row_twice():
    noise = rows()
    noise[2] = noise[4].clone()
    return DATA + noise


def rows_of_two_laws():
    noise = rows()
    noise[2] = torch.distributions.Laplace(0.0, 1.0).sample((4,)).double()
    return DATA + noise


def an_array_with(row):
    noise = array_rows()
    noise[2] = row(noise)
    return CLEAN + noise


IN_ARRAYS = [
    lambda: an_array_with(lambda noise: CLEAN[2]),
    lambda: an_array_with(lambda noise: noise[4]),
    lambda: an_array_with(lambda noise: np.random.default_rng(1).laplace(0, 1.0, 4)),
    lambda: an_array_with(lambda noise: np.random.default_rng(1).normal(0, 1.0, 4)[:1]),
]


@pytest.mark.parametrize("way", [a_row_of_data, a_row_twice, rows_of_two_laws, *IN_ARRAYS])
def test_other_rows_among_the_pieces_are_noticed(way):
    assert followed(way)[1] == []


def test_a_row_that_stands_twice_in_another_order_is_noticed():
    _, _, notes = followed(lambda: an_array_with(lambda noise: noise[4, ::-1]))
    assert "have the same noise number" in notes[0]


def test_noise_that_is_copied_over_noise_is_that_of_the_second_draw():
    def way():
        noise = row(24).view(6, 4)
        return DATA + noise.copy_(3 * row(24).view(6, 4))

    _, (mechanism,), _ = followed(way)
    assert mechanism.scale == 1.5
    assert np.allclose(mechanism.units, mechanism.draw.values.reshape(6, 4))


def test_one_number_that_is_added_to_an_array_of_the_program_is_shared():
    def way():
        sums = np.zeros((6, 4))
        sums += CLEAN
        return sums + np.random.default_rng(1).normal(0, 2.0)

    _, (mechanism,), _ = followed(way)
    assert mechanism.scale == 2.0
    assert mechanism.shared == (0, 1)


def test_each_row_of_noise_is_followed_to_its_own_sum():
    def way():
        noise, noisy = array_rows(), np.empty_like(CLEAN)
        for i in range(6):
            noisy[i] = CLEAN[i] + noise[i]
        return noisy

    noisy, found, _ = followed(way)
    assert np.array_equal(np.stack([m.noisy for m in found]), noisy)
    assert np.array_equal(np.stack([m.clean for m in found]), CLEAN)
