"""Operators of PyTorch that contain a sum: noise that they add to data, and data that they add to noise. The truth is the same
program with `+` and `*`.
"""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

CLEAN = np.arange(24.0).reshape(6, 4)
DATA = torch.from_numpy(CLEAN)
SCALE = 0.5
ORDER = torch.tensor([3, 1, 0, 2, 5, 4])
WIDE = ORDER[:, None].expand(6, 4)
HALF = torch.full((6, 4), 0.5, dtype=torch.float64)


def unit():
    return torch.randn(6, 4, dtype=torch.float64)


def exponential(scale=SCALE):
    return torch.empty(6, 4, dtype=torch.float64).exponential_(1 / scale)


def of_lists(sums, *others, **options):
    data = [DATA.clone(), torch.ones(3)]
    result = sums(data, [*others, torch.ones(3)], **options)
    return (data if result is None else result)[0]


def index_add(noise, data):
    return noise.index_add_(0, torch.tensor([0, 0, 1, 2, 3, 4, 5]), torch.cat([data[:1] / 2, data[:1] / 2, data[1:]]))


WAYS = {
    "addcmul": lambda: torch.addcmul(DATA, unit(), HALF),
    "addcmul, value": lambda: torch.addcmul(DATA, torch.ones_like(HALF), unit(), value=-0.5),
    "addcmul of data": lambda: torch.addcmul(SCALE * unit(), DATA, 2 * HALF),
    "addcmul_": lambda: DATA.clone().addcmul_(unit(), torch.tensor(0.25), value=2),
    "addcdiv": lambda: torch.addcdiv(DATA, unit(), 4 * HALF),
    "addmm": lambda: torch.addmm(SCALE * unit(), DATA, torch.eye(4, dtype=torch.float64)),
    "addmm, factors": lambda: torch.addmm(unit(), DATA, torch.eye(4, dtype=torch.float64), beta=0.5, alpha=1.0),
    "addmm_": lambda: (SCALE * unit()).addmm_(DATA, 2 * torch.eye(4, dtype=torch.float64), alpha=0.5),
    "baddbmm": lambda: torch.baddbmm(SCALE * unit()[None], DATA[None], torch.eye(4, dtype=torch.float64)[None])[0],
    "lerp": lambda: torch.lerp(2 * DATA, unit(), 0.5),
    "lerp from the noise": lambda: torch.lerp(unit(), 2 * DATA, 0.5),
    "lerp_": lambda: (2 * DATA).lerp_(unit(), 0.5),
    "rsub": lambda: torch.rsub(unit(), DATA, alpha=0.5),
    "index_add": lambda: DATA.index_add(0, ORDER, SCALE * unit()),
    "index_add_": lambda: DATA.clone().index_add_(0, ORDER, unit(), alpha=SCALE),
    "index_add_ to the noise": lambda: index_add(SCALE * unit(), DATA),
    "scatter_add": lambda: DATA.scatter_add(0, WIDE, SCALE * unit()),
    "scatter_add_ to the noise": lambda: (SCALE * unit()).scatter_add_(0, WIDE, DATA[ORDER]),
    "foreach": lambda: of_lists(torch._foreach_add, SCALE * unit()),
    "foreach in place": lambda: of_lists(torch._foreach_add_, unit(), alpha=SCALE),
    "foreach, difference": lambda: of_lists(torch._foreach_sub_, SCALE * unit()),
    "two draws": lambda: DATA + (0.3 * unit() + 0.4 * unit()),
    "two draws in place": lambda: DATA + (0.3 * unit()).sub_(0.4 * unit()),
    "exponential numbers": lambda: DATA + (exponential() - exponential()),
    "a distribution": lambda: (
        DATA + SCALE * (torch.distributions.Exponential(2.0).sample((6, 4)) * 2).double().sub(exponential(1.0))
    ),
}


