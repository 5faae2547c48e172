"""The assumptions of audits about a user's model are checked before they run; a failed one withdraws the bounds that need it."""

import dataclasses
import json
import sys
import time

import numpy as np
import pytest

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.audit.case import Case, Outcome
from gnnaudit.audit.faults.strangers import Sums
from gnnaudit.audit.own.contract import CLAUSES, EARLIER, SAME, UNREPEATED, tiny
from gnnaudit.audit.own.premises import broken, checked_first, clauses, in_words, resting_on
from gnnaudit.audit.planning.plan import Plan
from gnnaudit.audit.run import run
from gnnaudit.models.gap.gap import Gap
from gnnaudit.models.looped import Looped
from gnnaudit.reports.formats import html

CLAIM = Claim(1.0, 1e-6)


class IgnoresMasks(Sums):
    """Sums over all edges of the graph, also over those that a world hides."""

    def fit(self, worlds, device="cpu"):
        return super().fit(dataclasses.replace(worlds, edges=None))


SEEN = Outcome("game", (Bound(2.0, 0.05, "any", "counted", (10, 10), True, 0.01, 1.1, 2.2),))


def test_a_bound_falls_with_the_clause_that_makes_its_two_worlds():
    case = Case(IgnoresMasks(), CLAIM)
    checks = checked_first(case.model, tiny(48))
    (bound,) = resting_on(case, SEEN, checks, masks=True).bounds
    assert bound.withdrawn == 2.0
    assert not bound.refuted
    assert "a masked edge is an absent edge" in bound.failed[0]
    assert [row.what for row in broken(case, checks)] == ["contract: a masked edge is an absent edge"]


def from_the_clock(graph, seed):
    """Fresh noise from a source that neither the seed nor the recorder sets."""
    return {"noisy": np.random.default_rng(time.perf_counter_ns()).standard_normal((graph.nodes, graph.classes))}


def test_without_two_equal_trainings_no_clause_that_compares_trainings_is_said_to_fail_and_no_bound_rests_on_it():
    case = Case(Looped(from_the_clock, releases=("noisy",)), CLAIM)
    checks = checked_first(case.model, tiny(48))
    assert [check.name for check in checks if check.failure] == [SAME]
    assert {check.name for check in checks if check.unasked == UNREPEATED} == {
        name for name, clause in CLAUSES.items() if clause.compares
    }
    for masks in (True, False):
        (bound,) = resting_on(case, SEEN, checks, masks).bounds
        assert bound.withdrawn == 2.0
        assert all(UNREPEATED in reason for reason in bound.failed)


def test_an_error_that_a_clause_meets_stays_a_failure_without_two_equal_trainings():
    def fails_by_name(graph, seed):
        if graph.name == "another":
            raise KeyError(graph.name)
        return from_the_clock(graph, seed)

    checks = checked_first(Looped(fails_by_name, releases=("noisy",)), tiny(48))
    assert {check.name for check in checks if check.failure} == {SAME, "the name of the graph does not matter"}


def test_a_bound_stands_where_the_clause_holds():
    case = Case(Sums(), CLAIM)
    checks = checked_first(case.model, tiny(48))
    for masks, names in ((True, [EARLIER, "a masked edge is an absent edge"]), (False, [EARLIER])):
        (bound,) = resting_on(case, SEEN, checks, masks).bounds
        assert bound.refuted
        assert [(c.what, c.how) for c in bound.conditions] == [(name, "checked") for name in names]


def test_the_clauses_of_own_models_are_checked_and_those_of_systems_are_not():
    assert {c["how"] for c in clauses(checked_first(Sums(), tiny(48)))} == {"holds"}
    assert checked_first(Gap(), tiny(48)) == ()


@pytest.mark.parametrize("own_noise", [False, True])
def test_a_claim_follows_from_its_ledger_alone_where_the_noise_was_calibrated_by_it(own_noise):
    class Fixed(Sums):
        def with_noise(self, sigma):
            return self

    case = Case(Fixed() if own_noise else Sums(), CLAIM)
    assert case.follows_from_ledger is not own_noise


def test_a_run_names_the_clauses_that_it_checked_and_the_one_that_fails(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    file = tmp_path / "mine.py"
    file.write_text("from gnnaudit_tests_own import IgnoresMasks as Mine\n")
    sys.modules["gnnaudit_tests_own"] = sys.modules[__name__]
    out = tmp_path / "out"
    given = {"data": "campus:n=240", "epsilon": [4.0], "attacks": "none", "repeats": 1, "mlflow": "none", "seed": "contract"}
    given |= {"audits": "differential,one-run", "jobs": 1}
    code = run(Plan(model=f"{file}:Mine", out=out, **given))
    document = json.loads((out / "results.json").read_text())
    rows = document["rows"]
    held = {c["clause"]: c["how"] for c in document["run"]["contract"]["ignoresmasks"]}
    assert held.pop("a masked edge is an absent edge") == "fails"
    assert set(held.values()) == {"holds"}
    assert all(row["own"] for row in rows if row["kind"] == "account" and row["accountant"] != "warning")
    assert "FAILS: a masked edge is an absent edge" in capfd.readouterr().err
    for row in rows:
        if row["kind"] == "bound" and row["audit"] != "differential":
            assert row["value"] == 0
    assert code == 0  # the bound of `differential` stays, because it removes edges without masks


def raises(graph, seed):
    raise RuntimeError("no such layer")


def test_an_error_of_the_model_is_one_cause_on_every_graph():
    case = Case(Looped(raises, claim=CLAIM), CLAIM)
    checks = checked_first(case.model, tiny(48))
    (row,) = broken(case, checks)
    assert row.what.startswith("contract: a training does not depend on earlier ones, ")
    assert row.what.endswith(" more clauses")
    assert "RuntimeError: no such layer" in row.reason
    assert "every other clause fails, because the model raises an error at " in in_words(case, checks)
    assert "FAILS" not in in_words(case, checks)


def test_a_failed_clause_is_named_beside_those_that_hold():
    case = Case(IgnoresMasks(), CLAIM)
    assert "; FAILS: a masked edge is an absent edge (see `audit contract`)" in in_words(
        case, checked_first(case.model, tiny(48))
    )


def test_the_graphs_of_the_contract_have_as_many_columns_of_features_as_the_graph():
    def train(graph, seed):
        return {"sum": np.array([graph.x[:, 20].sum() + np.random.default_rng(seed).laplace(0, 1.0)])}

    model = Looped(train, releases=("sum",), unit=Unit.UNDIRECTED_EDGE)
    assert not any(check.failure for check in checked_first(model, tiny(48, 21)))
    assert any("index 20 is out of bounds" in (check.failure or "") for check in checked_first(model, tiny(48, 20)))
