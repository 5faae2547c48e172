"""The coins of dropout have the stated probability, and each call draws others."""

import numpy as np
import pytest
from scipy.stats import binomtest

from gnnaudit.models.engine.dropout import TABLES, coins, draw
from gnnaudit.models.random.streams import stream


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9, 2.5 / 65536, 1 - 0.25 / 65536])
def test_a_coin_falls_with_its_probability_also_where_16_bits_do_not_decide(share):
    found = coins(stream(0, "coins", str(share)), 4_000_003, share)
    assert found.shape == (4_000_003,)
    assert binomtest(int((~found).sum()), found.size, share).pvalue > 1e-4


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5])
def test_any_number_of_coins_can_be_drawn(count):
    assert coins(stream(0, "coins"), count, 0.1).shape == (count,)


def test_a_stream_gives_the_same_coins_again_and_then_others():
    one, other = (stream(1, "coins") for _ in range(2))
    first = coins(one, 1000, 0.1)
    np.testing.assert_array_equal(coins(other, 1000, 0.1), first)
    assert not np.array_equal(coins(one, 1000, 0.1), first)


@pytest.mark.parametrize("share", [0.1, *TABLES])
def test_kept_units_are_divided_by_their_probability(share):
    factors = draw(stream(2, "factors"), 100_000, share)
    assert factors.dtype == np.float32
    assert set(np.unique(factors)) == {np.float32(0), np.float32(1 / (1 - share))}
    assert factors.mean() == pytest.approx(1, abs=0.02)
