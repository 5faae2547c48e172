"""Drawn numbers that a program converts between NumPy, PyTorch and lists are followed to their sum with data. The truth is the
program itself: it adds noise of scale 0.5, and the noise is `noisy - clean`.
"""

import random

import numpy as np
import pytest
import torch

from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms
from gnnaudit.models.recorder.mechanisms.mechanism import REPORT

CLEAN = np.arange(24.0).reshape(6, 4)
DATA, SINGLE = torch.from_numpy(CLEAN.copy()), torch.from_numpy(CLEAN).float()
SCALE = 0.5


def drawn(rng, *shape):
    return SCALE * rng.standard_normal(shape or CLEAN.shape)


def tensor(rng, *shape, dtype=torch.float64):
    torch.manual_seed(int(rng.integers(2**30)))
    return SCALE * torch.randn(shape or CLEAN.shape, dtype=dtype)


def table(rng):
    numbers = random.Random(int(rng.integers(2**30)))
    return [[numbers.gauss(0, SCALE) for _ in range(4)] for _ in range(6)]


def copied_into(rng):
    noise = torch.empty(CLEAN.shape)
    noise.copy_(torch.from_numpy(drawn(rng)))
    return SINGLE + noise


def scaled_after_the_conversion(rng):
    noise = 2 * drawn(rng)
    shared = torch.from_numpy(noise)
    noise *= 0.5
    return DATA + shared


def scaled_after_the_first_use(rng):
    noise = 2 * drawn(rng)
    shared = torch.from_numpy(noise)
    assert shared.numel() == (shared * 1.0).numel()
    noise[:] *= 0.5
    return DATA + shared


def scaled_as_a_tensor(rng):
    noise = 2 * drawn(rng)
    torch.from_numpy(noise).mul_(0.5)
    return CLEAN + noise


def scaled_by_numpy(rng):
    noise = 2 * tensor(rng)
    shared = noise.numpy()
    shared *= 0.5
    return DATA + noise


def scaled_by_pytorch(rng):
    noise = 2 * tensor(rng)
    shared = noise.numpy()
    noise *= 0.5
    return CLEAN + shared


def added_in_place(rng):
    total = DATA.clone()
    return total.add_(torch.from_numpy(2 * drawn(rng)), alpha=0.5)


def added_into_the_noise(rng):
    noise = torch.as_tensor(drawn(rng))
    noise += DATA
    return noise


