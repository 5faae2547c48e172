"""Draws that have noise numbers in common are found, whatever their shapes and scales."""

import pytest
import torch

from gnnaudit.audit.recorded.study import across
from gnnaudit.models.recorder import recording
from gnnaudit.models.recorder.libraries.of_numpy import default_rng
from gnnaudit.models.recorder.mechanisms.sharing import in_common


def of_torch(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def joined(*draws):
    with recording() as recorded:
        for draw in draws:
            draw()
    return in_common(recorded.draws)


def test_two_generators_with_one_seed_share_their_first_numbers():
    """The layers have different widths, so no row of one is a row of the other."""
    assert joined(lambda: of_torch(5, 300, 16), lambda: of_torch(6, 300, 16), lambda: of_torch(5, 300, 6)) == [0, 1, 0]


def test_numbers_count_at_scale_one_and_wherever_they_are_in_the_stream():
    def later():
        rng = default_rng(5)
        return rng.laplace(0.0, 2.0, 50), rng.laplace(1.0, 4.0, 70)

    assert joined(later, lambda: default_rng(5).laplace(0.0, 0.1, 300)) == [0, 0, 0]


COINS = {
    "uniform": lambda seed, n: default_rng(seed).random(n),
    "uniform in float32": lambda seed, n: torch.rand(n, generator=torch.Generator().manual_seed(seed)),
}
FLIPS = {
    "binomial": lambda seed, n: default_rng(seed).binomial(1, 0.3, n),
    "bernoulli": lambda seed, n: torch.bernoulli(torch.full((n,), 0.3), generator=torch.Generator().manual_seed(seed)),
}


@pytest.mark.parametrize("name", COINS)
def test_uniform_numbers_of_one_seed_are_in_common(name):
    coins = COINS[name]
    assert joined(lambda: coins(5, 300), lambda: coins(6, 300), lambda: coins(5, 200)) == [0, 1, 0]
    assert joined(*(lambda seed=seed: coins(seed, 20_000) for seed in range(10))) == list(range(10))


@pytest.mark.parametrize("name", FLIPS)
def test_coins_are_in_common_if_there_are_so_many_that_chance_does_not_repeat_them(name):
    flips = FLIPS[name]
    assert joined(lambda: flips(5, 300), lambda: flips(6, 300), lambda: flips(5, 300)) == [0, 1, 0]
    assert joined(lambda: flips(5, 9), lambda: flips(5, 9)) == [0, 1]


@pytest.mark.parametrize("draws", [2, 40])
def test_numbers_of_32_bits_that_are_equal_by_chance_are_not_in_common(draws):
    """Two draws of 20,000 numbers in float32 have about 40 equal pairs by chance."""
    assert joined(*(lambda seed=seed: of_torch(seed, 20_000) for seed in range(draws))) == list(range(draws))


@pytest.mark.parametrize("name", COINS)
def test_thousands_of_numbers_that_are_close_by_chance_are_not_in_common(name):
    """Of two draws of 4,356 numbers, four pairs are as close as copies on average. 780 pairs of draws are compared."""
    assert joined(*(lambda seed=seed: COINS[name](seed, 4356) for seed in range(40))) == list(range(40))


def test_two_seeds_that_read_the_same_table_at_other_places_are_found():
    def drawn(first):
        with recording() as recorded:
            rng = default_rng(7)
            rng.standard_normal(first)
            rng.standard_normal(400)
        return recorded.draws

    other = default_rng(8)
    with recording() as recorded:
        other.standard_normal(400)
    assert "test_in_common.py" in across(drawn(10), drawn(90))
    assert across(drawn(10), recorded.draws) == ""
