"""The memory that a computation takes."""

import gc
import subprocess
import sys
import weakref

from gnnaudit.audit.storage import resident

# In a process of its own: what another test leaves behind may be freed at any time.
OF_64_MIB = """
import threading
import numpy as np
from gnnaudit.audit.storage import resident

look, looks = resident._resident, threading.Semaphore(0)

def counted():
    found = look()
    looks.release()
    return found

def hold():
    held = np.ones(1 << 23)
    while looks.acquire(blocking=False):
        pass
    for _ in range(2):  # the first may have begun before the array was there
        assert looks.acquire(timeout=60)
    assert held.sum() == 1 << 23

resident._resident = counted
print(resident.taken(hold))
"""


def test_an_array_that_is_gone_when_the_computation_ends_counts():
    """64 MiB, held until the watching thread has looked. A system without the file says nothing."""
    done = subprocess.run([sys.executable, "-c", OF_64_MIB], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n" if not resident.STATM.exists() else 60 << 20 < int(done.stdout) < 160 << 20


FREED_MEANWHILE = """
import numpy as np
from gnnaudit.audit.storage import resident

of_another = [np.ones(1 << 24)]

def hold():
    of_another.clear()
    held = np.ones(1 << 23)
    assert held.sum() == 1 << 23
    kept.append(held)

kept = []
print(resident.taken(hold))
"""


def test_what_another_thread_frees_meanwhile_hides_nothing():
    """The computation takes 64 MiB and keeps them; 128 MiB that were held before are gone."""
    done = subprocess.run([sys.executable, "-c", FREED_MEANWHILE], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n" if not resident.STATM.exists() else 60 << 20 < int(done.stdout) < 160 << 20


def test_what_nobody_holds_is_gone_before_the_computation_begins():
    """Else it might be freed during the computation, and hide as much of what this takes."""

    class Circle:
        def __init__(self):
            self.own = self

    gone = []
    gc.disable()
    try:
        circle = weakref.ref(Circle())
        taken = resident.taken(lambda: gone.append(circle() is None))
    finally:
        gc.enable()
    assert taken is None or gone == [True]


def test_where_the_system_does_not_say_it_the_computation_is_done_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(resident, "STATM", tmp_path / "statm")
    done = []
    assert resident.taken(lambda: done.append(1)) is None
    assert done == [1]
