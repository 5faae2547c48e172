"""Each claim is a test that passes, fails or is an error, as its verdict says."""

import xml.etree.ElementTree as ET

import pytest

from gnnaudit.reports import results
from gnnaudit.reports.formats import junit
from gnnaudit.reports.results import AccountRow, BoundRow, Results, Run, SkippedRow
from gnnaudit.reports.summary import lines


def suite(found):
    return ET.fromstring(junit.to_xml(found).encode()).find("testsuite")


def test_counts_agree_with_the_cases_and_the_verdicts(example_run):
    found = results.read(example_run)
    told = suite(found)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(told.get(name)) == len(told.findall(f"testcase/{tag}"))
    assert int(told.get("tests")) == len(told.findall("testcase")) == 11
    assert [int(told.get(n)) for n in ("failures", "errors", "skipped")] == [2, 1, 1]


def test_in_a_pull_request_a_weak_test_warns_and_a_false_claim_still_fails(example_run):
    found = results.read(example_run)
    told = suite(found.model_copy(update={"run": found.run.model_copy(update={"preset": "ci"})}))
    assert [int(told.get(n)) for n in ("failures", "errors", "skipped")] == [2, 0, 2]
    assert len(told.findall("testcase/skipped")) == 2
    assert sum(s.get("message").startswith("warning: inconclusive") for s in told.iter("skipped")) == 1


def test_a_failed_condition_is_no_mere_warning_in_a_pull_request():
    where = {"model": "mine", "mode": "own", "unit": "undirected-edge", "epsilon": 1.0, "delta": 1e-5}
    bound = BoundRow(
        **where, audit="differential", attack="none", rounds=2, shape="any", value=0.0, confidence=0.95, verdict="not-refuted"
    )
    failed = {"what": "rows are alike", "how": "failed", "detail": "two rows differ"}
    for changes, expected in (({}, ["0", "1"]), ({"withdrawn": 0.3, "conditions": [failed]}, ["1", "0"])):
        rows = (bound.model_copy(update=changes),)
        told = suite(Results(run=Run(name="r", preset="ci"), rows=rows))
        assert [told.get(n) for n in ("errors", "skipped")] == expected


def test_a_claim_that_nothing_looked_at_is_no_mere_warning_in_a_pull_request():
    where = {"model": "mine", "mode": "sound", "unit": "undirected-edge", "epsilon": 1.0, "delta": 1e-5}
    rows = (
        AccountRow(**where, accountant="exact", value=1.0, is_upper_bound=True),
        SkippedRow(**where, what="mine sound epsilon=1", reason="posteriors.npy: missing"),
    )
    told = suite(Results(run=Run(name="r", preset="ci"), rows=rows))
    assert [told.get(n) for n in ("tests", "failures", "errors", "skipped")] == ["2", "0", "1", "1"]
    assert "no audit tested" in next(told.iter("error")).get("message")


def test_an_error_carries_its_cause_and_a_case_its_delta():
    where = {"model": "mine", "mode": "own", "unit": "undirected-edge", "epsilon": 1.0, "delta": 1e-5}
    account = AccountRow(**where, accountant="exact", value=1.0)
    for what, said in (("mine own epsilon=1", "target: nothing came out"), ("audit game", None)):
        skipped = SkippedRow(**where, what=what, reason="target: nothing came out")
        told = suite(Results(run=Run(name="r"), rows=(account, skipped)))
        (error,) = told.iter("error")
        assert error.text == "target: nothing came out"
        assert (said or "no audit tested this claim") in error.get("message")
        assert told.find("testcase").get("name") == "mine (own) ε = 1, δ = 1e-05 per undirected-edge"


def test_what_does_not_apply_to_a_model_is_one_case_with_all_reasons():
    rows = [SkippedRow(model="gap", mode="sound", epsilon=1.0, what=f"audit a{i}", reason=f"reason {i}") for i in range(9)]
    (skipped,) = suite(Results(run=Run(name="r"), rows=tuple(rows))).iter("skipped")
    assert skipped.get("message").startswith("audits a0, a1")
    assert all(row.reason in skipped.text for row in rows)


def test_what_is_skipped_in_both_modes_is_two_tests():
    rows = tuple(
        SkippedRow(model="gap", mode=mode, epsilon=1.0, what="audit votes", reason="none") for mode in ("paper", "sound")
    )
    cases = [(c.get("classname"), c.get("name")) for c in suite(Results(run=Run(name="r"), rows=rows)).iter("testcase")]
    assert len(set(cases)) == 2


@pytest.mark.parametrize(("confirmed", "said"), [(True, ", confirmed"), (False, "NOT confirmed"), (None, "rounds; gate")])
def test_a_failure_says_whether_fresh_coins_confirmed_it(confirmed, said):
    look = {"audit": "game", "attack": "x", "shape": "any", "confidence": 0.95, "rounds": 10, "method": "gate"}
    rows = [
        BoundRow(model="gap", epsilon=1.0, delta=0.0, value=2.0, verdict="refuted", notices=1.1, reach=1.1, confirmed=c, **look)
        for c in (confirmed, True)
    ]
    assert said in next(suite(Results(run=Run(name="r"), rows=tuple(rows))).iter("failure")).text


def test_a_failure_carries_the_sentence_of_the_verdict(example_run):
    found = results.read(example_run)
    sentences = {line.verdict.sentence for line in lines(found) if line.verdict.kind == "refuted"}
    assert {f.get("message") for f in suite(found).iter("failure")} == sentences


def test_models_without_a_claim_are_no_tests():
    bound = BoundRow(
        model="gap", audit="game", attack="lira", shape="any", value=9.0, confidence=0.95, rounds=10, verdict="not-refuted"
    )
    assert suite(Results(run=Run(name="r"), rows=(bound,))).get("tests") == "0"


def test_names_with_markup_stay_well_formed(tmp_path):
    bound = BoundRow(
        model='<a&"b">', epsilon=1.0, delta=0.0, audit="game", attack="x", shape="any", value=2.0, confidence=0.95, rounds=10,
        verdict="refuted", notices=1.1, reach=1.1,
    )  # fmt: skip
    results.write(Results(run=Run(name="<r>"), rows=(bound,)), tmp_path)
    assert '<a&"b">' in ET.parse(junit.write(tmp_path)).getroot().find(".//testcase").get("name")
