"""`audit run` as a user sees it: files, verdicts, exit codes, and a run that is killed half way."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.accounting.claim import Unit
from gnnaudit.audit.audits.registry import AUDITS
from gnnaudit.audit.cli import main
from gnnaudit.audit.planning.plan import Plan, read
from gnnaudit.audit.planning.planned_cases import cases, recipes
from gnnaudit.audit.run import asked, publish, run
from gnnaudit.models.data.loading import load
from gnnaudit.models.errors import Stopped
from gnnaudit.models.graph import memory_mapped
from gnnaudit.models.kernels.compiler import compiled
from gnnaudit.reports import results
from gnnaudit.reports.formats import html, mlflow_mirror

PLAN = [
    "--data",
    "campus:n=300",
    "--models",
    "gap",
    "--epsilon",
    "2,inf",
    "--shadows",
    "4",
    "--targets",
    "2",
    "--repeats",
    "2",
    "--attacks",
    "entropy,lira,link-stealing",
    "--audits",
    "replay,residual,game,one-run",
]


def audit(*words, cwd, check=None, **options):
    """Runs the command in a process of its own. Returns what it printed and its exit code."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(Path(cwd) / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "gnnaudit.audit.cli.main", *words], cwd=cwd, env=env, capture_output=True, text=True, **options
    )
    assert check is None or done.returncode == check, done.stderr
    return done


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    words = ("run", *PLAN, "--seed", "test", "--out", "out", "--json", "--mlflow", "none")
    done = audit(*words, "--jobs", "1", cwd=folder)  # a run that is resumed below has workers
    return folder / "out", done


