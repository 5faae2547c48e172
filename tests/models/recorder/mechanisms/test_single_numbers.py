"""One noise number that is added to one value is a mechanism with the value, the noise and its scale. The truth is the program
without a recording.
"""

import operator
import pickle
import random

import numpy as np
import pytest
import torch
from scipy import stats

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.followed.single import plain
from gnnaudit.models.recorder.mechanisms.found import Mechanisms, OtherMechanisms

COUNTS = [4.0, 0.0, 7.0, 0.0, 1.0]
DATA = np.array(COUNTS)
SCALE = 0.5


def in_place(rng):
    noisy = []
    for mean in DATA:
        mean += rng.laplace(scale=SCALE)
        noisy.append(mean)
    return noisy


def into_an_array(rng):
    noisy = np.zeros(len(DATA))
    for i, count in enumerate(DATA):
        noisy[i] = count + rng.laplace(0, SCALE)
    return noisy


def located(rng):
    return [rng.laplace(count, SCALE) for count in COUNTS]


def through_torch(rng):
    return [(torch.tensor(count, dtype=torch.float64) + rng.laplace(0, SCALE)).item() for count in COUNTS]


def of_an_array(rng):
    return [count + z for count, z in zip(COUNTS, rng.laplace(0, SCALE, len(COUNTS)), strict=True)]


def of_a_list(rng):
    return [count + z for count, z in zip(COUNTS, rng.laplace(0, SCALE, len(COUNTS)).tolist(), strict=True)]


WAYS = {
    "float": lambda rng: [count + rng.laplace(0, SCALE) for count in COUNTS],
    "noise first": lambda rng: [rng.laplace(0, SCALE) + count for count in COUNTS],
    "int": lambda rng: [int(count) + rng.laplace(0, SCALE) for count in COUNTS],
    "float64": lambda rng: [count + rng.laplace(0, SCALE) for count in DATA],
    "float32": lambda rng: [count + rng.laplace(0, SCALE) for count in DATA.astype(np.float32)],
    "int64": lambda rng: [count - rng.laplace(0, SCALE) for count in DATA.astype(np.int64)],
    "no axes": lambda rng: [np.array(count) + rng.laplace(0, SCALE) for count in COUNTS],
    "one entry": lambda rng: [DATA[i : i + 1] + rng.laplace(0, SCALE) for i in range(len(DATA))],
    "scaled later": lambda rng: [count + SCALE * rng.laplace() for count in COUNTS],
    "divided": lambda rng: [count - rng.laplace() / 2 for count in COUNTS],
    "negative": lambda rng: [count + -rng.laplace(0, SCALE) for count in COUNTS],
    "size 1": lambda rng: [count + rng.laplace(0, SCALE, size=1)[0] for count in COUNTS],
    "size 1, item": lambda rng: [count + rng.laplace(0, SCALE, size=1).item() for count in COUNTS],
    "add": lambda rng: [np.add(count, rng.laplace(0, SCALE)) for count in COUNTS],
    "scipy": lambda rng: [count + stats.laplace.rvs(scale=SCALE, random_state=rng) for count in COUNTS],
    "in place": in_place,
    "into an array": into_an_array,
    "located": located,
    "with a tensor": through_torch,
    "of an array": of_an_array,
    "of a list": of_a_list,
}


def followed(way, seed=1, script=None):
    recorded = Mechanisms(script)
    with recording(follow=recorded) as found:
        noisy = way(np.random.default_rng(seed))
    return noisy, recorded.found, found


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_numbers_of_a_loop_are_one_mechanism(way):
    with recording():
        plain = way(np.random.default_rng(1))
    noisy, (mechanism,), found = followed(way)
    assert found.notes == []
    assert [type(each) for each in noisy] == [type(each) for each in plain]
    assert np.array_equal(np.ravel(noisy), np.ravel(plain))
    assert np.array_equal(mechanism.clean, COUNTS)
    assert np.array_equal(mechanism.noisy, np.ravel(plain))
    assert mechanism.scale == SCALE
    assert mechanism.law == "laplace"


GUMBEL = {
    "plus": (lambda z, count: count + z, "gumbel"),
    "turned twice": (lambda z, count: count + z / -2 * -2, "gumbel"),
    "negative": (lambda z, count: count + -z, "reversed gumbel"),
    "times a negative number": (lambda z, count: -0.5 * z + count, "reversed gumbel"),
    "minus": (lambda z, count: count - z, "reversed gumbel"),
}


