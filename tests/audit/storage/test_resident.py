"""The memory that a computation takes."""

import numpy as np
import pytest

from gnnaudit.audit.storage import resident


@pytest.mark.skipif(not resident.STATM.exists(), reason="the system does not say how much memory a process holds")
def test_an_array_that_is_gone_when_the_computation_ends_counts():
    """64 MiB, filled twice."""
    found = resident.taken(lambda: [np.ones(1 << 23).sum() for _ in range(2)] and None)
    assert found is not None
    assert 60 << 20 < found < 160 << 20
