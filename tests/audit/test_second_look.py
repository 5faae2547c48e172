"""One statistical refutation is not enough: fresh coins must confirm it, and every output says whether they did."""

import dataclasses
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from gnnaudit.accounting.claim import Claim, Unit
from gnnaudit.accounting.lower.bounds import Bound
from gnnaudit.accounting.lower.elementary import Kind, chance, least_rejected
from gnnaudit.audit.audits.registry import Audit
from gnnaudit.audit.case import Case, Outcome, Setting
from gnnaudit.audit.key import Key
from gnnaudit.audit.planning.plan import PRESETS, read
from gnnaudit.audit.run import verdict_line
from gnnaudit.audit.second_look import LEVEL, POWER, backs, confirmed, times
from gnnaudit.audit.storage.store import Store
from gnnaudit.models.gap.gap import Gap
from gnnaudit.reports.evidence import judge
from gnnaudit.reports.results import SkippedRow, UtilityRow

CLAIM = Claim(1.0, 1e-6, Unit.UNDIRECTED_EDGE)


def bound(refuted, alpha=1e-4, epsilon=2.0):
    return Bound(
        epsilon if refuted else 0.0, alpha, "any", "x", (5, 5), refuted, 1e-9 if refuted else 0.5, 1.2, 1.3, "lira", "game"
    )


def second_look(first, then, tmp_path):
    """The result of a first outcome if the repetition returns `then`, and the key and level of the repetition."""
    asked = []

    def run(setting):
        asked.append((setting.key, setting.alpha))
        return Outcome("game", (then,))

    audit = Audit("game", 2, lambda case: None, run)
    key = Key("root")
    found = confirmed(audit, Outcome("game", first), Setting(Case(Gap(), CLAIM), None, Store(Path(tmp_path)), key, 5))
    return found, asked


def test_what_was_not_refuted_is_not_looked_at_again(tmp_path):
    found, asked = second_look((bound(False),), bound(True), tmp_path)
    assert len(found) == 1
    assert asked == []


def test_a_computation_needs_no_second_look(tmp_path):
    found, asked = second_look((bound(True, alpha=0.0),), bound(False), tmp_path)
    assert asked == []
    assert judge(CLAIM, (), found[0].bounds).exit_code == 1


def test_what_was_computed_stands_whatever_fresh_coins_say(tmp_path):
    found, asked = second_look((bound(True, alpha=0.0), bound(True)), bound(False), tmp_path)
    assert len(asked) == 1
    assert [b.confirmed for b in found[0].bounds] == [None, False]
    assert judge(CLAIM, (), [b for outcome in found for b in outcome.bounds]).kind == "refuted"


def test_fresh_coins_come_from_another_branch_of_the_key_at_the_level_of_a_confirmation(tmp_path):
    _, asked = second_look((bound(True), bound(False)), bound(True), tmp_path)
    assert asked == [(Key("root", "game", "again"), LEVEL / 2)]


@pytest.mark.parametrize(("agrees", "kind", "code"), [(True, "refuted", 1), (False, "inconclusive", 3)])
def test_a_claim_falls_only_if_both_looks_fail(agrees, kind, code, tmp_path):
    found, _ = second_look((bound(True), bound(False)), bound(agrees), tmp_path)
    bounds = [b for outcome in found for b in outcome.bounds]
    assert [b.confirmed for b in bounds] == [agrees, None, agrees or None]
    assert {b.audit for b in bounds} == {"game", "game again"}
    verdict = judge(CLAIM, (), bounds)
    assert (verdict.kind, verdict.exit_code) == (kind, code)
    assert ("confirmed" if agrees else "no repetition with fresh randomness did") in verdict.sentence


def played(first, then, tmp_path):
    """All bounds, and the verdict, of an audit with several tests and of its repetition."""
    audit = Audit("game", 2, lambda case: None, lambda setting: Outcome("game", then))
    setting = Setting(Case(Gap(), CLAIM), None, Store(Path(tmp_path)), Key("root"), 5)
    bounds = [b for outcome in confirmed(audit, Outcome("game", first), setting) for b in outcome.bounds]
    return [b.confirmed for b in bounds], judge(CLAIM, (), bounds).kind


OTHERS = [{"shape": "ledger"}, {"method": "y"}, {"against": "ledger"}]


