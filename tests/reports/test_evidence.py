"""Evidence is unchanged after writing and reading, and verdicts state only what was proved."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnaudit.accounting.checks.conditions import Condition, assumed, checked
from gnnaudit.accounting.claim import Claim, Relation, Unit
from gnnaudit.accounting.lower.bounds import Bound, resting
from gnnaudit.accounting.lower.of_scores import lower
from gnnaudit.accounting.upper.accountants import Upper
from gnnaudit.reports import evidence
from gnnaudit.reports.evidence import Evidence, exit_code, judge
from gnnaudit.reports.results import Results, Run, bound_rows
from gnnaudit.reports.rounding import as_far, down, multiple, percent, up
from gnnaudit.reports.summary import lines

CLAIM = Claim(1.0, 1e-5, Unit.UNDIRECTED_EDGE)


def look(epsilon: float, refuted: bool = False, notices: float = 1.2, alpha: float = 0.05) -> Bound:
    return Bound(epsilon, alpha, "ledger", "gate", (50, 50), refuted, 0.5, notices, notices * 1.1, "lira", "game")


def ceiling(epsilon: float | None, valid: bool = True, unsupported: str | None = None) -> Upper:
    return Upper("dp_accounting-pld", epsilon, valid, unsupported, 0.1)


def test_evidence_comes_back_from_its_file_as_it_was(tmp_path):
    told = Evidence(
        claim=Claim(math.inf, 0.0, Unit.NODE, Relation.REPLACE, ("posteriors", "aggregates")),
        model="gap",
        mode="paper",
        game="edge",
        ledger="GaussianDpEvent(noise_multiplier=2.0)",
        uppers=(ceiling(0.1 + 0.2), ceiling(None, unsupported="no"), ceiling(math.inf)),
        bounds=(resting(look(1 / 3), "a theorem", checked("rows are alike", "t", 0.2)), look(0.0, notices=math.inf)),
        curves={"tradeoff": {"claimed": [np.array([0.0, 0.5]), np.array([1.0, -np.inf])]}, "roc": {"lira": ((0, 1), (0, 1))}},
        reach="far",
        randomness="seeded by 256 bits",
        assumptions=("The split is public.",),
        versions={"torch": "2.13.0"},
        seconds=1.5,
    )
    evidence.write(told, tmp_path)
    assert evidence.read_all(tmp_path) == [told]


def test_the_file_is_strict_json(tmp_path):
    path = evidence.write(Evidence(Claim(math.inf, 0.0), "gap", "sound", "edge", bounds=(look(math.inf),)), tmp_path)
    json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_one_game_on_two_units_makes_two_files():
    names = {Evidence(Claim(4.0, 1e-6, unit), "gap", "paper", "edge").file_name for unit in Unit}
    assert len(names) == len(Unit)


def test_a_name_cannot_leave_the_folder():
    assert "/" not in Evidence(CLAIM, "../../etc/x", "sound", "a b").file_name


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "broken.json").write_text('{"claim": {}}')
    with pytest.raises(ValueError, match=r"broken\.json"):
        evidence.read_all(tmp_path)


def test_a_changed_number_is_found(tmp_path):
    """As after a bit that flipped on the disk: the file stays JSON, and a report would show another bound."""
    path = evidence.write(Evidence(CLAIM, "gap", "sound", "edge", uppers=(ceiling(0.75),), bounds=(look(0.25),)), tmp_path)
    content = path.read_text()
    for old, new in (("0.75", "0.74"), ("0.25", "0.35"), ('"sound"', '"sounf"')):
        path.write_text(content.replace(old, new))
        with pytest.raises(ValueError, match="checksum"):
            evidence.read_all(tmp_path)
    path.write_text("null")
    with pytest.raises(ValueError, match="damaged"):
        evidence.read_all(tmp_path)


def test_a_refuting_bound_wins_over_everything_else():
    verdict = judge(CLAIM, [ceiling(9.0)], [look(0.5), look(1.347, refuted=True), look(1.2, refuted=True)])
    assert (verdict.kind, verdict.exit_code) == ("refuted", 1)
    assert verdict.sentence == "refuted: at least 1.34 (95 %, shape of the ledger) against a claim of 1"


def test_a_bound_just_above_a_claim_is_shown_as_larger_than_the_claim():
    verdict = judge(CLAIM, [], [look(1.00004321, refuted=True)])
    assert verdict.sentence == "refuted: at least 1.00004 (95 %, shape of the ledger) against a claim of 1"
    assert down(1.00004321, beyond=1.1) == "1"
    assert down(1 + 1e-15, beyond=1) == "1"  # below the last digit that is shown


def test_a_refutation_by_samples_names_what_a_failed_check_found_and_a_computed_one_needs_no_clue():
    def failed(why):
        return resting(look(0.0), "a theorem", Condition("the release is covered", "failed", why))

    fault = "the noise of m.py, line 9 is the same for two seeds"
    silent = failed(fault)
    said = judge(CLAIM, [], [look(1.347, refuted=True), silent]).sentence
    assert said.endswith(f"against a claim of 1; a possible cause, from a check of another bound: {fault}")
    for ignorance in ("the recorder cannot follow the random numbers at m.py, line 9", "another seed draws more numbers"):
        assert "cause" not in judge(CLAIM, [], [look(1.347, refuted=True), failed(ignorance)]).sentence
    computed = dataclasses.replace(look(1.347, refuted=True), shape="exact")
    assert "line 9" not in judge(CLAIM, [], [computed, silent]).sentence


def test_a_large_bound_that_did_not_refute_refutes_nothing():
    assert judge(CLAIM, [], [look(5.0, refuted=False)]).kind == "not-refuted"


def test_a_ledger_that_costs_more_than_the_claim_exceeds_it():
    verdict = judge(CLAIM, [ceiling(1.42), ceiling(1.5)], [look(0.5)])
    assert (verdict.kind, verdict.exit_code) == ("exceeds", 1)
    assert "1.42" in verdict.sentence


def test_one_tight_valid_bound_below_the_claim_is_enough():
    assert judge(CLAIM, [ceiling(1.08), ceiling(0.99)], [look(0.5)]).kind == "not-refuted"
    assert judge(CLAIM, [ceiling(1.0005)], [look(0.5)]).kind == "not-refuted"  # the accountants' grids are no finer


def test_an_upper_bound_below_a_proved_lower_bound_is_reported_and_passes_nothing():
    """0.001 is what a changed file made of an honest 0.99: the claim of 1 then passed, with 0.5 beside 0.001 in one row."""
    verdict = judge(CLAIM, [ceiling(0.001)], [look(0.5)])
    assert (verdict.kind, verdict.exit_code) == ("inconclusive", 3)
    assert "a contradiction: at least 0.5" in verdict.sentence
    assert "by the accountant 'dp_accounting-pld' the ledger costs at most 0.001" in verdict.sentence
    unsure = resting(look(0.5), "a theorem", assumed("rows are alike"))
    assert "contradiction" not in judge(CLAIM, [ceiling(0.001)], [unsure]).sentence


def test_an_inconclusive_claim_is_weak_only_if_nothing_but_more_power_is_missing():
    """A job lets a weak claim pass. A contradiction, or a refutation that was not confirmed, must not pass as one."""
    assert judge(CLAIM, [ceiling(1.0)], [look(0.5, notices=1.8)]).weak
    assert not judge(CLAIM, [ceiling(1.0)], [look(0.5, notices=1.1)]).weak
    assert not judge(CLAIM, [ceiling(0.001)], [look(0.5, notices=1.8)]).weak
    unconfirmed = dataclasses.replace(look(2.0), refuted=True, confirmed=False)
    assert not judge(CLAIM, [ceiling(1.0)], [unconfirmed]).weak
    assert not judge(CLAIM, [ceiling(1.0)], []).weak


def test_a_bound_that_needs_an_assumption_detects_nothing():
    """It refutes nothing, however large the leak is. The other bound's 2.0 * 1.1 is what would have been noticed."""
    unsure = resting(look(0.5, notices=1.1), "a theorem", assumed("rows are alike"))
    alone = judge(CLAIM, [], [unsure])
    assert (alone.kind, alone.exit_code) == ("inconclusive", 3)
    assert "the smallest detectable violation is unknown" in alone.sentence
    both = judge(CLAIM, [], [unsure, look(0.2, notices=2.0)], notices=3.0)
    assert "a true epsilon above 2.2 would have been noticed if it came from too little noise" in both.sentence


