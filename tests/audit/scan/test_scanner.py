"""The scan hits what was written to be hit, passes what was written to pass, and finds nothing unintended in this package."""

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from gnnaudit.audit.cli.main import app
from gnnaudit.audit.scan.rules import RULES
from gnnaudit.audit.scan.scanner import INTENDED, python_files, sarif, scan, scan_text

from .snippets import CAUGHT, PASSED

ROOT = Path(__file__).parents[3]
OURS = ("accounting", "attacks", "audit", "gnnaudit", "models", "reports", "examples")


@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_pattern_is_pointed_at_by_its_rule_alone(name):
    rule, text = CAUGHT[name]
    assert [hit.rule.name for hit in scan_text(text)] == [rule]


@pytest.mark.parametrize("name", PASSED)
def test_the_sound_counterpart_is_not_pointed_at(name):
    assert scan_text(PASSED[name]) == []


def test_each_rule_has_a_snippet():
    assert {rule for rule, _ in CAUGHT.values()} == set(RULES)


@pytest.mark.parametrize("folder", OURS)
def test_nothing_is_pointed_at_in_this_package(folder):
    hits, unread = scan(ROOT / folder)
    assert [str(h) for h in hits] == []
    assert unread == []


def test_only_code_that_repeats_a_published_formula_is_marked_as_intended():
    marked = [p for folder in OURS for p in (ROOT / folder).rglob("*.py") if INTENDED in p.read_text()]
    allowed = {
        "audit/scan/__init__.py",
        "audit/scan/scanner.py",
        "audit/cli/scan.py",
        "audit/findings/systems/field_graphs.py",
        "models/dpar/published.py",
    }
    assert {p.relative_to(ROOT).as_posix() for p in marked} == allowed


def test_the_line_is_that_of_the_pattern_and_a_mark_on_it_silences_it():
    text = "import math\n\n\ndef sigma(delta):\n    return math.sqrt(2 * math.log(1.25 / delta))"
    assert [(h.line, h.rule.name) for h in scan_text(text)] == [(5, "classical-gaussian")]
    assert scan_text(text + "  " + INTENDED) == []


def test_a_noise_seed_in_an_option_is_pointed_at():
    assert [h.line for h in scan_text('parser.add_argument("--noise-seed", type=int, default=42)')] == [1]


def test_sarif_has_a_known_rule_and_a_place_for_each_result():
    (run,) = sarif(scan_text(CAUGHT["classical gaussian"][1], "a.py"))["runs"]
    (result,) = run["results"]
    assert result["level"] == "note"
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("a.py", 3)


def test_a_file_name_with_markup_is_an_address_in_sarif_and_text_elsewhere(tmp_path):
    """A viewer that makes a link of `uri` may take `<`, `#` or `%3C` for what they are in an address."""
    _, text = next(iter(CAUGHT.values()))
    path = tmp_path / "<img src=x onerror=alert(1)>#%3C.py"
    path.write_text(text)
    hits, _ = scan(path)
    (place,) = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in sarif(hits)["runs"][0]["results"]}
    assert re.fullmatch(r"[\w./%-]+", place)
    assert unquote(place) == path.as_posix()
    assert "<img" not in json.dumps(sarif(hits))


def test_the_command_ends_with_0_with_and_without_hits_and_prints_one_document(tmp_path):
    (tmp_path / "bad.py").write_text(CAUGHT["classical gaussian"][1])
    (tmp_path / "broken.py").write_text("def (")
    done = CliRunner().invoke(app, ["scan", str(tmp_path), "--json", "--sarif", str(tmp_path / "s.sarif")])
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert [row["rule"] for row in document["rows"]] == ["classical-gaussian"]
    assert "broken.py" in document["unread"][0]
    assert json.loads((tmp_path / "s.sarif").read_text())["version"] == "2.1.0"
    (tmp_path / "bad.py").write_text("pass")
    assert CliRunner().invoke(app, ["scan", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize("given", ["nowhere", "empty"])
def test_a_path_without_python_is_refused(tmp_path, given):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=given):
        scan(tmp_path / given)


@pytest.mark.parametrize("given", ["notes.txt", "fifo"])
def test_only_python_files_are_scanned(tmp_path, given):
    (tmp_path / "notes.txt").write_text("x = 1")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match=given):
        scan(tmp_path / given)


@pytest.mark.parametrize("given", ["a.py", "hard.sarif", "folder", "fifo", "no/such/a.sarif"])
def test_sarif_replaces_no_source_and_nothing_that_is_no_file(tmp_path, given):
    (tmp_path / "a.py").write_text("x = 1\n")
    os.link(tmp_path / "a.py", tmp_path / "hard.sarif")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    before = sorted((path, path.lstat().st_ino) for path in tmp_path.iterdir())
    done = CliRunner().invoke(app, ["scan", str(tmp_path / "a.py"), "--sarif", str(tmp_path / given)])
    assert isinstance(done.exception, ValueError)
    assert given.partition("/")[0] in str(done.exception)
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert sorted((path, path.lstat().st_ino) for path in tmp_path.iterdir()) == before


def test_a_folder_below_a_hidden_one_is_scanned_and_hidden_folders_below_it_are_not(tmp_path, monkeypatch):
    folder = tmp_path / ".cache" / "repository"
    (folder / ".venv").mkdir(parents=True)
    (folder / "train.py").write_text("x = 1\n")
    (folder / ".venv" / "other.py").write_text("x = 1\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for path in (folder, Path("../.cache/repository")):
        assert [file.name for file in python_files(path)] == ["train.py"]
