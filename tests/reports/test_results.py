"""results.json keeps the format that outside scripts rely on."""

import json
import math

import pytest

from gnnaudit.reports import results
from gnnaudit.reports.results import AttackRow, Results, Run, SkippedRow
from gnnaudit.reports.summary import best_marked

EVERY_ROW = {"kind", "model", "mode", "unit", "epsilon", "delta"}
BY_KIND = {
    "utility": {"metric", "split", "value", "ci95", "runs", "sigma"},
    "account": {"accountant", "value", "unsupported", "is_upper_bound"},
    "attack": {
        *("attack", "game", "query", "negatives", "auc", "auc_ci95", "tpr_at_fpr", "members", "non_members"),
        *("shadows", "targets", "baseline_auc"),
    },
    "bound": {"audit", "attack", "shape", "value", "confidence", "rounds", "exposes", "verdict", "notices", "seconds"},
    "finding": {"id", "claim", "printed_epsilon", "lower", "confidence", "verdict", "source"},
    "skipped": {"what", "reason"},
}


def document(run_dir):
    return json.loads((run_dir / "results.json").read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_every_row_has_the_fields_of_its_kind(example_run):
    rows = document(example_run)["rows"]
    assert {r["kind"] for r in rows} == set(BY_KIND)
    for row in rows:
        assert row.keys() >= EVERY_ROW | BY_KIND[row["kind"]]


def test_the_document_is_of_schema_one_and_writes_infinity_as_a_word(example_run):
    found = document(example_run)
    assert found["schema"] == 1
    assert found.keys() == {"schema", "run", "rows"}
    assert {r["epsilon"] for r in found["rows"]} == {1.0, 8.0, "inf"}


def test_what_is_read_is_what_was_written(example_run, tmp_path):
    found = results.read(example_run)
    assert results.read(results.write(found, tmp_path).parent) == found
    assert any(math.isinf(r.epsilon) for r in found.rows)


def test_fields_of_later_versions_are_kept(tmp_path):
    row = {"kind": "skipped", "model": "gap", "what": "x", "reason": "y", "added_next_year": 7}
    found = results.parse({"schema": 1, "run": {"name": "r", "also": "this"}, "rows": [row]})
    results.write(found, tmp_path)
    assert document(tmp_path)["rows"][0]["added_next_year"] == 7
    assert document(tmp_path)["run"]["also"] == "this"


def test_a_missing_number_is_refused_with_its_place_and_the_way_out():
    row = {"kind": "attack", "model": "gap", "attack": "lira", "game": "edge", "auc": float("nan")}
    with pytest.raises(ValueError, match=r"rows\.0\.attack\.auc=nan.*'skipped'"):
        results.parse({"schema": 1, "run": {"name": "r"}, "rows": [row]})


@pytest.mark.parametrize("wrong", [{"schema": 2, "run": {"name": "r"}, "rows": []}, {}])
def test_another_schema_is_refused(wrong):
    with pytest.raises(ValueError, match="reads schema 1"):
        results.parse(wrong)


def test_a_folder_without_results_says_what_writes_them(tmp_path):
    with pytest.raises(ValueError, match="audit run"):
        results.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"schema": 1}', '{"schema": 2}'])
def test_damaged_results_are_named_with_the_way_out(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=r"results\.json: .*\. Restore the file, or write it again with `audit run`") as fault:
        results.read(tmp_path)
    assert "\n" not in str(fault.value)


def test_nothing_but_a_regular_file_is_replaced(tmp_path):
    (tmp_path / "results.json").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        results.write(Results(run=Run(name="new")), tmp_path)


def test_rows_are_frozen():
    row = SkippedRow(model="gap", what="x", reason="y")
    with pytest.raises(ValueError, match="frozen"):
        row.what = "z"


def test_a_killed_write_leaves_the_old_file(tmp_path, monkeypatch):
    results.write(Results(run=Run(name="old")), tmp_path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        results.write(Results(run=Run(name="new")), tmp_path)
    assert results.read(tmp_path).run.name == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_an_interval_has_two_ends():
    with pytest.raises(ValueError, match="auc_ci95"):
        AttackRow(model="gap", attack="lira", game="edge", auc=0.5, auc_ci95=(0.1,))


def test_the_best_of_many_attacks_says_among_how_many_it_is():
    """For each model, budget and game; attacks that read no model and harder non-members are no rivals."""
    rows = [
        AttackRow(model="gap", epsilon=1.0, attack=name, game=game, auc=auc, negatives=negatives, baseline=baseline)
        for name, game, auc, negatives, baseline in (
            ("lira", "edge", 0.6, "dropped", False),
            ("rmia", "edge", 0.7, "dropped", False),
            ("feature-distance", "edge", 0.9, "dropped", True),
            ("lira", "node", 0.5, "absent", False),
        )
    ]
    skipped = SkippedRow(model="gap", what="x", reason="y")
    marked = best_marked([*rows, skipped])
    assert [getattr(row, "best_of", "none") for row in marked] == [None, 2, None, 1, "none"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "a JSON list instead of an object"),
        ({"schema": 1, "run": {"name": "r"}}, "rows: is missing"),
        ({"schema": 1, "run": {"name": "r", "seconds": "inf"}, "rows": []}, r"run\.seconds='inf'"),
        ({"schema": 1, "run": {"name": "r", "seconds": -1}, "rows": []}, r"run\.seconds=-1"),
    ],
)
def test_results_without_their_parts_or_with_impossible_times_are_damaged(document, said):
    with pytest.raises(ValueError, match=said):
        results.parse(document)