def test_a_claim_that_only_replay_tested_says_what_replay_does_not_test():
    untested = "'replay' tests moves of means, not the size of the noise"
    alone = dataclasses.replace(look(0.0, notices=math.inf), method="replay")
    assert untested in judge(CLAIM, [ceiling(1.0)], [alone]).sentence
    sized = dataclasses.replace(alone, method="replay and residuals")  # of the audit residual, which tests the size
    assert untested not in judge(CLAIM, [ceiling(1.0)], [sized]).sentence
    beside = dataclasses.replace(alone, method="any")
    assert untested not in judge(CLAIM, [ceiling(1.0)], [alone, beside]).sentence


@pytest.mark.parametrize("other", [ceiling(5.0, valid=False), ceiling(5.0, unsupported="no"), ceiling(None)])
def test_what_is_not_an_upper_bound_is_not_held_against_the_claim(other):
    assert judge(CLAIM, [other], [look(0.5)]).kind == "not-refuted"


def test_a_verdict_that_does_not_refute_says_what_it_would_have_noticed():
    assert judge(CLAIM, [], [look(0.5, notices=1.3), look(0.2, notices=2.0)]).sentence == (
        "not refuted; a true epsilon above 1.43 would have been noticed if it came from too little noise"
    )


def test_what_would_have_been_noticed_is_the_worst_over_the_arrays_of_the_claim():
    both = dataclasses.replace(CLAIM, exposes=("posteriors", "aggregates"))
    sums = dataclasses.replace(look(0.5, notices=1.1), covers={"aggregates": "noise too small anywhere in"})
    rest = dataclasses.replace(
        look(0.5, notices=1.3), covers={"posteriors": "a path past the noise that is open on one of the two tested graphs, to"}
    )
    assert judge(both, [], [sums, rest]).sentence == (
        "not refuted; a true epsilon above 1.43 would have been noticed if it came from "
        "a path past the noise that is open on one of the two tested graphs, to posteriors, or from noise too small anywhere in "
        "aggregates"
    )
    plain = dataclasses.replace(look(0.5, notices=1.1), covers={"aggregates": "noise too small"})
    assert judge(both, [], [plain, rest]).sentence.endswith("posteriors, or from noise too small in aggregates")
    alone = judge(both, [], [sums])
    assert alone.exit_code == 3
    assert "in posteriors is unknown" in alone.sentence


