"""The loop over honest recipes, which two suites use, the contract without its new process, fewer probing seeds, and no time for
the audit of last resort.
"""

import importlib.util
import io
import pickle
import sys
from pathlib import Path

import pytest

from gnnaudit.audit.audits import distinguisher
from gnnaudit.audit.own import contract
from gnnaudit.audit.recorded import seeds, study

PATH = Path(__file__).parents[2] / "benchmarks" / "honest.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("honest", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["honest"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_process(request, monkeypatch):
    """Lets the contract train in this process what it would train in a new one, which takes seconds to start. Only the tests of
    this clause start a new one.
    """

    def trained(content):
        file = io.BytesIO(content)
        pickle.load(file)  # the search path
        model, worlds = pickle.load(file)
        return model.fit(worlds)

    if "test_new_process" not in request.node.nodeid:
        monkeypatch.setattr(contract, "trained", trained)


@pytest.fixture(autouse=True)
def few_probes(request, monkeypatch):
    """Tries a fiftieth of the seeds, each of which is a training. Planted faults and tests with "seed" in their name try all."""
    if "seed" not in request.node.name and "/faults/" not in request.node.nodeid:
        monkeypatch.setattr(seeds, "PROBES", ((5_000, 8),))
        monkeypatch.setattr(study, "SEEDS", 8)


@pytest.fixture(autouse=True)
def no_time_for_the_distinguisher(request, monkeypatch):
    """The distinguisher would train hundreds of times in every run whose claim the other audits leave open. Its own tests give
    it time.
    """
    if not any(file in request.node.nodeid for file in ("test_distinguisher", "test_new_process")):
        monkeypatch.setattr(distinguisher, "SECONDS", 0.0)
