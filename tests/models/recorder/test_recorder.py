"""Recording changes no number, covers every generator that users draw from, and can replace numbers."""

import operator
import random
import secrets
import sys
import types

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.random import default_rng
from numpy.random import normal as global_normal

from gnnaudit.models.recorder import Draw, recordable, recording
from gnnaudit.models.recorder.mechanisms.found import Mechanisms

TORCH = torch.Generator().manual_seed(5)


def numpy_draws():
    own, old = default_rng(3), np.random.RandomState(4)
    np.random.seed(1)
    yield "normal", own.normal(2.0, 3.0, size=(2, 3))
    yield "normal", own.standard_normal(4)
    yield "uniform", own.random(3)
    yield "choice", own.choice(5, size=3)
    yield "permutation", own.permutation(4)
    yield "laplace", own.laplace(size=2)
    yield "normal", np.random.randn(3)
    yield "normal", global_normal(1, 2, size=3)
    yield "normal", old.normal(size=3)
    yield "integers", old.randint(5, size=3)
    yield "normal", np.random.Generator(np.random.Philox(7)).standard_normal(2)


def torch_draws():
    torch.manual_seed(1)
    yield "normal", torch.randn(3)
    yield "normal", torch.randn_like(torch.zeros(2))
    yield "normal", torch.normal(torch.ones(3) * 5, 2.0)
    yield "normal", torch.zeros(3).normal_(1, 2)
    yield "uniform", torch.rand(2)
    yield "uniform", torch.zeros(2).uniform_(-1, 1)
    yield "bernoulli", torch.bernoulli(torch.full((3,), 0.5))
    yield "multinomial", torch.multinomial(torch.ones(4), 2)
    yield "exponential", torch.zeros(3).exponential_(2.0)
    yield "normal", torch.distributions.Normal(torch.ones(2), 3.0).sample()
    yield "laplace", torch.distributions.Laplace(torch.ones(2), 3.0).sample()
    yield "normal", torch.randn(2, generator=TORCH.manual_seed(5))


def other_draws():
    random.seed(2)
    yield "normal", random.gauss(0, 1)
    yield "uniform", random.random()
    yield "uniform", random.Random(3).uniform(2, 3)
    yield "normal", scipy.stats.norm.rvs(size=2, random_state=3)
    yield "laplace", scipy.stats.laplace(scale=2).rvs(size=2, random_state=3)


SOURCES = [numpy_draws, torch_draws, other_draws]


@pytest.mark.parametrize("source", SOURCES)
def test_listening_changes_no_number_and_hears_every_draw_once_with_its_law(source):
    plain = [np.asarray(v) for _, v in source()]
    with recording():  # a first use of a library may draw, too
        list(source())
    with recording() as recorded:
        laws, values = zip(*((law, np.asarray(v).copy()) for law, v in source()), strict=True)
    afterwards = [np.asarray(v) for _, v in source()]
    for before, during, after in zip(plain, values, afterwards, strict=True):
        np.testing.assert_array_equal(before, during)
        np.testing.assert_array_equal(before, after)
    assert [d.law for d in recorded.draws] == list(laws)
    for draw, value in zip(recorded.draws, values, strict=True):
        np.testing.assert_array_equal(draw.values, value)


def test_nothing_is_heard_afterwards():
    with recording() as recorded:
        pass
    default_rng(1).normal()
    torch.randn(1)
    random.gauss(0, 1)
    assert recorded.draws == []
    assert np.random.default_rng is default_rng


def test_location_and_scale_are_those_that_were_asked_for():
    with recording() as recorded:
        default_rng(1).normal(np.array([1.0, 2.0]), 3.0)
        torch.normal(torch.tensor([1.0, 2.0]), 3.0)
    for draw in recorded.draws:
        np.testing.assert_array_equal(draw.loc, [1.0, 2.0])
        assert draw.scale == 3.0
        np.testing.assert_allclose(draw.units, (draw.values - [1.0, 2.0]) / 3)