def followed(way, script=None, seed=1):
    torch.manual_seed(seed)
    with recording(follow=Mechanisms(script)) as recorded:
        return way(), recorded.follow.found, recorded.notes


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_sum_is_one_mechanism_of_its_scale(way):
    torch.manual_seed(1)
    with recording():
        plain = way()
    noisy, (mechanism,), notes = followed(way)
    assert notes == []
    assert torch.equal(noisy, plain)
    assert mechanism.law == ("laplace" if mechanism.draw.law == "exponential" else "normal")
    assert np.allclose(mechanism.scale, SCALE, rtol=1e-6)
    assert np.allclose(mechanism.clean, CLEAN, rtol=1e-12)
    drawn = sum((draw.values for draw in mechanism.beside), np.zeros(1)) if mechanism.beside else mechanism.draw.values
    assert mechanism.beside or np.allclose(np.sort(np.abs(mechanism.units), None), np.sort(np.abs(drawn), None), rtol=1e-9)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_repetition_takes_the_noisy_value_of_the_first_run(way):
    first, found, _ = followed(way)
    second, (again,), _ = followed(way, found, 2)
    assert torch.equal(first, second)
    assert np.allclose(again.clean, CLEAN, rtol=1e-12)


def the_same_draw_twice():
    noise = unit()
    return DATA + (noise - 0.5 * noise)


@pytest.mark.parametrize(
    "way",
    [
        lambda: torch.addcmul(DATA, unit(), unit()),
        lambda: torch.addcmul(DATA, unit(), HALF, value=0),
        lambda: torch.addcdiv(DATA, HALF, unit()),
        lambda: torch.addmm(DATA, unit(), torch.ones(4, 4, dtype=torch.float64)),
        lambda: torch.addmm(unit(), DATA, unit()[:4]),
        lambda: torch.lerp(DATA, unit(), HALF),
        lambda: torch.lerp(DATA, unit(), 0.0),
        lambda: DATA.index_add(0, torch.tensor([0, 0, 1, 2, 3, 4]), unit()),
        lambda: DATA.scatter_add(0, torch.zeros(6, 4, dtype=torch.int64), unit()),
        lambda: DATA + (unit() + exponential()),
        lambda: DATA + (exponential() + exponential()),
        lambda: DATA + (exponential(1.0) - exponential(2.0)),
        the_same_draw_twice,
    ],
)
def test_other_operators_on_noise_are_not_followed(way):
    """A product of two draws, noise times 0, a quotient by noise, several numbers at one place, and sums of other laws."""
    _, found, notes = followed(way)
    assert found == []
    assert notes == []


def test_places_without_noise_are_known():
    noisy, (mechanism,), _ = followed(lambda: DATA.index_add(0, torch.tensor([4, 1]), unit()[:2]))
    assert np.array_equal(mechanism.covered.all(1), [False, True, False, False, True, False])
    assert np.array_equal(noisy.numpy()[~mechanism.covered], CLEAN[~mechanism.covered])


def test_data_that_are_added_later_by_index_belong_to_the_same_mechanism():
    def way():
        noise = SCALE * unit()
        noise.index_add_(0, ORDER, DATA[ORDER] / 2)
        noise.scatter_add_(0, WIDE, DATA[ORDER] / 2)
        return noise

    torch.manual_seed(1)
    with recording(follow=Mechanisms(closely=True)) as recorded:
        noisy = way()
    (mechanism,) = recorded.follow.found
    assert (mechanism.parts, mechanism.scale) == (2, SCALE)
    assert np.allclose(mechanism.clean, CLEAN, rtol=1e-12)
    assert torch.equal(followed(way, [mechanism], 2)[0], noisy)


def test_tensors_within_a_gradient_have_no_numbers_and_are_no_fault():
    def way():
        noise = np.random.default_rng(1).normal(size=3)
        return torch.func.grad(lambda x: (x * torch.tensor([1.0, 2.0, 3.0]) + torch.from_numpy(noise)).sum())(torch.ones(3))

    gradient, _, notes = followed(way)
    assert notes == []
    assert gradient.tolist() == [1.0, 2.0, 3.0]


def test_two_draws_of_generators_with_one_seed_are_not_added_as_independent_ones():
    def torch_sum():
        one, other = (torch.randn(6, 4, generator=torch.Generator().manual_seed(3)) for _ in range(2))
        return DATA + (2 * one - other)

    def numpy_sum():
        one, other = (np.random.default_rng(3).standard_normal((6, 4)) for _ in range(2))
        return torch.from_numpy(CLEAN + (2 * one - other))

    assert followed(torch_sum)[1] == followed(numpy_sum)[1] == []
