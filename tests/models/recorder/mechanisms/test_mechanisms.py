"""Noise is followed to where it meets data: its law, scale and clean value, by any way of writing the sum."""

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.followed.noise import Noise
from gnnaudit.models.recorder.mechanisms.found import Mechanisms, OtherMechanisms

CLEAN = np.arange(12.0).reshape(3, 4)


def in_place(rng):
    x = CLEAN.copy()
    x += 0.5 * rng.standard_normal((3, 4))
    return x


def scaled_in_place(rng):
    noise = rng.normal(0, 2, (3, 4))
    noise *= -0.25
    return CLEAN + noise


def cast(rng):
    return CLEAN + (rng.standard_normal((3, 4)).astype(np.float32) / 2).astype(np.float64)


def two_draws(rng):
    return CLEAN + (0.3 * rng.standard_normal((3, 4)) + 0.4 * rng.standard_normal((3, 4)))


def reshaped(rng):
    return CLEAN - 0.5 * rng.standard_normal(12).reshape(3, 4)


def into_a_buffer(rng):
    buffer, noisy = np.empty((3, 4)), CLEAN.copy()
    rng.standard_normal(out=buffer)
    buffer *= 0.5
    noisy += buffer
    return noisy


def at_the_data(rng):
    return rng.normal(CLEAN, 0.5)


WAYS = [in_place, scaled_in_place, cast, two_draws, reshaped, into_a_buffer, at_the_data]


def followed(way, seed=1, script=None):
    recorded = Mechanisms(script)
    with recording(follow=recorded):
        return way(np.random.default_rng(seed)), recorded.found


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_adding_noise_is_one_mechanism_of_the_same_scale(way):
    with recording():
        plain = way(np.random.default_rng(1))
    noisy, (mechanism,) = followed(way)
    assert np.array_equal(noisy, plain)
    assert not isinstance(noisy, Noise) or noisy.origin is None
    assert np.allclose(mechanism.scale, 0.5)
    assert np.array_equal(mechanism.clean, CLEAN)
    assert mechanism.line.startswith("test_mechanisms.py, line ")


@pytest.mark.parametrize("way", WAYS)
def test_the_noisy_value_of_another_run_takes_its_place(way):
    first, found = followed(way)
    second, (again,) = followed(way, seed=2, script=found)
    assert np.array_equal(first, second)
    assert np.array_equal(again.clean, CLEAN)