def test_a_covariance_without_entries_beside_the_diagonal_is_independent_normal_noise():
    with recording() as recorded:
        for covariance in (np.diag([4.0, 9.0]), [[4.0, 1.0], [1.0, 9.0]]):
            default_rng(1).multivariate_normal([1.0, 2.0], covariance, size=5)
    apart, together = recorded.draws
    assert (apart.law, together.law) == ("normal", "multivariate_normal")
    np.testing.assert_allclose(apart.units, (apart.values - [1.0, 2.0]) / [2.0, 3.0])


def test_a_tensor_with_such_a_covariance_is_independent_normal_noise():
    with recording() as recorded:
        for covariance in ([[4.0, 0.0], [0.0, 9.0]], [[4.0, 1.0], [1.0, 9.0]]):
            torch.distributions.MultivariateNormal(torch.tensor([1.0, 2.0]), torch.tensor(covariance)).sample((5,))
    apart, together = recorded.draws
    np.testing.assert_array_equal(apart.loc, [1.0, 2.0])
    np.testing.assert_allclose(apart.scale, [2.0, 3.0])
    np.testing.assert_array_equal(together.scale, 1.0)  # of the numbers before they are multiplied by the factor of the matrix


def test_numba_compiles_functions_of_numpy_within_a_recording():
    numba = pytest.importorskip("numba")
    numba.njit(lambda x: x + 1)(1)  # loads what numba knows of the standard library

    def numbers(count):
        found = np.zeros(count)
        found[0] = np.asarray(np.array([1.0, 2.0])).sum()
        return found

    with recording(follow=Mechanisms()):
        assert numba.njit(numbers)(2).tolist() == [3.0, 0.0]


def test_the_line_that_draws_is_named():
    with recording() as recorded:
        default_rng(1).normal()
    assert recorded.draws[0].line.startswith("test_recorder.py, line ")


@pytest.mark.parametrize("source", SOURCES)
def test_other_numbers_take_the_place_of_those_that_were_drawn(source):
    def zeros(at: int, draw: Draw) -> np.ndarray:
        return np.zeros_like(draw.values)

    with recording(zeros):
        values = [np.asarray(v) for _, v in source()]
    assert all(not v.any() for v in values)


def float32_zeros(draw):
    """The seed of the first million float32 numbers among which a generator rounds one to 0."""
    return next(seed for seed in range(500) if (np.asarray(draw(seed)) == 0).any())


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: torch.randn(10**6, generator=torch.Generator().manual_seed(seed)),
        lambda seed: default_rng(seed).standard_normal(10**6, dtype=np.float32),
    ],
    ids=["torch", "numpy"],
)
def test_noise_that_a_generator_rounds_to_0_is_no_entry_without_noise(draw):
    seed = float32_zeros(draw)
    with recording(follow=Mechanisms()) as recorded:
        noise = draw(seed)
        noise[7] = 0  # the program removes the noise of one entry
        kept = np.flatnonzero(np.asarray(draw(seed)) == 0)
        noise + (torch.ones if torch.is_tensor(noise) else np.ones)(10**6)
    (mechanism, *_) = recorded.follow.found
    assert kept.size == 0
    np.testing.assert_array_equal(np.flatnonzero(~mechanism.covered), [7])


def test_0_stays_where_a_program_may_compare_with_it():
    with recording(lambda at, draw: None):
        coins = default_rng(1).integers(0, 2, 100)
        bits = torch.bernoulli(torch.full((100,), 0.5), generator=torch.Generator().manual_seed(1))
    assert (coins == 0).any()
    assert (bits == 0).any()


def test_a_shuffle_can_be_repeated_in_another_order():
    one, other = np.arange(5), [0, 1, 2, 3, 4]
    with recording(lambda at, draw: np.array([4, 3, 2, 1, 0])):
        default_rng(1).shuffle(one)
        random.shuffle(other)
    assert one.tolist() == other == [4, 3, 2, 1, 0]


def test_secrets_of_the_operating_system_are_heard():
    with recording() as recorded:
        secrets.token_bytes(3)
        secrets.randbelow(7)
    assert {d.law for d in recorded.draws} == {"randbytes", "integers"}


def test_a_generator_that_was_made_while_a_module_was_loaded_is_heard_later():
    with recordable():
        early = np.random.default_rng(1)
    plain = np.random.default_rng(1)
    with recording() as recorded:
        early.normal()
        plain.normal()
    assert len(recorded.draws) == 1  # draws of a generator that was made before are not recorded


