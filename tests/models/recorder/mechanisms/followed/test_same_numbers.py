"""The numbers of noise show whether they are coarse, and which entries they serve together."""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.libraries import of_numpy
from gnnaudit.models.recorder.mechanisms.followed.same_numbers import DOUBLE, bits_of
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

ROWS, COLUMNS = 40, 5
DATA = torch.arange(200.0, dtype=torch.float64).reshape(ROWS, COLUMNS)
NUMPY = DATA.numpy()
BY_COLUMN = torch.linspace(1.0, 3.0, COLUMNS)


def normal(*shape, **options):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), **options)


def half(rng):
    return rng.standard_normal(DATA.shape).astype(np.float16).astype(np.float64)


def spread(column):
    return np.broadcast_to(column, DATA.shape, subok=True)


def recorded(program):
    """The mechanisms and the notes of a program that may draw from a NumPy generator."""
    with recording(follow=Mechanisms()) as found:
        program(of_numpy.default_rng(3))
    return found.follow.found, found.notes


COARSE = {
    "half": lambda rng: DATA + 5.4 * normal(ROWS, COLUMNS).half().double(),
    "half alone": lambda rng: DATA.half() + 5.4 * normal(ROWS, COLUMNS).half(),
    "two numbers of half alone": lambda rng: DATA[:1, :2].half() + normal(1, 2).half(),
    "half, scaled before and after": lambda rng: DATA + 2.3 * (5.4 * normal(ROWS, COLUMNS)).half().float(),
    "drawn as half": lambda rng: DATA + normal(ROWS, COLUMNS, dtype=torch.half),
    "bfloat16": lambda rng: DATA + normal(ROWS, COLUMNS).bfloat16().double(),
    "bfloat16 in a sum of half": lambda rng: DATA.half() + normal(ROWS, COLUMNS).bfloat16().half(),
    "one number": lambda rng: DATA[:1, :1] + normal(1, 1).half(),
    "by columns": lambda rng: DATA + (normal(ROWS, COLUMNS) * BY_COLUMN).half().double() * BY_COLUMN,
    "subnormal": lambda rng: DATA + (normal(ROWS, COLUMNS) * 1e-42).double() * 1e42,
    "numpy": lambda rng: NUMPY + 5.4 * rng.standard_normal(DATA.shape).astype(np.float16),
    "numpy, in place": lambda rng: np.add(rng.standard_normal(DATA.shape).astype(np.float16).astype(float), NUMPY),
    "numpy, a sum of two": lambda rng: NUMPY + (half(rng) + half(rng)),
    "scores": lambda rng: (NUMPY + rng.gumbel(size=DATA.shape).astype(np.float16)).argmax(-1),
}
FINE = {
    "float32": lambda rng: DATA + 5.4 * normal(ROWS, COLUMNS).double(),
    "float64": lambda rng: DATA + 5.4 * normal(ROWS, COLUMNS, dtype=torch.float64),
    "one number": lambda rng: DATA[:1, :1] + normal(1, 1),
    "numpy": lambda rng: NUMPY + 5.4 * rng.standard_normal(DATA.shape).astype(np.float32),
    "numpy, drawn as float32": lambda rng: NUMPY + rng.standard_normal(DATA.shape, dtype=np.float32),
    "half beside float64": lambda rng: NUMPY + (rng.normal(size=DATA.shape) + rng.normal(size=DATA.shape).astype("e")),
    "scores": lambda rng: (NUMPY + rng.gumbel(size=DATA.shape)).argmax(-1),
    "at the data": lambda rng: rng.normal(NUMPY, 5.4),
}


@pytest.mark.parametrize("way", COARSE)
def test_noise_of_few_bits_is_told(way):
    _, notes = recorded(COARSE[way])
    assert any("significant bits" in note and "test_same_numbers.py, line" in note for note in notes)


@pytest.mark.parametrize("way", FINE)
def test_fine_noise_is_a_mechanism(way):
    found, notes = recorded(FINE[way])
    assert len(found) == 1
    assert not notes


@pytest.mark.parametrize("draw", [lambda rng: rng.geometric(0.3, DATA.shape) - rng.geometric(0.3, DATA.shape)])
def test_noise_of_whole_numbers_on_counts_is_not_doubted(draw):
    _, notes = recorded(lambda rng: NUMPY + draw(rng))
    assert not notes


@pytest.mark.parametrize(
    ("numbers", "bits"),
    [
        (np.array([1.0, 3.0, 0.0, -5.0]), 3),
        (np.float16([0.1, 1.0]), 11),
        (np.float16([1.0, 2.0]), 11),  # two numbers may be short by chance
        (np.float32([0.1] * 9), 24),
        (np.array([0.1]), DOUBLE),
        (np.zeros(3), DOUBLE),
    ],
)
def test_bits_are_those_of_the_longest_number(numbers, bits):
    assert bits_of(numbers) == bits