@pytest.mark.parametrize(("added", "law"), GUMBEL.values(), ids=GUMBEL)
def test_the_negative_of_a_gumbel_number_has_another_law_as_in_an_array(added, law):
    for way in (
        lambda rng: [added(rng.gumbel(), count) for count in COUNTS],
        lambda rng: added(rng.gumbel(size=len(COUNTS)), DATA) + 0.0,
    ):
        _, mechanisms, found = followed(way)
        assert found.notes == []
        assert {mechanism.law for mechanism in mechanisms} == {law}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_repetition_takes_the_noisy_numbers_of_the_first_run(way):
    first, found, _ = followed(way)
    second, (again,), _ = followed(way, 2, found)
    assert np.array_equal(np.ravel(first), np.ravel(second))
    assert np.array_equal(again.clean, COUNTS)


TENSORS = {
    "tensor": lambda: [torch.tensor(count) + SCALE * torch.randn(()) for count in COUNTS],
    "one entry": lambda: [torch.tensor([count]) + torch.randn(1) * SCALE for count in COUNTS],
    "number": lambda: [torch.randn(()) * SCALE + count for count in COUNTS],
    "item": lambda: [count + torch.randn(1).item() * SCALE for count in COUNTS],
    "item of float64": lambda: [count + torch.normal(0.0, SCALE, (), dtype=torch.float64).item() for count in COUNTS],
    "of an array": lambda: [torch.tensor(COUNTS)[i] + z for i, z in enumerate(SCALE * torch.randn(len(COUNTS)))],
    "distribution": lambda: [count + torch.distributions.Normal(0.0, SCALE).sample() for count in COUNTS],
    "python": lambda: [count + random.gauss(0, SCALE) for count in COUNTS],
    "python, located": lambda: [random.gauss(count, SCALE) for count in COUNTS],
    "python, normalvariate": lambda: [SCALE * random.normalvariate(0, 1) + count for count in COUNTS],
}


@pytest.mark.parametrize("way", TENSORS.values(), ids=TENSORS)
def test_the_numbers_of_a_loop_are_one_mechanism_with_pytorch_and_python(way):
    def program(seed):
        torch.manual_seed(seed)
        random.seed(seed)
        return [float(each) for each in way()]

    with recording():
        plain = program(1)
    noisy, (mechanism,), found = followed(lambda _: program(1))
    assert found.notes == []
    assert noisy == plain
    assert np.array_equal(mechanism.clean, COUNTS)
    assert mechanism.noisy.tolist() == plain
    assert mechanism.scale == pytest.approx(SCALE, rel=1e-6)
    again, _, _ = followed(lambda _: program(2), script=[mechanism])
    assert again == plain


def test_each_line_has_a_mechanism_of_its_own():
    def program(rng):
        return 3.0 + rng.normal(), \
            [count + rng.normal(0, 2) for count in COUNTS]  # fmt: skip

    _, (one, several), _ = followed(program)
    assert (one.clean.tolist(), one.scale) == ([3.0], 1.0)
    assert (several.clean.tolist(), several.scale) == (COUNTS, 2.0)


def test_each_call_of_a_helper_has_a_mechanism_of_its_own():
    def noisy(value, rng):
        return value + rng.normal()

    def program(rng):
        one = noisy(3.0, rng)
        return one, noisy(5.0, rng)

    assert [m.clean.tolist() for m in followed(program)[1]] == [[3.0], [5.0]]


def test_a_number_on_two_values_is_two_mechanisms_with_the_same_noise():
    def program(rng):
        noise = rng.normal()
        return [count + noise for count in (4.0, 7.0)]

    one, two = followed(program)[1]
    assert one.draw is two.draw
    assert np.concatenate([one.noisy - one.clean, two.noisy - two.clean]) == pytest.approx(float(one.draw.values), rel=1e-12)


def test_a_number_on_many_values_shares_its_noise():
    mechanisms = followed(lambda rng: [count + noise for noise in [rng.normal()] for count in range(40)])[1]
    assert [m.shared for m in mechanisms][-1] == (0,)
    assert sum(m.clean.size for m in mechanisms) == 40
    assert len(mechanisms) < 12


