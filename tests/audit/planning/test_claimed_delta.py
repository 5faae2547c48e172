"""The delta of a claim follows the unit that it protects."""

import dp_accounting as dp
import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.accounting.events.types import VisibleMixtureDpEvent
from gnnaudit.audit.planning.plan import read
from gnnaudit.audit.planning.planned_cases import cases
from gnnaudit.models.data.loading import load
from gnnaudit.models.facts import Facts, default_delta
from gnnaudit.models.looped import Looped
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


def planned(model, **options):
    plan = read(None, {"data": "campus:n=300", "epsilon": "1", "model": "given", **options})
    return cases(plan, load(plan.data, None), {"given": lambda mode, facts, private: model})


def of(ledger, unit=Unit.FEATURES):
    return Looped(lambda graph, seed: {}, unit=unit, events=ledger, name="given")


STEP = dp.GaussianDpEvent(2.0)


@pytest.mark.parametrize(
    "ledger",
    [
        STEP,
        dp.ComposedDpEvent([dp.LaplaceDpEvent(1.0), STEP]),
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, STEP), 3),
        VisibleMixtureDpEvent((0.5, 0.5), (dp.NoOpDpEvent(), STEP)),
    ],
)
def test_gaussian_noise_in_any_part_of_the_ledger_is_refused_at_delta_0_before_training(ledger):
    with pytest.raises(ValueError, match=r"^delta=0, the default for a claim on features: given adds .* --delta 1e-5\.$"):
        planned(of(ledger))
    assert planned(of(ledger), delta=1e-5)[0]
    assert planned(of(ledger), epsilon="inf")[0]


def test_a_pure_ledger_may_claim_delta_0():
    assert planned(of(dp.LaplaceDpEvent(2.0)))[0][0].claim.delta == 0


def test_a_system_with_gaussian_noise_is_refused_at_delta_0_and_skipped_if_the_plan_does_not_name_it():
    with pytest.raises(ValueError, match=r"^delta=0: gap adds Gaussian noise"):
        only(delta=0.0)
    plan = read(None, {"data": "campus:n=300", "epsilon": "1", "delta": 0})
    makes = {name: SYSTEMS[name].make for name in ("gap", "lpgnn")}
    made, skips = cases(plan, load(plan.data, None), makes)
    assert [case.model.name for case in made] == ["lpgnn"]
    assert skips[0].reason.startswith("delta=0: gap adds Gaussian noise")
