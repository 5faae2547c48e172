"""What a release may hold."""

import re
from typing import Any

import numpy as np
import pytest

from gnnaudit.models.base import Release

ONE = np.zeros((1, 3, 2), np.float32)


@pytest.mark.parametrize(
    ("arrays", "watch", "said"),
    [
        (None, None, "arrays=None: must be named arrays"),
        ([1], np.arange(3), "arrays=[1]: must be named arrays"),
        ({1: ONE}, np.arange(3), "arrays=1: must be named by words"),
        ({"posteriors": [1]}, np.arange(3), "posteriors=[1]: must be a NumPy array."),
        ({"posteriors": ONE, "sums": np.zeros((2, 3))}, np.arange(3), "arrays begin with {'posteriors': (1,), 'sums': (2,)}"),
        ({"posteriors": ONE}, None, "watch=None: must be node ids"),
    ],
)
def test_a_release_of_other_things_than_arrays_of_runs_is_refused(arrays: Any, watch: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        Release(arrays, watch)
