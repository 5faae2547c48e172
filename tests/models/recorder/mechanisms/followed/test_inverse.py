"""Noise that a program computes from uniform or exponential numbers is a mechanism of the law that it then has. The truth is the
distribution of the program's noise without a recording, and the program's data.
"""

import math
import random

import numpy as np
import pytest
import torch
from scipy import special, stats

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

DATA = np.array([4.0, 0.0, 7.0, 0.0, 1.0, 3.0, 3.0, 2.0, 9.0, 5.0])
B = 0.5


def by_sign(rng, n):
    u = rng.random(n) - 0.5
    return -B * np.sign(u) * np.log(1 - 2 * np.abs(u))


def by_log1p(rng, n):
    u = rng.uniform(-0.5, 0.5, n)
    return np.sign(u) * np.log1p(-2 * np.abs(u)) * B


def by_copysign(rng, n):
    u = rng.uniform(-0.5, 0.5, size=n)
    return np.copysign(-B * np.log1p(-2.0 * np.fabs(u)), u)


def by_where(rng, n):
    u = rng.random(n)
    return B * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def clipped_a_little(rng, n):
    u = np.clip(rng.random(n), 1e-12, 1 - 1e-12) - 0.5
    return -B * np.sign(u) * np.log(1 - 2 * np.abs(u))


def of_exponentials(rng, n):
    return rng.exponential(B, n) - rng.exponential(B, n)


def of_scaled_exponentials(rng, n):
    return B * (rng.standard_exponential(n) - rng.exponential(size=n))


def of_logarithms(rng, n):
    return B * (np.log(rng.random(n)) - np.log(rng.random(n)))


def of_two_logarithms(rng, n):
    return -B * np.log(1 - rng.random(n)) - -B * np.log(rng.random(n))


def by_erfinv(rng, n):
    return B * math.sqrt(2) * special.erfinv(2 * rng.random(n) - 1)


def by_ndtri(rng, n):
    return special.ndtri(rng.random(n)) * B


ARRAYS = {f.__name__: f for f in (by_sign, by_log1p, by_copysign, by_where, clipped_a_little, of_exponentials)}
ARRAYS |= {f.__name__: f for f in (of_scaled_exponentials, of_logarithms, of_two_logarithms)}
NORMAL = {f.__name__: f for f in (by_erfinv, by_ndtri)}


def one_by_copysign(r):
    u = r.random() - 0.5
    return -B * math.copysign(1.0, u) * math.log(1.0 - 2.0 * abs(u))


def one_by_if(r):
    u = r.uniform(-0.5, 0.5)
    sign = 1 if u > 0 else -1
    return -B * sign * math.log1p(-2 * abs(u))


def one_by_branches(r):
    u = r.random()
    if u < 0.5:
        return B * math.log(2 * u)
    return -B * math.log(2 * (1 - u))


def one_by_numpy(r):
    u = r.random() - 0.5
    return -B * np.sign(u) * np.log(1 - 2 * np.abs(u))


def one_of_exponentials(r):
    return r.expovariate(1 / B) - r.expovariate(1 / B)


def one_of_logarithms(r):
    return B * (math.log(1 - r.random()) - math.log(1 - r.random()))


ONES = {
    f.__name__: f for f in (one_by_copysign, one_by_if, one_by_branches, one_by_numpy, one_of_exponentials, one_of_logarithms)
}
GENERATED = [(way, generator) for way in ONES for generator in ("python", "numpy")]
GENERATED.remove(("one_of_exponentials", "numpy"))  # NumPy's generators have no expovariate


def torch_by_sign(n):
    u = torch.rand(n, dtype=torch.float64) - 0.5
    return -B * u.sign() * torch.log1p(-2 * u.abs())


def torch_in_place(n):
    u = torch.empty(n).uniform_(-0.5, 0.5)
    return torch.sign(u).mul_(-B) * u.abs_().mul_(-2).log1p_()


def torch_clamped(n):
    u = torch.rand(n).sub(0.5)
    return u.sgn() * -torch.log((1 - 2 * u.abs()).clamp(min=1e-10)) * B


def torch_clamped_at_one_end(n):
    u = torch.rand(n, dtype=torch.float64) - 0.5
    return -B * u.sign() * torch.log1p(-2 * u.abs().clamp_max(0.5 - 2**-54)).clamp_min(-500)


def torch_by_where(n):
    u = torch.rand(n, dtype=torch.float64)
    return B * torch.where(u < 0.5, torch.log(2 * u), -torch.log(2 * (1 - u)))


def torch_by_erfinv(n):
    return B * 2**0.5 * torch.erfinv(2 * torch.rand(n, dtype=torch.float64) - 1)


TENSORS = {f.__name__: f for f in (torch_by_sign, torch_in_place, torch_clamped, torch_clamped_at_one_end)}
TENSORS |= {f.__name__: f for f in (torch_by_where, torch_by_erfinv)}


@pytest.mark.parametrize("way", TENSORS)
def test_noise_that_a_torch_program_computes_is_a_mechanism(way):
    law = "normal" if "erfinv" in way else "laplace"
    data = torch.from_numpy(DATA)

    def program(n=None):
        torch.manual_seed(1)
        return TENSORS[way](n) if n else data + TENSORS[way](len(data))

    assert stats.kstest(program(4000).numpy() / B, "norm" if law == "normal" else law).pvalue > 1e-3
    noisy, (m,), run = recorded(program)
    assert m.law == law
    assert not run.notes
    assert np.allclose(m.scale, B)
    assert np.array_equal(m.clean, DATA)
    assert torch.equal(noisy, program())