@pytest.mark.parametrize("changes", OTHERS)
def test_the_refutation_of_another_test_confirms_nothing(changes, tmp_path):
    other = dataclasses.replace(bound(True), **changes)
    marks, verdict = played((bound(True),), (other,), tmp_path)
    assert marks[0] is False
    assert marks[1] is (changes == {"against": "ledger"})  # who refutes the claim refutes the ledger
    assert verdict == ("refuted" if marks[1] else "inconclusive")


def test_each_of_two_refutations_needs_its_own_second_test(tmp_path):
    one, other = bound(True), dataclasses.replace(bound(True), shape="ledger", against="ledger")
    marks, verdict = played((one, other), (bound(False), other), tmp_path)
    assert marks == [False, True, None, True]
    assert verdict == "refuted"


@pytest.mark.parametrize(("p_value", "counts"), [(LEVEL / 2.1, True), (LEVEL / 1.9, False)])
def test_a_p_value_below_the_level_of_a_repetition_confirms(p_value, counts, tmp_path):
    then = dataclasses.replace(bound(False, alpha=1e-6), p_value=p_value)
    assert played((bound(True),), (then,), tmp_path) == ([counts, None], "refuted" if counts else "inconclusive")


def test_another_part_of_the_data_is_the_same_test(tmp_path):
    views = [dataclasses.replace(bound(True), method=f"replay and residuals{view}") for view in ("", ", weighted columns")]
    assert played((views[0],), (views[1],), tmp_path) == ([True, True], "refuted")


def test_false_alarms_of_two_tests_add_up_to_the_product_of_their_levels():
    """Two tests of a true claim with independent p-values, by enumeration of who refutes: not (2 a) (2 b) but 2 a b."""
    a, b = 1e-3, 5e-4
    both = sum(
        np.prod([level if hit else 1 - level for hit, level in zip(hits, (a, a, b, b), strict=True)])
        for hits in product((False, True), repeat=4)
        if any(
            backs(dataclasses.replace(bound(hits[2 + j]), method=str(j)), dataclasses.replace(bound(True), method=str(i)))
            for i in range(2)
            for j in range(2)
            if hits[i]
        )
    )
    assert both == pytest.approx(1 - (1 - a * b) ** 2, rel=1e-9)


@pytest.mark.parametrize(("alpha", "level"), [(0.05, LEVEL / 2), (1e-6, 1e-6)])
def test_the_bound_of_a_repetition_has_at_most_the_level_of_a_printed_one(alpha, level, tmp_path):
    asked = []

    def run(setting):
        asked.append(setting.alpha)
        return Outcome("game", (bound(True),))

    setting = Setting(Case(Gap(), CLAIM), None, Store(Path(tmp_path)), Key("root"), 5, alpha)
    confirmed(Audit("game", 2, lambda case: None, run), Outcome("game", (bound(True),)), setting)
    assert asked == [level]


def test_a_ledger_that_is_not_of_what_was_run_is_told_without_a_bound():
    look = dataclasses.replace(
        bound(True, alpha=0.0, epsilon=0.0), shape="exact", method="3 mechanisms ran, and the ledger composes 2"
    )
    verdict = judge(CLAIM, (), (look,))
    assert (verdict.kind, verdict.exit_code) == ("exceeds", 1)
    assert "3 mechanisms ran" in verdict.sentence
    assert "at least" not in verdict.sentence


def test_a_named_system_that_was_skipped_is_in_the_verdict_line():
    seen = UtilityRow(model="gap", epsilon=1.0, metric="accuracy", split="test", value=0.5, runs=1)
    one_budget = SkippedRow(model="gap", epsilon=1.0, what="gap sound epsilon=1", reason="no")
    gone = SkippedRow(model="dpar", what="dpar sound epsilon=1", reason="no")
    assert verdict_line(0, [seen, one_budget]) == "not refuted"
    assert verdict_line(0, [seen, one_budget, gone, gone]) == "not refuted; not tested: dpar"
    assert verdict_line(3, [gone]) == "inconclusive; not tested: dpar"


def test_a_run_without_a_finite_claim_does_not_say_that_a_claim_was_not_refuted():
    assert verdict_line(0, [UtilityRow(model="gap", metric="accuracy", split="test", value=0.5, runs=1)]) == "no claim was tested"