def test_a_run_leaves_every_file_that_scripts_rely_on(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    for name in ("plan.toml", "spec.json", "results.json", "report.html", "junit.xml"):
        assert (folder / name).stat().st_size > 0, name
    assert list((folder / "evidence").glob("gap-sound-2-*.json"))
    assert list((folder / "gap").glob("*/000000.npz"))


@pytest.mark.nightly
def test_quiet_prints_verdicts_alone_and_verbose_a_line_for_each_audit(tmp_path):
    few = ("--models", "mlp", "--data", "campus:n=300", "--epsilon", "1", "--attacks", "none", "--audits", "replay,game")
    words = ("run", *few, "--repeats", "1", "--mlflow", "none", "--jobs", "1")
    silent = audit(*words, "--quiet", "--out", "quiet", cwd=tmp_path)
    assert silent.stdout.startswith("mlp (sound), ε = 1, δ = 1e-05 for an undirected edge: ")
    assert (silent.stdout.count("\n"), silent.stderr.count("\n")) == (1, 1)
    assert silent.returncode == json.loads((tmp_path / "quiet" / "results.json").read_text())["run"]["exit_code"]
    loud = audit(*words, "--verbose", "--out", "loud", cwd=tmp_path)
    assert "  replay (replay, exact): at least 0, not-refuted, " in loud.stderr
    assert "  audit game: skipped, mlp does not declare NoisySums" in loud.stderr


def test_json_is_the_only_thing_on_stdout_and_says_what_the_file_says(finished):
    folder, done = finished
    assert json.loads(done.stdout) == json.loads((folder / "results.json").read_text())


def test_rows_carry_the_fields_that_scripts_rely_on(finished):
    document = json.loads((finished[0] / "results.json").read_text())
    assert document["schema"] == 1
    common = {"kind", "model", "mode", "unit", "epsilon", "delta"}
    fields = {
        "utility": {"metric", "split", "value", "ci95", "runs", "sigma"},
        "account": {"accountant", "value", "unsupported", "is_upper_bound"},
        "attack": {"attack", "game", "query", "negatives", "auc", "auc_ci95", "tpr_at_fpr", "members", "non_members", "shadows"},
        "bound": {"audit", "attack", "shape", "value", "confidence", "rounds", "exposes", "verdict", "notices", "seconds"},
        "skipped": {"what", "reason"},
    }
    for row in document["rows"]:
        assert common | fields[row["kind"]] <= set(row), row
    assert {r["kind"] for r in document["rows"]} == set(fields)
    assert {r["epsilon"] for r in document["rows"]} == {2.0, "inf"}


def test_no_lower_bound_of_a_sound_model_exceeds_its_claim(finished):
    document = json.loads((finished[0] / "results.json").read_text())
    bounds = [r for r in document["rows"] if r["kind"] == "bound" and r["epsilon"] != "inf"]
    assert bounds
    assert all(r["value"] <= r["epsilon"] for r in bounds)  # two bounds at 0.05 in all, with a fixed seed


@pytest.mark.nightly
@pytest.mark.skipif(not compiled.found(), reason="Numba is not installed or switched off")
def test_what_torch_trained_is_printed_stored_and_reported(tmp_path, finished):
    memory_mapped.write(load("campus:n=300"), tmp_path / "mapped")
    words = ["--data", "mapped", "--models", "mlp", "--epsilon", "2", "--attacks", "none", "--audits", "none", "--mlflow", "none"]
    done = audit("run", *words, "--repeats", "1", "--seed", "test", "--out", "out", cwd=tmp_path)
    said = "perceptron: dense features in a mapped file"
    assert f"Torch trained parts of mlp: {said}." in done.stdout + done.stderr
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["run"]["in_torch"] == {"mlp": [said]}
    assert f"<dt>Trained by torch, of mlp</dt><dd>{said}</dd>" in (tmp_path / "out" / "report.html").read_text()
    folder, _ = finished  # in memory, compiled loops trained all
    assert json.loads((folder / "results.json").read_text())["run"]["in_torch"] == {}
    assert "Trained by torch, of" not in (folder / "report.html").read_text()


def test_a_killed_run_is_resumed_with_the_same_results(tmp_path, finished, monkeypatch, capsys):
    words = ["run", *PLAN, "--seed", "test", "--out", "out", "--json", "--mlflow", "none"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = subprocess.Popen(
        [sys.executable, "-m", "gnnaudit.audit.cli.main", *words],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").rglob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("[0-9]*.npz")}
    assert kept
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["audit", *words])
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 0
    assert all(p.stat().st_mtime_ns == t for p, t in kept.items())  # finished parts were not made again
    whole, again = json.loads((finished[0] / "results.json").read_text()), json.loads(capsys.readouterr().out)
    assert (whole["run"]["resumed"], again["run"]["resumed"]) == (False, True)  # so `seconds` is not the time of the whole run
    for ours, theirs in zip(again["rows"], whole["rows"], strict=True):
        for name in ours.keys() - {"seconds"}:
            if isinstance(ours[name], float):
                np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9)
            else:
                assert ours[name] == theirs[name], (name, ours)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--models", "nope"], "models=nope"),
        (["--epsilon", "minus"], "epsilon"),
        (["--data", "nowhere"], "nowhere"),
        (["--models", "gap,lpgnn", "--unit", "features", "--epsilon", "1"], "unit=features: gap protects undirected-edge"),
        (["--models", "gap", "--param", "hops=x"], "param='hops=x': gap does not accept hops='x' (by default 2)"),
        (["--models", "gap", "--param", "hops=True"], "Give a value of the same type."),
        (["--models", "gap", "--param", "gap.hops=-1"], "hops=-1: must be in [0, 100]"),
        (["--models", ""], "--models '': is empty"),
        (["--models", "none"], "models=none: leaves nothing to run"),
        (["--models", "mlp", "--attacks", ""], "--attacks '': is empty"),
        (["--models", "mlp", "--audits", ","], "audits=',': names nothing"),
        (["--models", "mlp", "--epsilon", ""], "--epsilon '': is empty"),
        (["--models", "mlp", "--data-dir", "absent"], "data_dir=absent: no such folder"),
        (["--target", "absent-program {worlds} {out}"], "absent-program cannot be started"),
        (["--target", "'unclosed {worlds} {out}"], "cannot be split into words"),
        (["--attacks", "shouting"], "attacks=shouting"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2_also_when_quiet_and_leaves_no_folder(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["audit", "run", "-q", "--mlflow", "none", "--data", "campus:n=300", *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert said in printed.err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_models_that_a_plan_does_not_name_and_that_lack_its_unit_are_skipped():
    graph = load("campus:n=300")
    plan = read(None, {"unit": "features", "epsilon": "1"})
    made, skips = cases(plan, graph, recipes(plan)[1])
    assert [case.model.name for case in made] == ["lpgnn"]
    assert {row.model for row in skips} == set(plan.models) - {"lpgnn"}
    assert all("so it makes no claim about features" in row.reason for row in skips)


@pytest.mark.parametrize("names", [("blackbox",), ("distinguisher",), ("differential", "distinguisher"), ("all",)])
def test_a_time_limit_goes_with_each_audit_that_it_limits(names):
    audits, _, _ = asked(Plan(audits=names, minutes=3.0))
    assert {audit.name for audit in audits} == set(AUDITS if names == ("all",) else names)


@pytest.mark.parametrize("names", [("differential", "one-run"), ("none",)])
def test_a_time_limit_that_limits_no_audit_of_the_plan_is_refused(names):
    with pytest.raises(ValueError, match=r"--minutes: has no effect here: it goes with the audits blackbox and distinguisher\."):
        asked(Plan(audits=names, minutes=3.0))


def test_a_second_run_in_the_same_folder_is_told_to_wait(tmp_path, monkeypatch, capsys):
    from filelock import FileLock

    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["audit", "run", *PLAN, "--out", "out", "--mlflow", "none"])
    with FileLock(tmp_path / "out" / ".lock"), pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    assert "another run is writing here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "stores"), [({}, [None]), ({"mlflow": "sqlite:///runs.db"}, ["sqlite:///runs.db"]), ({"mlflow": "none"}, [])]
)
def test_a_run_is_copied_into_mlflow_unless_the_plan_says_none(finished, monkeypatch, given, stores):
    copied = []
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    monkeypatch.setattr(mlflow_mirror, "mirror", lambda folder, uri: copied.append(uri))
    publish(results.read(finished[0]), finished[0], read(None, given), quiet=True)
    assert copied == stores


@pytest.mark.parametrize(
    ("lower", "said"),
    [
        (None, "A ledger contradicts the code or its claim (exit code 1; δ = 1e-05 for a node with its edges). Report: "),
        (1.5, "Refuted (exit code 1; δ = 1e-05 for a node with its edges). Report: "),
    ],
)
def test_the_last_line_blames_the_ledger_only_if_no_bound_refutes_the_claim(tmp_path, capsys, monkeypatch, lower, said):
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    where = {"model": "mine", "mode": "own", "unit": Unit.NODE, "epsilon": 1.0, "delta": 1e-5}
    rows = [results.AccountRow(**where, accountant="exact", value=2.0)]
    if lower:
        shown = {"audit": "game", "attack": "x", "shape": "any", "confidence": 0.95, "rounds": 9, "confirmed": True}
        rows.append(results.BoundRow(**where, **shown, value=lower, verdict="refuted"))
    found = results.Results(run=results.Run(name="r", verdict="refuted", exit_code=1), rows=tuple(rows))
    results.write(found, tmp_path)
    publish(found, tmp_path, read(None, {"mlflow": "none"}))
    assert capsys.readouterr().err.startswith(said)


def test_a_quiet_run_prints_each_verdict_and_where_the_report_lies(finished, capsys, monkeypatch):
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    publish(results.read(finished[0]), finished[0], read(None, {"mlflow": "none"}), quiet=True)
    printed, said = capsys.readouterr()
    assert printed.startswith("gap (sound), ε = 2, δ = 1e-05 for an undirected edge: not refuted; ")
    assert printed.count("\n") == 1
    assert said.startswith("Not refuted (exit code 0;")
    assert said.endswith("report.html\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize("silent", [{"quiet": True}, {"json": True}, {}])
def test_a_run_that_tested_no_claim_says_so_also_if_it_is_quiet(tmp_path, capsys, monkeypatch, silent):
    monkeypatch.setattr(html, "render", lambda folder, *workers: folder)
    row = results.UtilityRow(model="mlp", epsilon=float("inf"), metric="accuracy", split="test", value=0.5, runs=1)
    found = results.Results(run=results.Run(name="r", verdict="no claim was tested", exit_code=0), rows=(row,))
    results.write(found, tmp_path)
    publish(found, tmp_path, read(None, {"mlflow": "none"}), **silent)
    said = capsys.readouterr().err
    assert "o claim was tested" in said
    assert "To test one, give a model that protects a unit, and a finite --epsilon." in said


@pytest.mark.nightly
def test_without_a_seed_the_key_is_secret_and_kept_from_all_reports(tmp_path):
    audit(
        "run",
        "--data",
        "campus:n=300",
        "--models",
        "mlp",
        "--epsilon",
        "inf",
        "--attacks",
        "none",
        "--audits",
        "none",
        "--repeats",
        "1",
        "--out",
        "out",
        cwd=tmp_path,
        check=0,
    )
    key = tmp_path / "out" / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != key:
            assert key.read_bytes() not in path.read_bytes(), path


@pytest.mark.parametrize(("sigma", "said"), [(0.5, True), (3.0, False)])
def test_a_refutation_is_told_before_the_next_audit_so_also_if_the_run_is_stopped_there(
    tmp_path, monkeypatch, capsys, sigma, said
):
    """Of a sum over neighbours that claims ε = 2 and δ = 1e-5: σ = 3 costs 1.38, σ = 0.5 costs 12.6, for one entry that moves by
    1. `exact` is the audit after `differential`.
    """
    file = tmp_path / "summing.py"
    file.write_text(
        f"""
import dp_accounting as dp, numpy as np
from gnnaudit import Claim, Looped, Unit

def train(graph, seed):
    noise = {sigma} * np.random.default_rng(seed).standard_normal(graph.nodes)
    return {{"sums": graph.adjacency() @ np.ones(graph.nodes) + noise}}

claim = Claim(2.0, 1e-5, Unit.DIRECTED_EDGE, exposes=("sums",))
model = Looped(train, releases=("sums",), events=dp.GaussianDpEvent({sigma}), claim=claim)
"""
    )

    def stopped(setting):
        raise KeyboardInterrupt

    monkeypatch.setitem(AUDITS, "exact", dataclasses.replace(AUDITS["exact"], declines=lambda case: None, play=stopped))
    given = {"model": f"{file}:model", "data": "campus:n=300", "audits": "differential,exact", "attacks": "none", "jobs": 1}
    with pytest.raises(Stopped):
        run(read(None, {**given, "mlflow": "none", "seed": "x", "out": str(tmp_path / "out")}))
    assert ("audit differential: refuted: at least" in capsys.readouterr().err) == said
