"""Two runs differ only where their intervals exclude zero."""

import json
import math

import numpy as np
import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.reports import compare, results
from gnnaudit.reports.results import AttackRow, BoundRow, Results, Run, UtilityRow

from .conftest import write_example

WHERE = {"model": "gap", "mode": "sound", "unit": Unit.NODE, "epsilon": 1.0}


def attack(auc, half=0.01, **others):
    row = {**WHERE, "attack": "lira", "game": "node", "auc": auc, "auc_ci95": (auc - half, auc + half)} | others
    return Results(run=Run(name="r"), rows=(AttackRow(**row),))


def test_a_run_does_not_differ_from_itself(example_run):
    assert not any(d.word for d in compare.compare(example_run, example_run))


def test_a_leakier_run_is_told_by_every_attack(example_run, tmp_path):
    found = compare.compare(example_run, write_example(tmp_path / "leaky", leak=0.1))
    attacks = [d for d in found if d.what.startswith("AUC")]
    assert len(attacks) == 84
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
    assert compare.differences(attack(0.5, negatives="dropped"), attack(0.9, negatives="random")) == []


def test_among_many_comparisons_of_equal_runs_hardly_any_is_called_different():
    rng, half = np.random.default_rng(5), 1.96 * 0.01
    errors = 0
    for _ in range(100):
        one, other = (
            Results(
                run=Run(name="r"),
                rows=tuple(attack(a, half, attack=f"a{i}").rows[0] for i, a in enumerate(rng.normal(0.6, 0.01, 40))),
            )
            for _ in range(2)
        )
        errors += any(d.word for d in compare.differences(one, other))
    assert errors <= 15  # 5 are expected; more than 15 in one of 14,000 honest suites


def test_a_changed_verdict_stands_first_with_its_bounds(example_run, tmp_path):
    found = results.read(example_run)
    kept = [r for r in found.rows if not (isinstance(r, BoundRow) and r.verdict == "refuted")]
    results.write(found.model_copy(update={"rows": tuple(kept)}), tmp_path)
    claims = compare.judged(found, results.read(tmp_path))
    changed = [c for c in claims if c.changed]
    assert claims[: len(changed)] == changed
    assert {(c.key.model, c.key.mode, c.verdicts[0]) for c in changed} == {("gap", "paper", "refuted")}
    assert all(c.lower[0] > c.lower[1] and c.upper[0] == c.upper[1] for c in changed)


def test_the_summary_counts_and_warns_of_few_targets(example_run, tmp_path, capsys):
    other = write_example(tmp_path / "leaky", leak=0.1)
    found = results.read(other)
    few = [r.model_copy(update={"targets": 2}) if isinstance(r, AttackRow) else r for r in found.rows]
    results.write(found.model_copy(update={"rows": tuple(few)}), other)
    compare.show(example_run, other)
    said = " ".join(capsys.readouterr().out.split())
    assert "0 of 14 verdicts changed; the run leaky leaks more under 84 of 84 attacks and less under 0" in said
    assert "An attack had only 2 targets" in said


def test_what_sees_no_model_is_not_said_to_leak_and_other_graphs_are_named(tmp_path, capsys):
    for name, auc in (("one", 0.5), ("other", 0.6)):
        found = attack(auc, 0.0, baseline=True).rows + attack(auc, 0.2).rows
        results.write(Results(run=Run(name=name, data={"name": name, "digest": name}), rows=found), tmp_path / name)
    assert [d.what for d in compare.compare(tmp_path / "one", tmp_path / "other")] == ["AUC of lira (node)"]
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
