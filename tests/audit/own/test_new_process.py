"""A model that keeps data from one training for the next hides secrets from every repetition: a new process shows it."""

import pytest

from gnnaudit import Looped, audit, load
from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.audits import distinguisher
from gnnaudit.audit.own.contract import EARLIER, SIZES, Unasked, depends_on_nothing_earlier, tiny
from gnnaudit.audit.own.model_file import load_model
from gnnaudit.audit.own.premises import checked_first
from gnnaudit.reports.results import BoundRow

from .keeping import Remembers, by_content, by_name_and_size, honest, memoised

GRAPH = tiny(SIZES[-1])


@pytest.mark.parametrize("train", [by_name_and_size, memoised, Remembers()], ids=["name and size", "cache", "object"])
def test_a_model_that_keeps_the_data_of_an_earlier_training_is_found(train):
    failure = depends_on_nothing_earlier(Looped(train, name="keeps"), GRAPH)
    assert failure is not None
    assert "a training keeps data for later ones" in failure


@pytest.mark.parametrize("train", [honest, by_content])
def test_a_model_that_keeps_nothing_that_matters_passes(train):
    assert depends_on_nothing_earlier(Looped(train, name="keeps nothing"), GRAPH) is None


def test_a_model_that_no_other_process_can_load_is_not_asked():
    def local(graph, seed):
        return honest(graph, seed)

    with pytest.raises(Unasked, match="cannot be trained in a new process: it cannot be pickled"):
        depends_on_nothing_earlier(Looped(local, name="local"), GRAPH)


@pytest.mark.parametrize(("train", "how"), [(by_name_and_size, "fails"), (honest, "holds")])
def test_the_clause_is_among_those_that_are_checked_before_an_audit(train, how):
    checks = {check.name: check.how for check in checked_first(Looped(train, unit=Unit.UNDIRECTED_EDGE, name="checked"), GRAPH)}
    assert checks[EARLIER] == how


def test_a_model_that_keeps_its_noise_for_later_trainings_refutes_nothing(tmp_path, monkeypatch):
    """The noise is secret and drawn once in each process, so one release is private, and the rounds are not independent."""
    monkeypatch.setattr(distinguisher, "PILOT", 256)
    monkeypatch.setattr(distinguisher, "TEST", 256)
    (tmp_path / "kept.py").write_text(
        "import numpy as np\nfrom gnnaudit import Claim, Looped, PureDpEvent, Unit\n"
        "noise = np.random.default_rng().laplace(0, 2.0, 4000)\n"
        "def train(graph, seed):\n    return {'found': graph.degree + noise[: graph.nodes]}\n"
        "model = Looped(train, releases=('found',), events=PureDpEvent(1.0), claim=Claim(1.0, 0.0, Unit.UNDIRECTED_EDGE))\n"
    )
    found = audit(load_model(f"{tmp_path / 'kept.py'}:model"), load("campus:n=120:degree=6"), audits="distinguisher", seed="kept")
    rows = [row for row in found.rows if isinstance(row, BoundRow)]
    assert rows
    assert all(row.value == 0 and row.withdrawn for row in rows)