def test_numbers_on_several_values_each_are_mechanisms_of_equal_size():
    def program(rng):
        return [(count + noise, count - noise) for count in COUNTS for noise in [rng.normal()]]

    mechanisms = followed(program)[1]
    assert [m.clean.size for m in mechanisms] == [len(COUNTS)] * 2


def test_one_number_on_an_array_is_shared_by_its_entries():
    for program in (lambda rng: DATA + rng.normal(), lambda rng: np.add(rng.normal(), DATA)):
        noisy, (mechanism,), _ = followed(program)
        assert type(noisy) is np.ndarray
        assert mechanism.shared == (0,)
        assert np.array_equal(mechanism.clean, DATA)


def test_an_array_is_changed_in_place():
    def program(rng):
        noisy = DATA.copy()
        view = noisy
        view += rng.normal()
        return noisy

    noisy, (mechanism,), _ = followed(program)
    assert np.array_equal(noisy, mechanism.noisy)
    assert np.array_equal(mechanism.clean, DATA)


def test_two_normal_numbers_add_up():
    _, (mechanism,), _ = followed(lambda rng: [count + (rng.normal(0, 3) + rng.normal(0, 4)) for count in COUNTS])
    assert mechanism.scale == 5.0


LOST = {
    "compared": lambda z: max(0.0, z),
    "equal": lambda z: z if z != 0 else 1.0,
    "rounded": lambda z: round(z),
    "whole": int,
    "absolute": abs,
    "clipped": lambda z: np.clip(z, -1, 1),
    "squared": lambda z: z * z,
    "in the divisor": lambda z: 1 / z,
    "no noise": lambda z: 0 * z,
}


@pytest.mark.parametrize("change", LOST.values(), ids=LOST)
def test_changed_numbers_are_not_followed(change):
    noisy, mechanisms, found = followed(lambda rng: [count + change(rng.laplace()) for count in COUNTS])
    assert mechanisms == []
    assert found.notes == []
    assert noisy == [count + change(z) for count, z in zip(COUNTS, np.random.default_rng(1).laplace(size=5), strict=True)]


@pytest.mark.parametrize(
    "operation", [operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lt, operator.eq]
)
def test_operators_with_a_number_give_what_they_give_without_a_recording(operation):
    @np.errstate(invalid="ignore")
    def program(rng):
        drawn = (2 + abs(rng.normal()), rng.laplace(), rng.normal(size=2)[1], rng.standard_normal(dtype=np.float32))
        pairs = [(one, other) for one in drawn for other in (3, 2.5, np.float64(2), np.float32(3), np.int64(2))]
        return [operation(*pair) for one, other in pairs for pair in ((one, other), (other, one))]

    with recording():
        expected = program(np.random.default_rng(3))
    noisy, _, found = followed(program, 3)
    assert [type(plain(value)) for value in noisy] == [type(value) for value in expected]
    assert repr(noisy) == repr(expected)
    assert found.notes == []


def test_a_drawn_number_looks_like_a_number():
    (one, other), _, _ = followed(lambda rng: (rng.normal(), rng.normal(size=1)[0]))
    for number, drawn in zip((one, other), np.random.default_rng(1).normal(size=2), strict=True):
        assert isinstance(number, float)
        assert f"{number} {number:.3f}" == f"{drawn} {drawn:.3f}"
        assert pickle.loads(pickle.dumps(number)) == drawn
        assert hash(number) == hash(drawn)


@pytest.mark.parametrize("count", [3, 5])
def test_a_repetition_with_another_number_of_values_is_noticed(count):
    def program(count):
        return lambda rng: [x + rng.normal() for x in COUNTS[:count]]

    _, found, _ = followed(program(4))
    assert len(followed(program(4), script=found)[1]) == 1
    if count < 4:
        assert followed(program(count), script=found)[1] == []
    else:
        with pytest.raises(OtherMechanisms):
            followed(program(count), script=found)


@pytest.mark.parametrize(("kind", "bits"), [(torch.float16, 11), (torch.float32, None), (torch.float64, None)])
def test_numbers_of_few_bits_are_noted(kind, bits):
    """An IEEE number of 16 bits has 11 significant ones; those of 32 bits have 24, more than the recorder notes."""
    notes = followed(lambda _: [1 / 3 + torch.randn((), dtype=kind).item() for _ in range(5)])[2].notes
    assert all(f"is rounded to {bits} significant bits" in text for text in notes)
    assert bool(notes) == (bits is not None)
