"""The draws of users' models."""

import re
from typing import Any

import numpy as np
import pytest

from gnnaudit.models.random.streams import normal


@pytest.mark.parametrize(
    ("seeds", "shape", "path", "said"),
    [
        (np.array([0.5]), (2,), "a", "seeds=array([0.5]): float64 of shape (1,); must be whole numbers of at least 0"),
        (3, (2,), "a", "seeds=3: int64 of shape (); must be whole numbers"),
        ([-1], (2,), "a", "seeds=[-1]: int64 of shape (1,); must be whole numbers"),
        ([1], (-2,), "a", "shape=(-2,): must be a tuple of whole numbers"),
        ([1], (2,), 0.5, "path: 0.5 must be a word or a whole number"),
    ],
)
def test_seeds_sizes_and_paths_that_are_not_whole_are_refused(seeds: Any, shape: Any, path: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        normal(seeds, shape, path)


def test_a_list_of_seeds_draws_what_its_array_draws() -> None:
    np.testing.assert_array_equal(normal([1, 2], (3,), "a"), normal(np.array([1, 2], np.uint64), (3,), "a"))
    assert normal([], (3, 2), "a").shape == (0, 3, 2)