def test_an_infinite_bound_is_worded_with_what_was_found():
    found = dataclasses.replace(look(math.inf, refuted=True, alpha=0.0), shape="exact", method="edge (0, 1) shows")
    verdict = judge(CLAIM, [], [found])
    assert verdict.exit_code == 1
    assert verdict.sentence.startswith("refuted: infinite (100 %, exact)")
    assert verdict.sentence.endswith("edge (0, 1) shows")


@pytest.mark.parametrize("bounds", [[], [look(0.5, notices=1.6)], [look(0.5, notices=math.inf)]])
def test_an_audit_that_could_not_have_noticed_is_inconclusive(bounds):
    verdict = judge(CLAIM, [ceiling(0.9)], bounds, notices=1.5)
    assert (verdict.kind, verdict.exit_code) == ("inconclusive", 3)


def test_what_rests_on_an_assumption_refutes_nothing_alone_and_is_never_called_exact():
    """A second bound without unchecked assumptions still refutes."""
    lone = resting(
        dataclasses.replace(look(math.inf, refuted=True, alpha=0.0), shape="exact"), "a theorem", assumed("it is Gaussian")
    )
    verdict = judge(CLAIM, [ceiling(0.9)], [lone, look(0.2)])
    assert (verdict.kind, verdict.exit_code) == ("inconclusive", 3)
    assert "if it is Gaussian); no check supports this assumption" in verdict.sentence
    for text in (verdict.sentence, str(lone)):
        assert "100 %" not in text
        assert "exact" not in text
    assert judge(CLAIM, [], [lone, look(1.5, refuted=True)]).kind == "refuted"