def test_a_name_that_a_module_gets_later_and_another_module_of_the_same_name_are_recorded_too(monkeypatch):
    module, other = types.ModuleType("late"), types.ModuleType("late")
    monkeypatch.setitem(sys.modules, "late", module)
    with recording():
        pass
    module.draw = random.gauss
    with recording() as recorded:
        module.draw(0, 1)
    assert len(recorded.draws) == 1
    assert module.draw is random.gauss
    other.another = random.gauss  # as many names as the module before
    monkeypatch.setitem(sys.modules, "late", other)
    with recording() as recorded:
        other.another(0, 1)
    assert len(recorded.draws) == 1


def test_old_generators_are_still_instances_of_their_class():
    old = np.random.default_rng(1)
    with recording():
        assert isinstance(old, np.random.Generator)
        assert isinstance(np.random.default_rng(1), np.random.Generator)


@pytest.mark.parametrize("direct", [True, False])
def test_noise_in_bfloat16_is_recorded_and_replaced(direct):
    """NumPy has no bfloat16, so its numbers are recorded as float64."""

    def drawn():
        if direct:
            return torch.ones(4, dtype=torch.bfloat16) + torch.randn(4, dtype=torch.bfloat16)
        return torch.ones(4, dtype=torch.bfloat16) + torch.randn(4).to(torch.bfloat16)

    with recording() as first:
        torch.manual_seed(1)
        one = drawn()
    with recording(lambda at, draw: first.draws[at].values):
        torch.manual_seed(2)
        other = drawn()
    assert torch.equal(one, other)
    assert first.draws[0].values.dtype == (np.float64 if direct else np.float32)


@pytest.mark.filterwarnings("error")
def test_a_tensor_that_becomes_an_array_gives_no_warning_while_it_is_recorded():
    tensor = torch.arange(3.0)
    with recording():
        copies, same = [np.array(tensor), np.array(tensor, dtype=np.float64)], np.asarray(tensor)
    same += 1
    np.testing.assert_array_equal(copies, [[0, 1, 2]] * 2)
    np.testing.assert_array_equal(tensor, [1, 2, 3])


@pytest.mark.parametrize("name", ["standard_normal", "random", "standard_exponential"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_an_array_that_the_user_has_filled_holds_the_same_numbers_and_is_one_draw(name, kind):
    plain, given = np.empty((3, 4), dtype=kind), np.empty((3, 4), dtype=kind)
    getattr(np.random.default_rng(1), name)(dtype=kind, out=plain)
    with recording() as found:
        more = ("zig",) if name == "standard_exponential" else ()
        result = getattr(np.random.default_rng(1), name)(None, kind, *more, given)
    assert result is given
    assert np.array_equal(given, plain)
    assert [draw.values.shape for draw in found.draws] == [(3, 4)]


@pytest.mark.parametrize("state", [lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)])
@pytest.mark.parametrize("asked", [{"size": (4, 3)}, {"size": 5, "loc": 2}, {"size": None}])
@pytest.mark.parametrize("name", ["dlaplace", "bernoulli"])
def test_numbers_that_are_drawn_in_place_of_scipy_are_its_own(name, state, asked):
    family = getattr(scipy.stats, name)
    plain = family.rvs(0.5, random_state=state(), **asked)
    with recording():
        recorded = family(0.5, loc=asked.get("loc", 0)).rvs(asked["size"], random_state=state())
    assert np.array_equal(plain, recorded)
    assert type(plain) is type(recorded)


@pytest.mark.parametrize("draw", [random.Random(3).random, np.random.default_rng(3).random, np.random.RandomState(3).normal])
@pytest.mark.parametrize("comparison", [operator.le, operator.gt, operator.ne])
def test_a_single_number_may_be_compared_with_an_array(draw, comparison):
    sums = np.cumsum([0.2, 0.3, 0.5])
    with recording(follow=Mechanisms()) as found:
        number = draw()
        outcome = comparison(number, sums)
    assert np.array_equal(outcome, comparison(float(number), sums))
    assert not found.notes
