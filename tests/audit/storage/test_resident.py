"""The memory that a computation takes."""

import numpy as np

from gnnaudit.audit.storage import resident


def test_an_array_that_is_gone_when_the_computation_ends_counts():
    """64 MiB, filled twice. A system without the file says nothing."""
    found = resident.taken(lambda: [np.ones(1 << 23).sum() for _ in range(2)] and None)
    assert (found is None) == (not resident.STATM.exists())
    assert found is None or 60 << 20 < found < 160 << 20


def test_where_the_system_does_not_say_it_nothing_is_computed(monkeypatch, tmp_path):
    monkeypatch.setattr(resident, "STATM", tmp_path / "statm")
    done = []
    assert resident.taken(lambda: done.append(1)) is None
    assert not done