def torch_half(n):
    u = torch.rand(n) - 0.5
    return -B * u.sign() * torch.log(1 - u.abs())


def torch_cut(n):
    u = torch.rand(n) - 0.5
    return -B * u.sign() * torch.log((1 - 2 * u.abs()).clamp(min=1e-2))


@pytest.mark.parametrize("noise", [torch_half, torch_cut], ids=lambda f: f.__name__)
def test_tensors_of_another_law_are_no_mechanism(noise):
    assert recorded(lambda: torch.from_numpy(DATA) + noise(len(DATA)))[1] == []


def recorded(program):
    with recording(follow=Mechanisms()) as found:
        result = program()
    return result, found.follow.found, found


@pytest.mark.parametrize("way", ARRAYS)
def test_laplace_noise_that_an_array_program_computes_is_a_mechanism(way):
    noise = ARRAYS[way](np.random.default_rng(1), 4000)
    assert stats.kstest(noise / B, "laplace").pvalue > 1e-3  # the program is right
    noisy, found, run = recorded(lambda: DATA + ARRAYS[way](np.random.default_rng(1), len(DATA)))
    (m,) = found
    assert m.law == "laplace"
    assert np.allclose(m.scale, B)
    assert not run.notes
    assert np.array_equal(m.clean, DATA)
    assert np.array_equal(m.noisy, noisy)
    assert np.array_equal(
        np.asarray(noisy), DATA + ARRAYS[way](np.random.default_rng(1), len(DATA))
    )  # the recording changes nothing


@pytest.mark.parametrize("way", NORMAL)
def test_normal_noise_that_a_program_computes_is_a_mechanism(way):
    _, (m,), _ = recorded(lambda: DATA + NORMAL[way](np.random.default_rng(1), len(DATA)))
    assert m.law == "normal"
    assert np.allclose(m.scale, B)


@pytest.mark.parametrize(("way", "generator"), GENERATED)
def test_laplace_numbers_that_a_program_computes_one_by_one_are_a_mechanism(way, generator):
    def make():
        return random.Random(1) if generator == "python" else np.random.default_rng(1)

    plain = make()
    assert stats.kstest([ONES[way](plain) / B for _ in range(2000)], "laplace").pvalue > 1e-3

    def program():
        r = make()
        return [count + ONES[way](r) for count in DATA]

    noisy, found, run = recorded(program)
    assert {m.law for m in found} == {"laplace"}
    assert not run.notes
    assert sorted(np.concatenate([m.clean for m in found])) == sorted(DATA)
    assert all(np.allclose(m.scale, B) for m in found)
    assert list(map(float, noisy)) == list(map(float, program()))


def half_sided(rng, n):
    return -B * np.log(rng.random(n))


def of_a_sum(rng, n):
    return rng.exponential(B, n) + rng.exponential(B, n)


def of_a_negative(rng, n):
    return rng.exponential(B, n) - -rng.exponential(B, n)


def of_two_scales(rng, n):
    return rng.exponential(B, n) - rng.exponential(2 * B, n)


def with_itself(rng, n):
    u = rng.exponential(B, n)
    return u - u[::-1]


def cut(rng, n):
    u = np.clip(rng.random(n), 1e-3, 1 - 1e-3) - 0.5
    return -B * np.sign(u) * np.log(1 - 2 * np.abs(u))


def without_half(rng, n):
    u = rng.random(n) - 0.5
    return -B * np.log(1 - np.abs(u)) * np.sign(u)


def of_other_signs(rng, n):
    u, v = rng.random(n) - 0.5, rng.random(n) - 0.5
    return -B * np.sign(v) * np.log(1 - 2 * np.abs(u))


def rounded(rng, n):
    return np.round(by_sign(rng, n))


def written_into(rng, n):
    u = rng.random(n) - 0.5
    u[0] = 0.1
    return -B * np.sign(u) * np.log(1 - 2 * np.abs(u))


def uniform(rng, n):
    return B * (rng.random(n) - 0.5)


WRONG = [
    half_sided,
    of_a_sum,
    of_a_negative,
    of_two_scales,
    with_itself,
    cut,
    without_half,
    of_other_signs,
    rounded,
    written_into,
]


@pytest.mark.parametrize("noise", [*WRONG, uniform], ids=lambda f: f.__name__)
def test_numbers_of_another_law_are_no_mechanism(noise):
    _, found, _ = recorded(lambda: DATA + noise(np.random.default_rng(1), len(DATA)))
    assert found == []


def one_side(r):
    return -B * math.log(1 - r.random())


def one_sum(r):
    return r.expovariate(1 / B) + r.expovariate(1 / B)


def one_wrong_base(r):
    u = r.random() - 0.5
    return -B * math.copysign(1.0, u) * math.log(1.0 - abs(u))


def one_twice(r):
    u = r.random()
    return B * math.log(u) - B * math.log(u * r.random())


@pytest.mark.parametrize("noise", [one_side, one_sum, one_wrong_base, one_twice], ids=lambda f: f.__name__)
def test_one_number_of_another_law_is_no_mechanism(noise):
    def program():
        r = random.Random(1)
        return [count + noise(r) for count in DATA]

    assert recorded(program)[1] == []