@pytest.mark.parametrize(("from_ledger", "kind"), [(True, "refuted"), (False, "exceeds")])
def test_a_bound_against_the_ledger_takes_the_claim_with_it_only_if_the_claim_has_no_other_ground(from_ledger, kind):
    shaped = dataclasses.replace(look(1.3, refuted=True), against="ledger")
    verdict = judge(CLAIM, [ceiling(0.9)], [shaped], from_ledger=from_ledger)
    assert (verdict.kind, verdict.exit_code) == (kind, 1)
    assert "the code is less private than its own ledger" in verdict.sentence
    assert ("the claim itself is not refuted" in verdict.sentence) is not from_ledger
    both = judge(CLAIM, [], [shaped, look(1.2, refuted=True)], from_ledger=from_ledger)
    assert both.sentence == "refuted: at least 1.2 (95 %, shape of the ledger) against a claim of 1"


def test_a_failed_check_takes_back_the_bound_and_its_reach_and_says_why():
    broken = resting(look(9.0, refuted=True, notices=1.1), "a theorem", checked("rows are alike", "chi-squared", 2e-57))
    assert (broken.epsilon, broken.withdrawn, broken.refuted, broken.reach) == (0.0, 9.0, False, math.inf)
    assert str(broken).startswith("withdrawn, was at least 9.00: rows are alike (chi-squared: p = 2e-57")
    verdict = judge(CLAIM, [ceiling(0.9)], [broken])
    assert verdict.kind == "inconclusive"
    assert (
        "because chi-squared: p = 2e-57, level 0.0001; so the bound of 9 does not count, because it needs that rows are alike"
        in verdict.sentence
    )
    # another test detects a small enough violation
    assert judge(CLAIM, [ceiling(0.9)], [broken, look(0.5)]).kind == "not-refuted"
    kept = resting(look(0.5), "a theorem", checked("rows are alike", "chi-squared", 0.3))
    assert kept.withdrawn is None
    assert kept.conditions[0].how == "checked"


def test_the_verdict_shows_the_most_telling_reason_even_beside_a_failed_repetition():
    details = (
        "the recorder did not follow 2 draws",
        "it is the same for two seeds",
        "after the last noise, the first result that differs comes from a.py, line 3",
        "x",
    )
    broken = [resting(look(0.0), "a theorem", Condition("c", "failed", text)) for text in details]
    for left, text in ((4, details[2]), (2, details[1]), (1, details[0])):
        assert judge(CLAIM, [], broken[:left]).sentence.endswith(f"violation is unknown, because {text}")
    lone = dataclasses.replace(look(1.5, refuted=True), confirmed=False)
    sentence = judge(CLAIM, [], [*broken, lone]).sentence
    assert sentence.index("line 3") < sentence.index("a test refuted the claim, but no repetition with fresh randomness did")


def test_rows_of_results_tell_the_same_verdict_as_the_bounds_they_come_from():
    bounds = (
        resting(look(3.0, refuted=True), "a theorem", assumed("it is Gaussian")),
        resting(look(9.0, refuted=True), "a theorem", checked("rows are alike", "chi-squared", 1e-9)),
    )
    for some in (bounds, bounds[1:], (*bounds, dataclasses.replace(look(1.3, refuted=True), against="ledger"))):
        rows = bound_rows(Evidence(CLAIM, "gap", "sound", "edge", bounds=some), 1.5)
        (line,) = lines(Results(run=Run(name="x"), rows=tuple(rows)))
        assert line.verdict == judge(CLAIM, [], some)


def test_the_lower_column_shows_the_bound_that_a_refutation_names():
    larger = dataclasses.replace(look(6.1, refuted=True), against="ledger")
    for some, shown in (((look(5.9, refuted=True), larger), 5.9), ((larger,), 6.1), ((look(0.5), look(0.7)), 0.7)):
        rows = bound_rows(Evidence(CLAIM, "gap", "sound", "edge", bounds=some), 1.5)
        (line,) = lines(Results(run=Run(name="x"), rows=tuple(rows)))
        assert line.lower.value == shown
        assert (line.verdict.kind == "refuted") == (down(shown) in line.verdict.sentence)


def test_nothing_is_held_against_a_model_that_claims_nothing():
    assert judge(Claim(math.inf, 0.0), [ceiling(math.inf)], [look(9.0, notices=math.inf)]).exit_code == 0


LOOKS = st.lists(st.tuples(st.floats(0, 50), st.booleans(), st.floats(1, 9)))


