"""One secret that moves a value far, although moves of many secrets cancel in it: the search removes all of them one by one."""

import dp_accounting as dp
import numpy as np
import pytest

from gnnaudit import Claim, Looped, Unit, load
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.case import Case, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.mechanisms.absence import history
from gnnaudit.audit.mechanisms.loud_secrets import alone
from gnnaudit.audit.recorded.secrets import one_by_one
from gnnaudit.audit.recorded.study import study
from gnnaudit.audit.storage.store import Store

pytestmark = pytest.mark.usefixtures("thorough")
GRAPH = load("campus:n=120:degree=6")
SCORE = np.random.default_rng(3).standard_normal(GRAPH.nodes) ** 3  # public


def climb(graph):
    """The sum of the differences of public scores along all edges: an edge adds its own difference, of either sign."""
    one, other = graph.edges
    return float((SCORE[one] - SCORE[other]).sum())


def weighted(graph):
    """The sum of public scores of the training nodes: a node adds its own score."""
    return float(SCORE[graph.train].sum())


def noisy(statistic, scale, unit):
    def train(graph, seed):
        return {"sum": np.array([statistic(graph) + np.random.default_rng(seed).laplace(0, scale)])}

    return Looped(train, releases=("sum",), unit=unit, events=dp.LaplaceDpEvent(1.0))


CASES = [
    (climb, Unit.UNDIRECTED_EDGE, np.abs(SCORE[GRAPH.edges[0]] - SCORE[GRAPH.edges[1]]).max()),
    (weighted, Unit.NODE, np.abs(SCORE[GRAPH.train]).max()),
]


@pytest.mark.parametrize(("statistic", "unit", "truth"), CASES, ids=["edge", "node"])
def test_the_secret_that_moves_a_sum_farthest_is_found_although_moves_cancel(statistic, unit, truth, tmp_path):
    """The truth is the largest term of the sum."""
    for share, refuted in ((0.99, True), (1.01, False)):
        case = Case(noisy(statistic, truth * share, unit), Claim(1.0, 0.0, unit, exposes=("sum",)))
        bounds = AUDITS["differential"].run(Setting(case, GRAPH, Store(tmp_path), Key("alone"), 2, 1e-4)).bounds
        assert max(b.epsilon for b in bounds) == pytest.approx(1 / share, rel=2e-3)
        assert any(b.refuted for b in bounds) is refuted


def test_the_search_ends_after_its_time(monkeypatch):
    first = history(study(noisy(climb, 1.0, Unit.UNDIRECTED_EDGE), GRAPH, Key("alone")), 0)
    assert alone(first, Unit.UNDIRECTED_EDGE)
    monkeypatch.setattr(one_by_one, "SECONDS", 0.0)
    assert not alone(first, Unit.UNDIRECTED_EDGE)
