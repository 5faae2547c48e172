"""Data that a program adds to a noisy value later belong to the mechanism, if the run was recorded closely. The truth is the
program without a recording.
"""

import random

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import UNREAD, Mechanisms

DATA, SCALE = np.array([4.0, 0.0, 7.0, 0.0, 1.0]), 0.5


def accumulator(rng):
    noisy = []
    for count in DATA:
        total = 0.0
        total += rng.laplace(0, SCALE)
        total += count
        noisy.append(total)
    return noisy


def terms(rng):
    noisy = []
    for count in DATA:
        total = rng.laplace(scale=SCALE)
        for part in [0.0, *[0.5] * int(2 * count)]:
            total += part
        noisy.append(total)
    return noisy


def by_name(rng):
    noisy = {i: 1 + rng.laplace(0, SCALE) for i in range(len(DATA))}
    for i, count in enumerate(DATA):
        noisy[i] += count - 1
    return list(noisy.values())


def in_place(rng):
    total = np.zeros(len(DATA))
    total += rng.laplace(0, SCALE, len(DATA))
    total += DATA / 2
    total += DATA / 2
    return total


def tensor_number(rng):
    noisy = []
    for count in DATA:
        total = torch.zeros((), dtype=torch.float64)
        total += torch.randn((), dtype=torch.float64) * SCALE
        total += float(count)
        noisy.append(total.item())
    return noisy


WAYS = {
    "accumulator": accumulator,
    "several terms": terms,
    "dict": by_name,
    "array in place": in_place,
    "tensor of one number": tensor_number,
    "public number first": lambda rng: [rng.laplace(0, SCALE) + 1 + (count - 1) for count in DATA],
    "sum of a list": lambda rng: [sum([rng.laplace(0, SCALE), count / 2, count / 2]) for count in DATA],
    "negative": lambda rng: [-2.0 - (rng.laplace(0, SCALE) - (count + 2)) for count in DATA],
    "random": lambda rng: [SCALE * random.gauss(0, 1) + 0.0 + count for count in DATA],
    "RandomState": lambda rng: [np.random.laplace(0, SCALE) - 1 + count + 1 for count in DATA],
    "array": lambda rng: (np.zeros(5) + rng.laplace(0, SCALE, 5)) + DATA,
    "array, difference": lambda rng: 2 * DATA - (DATA - rng.laplace(0, SCALE, 5)),
    "tensor": lambda rng: (torch.zeros(5) + SCALE * torch.randn(5) + torch.tensor(DATA, dtype=torch.float32)).numpy(),
}


def seeded(way, seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return np.array(way(np.random.default_rng(seed)), dtype=np.float64)


def followed(way, seed=1, script=None, unread=0.0):
    recorded = Mechanisms(script, closely=True, unread=unread)
    with recording(follow=recorded) as found:
        noisy = seeded(way, seed)
    assert found.notes == []
    return noisy, recorded.found


def reads(way):
    """Whether the run changes if a noisy value is another one until all of its data are added."""
    noisy, found = followed(way)
    others = [followed(way, 1, found, away) for away in (UNREAD, -UNREAD)]
    same = [np.array_equal(other, noisy) and np.array_equal(again[0].clean, found[0].clean) for other, again in others]
    return not all(same)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_all_data_belong_to_one_mechanism(way):
    with recording():
        plain = seeded(way, 1)
    noisy, (mechanism,) = followed(way)
    assert np.array_equal(noisy, plain)
    assert np.array_equal(mechanism.noisy.ravel(), plain.astype(mechanism.noisy.dtype))
    assert np.array_equal(mechanism.clean.ravel(), DATA)
    assert np.all(mechanism.scale == np.float32(SCALE))
    assert not reads(way)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_repetition_takes_the_last_noisy_value(way):
    first, found = followed(way)
    second, (again,) = followed(way, 2, found)
    assert np.array_equal(first, second)
    assert np.array_equal(again.clean.ravel(), DATA)


def both(start, more):
    return [start, start + more]


READ = {
    "both numbers": lambda rng: [each for x in DATA for each in both(x + rng.laplace(), x)],
    "two sums of one number": lambda rng: [z + y for x in DATA for z in [x + rng.laplace()] for y in (x, 2 * x)],
    "text": lambda rng: [float(str(z)) + (z + x) for x in DATA for z in [x + rng.laplace()]],
    "written into an array": lambda rng: [np.full(1, z)[0] + (z + x) for x in DATA for z in [x + rng.laplace()]],
    "cast": lambda rng: [int(z) + (z + x) for x in DATA for z in [x + rng.laplace()]],
    "both arrays": lambda rng: both(DATA + rng.laplace(size=5), DATA),
    "an entry": lambda rng: both((z := DATA + rng.laplace(size=5))[0], z + DATA)[1],
    "tensors": lambda rng: torch.stack(
        both(torch.tensor(DATA) + torch.randn(5, dtype=torch.float64), torch.tensor(DATA))
    ).numpy(),
    "mixed": lambda rng: both((z := DATA + rng.laplace(size=5)) @ np.eye(5), z + DATA)[0],
}


@pytest.mark.parametrize("way", READ.values(), ids=READ)
def test_a_value_that_is_read_before_its_last_data_is_noticed(way):
    _, found = followed(way)
    extended = any(m.parts > 1 or max(m.terms, default=1) > 1 for m in found)
    assert not extended or reads(way)


ENDED = {
    "compared": lambda rng: [z + x if z > 2 else z for x in DATA for z in [x + rng.laplace()]],
    "multiplied": lambda rng: [2 * z + x for x in DATA for z in [x + rng.laplace()]],
    "times one plus noise": lambda rng: [x * (1 + rng.laplace()) for x in DATA],
    "two noisy numbers": lambda rng: [y + z for x in DATA for y, z in [(x + rng.normal(), x + rng.normal())]],
    "summed": lambda rng: (DATA + rng.laplace(size=5)).sum() + DATA,
    "one entry": lambda rng: (DATA + rng.laplace(size=5))[1] + DATA,
    "more rows": lambda rng: (DATA + rng.laplace(size=5)) + np.outer(DATA, DATA),
}


@pytest.mark.parametrize("way", ENDED.values(), ids=ENDED)
def test_other_operations_end_the_data_of_a_noisy_value(way):
    _, found = followed(way)
    assert found
    assert all(m.parts == 1 and max(m.terms, default=1) == 1 for m in found)


def test_without_a_close_recording_the_first_data_are_all():
    recorded = Mechanisms()
    with recording(follow=recorded):
        seeded(accumulator, 1)
    assert recorded.found[0].clean.tolist() == [0.0] * 5
