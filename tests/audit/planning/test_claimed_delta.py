"""The delta of a claim follows the unit that it protects."""

import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.planning.plan import read
from gnnaudit.audit.planning.planned_cases import cases
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import Facts, default_delta
from gnnaudit.models.systems import SYSTEMS
from gnnaudit.reports.summary import Key, Line, deltas


def only(**options):
    plan = read(None, {"data": "campus:n=300", "models": "gap", "mode": "paper", "epsilon": "2", **options})
    graph = load(plan.data, None)
    (case,), _ = cases(plan, graph, {"gap": SYSTEMS["gap"].make})
    return case, Facts.of(graph)


def test_a_claim_on_another_unit_than_the_ledgers_has_the_delta_of_its_own_unit(monkeypatch):
    case, facts = only(unit="features")
    assert case.model.unit is not Unit.FEATURES
    assert case.claim.delta == default_delta(Unit.FEATURES, "paper", facts) == 0.0
    usual, _ = only()
    assert usual.claim.delta == default_delta(Unit.DIRECTED_EDGE, "paper", facts) > 0
    assert case.model == usual.model  # the noise is still what the paper prints for its own unit


def test_a_delta_of_the_plan_holds_for_every_unit():
    assert only(unit="features", delta=1e-4)[0].claim.delta == 1e-4


def line(delta, unit):
    return Line(Key(unit, "m", "sound", 1.0), delta, None, None, (), (), verdict=None)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([(1e-5, Unit.UNDIRECTED_EDGE)] * 2, "δ = 1e-05 for an undirected edge"),
        ([(1e-5, Unit.UNDIRECTED_EDGE), (0.001, Unit.NODE)], "δ = 1e-05 for an undirected edge, 0.001 for a node with its edges"),
        ([(None, Unit.NODE)], ""),
        ([], ""),
    ],
)
def test_the_last_line_names_every_delta_with_its_unit(claims, words):
    assert deltas(line(*claim) for claim in claims) == words