TO_PYTORCH = {
    "from_numpy": lambda rng: DATA + torch.from_numpy(drawn(rng)),
    "from_numpy, then float": lambda rng: SINGLE + torch.from_numpy(drawn(rng)).float(),
    "from_numpy, then type": lambda rng: SINGLE + torch.from_numpy(drawn(rng)).type(torch.FloatTensor),
    "float32 before": lambda rng: SINGLE + 0.5 * torch.from_numpy(rng.standard_normal((6, 4)).astype(np.float32)),
    "float32 drawn": lambda rng: SINGLE - 0.5 * torch.from_numpy(rng.standard_normal((6, 4), dtype=np.float32)),
    "tensor": lambda rng: DATA + torch.tensor(drawn(rng)),
    "tensor of float32": lambda rng: SINGLE + torch.tensor(drawn(rng), dtype=torch.float32),
    "as_tensor": lambda rng: SINGLE + torch.as_tensor(drawn(rng), dtype=torch.float32),
    "asarray": lambda rng: DATA + torch.asarray(drawn(rng)),
    "Tensor": lambda rng: SINGLE + torch.Tensor(drawn(rng)),
    "FloatTensor": lambda rng: SINGLE + torch.FloatTensor(drawn(rng)),
    "new_tensor": lambda rng: DATA + DATA.new_tensor(drawn(rng)),
    "from_dlpack": lambda rng: DATA + torch.from_dlpack(drawn(rng)),
    "view": lambda rng: DATA + torch.from_numpy(drawn(rng, 24)).view(6, 4),
    "transposed": lambda rng: DATA + torch.from_numpy(drawn(rng, 4, 6).T),
    "mixed": lambda rng: DATA + drawn(rng),
    "mixed ufunc": lambda rng: np.add(DATA, drawn(rng)),
    "stack": lambda rng: DATA + torch.stack([torch.from_numpy(drawn(rng, 4)) for _ in range(6)]),
    "stack of rows": lambda rng: DATA + torch.stack([torch.from_numpy(row) for row in drawn(rng)]),
    "cat": lambda rng: SINGLE + torch.cat([torch.tensor(drawn(rng, 3, 4), dtype=torch.float32) for _ in range(2)]),
    "hstack": lambda rng: DATA + torch.hstack([torch.from_numpy(drawn(rng, 6, 2)) for _ in range(2)]),
    "a list": lambda rng: DATA + torch.tensor(drawn(rng).tolist(), dtype=torch.float64),
    "a list of rows": lambda rng: DATA + torch.tensor([row.tolist() for row in drawn(rng)], dtype=torch.float64),
    "python": lambda rng: SINGLE + torch.tensor(table(rng)),
    "python, flat": lambda rng: DATA + torch.tensor([x for row in table(rng) for x in row], dtype=torch.float64).view(6, 4),
    "python, rows": lambda rng: SINGLE + torch.stack([torch.tensor(row) for row in table(rng)]),
    "python, by numpy": lambda rng: SINGLE + torch.from_numpy(np.array(table(rng), dtype=np.float32)),
    "one by one": lambda rng: torch.stack([x + torch.tensor(drawn(rng, 1)) for x in DATA.ravel()]).view(6, 4),
    "copy_": copied_into,
    "scaled after the conversion": scaled_after_the_conversion,
    "scaled after the first use": scaled_after_the_first_use,
    "scaled by NumPy": scaled_by_numpy,
    "added in place": added_in_place,
    "added into the noise": added_into_the_noise,
}
TO_NUMPY = {
    "numpy": lambda rng: CLEAN + tensor(rng).detach().cpu().numpy(),
    "numpy of float32": lambda rng: CLEAN + tensor(rng, dtype=torch.float32).numpy().astype(np.float64),
    "asarray": lambda rng: CLEAN + np.asarray(tensor(rng)),
    "array": lambda rng: CLEAN + np.array(tensor(rng), dtype=np.float32),
    "ascontiguousarray": lambda rng: CLEAN + np.ascontiguousarray(tensor(rng)),
    "from_dlpack": lambda rng: CLEAN + np.from_dlpack(tensor(rng)),
    "tolist": lambda rng: CLEAN + np.array(tensor(rng).tolist()),
    "mixed ufunc": lambda rng: np.add(CLEAN, tensor(rng)),
    "mixed": lambda rng: tensor(rng) + CLEAN,
    "stack": lambda rng: CLEAN + np.stack([tensor(rng, 4).numpy() for _ in range(6)]),
    "stack of tensors": lambda rng: CLEAN + np.stack([tensor(rng, 4) for _ in range(6)]),
    "stack, then numpy": lambda rng: CLEAN + torch.stack([tensor(rng, 4) for _ in range(6)]).numpy(),
    "there and back": lambda rng: DATA + torch.from_numpy(tensor(rng).numpy()),
    "back and there": lambda rng: CLEAN + torch.from_numpy(drawn(rng)).numpy(),
    "scaled by PyTorch": scaled_by_pytorch,
    "scaled as a tensor": scaled_as_a_tensor,
}
OF_NUMPY = {
    "asarray": lambda rng: CLEAN + np.asarray(drawn(rng)),
    "array of float32": lambda rng: CLEAN + np.array(drawn(rng), dtype=np.float32),
    "copy": lambda rng: CLEAN + np.copy(drawn(rng)),
    "ascontiguousarray": lambda rng: CLEAN + np.ascontiguousarray(drawn(rng)),
    "array of rows": lambda rng: CLEAN + np.array([drawn(rng, 4) for _ in range(6)]),
    "stack": lambda rng: CLEAN + np.stack([drawn(rng, 4) for _ in range(6)]),
    "vstack": lambda rng: CLEAN + np.vstack([drawn(rng, 3, 4) for _ in range(2)]),
    "column_stack": lambda rng: CLEAN + np.column_stack([drawn(rng, 6) for _ in range(4)]),
    "concatenate": lambda rng: CLEAN + np.concatenate([drawn(rng, 6, 1) for _ in range(4)], axis=1),
    "fromiter": lambda rng: CLEAN + np.fromiter((x for row in table(rng) for x in row), float).reshape(6, 4),
}
WAYS = {
    f"{way}, {name}": program
    for way, ways in (("to PyTorch", TO_PYTORCH), ("to NumPy", TO_NUMPY), ("of NumPy", OF_NUMPY))
    for name, program in ways.items()
}


