"""Two runs differ only where their intervals exclude zero."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from gnnaudit.accounting.claim import Unit
from gnnaudit.reports import compare, results
from gnnaudit.reports.results import AttackRow, BoundRow, Results, Run, UtilityRow

from ..nightly import nightly
from .conftest import write_example

WHERE = {"model": "gap", "mode": "sound", "unit": Unit.NODE, "epsilon": 1.0}


def attack(auc, half=0.01, **others):
    row = {**WHERE, "attack": "lira", "game": "node", "auc": auc, "auc_ci95": (auc - half, auc + half)} | others
    return Results(run=Run(name="r"), rows=(AttackRow(**row),))


def compared(before, after):
    return compare.differences(results.read(before), results.read(after))


def test_a_run_does_not_differ_from_itself(example_run):
    assert not any(d.word for d in compared(example_run, example_run))


def test_a_leakier_run_is_told_by_every_attack(example_run, tmp_path):
    found = compared(example_run, write_example(tmp_path / "leaky", leak=0.1))
    attacks = [d for d in found if d.what.startswith("AUC")]
    assert len(attacks) == 60
    assert {d.word for d in attacks} == {"more"}
    assert not any(d.word for d in found if not d.what.startswith("AUC"))


def test_independent_errors_add_in_squares():
    (d,) = compare.differences(attack(0.5, 0.03), attack(0.6, 0.04))
    assert d.interval == pytest.approx((0.05, 0.15))
    assert d.word == "more"


@pytest.mark.parametrize(("other", "word"), [(0.514, ""), (0.515, "more"), (0.485, "less")])
def test_a_difference_is_told_when_its_interval_leaves_nought_out(other, word):
    (d,) = compare.differences(attack(0.5), attack(other))  # the interval reaches 0.01 * sqrt(2) = 0.0141 either way
    assert d.word == word


def test_the_interval_covers_the_difference_of_two_normal_estimates():
    rng, half = np.random.default_rng(3), 1.96 * 0.01
    first, second = rng.normal(0.6, 0.01, (2, 4000))
    told = [compare.differences(attack(a, half), attack(b, half))[0].interval for a, b in zip(first, second, strict=True)]
    covered = np.mean([low <= 0 <= high for low, high in told])
    assert abs(covered - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 4000)  # fails once in two million honest runs


def test_different_questions_are_not_compared():
    assert compare.differences(attack(0.5, negatives="dropped"), attack(0.9, query="bare")) == []


@pytest.mark.parametrize("ratio", [5, *nightly(1)])
def test_runs_of_the_same_leakage_differ_in_at_most_one_of_twenty_comparisons_at_few_targets(ratio):
    """150 attacks on 4 targets in each run, with Student's intervals, as `mean_interval` gives them. ratio: of the spreads over
    targets. Control: intervals that are widened to the level of Bonferroni by normal quantiles are too short.
    """
    rng, families, attacks, targets = np.random.default_rng(5), 200, 150, 4
    student = stats.t.ppf(0.975, targets - 1)
    normal = student * stats.norm.ppf(1 - 0.025 / attacks) / stats.norm.ppf(0.975)
    alarms = control = 0
    for _ in range(families):
        values = rng.normal(0.6, [[[0.005]], [[0.005 * ratio]]], (2, attacks, targets))
        means, errors = values.mean(2), values.std(2, ddof=1) / math.sqrt(targets)
        runs = [many(*both, targets) for both in zip(means, student * errors, strict=True)]
        alarms += any(d.word for d in compare.differences(*runs))
        control += bool((abs(means[1] - means[0]) > normal * np.hypot(*errors)).any())
    most = stats.binom.isf(1e-6, families, 0.05)  # fails once in a million honest suites
    assert alarms <= most < control


def many(means, halves, targets):
    """A run with one attack for each mean."""
    pairs = enumerate(zip(means, halves, strict=True))
    rows = [attack(mean, half, attack=f"a{i}", targets=targets).rows[0] for i, (mean, half) in pairs]
    return Results(run=Run(name="r"), rows=tuple(rows))


def test_at_four_targets_a_model_that_leaks_much_more_is_still_named():
    halves = [stats.t.ppf(0.975, 3) * 0.005] * 150
    found = compare.differences(many([0.6] * 150, halves, 4), many([0.6] * 149 + [0.75], halves, 4))
    assert [d.word for d in found] == ["more"] + [""] * 149


@pytest.mark.parametrize("negatives", ["random", "2-hop"])
def test_success_that_homophily_explains_is_no_difference_in_leakage(negatives):
    assert compare.differences(attack(0.5, negatives=negatives), attack(0.9, negatives=negatives)) == []
    assert len(compare.differences(attack(0.5, negatives="dropped"), attack(0.9, negatives="dropped"))) == 1


def test_a_changed_verdict_stands_first_with_its_bounds(example_run, tmp_path):
    found = results.read(example_run)
    kept = [r for r in found.rows if not (isinstance(r, BoundRow) and r.verdict == "refuted")]
    results.write(found.model_copy(update={"rows": tuple(kept)}), tmp_path)
    claims = compare.judged(results.read(tmp_path), found)
    assert [c.word for c in claims[:2]] == ["worse", "worse"]
    claims = compare.judged(found, results.read(tmp_path))
    changed = [c for c in claims if c.changed]
    assert claims[: len(changed)] == changed
    assert {(c.key.model, c.key.mode, c.verdicts[0]) for c in changed} == {("gap", "paper", "refuted")}
    assert all(c.lower[0] > c.lower[1] and c.upper[0] == c.upper[1] for c in changed)


def test_the_summary_counts_and_warns_of_few_targets(example_run, tmp_path, capsys):
    other = write_example(tmp_path / "leaky", leak=0.1)
    found = results.read(other)
    few = [r.model_copy(update={"targets": 7}) if isinstance(r, AttackRow) else r for r in found.rows]
    results.write(found.model_copy(update={"rows": tuple(few)}), other)
    compare.show(example_run, other)
    said = " ".join(capsys.readouterr().out.split())
    measured = "Measured by 60 attacks, the second run (leaky) leaks more in 60 and leaks less in 0."
    assert f"0 of 10 common verdicts changed. {measured}" in said
    assert "An attack had only 7 targets" in said


def test_what_sees_no_model_is_not_said_to_leak_and_other_graphs_are_named(tmp_path, capsys):
    for name, auc in (("one", 0.5), ("other", 0.6)):
        found = attack(auc, 0.0, baseline=True).rows + attack(auc, 0.2).rows
        results.write(Results(run=Run(name=name, data={"name": name, "digest": name}), rows=found), tmp_path / name)
    assert [d.what for d in compared(tmp_path / "one", tmp_path / "other")] == ["AUC of lira (node)"]
    compare.show(tmp_path / "one", tmp_path / "other")
    assert "different graphs, one and other" in capsys.readouterr().out


def test_utility_is_useful_rather_than_leaking(tmp_path, capsys):
    common = {"metric": "accuracy", "split": "test", "runs": 10}
    for name, value in (("one", 0.7), ("other", 0.9)):
        row = UtilityRow(**WHERE, **common, value=value, ci95=(value - 0.01, value + 0.01))
        results.write(Results(run=Run(name=name), rows=(row,)), tmp_path / name)
    compare.show(tmp_path / "one", tmp_path / "other", json=True)
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["utility"], told["word"], told["key"]["unit"]) == (True, "more", "node")
    compare.show(tmp_path / "one", tmp_path / "other")
    assert "more useful" in capsys.readouterr().out


def judged_run(folder, verdict=None, model="gap", delta=1e-5, epsilon=1.0):
    """A run folder with one claim of that verdict; None: a run that measured nothing."""
    value, notices = {"refuted": (2.0, 1.1), "inconclusive": (0.1, 9.0), "not-refuted": (0.1, 1.1), None: (0, 0)}[verdict]
    shown = {"audit": "game", "attack": "x", "shape": "any", "confidence": 0.95, "rounds": 9, "reach": notices}
    where = {"model": model, "mode": "sound", "unit": Unit.NODE, "epsilon": epsilon, "delta": delta}
    row = [BoundRow(**where, **shown, value=value, verdict=verdict, notices=notices)] if verdict else []
    results.write(Results(run=Run(name=folder.name), rows=tuple(row)), folder)
    return folder


@pytest.mark.parametrize(
    ("before", "after", "code", "word"),
    [
        ("not-refuted", "not-refuted", 0, ""),
        ("not-refuted", "refuted", 1, "Worse"),
        ("inconclusive", "refuted", 1, "Worse"),
        ("not-refuted", "inconclusive", 1, "Worse"),
        ("refuted", "not-refuted", 0, "Better"),
        ("refuted", "refuted", 0, "Refuted by both"),
        ("not-refuted", None, 3, "Vanished"),
        ("refuted", None, 3, "Vanished"),
        (None, "refuted", 3, "New"),
        (None, None, 3, ""),
    ],
)
def test_the_exit_code_says_worse_vanished_or_neither_and_the_claim_is_named(tmp_path, capsys, before, after, code, word):
    assert compare.show(judged_run(tmp_path / "a", before), judged_run(tmp_path / "b", after)) == code
    said = capsys.readouterr().out
    assert (
        f"{word}: gap (sound), ε = 1 for a node with its edges" in said
        if word
        else "gap (sound), ε" not in said.split("protects")[0]
    )


def test_of_a_claim_that_both_runs_refute_the_bounds_are_compared(tmp_path, capsys):
    one, other = (judged_run(tmp_path / name, "refuted") for name in "ab")
    (row,) = results.read(other).rows
    compare.show(one, other)
    assert "; the lower bound is 2." in capsys.readouterr().out
    results.write(Results(run=Run(name="b"), rows=(row.model_copy(update={"value": 3.0}),)), other)
    compare.show(one, other)
    assert "; the lower bound was 2 and is now 3." in capsys.readouterr().out


def test_a_claim_at_a_larger_delta_is_not_the_same_claim(tmp_path, capsys):
    strict, loose = (judged_run(tmp_path / name, "not-refuted", delta=d) for name, d in (("a", 1e-6), ("b", 0.1)))
    assert compare.show(strict, loose) == 3
    assert "is now claimed only at the larger δ = 0.1; it was claimed at δ = 1e-06" in capsys.readouterr().out
    assert compare.show(loose, strict) == 0


def test_a_vanished_claim_does_not_hide_a_worse_one(tmp_path, capsys):
    before, after = tmp_path / "a", tmp_path / "b"
    rows = [results.read(judged_run(tmp_path / m, v, m)).rows for m, v in (("gap", "not-refuted"), ("lpgnn", "refuted"))]
    results.write(Results(run=Run(name="a"), rows=rows[0] + rows[1]), before)
    results.write(Results(run=Run(name="b"), rows=results.read(judged_run(tmp_path / "c", "refuted")).rows), after)
    assert compare.show(before, after) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:2]] == ["Worse", "Vanished"]


def test_the_document_names_what_vanished_and_what_is_worse(tmp_path, capsys):
    assert compare.show(judged_run(tmp_path / "a", "not-refuted"), judged_run(tmp_path / "b"), json=True) == 3
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["word"], row["first"], row["second"], row["worse"]) == ("vanished", "not-refuted", None, False)


def test_two_runs_of_one_name_are_called_by_their_paths(tmp_path, capsys):
    one, other = (judged_run(tmp_path / where / "audit", "not-refuted") for where in ("monday", "tuesday"))
    results.write(Results(run=Run(name="audit"), rows=(*results.read(one).rows, *attack(0.5).rows)), one)
    results.write(Results(run=Run(name="audit"), rows=(*results.read(other).rows, *attack(0.9).rows)), other)
    assert compare.show(one, other) == 0
    assert f"the second run ({other}) leaks more in 1" in capsys.readouterr().out
