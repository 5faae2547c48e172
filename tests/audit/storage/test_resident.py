"""The memory that a computation takes."""

import threading

import numpy as np

from gnnaudit.audit.storage import resident


def test_an_array_that_is_gone_when_the_computation_ends_counts(monkeypatch):
    """64 MiB, held until the watching thread has looked. A system without the file says nothing."""
    look, looks = resident._resident, threading.Semaphore(0)

    def counted() -> int:
        found = look()
        looks.release()
        return found

    def hold() -> None:
        held = np.ones(1 << 23)
        while looks.acquire(blocking=False):
            pass
        for _ in range(2):  # the first may have begun before the array was there
            assert looks.acquire(timeout=60)
        assert held.sum() == 1 << 23

    monkeypatch.setattr(resident, "_resident", counted)
    found = resident.taken(hold)
    assert (found is None) == (not resident.STATM.exists())
    assert found is None or 60 << 20 < found < 160 << 20


def test_where_the_system_does_not_say_it_nothing_is_computed(monkeypatch, tmp_path):
    monkeypatch.setattr(resident, "STATM", tmp_path / "statm")
    done = []
    assert resident.taken(lambda: done.append(1)) is None
    assert not done