def torch_normal(mean, std):
    return torch.normal(mean, std, (3, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


SHIFTED = [
    lambda rng: (0.5 * rng.standard_normal((3, 4)) + 3) + CLEAN,
    lambda rng: CLEAN - 0.5 * (rng.standard_normal((3, 4)) - 6).T.copy().T,
    lambda rng: CLEAN + (3 - rng.normal(0, 0.5, (3, 4))),
    lambda rng: rng.normal(3, 0.5, (3, 4)) + CLEAN,
    lambda rng: (torch_normal(1.0, 0.25) * 2 + 1).numpy() + CLEAN,
    lambda rng: (torch.from_numpy(CLEAN) - 0.5 * (torch_normal(0.0, 1.0) - 6)).numpy(),
    lambda rng: torch.sub(torch.from_numpy(CLEAN), torch_normal(0.0, 1.0) - 6, alpha=0.5).numpy(),
    lambda rng: torch.neg(torch_normal(-3.0, 0.5)).add_(torch.from_numpy(CLEAN)).numpy(),
]


@pytest.mark.parametrize("way", SHIFTED)
def test_a_number_that_is_added_to_noise_counts_as_data(way):
    with recording():
        plain = way(np.random.default_rng(1))
    noisy, (mechanism,) = followed(way)
    assert np.array_equal(noisy, plain)
    assert np.allclose(mechanism.clean, CLEAN + 3)
    assert np.allclose(mechanism.scale, 0.5)
    assert np.allclose(mechanism.units * 0.5 + CLEAN + 3, plain)


def partly(rng, shift=0.0):
    noise = rng.standard_normal((3, 4)) + shift
    noise[0] = 0.0
    return noise


def masked(rng):
    return partly(rng, 3.0) + CLEAN


@pytest.mark.parametrize(
    "way",
    [
        masked,
        lambda rng: (partly(rng) + rng.standard_normal((3, 4))) + CLEAN,
        lambda rng: (rng.standard_normal((3, 4)) + 3) * (CLEAN > 3) + CLEAN,
        lambda rng: (rng.standard_normal((3, 4)) * (CLEAN > 3) + 3) + CLEAN,
        lambda rng: torch.triu(torch_normal(0.0, 1.0) + 3).numpy() + CLEAN,
    ],
)
def test_shifted_noise_and_sums_of_noise_with_entries_that_have_none_are_not_followed(way):
    assert not followed(way)[1]


def test_columns_of_their_own_scale_are_kept_apart():
    _, (mechanism,) = followed(lambda rng: CLEAN + rng.standard_normal((3, 4)) * np.array([1.0, 2.0, 3.0, 4.0]))
    assert np.array_equal(np.broadcast_to(mechanism.scale, (3, 4))[0], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "other",
    [
        lambda rng: rng.standard_normal((3, 4)) @ CLEAN.T,  # weights
        lambda rng: np.abs(rng.standard_normal((3, 4))) + CLEAN,  # no normal law
        lambda rng: rng.random((3, 4)) + CLEAN,
        lambda rng: 0.0 * rng.standard_normal((3, 4)) + CLEAN,
        lambda rng: rng.standard_normal((3, 4)).sum(axis=0) + CLEAN,
    ],
)
def test_what_is_no_noise_added_to_data_is_no_mechanism(other):
    with recording():
        plain = other(np.random.default_rng(1))
    result, found = followed(other)
    assert np.array_equal(result, plain)
    assert not found


def test_another_mechanism_than_that_of_the_script_is_an_error():
    _, found = followed(in_place)
    with pytest.raises(OtherMechanisms, match=r"test_mechanisms\.py"):
        followed(cast, script=found)


def torch_ways():
    import torch

    def generator(seed):
        return torch.Generator().manual_seed(seed)

    def plain(seed):
        return torch.tensor(CLEAN) + 0.5 * torch.randn(3, 4, generator=generator(seed), dtype=torch.float64)

    def in_place(seed):
        x = torch.tensor(CLEAN)
        x.add_(torch.randn(12, generator=generator(seed), dtype=torch.float64).view(3, 4), alpha=0.5)
        return x

    def of_a_gradient(seed):
        x = torch.tensor(CLEAN, requires_grad=True)
        return (torch.normal(0, 0.5, (3, 4), generator=generator(seed), dtype=torch.float64) + x).detach()

    def at_the_data(seed):
        return torch.normal(torch.tensor(CLEAN), 0.5, generator=generator(seed))

    def of_a_distribution(seed):
        torch.manual_seed(seed)
        return torch.tensor(CLEAN) + torch.distributions.Normal(torch.zeros(3, 4, dtype=torch.float64), 0.5).sample()

    def laplace_at_the_data(seed):
        torch.manual_seed(seed)
        return torch.distributions.Laplace(torch.tensor(CLEAN), 0.5).sample()

    def laplace(seed):
        torch.manual_seed(seed)
        return torch.distributions.Laplace(torch.zeros(3, 4, dtype=torch.float64), 0.5).sample() + torch.tensor(CLEAN)

    def reparametrised(seed):
        torch.manual_seed(seed)
        return torch.tensor(CLEAN) + torch.distributions.Normal(torch.zeros(3, 4, dtype=torch.float64), 0.5).rsample()

    ways = [plain, in_place, of_a_gradient, at_the_data, of_a_distribution]
    return [*ways, laplace_at_the_data, laplace, reparametrised]


@pytest.mark.parametrize("number", range(8))
def test_pytorch_is_followed_by_the_same_rules(number):
    pytest.importorskip("torch")
    way = torch_ways()[number]
    with recording():
        plain = way(1)
    recorded = Mechanisms()
    with recording(follow=recorded):
        noisy = way(1)
    assert np.array_equal(noisy, plain)
    (mechanism,) = recorded.found
    assert np.allclose(mechanism.scale, 0.5)
    assert np.array_equal(mechanism.clean, CLEAN)
    again = Mechanisms(recorded.found)
    with recording(follow=again):
        assert np.array_equal(way(2), plain)


def test_first_weights_are_no_noise_on_gradients_that_decay_them():
    torch = pytest.importorskip("torch")
    recorded = Mechanisms()
    with recording(follow=recorded):
        weights = torch.nn.Parameter(torch.randn(3, 4))
        torch.nn.init.normal_(weights)
        (weights * torch.ones(3, 4)).sum().backward()
        torch.optim.SGD([weights], lr=0.1, weight_decay=0.1).step()
    assert not recorded.found


def test_gumbel_noise_on_scores_is_a_mechanism_of_its_own_law():
    result, (mechanism,) = followed(lambda rng: np.stack([CLEAN + rng.gumbel(0, 2.0, (3, 4))])[0])
    assert (mechanism.draw.law, float(mechanism.scale)) == ("gumbel", 2.0)
    assert np.array_equal(mechanism.noisy, result)


@pytest.mark.parametrize("read", [np.tanh, np.transpose, lambda w: CLEAN @ w.T, lambda w: np.dot(CLEAN, w.T), lambda w: w[0]])
def test_weights_that_are_read_and_updated_in_place_are_noise_on_the_first_update_only(read):
    def way(rng):
        weights = rng.normal(0, 0.1, (3, 4))
        for step in range(5):
            read(weights)
            weights -= (step + 1) * CLEAN
        return weights

    _, found = followed(way)
    assert len(found) == 1
    assert np.array_equal(found[0].clean, -CLEAN)


def by_rows(rng):
    noise = 0.5 * rng.standard_normal((3, 4))
    for row in range(3):
        noise += np.where(np.arange(3)[:, None] == row, CLEAN, 0.0)
    return noise


def by_places(rng):
    noise = rng.normal(0, 0.5, (3, 4))
    i, j = np.indices((3, 4)).reshape(2, -1)
    np.subtract.at(noise, (i, j), CLEAN.ravel())
    np.add.at(noise, (i, j), 2 * CLEAN.ravel())
    return noise


def from_a_copy(rng):
    noise = rng.normal(1, 0.5, (3, 4))
    values = noise.copy()
    values -= 1
    values += CLEAN / 4
    values += CLEAN * 3 / 4
    return values


@pytest.mark.parametrize("way", [by_rows, by_places, from_a_copy])
def test_data_added_into_the_array_of_the_noise_are_one_mechanism(way):
    with recording():
        plain = way(np.random.default_rng(1))
    noisy, (mechanism,) = followed(way)
    assert np.array_equal(noisy, plain)
    assert np.allclose(mechanism.clean, CLEAN)
    assert np.allclose(mechanism.scale, 0.5)
    assert np.allclose(mechanism.noisy, plain)
    second, (again,) = followed(way, seed=2, script=[mechanism])
    assert np.array_equal(second, noisy)
    assert np.array_equal(again.clean, mechanism.clean)


def test_a_repetition_does_not_show_the_sum_before_its_last_term():
    def way(rng):
        noise = rng.standard_normal((3, 4))
        noise += CLEAN
        seen = np.asarray(noise).copy()
        noise += CLEAN
        return np.stack([seen, noise])

    first, found = followed(way)
    second, _ = followed(way, script=found)
    assert np.array_equal(first[1], second[1])
    assert not np.isclose(first[0], second[0]).any()


def test_a_part_of_noise_into_which_data_were_added_is_no_noise():
    def way(rng):
        noise = rng.standard_normal((3, 4))
        noise += CLEAN
        return noise[:2] + 1000 * CLEAN[:2]

    _, (mechanism,) = followed(way)
    assert np.array_equal(mechanism.clean, CLEAN)


def test_rows_of_noise_are_followed_one_by_one():
    def way(rng):
        noise = 0.5 * rng.standard_normal((3, 4))
        for row in range(3):
            noise[row] += CLEAN[row]
        return noise

    noisy, found = followed(way)
    assert np.array_equal([m.clean for m in found], CLEAN)
    assert np.array_equal([m.noisy for m in found], noisy)