def test_claims_that_were_only_skipped_are_no_tested_claims():
    open_model = UtilityRow(model="gcn", metric="accuracy", split="test", value=0.5, runs=1)
    no_budget = SkippedRow(model="gcn", what="budget", reason="has none", epsilon=1.0)
    assert verdict_line(0, [open_model, no_budget]) == "no claim was tested"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_plan_and_gates_at_one_in_ten_thousand(preset):
    assert read(None, {"preset": preset}).alpha == 1e-4


def first_look(p_value, then, tmp_path, trial_limited=True):
    """As `second_look`, for a first test at 0.05 whose printed bound has the level 1e-3 and does not refute."""
    asked = []

    def run(setting):
        asked.append((setting.alpha, setting.rounds, setting.first))
        return Outcome("votes", (then,))

    audit = Audit("votes", 1, lambda case: None, run, trial_limited=trial_limited)
    setting = Setting(Case(Gap(), CLAIM), None, Store(Path(tmp_path)), Key("root"), 5, 1e-3, first=0.05)
    first = dataclasses.replace(bound(False, alpha=1e-3), p_value=p_value)
    return confirmed(audit, Outcome("votes", (first,)), setting), asked


def test_a_suspicion_is_tested_again_with_more_rounds_at_the_level_of_a_printed_bound(tmp_path):
    found, asked = first_look(0.03, bound(True), tmp_path)
    assert asked == [(1e-3, 5 * times(0.05, 1e-3), None)]
    bounds = [b for outcome in found for b in outcome.bounds]
    assert judge(CLAIM, (), bounds).kind == "refuted"


def test_a_suspicion_that_fresh_coins_do_not_confirm_leaves_no_trace_in_the_verdict(tmp_path):
    found, _ = first_look(0.03, bound(False), tmp_path)
    verdict = judge(CLAIM, (), [b for outcome in found for b in outcome.bounds])
    assert (verdict.kind, verdict.exit_code) == ("not-refuted", 0)
    assert "epsilon above 1.3 " in verdict.sentence  # what the first test would have noticed


@pytest.mark.parametrize(("p_value", "trial_limited"), [(0.06, True), (0.03, False)])
def test_without_a_suspicion_or_a_use_of_more_rounds_nothing_is_repeated(p_value, trial_limited, tmp_path):
    found, asked = first_look(p_value, bound(True), tmp_path, trial_limited)
    assert len(found) == 1
    assert asked == []


@pytest.mark.parametrize(("first", "alpha"), [(0.05, 6.8e-4), (1e-4, 2.5e-6), (0.05, 0.05)])
def test_the_repetition_almost_surely_refutes_what_the_first_test_detects(first, alpha):
    move = norm.isf(first) + norm.ppf(POWER)  # in standard deviations of the first test
    assert norm.sf(norm.isf(alpha) - move * times(first, alpha) ** 0.5) >= 0.99
    assert times(first, alpha) <= 4


def test_at_most_three_of_a_thousand_honest_runs_are_blamed():
    """74 tests a run, as in a default run, of the tightest kind; 40,000 runs whose claims are exactly true."""
    kinds, draw = (Kind(0, 4000, 2, 0.25), Kind(0, 1000, 1, 0.5)), np.random.default_rng(0)
    alpha, more = 0.05 / 74, times(0.05, 0.05 / 74)
    wider = tuple(dataclasses.replace(k, guesses=more * k.guesses) for k in kinds)
    suspects = draw.binomial(74, chance(kinds, (0.25, 0.5), least_rejected(kinds, 1.0, 0.05)), 40_000)
    blamed = (draw.binomial(suspects, chance(wider, (0.25, 0.5), least_rejected(wider, 1.0, alpha))) > 0).mean()
    assert 0 < blamed <= 0.003


def test_a_repetition_waits_as_long_as_it_takes(tmp_path):
    waits = []

    def run(setting):
        waits.append(setting.patience)
        return Outcome("blackbox", (bound(True),))

    setting = Setting(Case(Gap(), CLAIM), None, Store(Path(tmp_path)), Key("root"), 5, patience=300.0)
    confirmed(Audit("blackbox", 2, lambda case: None, run), Outcome("blackbox", (bound(True),)), setting)
    assert waits == [math.inf]