@given(st.floats(0, 50), st.lists(st.floats(0, 50), max_size=3), LOOKS)
def test_private_is_never_an_output(epsilon, ceilings, looks):
    sentence = judge(Claim(epsilon, 1e-5), [ceiling(c) for c in ceilings], [look(*args) for args in looks]).sentence
    assert "private" not in sentence
    assert "\n" not in sentence


def test_a_run_fails_when_any_claim_fell_and_is_unfinished_when_any_look_was_weak():
    strong, weak = judge(CLAIM, [], [look(0.5)]), judge(CLAIM, [], [])
    fell = judge(CLAIM, [], [look(2.0, refuted=True)])
    assert [exit_code(v) for v in ([strong, weak, fell], [strong, weak], [strong], [])] == [1, 3, 0, 3]


@given(st.floats(1e-9, 1e9))
def test_lower_bounds_round_down_and_upper_bounds_round_up(value):
    assert float(down(value)) <= value * (1 + 2e-9)
    assert float(up(value)) >= value * (1 - 2e-9)
    assert float(up(value)) / float(down(value)) < 1.012


@given(st.floats(0.5, 1 - 1e-12))
def test_a_confidence_is_never_rounded_up(share):
    assert float(percent(share).removesuffix(" %")) <= 100 * share * (1 + 1e-11)


@pytest.mark.parametrize(("share", "words"), [(0.95, "95 %"), (0.992, "99.2 %"), (1 - 0.05 / 6, "99.16 %"), (1.0, "100 %")])
def test_confidences_read_as_a_person_would_write_them(share, words):
    assert percent(share) == words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"claim": 1.0}, "claim=1.0: must be a Claim"),
        ({"ceiling": None}, "ceiling=None: must be a list of upper bounds"),
        ({"ceiling": [1.0]}, "ceiling[0]=1.0: ceiling must be a list of upper bounds"),
        ({"bounds": None}, "bounds=None: must be a list of lower bounds"),
        ({"bounds": [1.0]}, "bounds[0]=1.0: bounds must be a list of lower bounds"),
        ({"notices": 1}, "notices=1: must be above 1."),
        ({"notices": math.nan}, "notices=nan: must be above 1."),
        ({"notices": "x"}, "notices='x': must be above 1."),
    ],
)
def test_a_verdict_on_other_things_than_bounds_is_refused(arguments, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}.*$"):
        judge(**({"claim": Claim(1.0, 1e-5), "ceiling": [], "bounds": []} | arguments))


@pytest.mark.parametrize(("shape", "said"), [("exact", True), ("ledger", False)])
def test_a_claim_far_above_a_computed_bound_is_told_that_more_rounds_do_not_help(shape, said):
    loose = dataclasses.replace(look(0.4, notices=2.0), shape=shape)
    sentence = judge(CLAIM, [], [loose]).sentence
    assert ("the bound of 0.4 is computed, so more rounds do not change it. Try data" in sentence) is said


def test_a_file_in_place_of_the_folder_with_the_evidence_is_named(tmp_path):
    (tmp_path / "evidence").write_text("")
    with pytest.raises(ValueError, match="evidence: must be the folder with the evidence"):
        evidence.read_all(tmp_path)


def test_a_multiple_of_one_is_said_without_a_number():
    """ "1 times" is no English; a factor that four digits show as 1 is the thing itself."""
    assert multiple(1.00001, "the scale of the noise") == "the scale of the noise"
    assert multiple(0.5, "the scale of the noise") == "0.5 times the scale of the noise"
    assert as_far(1) == "as far as"
    assert as_far(1.2345678) == "1.235 times as far as"


@pytest.mark.parametrize("other", [Claim(1.0, 1e-5), Claim(1.2, 0.0)])
def test_a_bound_that_was_computed_for_another_claim_is_refused(other):
    """A bound at delta = 0 may exceed the epsilon of a true claim at a larger delta."""
    draw = np.random.default_rng(3)
    bits = draw.random(400) < 0.5
    bound = lower(draw.standard_normal(400) + bits, bits, other)
    judge(other, (), [bound])
    with pytest.raises(
        ValueError, match=rf"epsilon={other.epsilon:g}, delta={other.delta:g} does not test epsilon=1.2, delta=0.1"
    ):
        judge(Claim(1.2, 0.1), (), [bound])
