"""What `audit data` prints: a table for people, one JSON document for scripts, one line for bad input."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gnnaudit.audit.cli.data import app
from gnnaudit.models.data.known_sets import DATASETS
from gnnaudit.models.data.loading import describe, load_described

run = CliRunner().invoke


def test_the_list_names_every_data_set(tmp_path):
    out = run(app, ["list", "--data-dir", str(tmp_path)]).stdout
    assert all(name in out for name in DATASETS)
    assert "PATH.npz" in out


def test_the_list_as_json_says_what_is_at_hand(tmp_path):
    (tmp_path / "cora_ml.npz").write_text("")
    told = json.loads(run(app, ["list", "--data-dir", str(tmp_path), "--json"]).stdout)
    here = {row["name"]: row["at_hand"] for row in told["data"]}
    assert here["cora_ml"] is True
    assert here["cora"] is False
    assert here["campus"] is None
    assert told["data_dir"] == str(tmp_path)


def test_the_list_says_how_a_file_without_a_split_is_divided(tmp_path):
    (tmp_path / "nodes.csv").write_text("label,p\n" + "0,1\n1,2\n" * 50)
    (tmp_path / "edges.csv").write_text("u,v\n" + "".join(f"{i},{i + 1}\n" for i in range(99)))
    facts = json.loads(run(app, ["info", str(tmp_path), "--json"]).stdout)
    listed = {row["name"]: row["split"] for row in json.loads(run(app, ["list", "--json"]).stdout)["data"]}
    assert listed["FOLDER"] == "public, else {train}/{val}/{test}".format(**facts) == "public, else 75/10/15"
    assert listed["cora"] == DATASETS["cora"].split


def test_info_as_json_is_one_document_with_the_facts():
    told = json.loads(run(app, ["info", "campus:n=300", "--split", "2", "--json"]).stdout)
    assert told == json.loads(json.dumps(describe(*load_described("campus:n=300", split=2))))
    assert told["nodes"] == 300


def test_info_for_people_shows_numbers_and_repairs(tmp_path):
    (tmp_path / "nodes.csv").write_text("label,p\n0,1\n1,2\n0,3\n1,4\n")
    (tmp_path / "edges.csv").write_text("u,v\n0,1\n1,1\n2,3\n")
    out = run(app, ["info", f"{tmp_path}:split=50/25/25"]).stdout
    assert "1 self-loops were removed." in out
    assert "homophily" in out


def test_brackets_in_a_name_are_no_markup(tmp_path):
    (tmp_path / "[bold]").mkdir()
    (tmp_path / "[bold]" / "nodes.csv").write_text("label,p\n0,1\n1,2\n0,3\n1,4\n")
    (tmp_path / "[bold]" / "edges.csv").write_text("u,v\n0,1\n2,3\n")
    assert "[bold]" in run(app, ["info", str(tmp_path / "[bold]") + ":split=50/25/25"]).stdout


def test_bad_input_is_a_value_error_of_one_line():
    with pytest.raises(ValueError, match="Did you mean 'campus'"):
        run(app, ["info", "campis"], catch_exceptions=False)


def test_help_loads_neither_numpy_nor_torch():
    code = "import sys, gnnaudit.audit.cli.data; print([m for m in ('numpy', 'scipy', 'torch', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