def followed(way, seed=1, script=None):
    with recording(follow=Mechanisms(script)) as recorded:
        result = way(np.random.default_rng(seed))
    return result.numpy() if isinstance(result, torch.Tensor) else np.asarray(result), recorded.follow.found, recorded


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_converted_noise_is_one_mechanism_of_its_scale(way):
    """Its numbers are those of all draws, each once, rounded to the type of the sum."""
    with recording():
        plain = np.asarray(way(np.random.default_rng(1)))
    noisy, (mechanism,), recorded = followed(way)
    assert recorded.notes == []
    assert noisy.dtype == plain.dtype
    assert np.array_equal(noisy, plain)
    assert np.array_equal(mechanism.clean.ravel(), CLEAN.ravel())
    assert np.allclose(mechanism.scale, SCALE, rtol=1e-6)
    assert mechanism.law == "normal"
    assert not mechanism.shared
    draws = [draw for draw in recorded.draws if draw.law == "normal"]
    assert {id(draw) for draw in (mechanism.draw, *mechanism.beside)} == {id(draw) for draw in draws}
    units = np.concatenate([np.ravel(draw.units) for draw in draws])
    assert np.allclose(np.sort(np.abs(mechanism.units), axis=None), np.sort(np.abs(units)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_a_repetition_takes_the_noisy_value_of_the_first_run(way):
    first, found, _ = followed(way)
    second, (again,), _ = followed(way, 2, found)
    assert np.array_equal(first, second)
    assert np.array_equal(again.clean, found[0].clean)


def clamped_as_a_tensor(rng):
    noise = drawn(rng)
    torch.from_numpy(noise).clamp_(-9, 9)
    return CLEAN + noise


def overwritten_in_part(rng):
    noise = drawn(rng)
    shared = torch.from_numpy(noise)
    noise[2] = 1.0
    return DATA + shared


def chosen_by_its_value(rng):
    numbers = [rng.normal(0, SCALE) for _ in range(24)]
    return DATA + torch.tensor([max(-9.0, each) for each in numbers], dtype=torch.float64).view(6, 4)


@pytest.mark.parametrize(
    "way",
    [
        clamped_as_a_tensor,
        overwritten_in_part,
        chosen_by_its_value,
        lambda rng: DATA + torch.from_numpy(np.clip(drawn(rng), -9, 9)),
        lambda rng: DATA + torch.tensor(drawn(rng) ** 3),
        lambda rng: DATA + torch.from_numpy(np.array(drawn(rng), dtype=np.int64)).double(),
        lambda rng: DATA + torch.stack([torch.from_numpy(drawn(rng, 4)), *DATA[1:]]),
        lambda rng: DATA + torch.from_numpy(np.vstack([drawn(rng, 5, 4), np.ones((1, 4))])),
        lambda rng: DATA + torch.cat([torch.from_numpy(drawn(rng, 3, 4)), torch.from_numpy(rng.laplace(size=(3, 4)))]),
        lambda rng: DATA + 0.0 * torch.from_numpy(drawn(rng)),
        lambda rng: (z := drawn(rng)) is not None and DATA + torch.cat([torch.from_numpy(z[:3]), torch.from_numpy(z[2:5])]),
        lambda rng: (z := drawn(rng)) is not None and CLEAN + np.stack([z[0], 2 * z[0], z[1], z[2], z[3], z[4]]),
        lambda rng: (z := drawn(rng)) is not None and CLEAN + np.hstack([z[:, :2], z[:, 1:3]]),
        lambda rng: CLEAN + np.array([[z, -z, 1.5 * z, 2 * z] for z in (rng.normal(0, SCALE) for _ in range(6))]),
    ],
)
def test_converted_numbers_that_are_no_noise_of_a_known_law_are_not_followed(way):
    """No number is beyond 9 = 18 scales, so a clipped array has the numbers of the draw. Other arrays repeat some of them."""
    _, found, recorded = followed(way)
    assert found == []
    assert recorded.notes == []


def test_rows_without_noise_are_known():
    noisy, (mechanism,), _ = followed(lambda rng: DATA + torch.from_numpy(np.vstack([drawn(rng, 4, 4), np.zeros((2, 4))])))
    assert np.array_equal(mechanism.covered, np.arange(24).reshape(6, 4) < 16)
    assert np.array_equal(noisy[4:], CLEAN[4:])


def test_one_row_for_all_is_shared_noise():
    _, (mechanism,), _ = followed(lambda rng: DATA + torch.stack([torch.from_numpy(drawn(rng, 4))] * 6))
    assert mechanism.shared == (0,)


def test_each_part_keeps_its_scale():
    scales = [1.0, 3.0]
    _, (mechanism,), _ = followed(lambda rng: DATA + torch.cat([s * torch.from_numpy(drawn(rng, 3, 4)) for s in scales]))
    assert np.array_equal(mechanism.scale, np.repeat([[SCALE], [3 * SCALE]], 3, axis=0) * np.ones(4))


def test_one_noise_on_two_values_is_the_same_noise():
    def way(rng):
        noise = drawn(rng)
        return (torch.from_numpy(noise).float() + SINGLE).numpy() + (noise + CLEAN)

    one, two = followed(way)[1]
    assert one.draw is two.draw
    assert np.allclose(one.units, two.units, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "bits"), [(np.float16, 11), (np.float32, None)])
def test_a_conversion_does_not_hide_that_numbers_have_few_bits(kind, bits):
    """An IEEE number of 16 bits has 11 significant ones; those of 32 bits have 24, more than the recorder notes."""
    notes = followed(lambda rng: DATA + torch.from_numpy(drawn(rng).astype(kind)).double() / 3)[2].notes
    assert [f"is rounded to {bits} significant bits" in text for text in notes] == [True] * (bits is not None)


BITS = CLEAN % 3 == 0
SCORES = CLEAN / 9
REPORTS = {
    "coins": (lambda rng: torch.from_numpy(BITS) ^ torch.from_numpy(rng.random((6, 4)) < 0.3), [0.7, 0.3]),
    "uniform": (lambda rng: torch.from_numpy(BITS) ^ (torch.tensor(rng.random((6, 4))) < 0.3), [0.7, 0.3]),
    "to NumPy": (lambda rng: BITS ^ np.asarray(torch.rand(6, 4) < 0.3), [0.7, 0.3]),
    "scores": (lambda rng: torch.from_numpy(SCORES + rng.gumbel(size=(6, 4))).argmax(1), np.exp(np.arange(4) / 9)),
    "noise": (
        lambda rng: (torch.from_numpy(SCORES) + torch.from_numpy(rng.gumbel(size=(6, 4)))).argmax(1),
        np.exp(np.arange(4) / 9),
    ),
    "tensor of scores": (
        lambda rng: (torch.from_numpy(SCORES) + torch.distributions.Gumbel(0.0, 1.0).sample((6, 4)).double()).numpy().argmax(1),
        np.exp(np.arange(4) / 9),
    ),
}


@pytest.mark.parametrize(("way", "weights"), REPORTS.values(), ids=REPORTS)
def test_converted_coins_and_scores_are_reports(way, weights):
    """The truth is randomised response with probability 0.3, and the softmax of the scores, which grow by 1/9 in each row."""
    _, (report,), recorded = followed(way)
    assert recorded.notes == []
    assert report.law == REPORT
    assert np.allclose(np.sort(report.clean, axis=-1), np.sort(weights / np.sum(weights)))


def flipped_by_data(rng):
    coins = rng.random((6, 4)) < 0.3
    shared = torch.from_numpy(coins)
    coins[BITS] = True
    return torch.from_numpy(BITS) ^ shared


def flipped_by_data_in_numpy(rng):
    coins = torch.rand(6, 4) < 0.3
    shared = coins.numpy()
    shared[BITS] = True
    return torch.from_numpy(BITS) ^ coins


def preferred(rng):
    scores = SCORES + rng.gumbel(size=(6, 4))
    shared = torch.from_numpy(scores)
    scores[:, 0] += 100
    return shared.argmax(1)


@pytest.mark.parametrize("way", [flipped_by_data, flipped_by_data_in_numpy, preferred])
def test_coins_and_scores_that_an_array_of_the_same_memory_changes_are_no_reports(way):
    assert not any(m.law == REPORT for m in followed(way)[1])