ROW = {
    "at once": lambda rng: DATA + normal(ROWS, 1).expand_as(DATA),
    "then scaled": lambda rng: DATA + 5.4 * normal(ROWS, 1).expand_as(DATA),
    "then scaled by column": lambda rng: DATA + normal(ROWS, 1).expand_as(DATA) * BY_COLUMN,
    "then cloned": lambda rng: DATA + normal(ROWS, 1).expand(-1, COLUMNS).clone(),
    "then contiguous": lambda rng: DATA + normal(ROWS, 1).expand(-1, COLUMNS).contiguous(),
    "then in float64": lambda rng: DATA + normal(ROWS, 1).expand(-1, COLUMNS).double(),
    "then plus 0": lambda rng: DATA + (normal(ROWS, 1).expand(-1, COLUMNS) + 0),
    "half alone": lambda rng: DATA.half() + 5.4 * normal(ROWS, 1).half().expand_as(DATA),
    "of a part": lambda rng: DATA + 5.4 * normal(ROWS, 9)[:, 2:3].expand_as(DATA),
    "numpy": lambda rng: NUMPY + 5.4 * spread(rng.laplace(size=(ROWS, 1))),
    "numpy, by column": lambda rng: NUMPY + spread(rng.normal(size=ROWS)[:, None]) * BY_COLUMN.numpy(),
    "numpy, copied": lambda rng: NUMPY + spread(rng.standard_normal((ROWS, 1))).copy(),
    "numpy, scores": lambda rng: (NUMPY + 2 * spread(rng.gumbel(size=(ROWS, 1)))).argmax(-1),
}
OTHER = {
    "flattened": lambda rng: DATA.reshape(-1) + 5.4 * normal(100, 1).expand(-1, 2).reshape(-1),
    "opposite": lambda rng: DATA[:, :2] + normal(ROWS, 1).expand(-1, 2) * torch.tensor([1.0, -1.0]),
    "overlapping": lambda rng: DATA + normal(ROWS + COLUMNS).as_strided((ROWS, COLUMNS), (1, 1)).clone(),
    "two numbers twice": lambda rng: DATA[:2, :2].reshape(-1) + normal(2, 1).expand(-1, 2).reshape(-1),
    "half alone": lambda rng: DATA.half().reshape(-1) + normal(100, 1).half().expand(-1, 2).reshape(-1),
}


@pytest.mark.parametrize("way", ROW)
def test_one_number_for_a_row_is_shared_whatever_is_done_to_it_first(way):
    (mechanism,), notes = recorded(ROW[way])
    assert mechanism.shared == (1,)
    assert not any("same noise number" in note for note in notes)
    assert np.isinf(mechanism.over(np.eye(ROWS, COLUMNS))).any()


@pytest.mark.parametrize("way", OTHER)
def test_numbers_that_serve_several_entries_in_another_way_are_told(way):
    (mechanism,), notes = recorded(OTHER[way])
    assert not mechanism.shared
    assert any("same noise number" in note for note in notes)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2,), (3, 2), (ROWS, COLUMNS), (20_000, 3)])
def test_numbers_that_are_equal_by_chance_are_not_shared(kind, shape):
    """60,000 numbers of float32 have about a hundred equal pairs, and those of float16 have nearly no others."""
    for seed in range(20 if np.prod(shape) < 1000 else 2):
        noise = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        with recording(follow=Mechanisms()) as found:
            torch.zeros(shape, dtype=kind) + 5.4 * torch.randn(shape, dtype=kind) + noise.to(kind)
        assert not any("same noise number" in note for note in found.notes)
        assert all(not mechanism.shared for mechanism in found.follow.found)


def test_a_sum_of_two_draws_is_not_followed_if_entries_share_one_of_them():
    """The difference of two entries of a row has the noise of the second draw alone."""
    found, _ = recorded(lambda rng: NUMPY + (spread(9 * rng.normal(size=(ROWS, 1))) + rng.normal(size=DATA.shape)))
    assert found == []
    found, _ = recorded(lambda rng: NUMPY + (9 * rng.normal(size=DATA.shape) + rng.normal(size=DATA.shape)))
    assert len(found) == 1


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_numbers_that_serve_eight_entries_are_told_among_many(kind):
    """So many numbers of float32 have tens of thousands of close pairs by chance, and the recorder compares a sample of them."""
    data = torch.zeros(400_000, dtype=kind)
    _, told = recorded(lambda rng: data + 5.4 * normal(50_000, 1, dtype=kind).expand(-1, 8).reshape(-1))
    assert any("same noise number" in note for note in told)
    assert not recorded(lambda rng: data + 5.4 * normal(400_000, dtype=kind))[1]
