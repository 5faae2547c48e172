"""A model that states its claim is audited against it, unless an option states another one."""

import pytest

from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.audit.own.stated_claim import check_tested
from gnnaudit.audit.planning.plan import read
from gnnaudit.audit.planning.planned_cases import cases, recipes

FILE = """
import numpy as np
from dp_accounting import LaplaceDpEvent
from gnnaudit import Claim, Looped, Unit
def train(graph, seed):
    noise = np.random.default_rng(seed).laplace(0.0, 1.0, size=graph.classes)
    return {"histogram": np.bincount(graph.y[graph.train], minlength=graph.classes) + noise}
def looped(claim):
    return Looped(train, releases=("histogram",), events=LaplaceDpEvent(1.0), claim=claim)
honest = looped(Claim(1.0, 0.0, Unit.NODE))
silent = looped(None)
false = looped(Claim(0.5, 0.0, Unit.NODE))
tuned = looped(Claim(1.0, 0.0, Unit.NODE, tuned_over=3))
large = looped(Claim(1000.0, 0.0, Unit.NODE))
class Strange(Looped):
    claim = 1.0
    def __post_init__(self): pass
strange = Strange(train, claim=1.0, name="strange")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "claiming.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1.0, 0.0, Unit.NODE)),
        ({"preset": "ci"}, (1.0, 0.0, Unit.NODE)),
        ({"epsilon": "0.25"}, (0.25, 0.0, Unit.NODE)),
        ({"delta": 1e-4}, (1.0, 1e-4, Unit.NODE)),
        ({"preset": "nightly", "epsilon": "4"}, (4.0, 0.0, Unit.NODE)),
    ],
)
def test_options_replace_parts_of_the_stated_claim_and_a_preset_does_not(options, expected, file, graph):
    plan, makes = recipes(read(None, {"model": f"{file}:honest", **options}))
    (case,), skips = cases(plan, graph, makes)
    assert not skips
    assert (case.claim.epsilon, case.claim.delta, case.claim.unit) == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tuned", "claim: tuned_over=3: must be 1"),
        ("strange", r"claim=1\.0: must be a gnnaudit\.Claim"),
        ("large", "epsilon=.*: must be at most 100 nats"),
        ("silent", "epsilon: train adds its own noise, and states no claim that could be tested. Give it with --epsilon"),
    ],
)
def test_a_claim_that_the_audits_do_not_test_is_refused(name, said, file):
    with pytest.raises(ValueError, match=said):
        recipes(read(None, {"model": f"{file}:{name}"}))


@pytest.mark.parametrize(("name", "code"), [("honest", 0), ("false", 1)])
def test_a_model_without_posteriors_is_judged_by_its_own_claim(name, code, file, tmp_path):
    """Noise of scale 1 on counts that one node moves by 1 costs exactly 1 nat."""
    from gnnaudit.audit.run import run

    options = {"data": "campus:n=120:degree=6", "audits": "differential", "mlflow": "none", "jobs": 1, "seed": "stated"}
    out = tmp_path / "run"
    assert run(read(None, {"model": f"{file}:{name}", "out": out, **options}), quiet=True) == code
    assert "does not release 'posteriors'" in (out / "results.json").read_text().replace("\\u0027", "'")


@pytest.mark.parametrize("unit", list(Unit))
def test_a_claim_that_names_no_relation_has_the_one_that_the_audits_of_its_unit_test(unit):
    check_tested(Claim(1.0, 0.0, unit))
    other = next(relation for relation in Relation if relation is not Claim(1.0, 0.0, unit).relation)
    with pytest.raises(ValueError, match="Leave `relation` out"):
        check_tested(Claim(1.0, 0.0, unit, other))
