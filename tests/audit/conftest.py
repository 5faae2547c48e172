"""The loop over honest recipes, which two suites use, the contract without its new process, fewer probing seeds, a quicker study
of models, and no time for the audit of last resort.
"""

import importlib.util
import io
import os
import pickle
import sys
from pathlib import Path

import pytest

from gnnaudit.audit.audits import distinguisher
from gnnaudit.audit.mechanisms import loud_secrets
from gnnaudit.audit.mechanisms.overview import recorded_runs
from gnnaudit.audit.mechanisms.searches import crossings, further_runs, other_graphs, other_rows
from gnnaudit.audit.mechanisms.shown import several_values
from gnnaudit.audit.own import contract
from gnnaudit.audit.own_bounds import noise_in_one_world
from gnnaudit.audit.recorded import seeds, study
from gnnaudit.audit.recorded.secrets import one_by_one
from gnnaudit.models import capabilities
from gnnaudit.models.capabilities import Effort

THOROUGH = os.environ.get("GNNAUDIT_TESTS") == "thorough"  # set by `make nightly`
OF_SEEDS = ("test_few_seeds.py", "drops_bits_of_its_seed", "numbers_that_seed_nothing")
AS_AN_AUDIT = ("/faults/", "test_differential.py", "test_honest.py")  # these tests always study models as an audit does
QUICK = Effort(secrets=4, entries=12, shown=2, moved=1, still=1, starts=1)
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
    """Tries a fiftieth of the seeds, each of which is a training. Planted faults and tests of many seeds try all."""
    of_seeds = "seed" in request.node.name and any(name in request.node.nodeid for name in OF_SEEDS)
    if not of_seeds and "/faults/" not in request.node.nodeid:
        monkeypatch.setattr(seeds, "PROBES", ((5_000, 8),))
        monkeypatch.setattr(study, "SEEDS", 8)


@pytest.fixture(autouse=True)
def no_time_for_the_distinguisher(request, monkeypatch):
    """The distinguisher would train hundreds of times in every run whose claim the other audits leave open. Its own tests give
    it time.
    """
    if not any(file in request.node.nodeid for file in ("test_distinguisher", "test_new_process")):
        monkeypatch.setattr(distinguisher, "SECONDS", 0.0)


@pytest.fixture
def thorough():
    """A test that uses this fixture studies a model as thoroughly as an audit does."""


@pytest.fixture
def built_graphs():
    """A test that uses this fixture studies a model on the graphs that an audit builds too, with a part of the secrets."""


def is_thorough(request):
    asked = THOROUGH or "thorough" in request.fixturenames or request.node.get_closest_marker("nightly")
    return asked or any(name in request.node.nodeid for name in AS_AN_AUDIT)


@pytest.fixture(autouse=True)
def quick_study(request, monkeypatch):
    """Studies a model with a part of the secrets and entries, and on the given graph only. An audit tries more, and studies the
    model again on other graphs, which takes several times as long. `make nightly` does so in all tests.
    """
    if not is_thorough(request):
        monkeypatch.setattr(recorded_runs, "_with_small", lambda found, *_: found)
        if "built_graphs" not in request.fixturenames:
            monkeypatch.setattr(recorded_runs, "suspicious", lambda *_: ())
        monkeypatch.setattr(capabilities, "THOROUGH", QUICK)
        monkeypatch.setattr(one_by_one, "SECONDS", 0.0)
        if "test_several_values" not in request.node.nodeid:
            monkeypatch.setattr(several_values, "STARTS", 2)
        if "test_noise_in_one_world" not in request.node.nodeid:
            monkeypatch.setattr(noise_in_one_world, "SECONDS", 0.0)


@pytest.fixture(autouse=True)
def short_chains_and_few_further_runs(request, monkeypatch):
    """An audit searches each chain of graphs for four seconds, tries secrets in up to 300 runs with other seeds, and looks for
    paths that rare noise opens. Only `make nightly` does so in full, and tests of these searches for a second each.
    """
    if THOROUGH or request.node.get_closest_marker("nightly"):
        return
    if "private_bar" not in request.node.name:
        monkeypatch.setattr(further_runs, "RUNS", range(1, 9))
        monkeypatch.setattr(further_runs, "WITH_MANY", 1)
    if "test_rare_noise" not in request.node.nodeid:
        for asking in (further_runs, other_graphs):
            monkeypatch.setattr(asking, "opened", lambda *_: None)
    for searched in (crossings, further_runs, other_graphs, other_rows):
        of_searches = any(name in request.node.nodeid for name in ("/searches/", "test_unlike_rows"))
        monkeypatch.setattr(searched, "SECONDS", 1.0 if of_searches else 0.4 if "built_graphs" in request.fixturenames else 0.2)


@pytest.fixture(autouse=True)
def no_time_for_loud_secrets_of_programs(request, monkeypatch):
    """A program starts anew for each secret that is tried. Only the tests of this search give it time."""
    if "/own/programs/" in request.node.nodeid and "counts_threefold" not in request.node.nodeid and not is_thorough(request):
        monkeypatch.setattr(loud_secrets, "SECONDS", 0.0)
