"""MLflow shows the contents of the run folder, after repeated and concurrent writes too, and no run waits for it."""

import http.server
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from gnnaudit.reports import results
from gnnaudit.reports.formats import junit, mlflow_mirror
from gnnaudit.reports.formats.mlflow_rows import children, place

from ..conftest import write_example

WRITE = (
    "import sys; from pathlib import Path; from gnnaudit.reports.formats.mlflow_mirror import mirror; "
    "sys.exit(not mirror(Path(sys.argv[1])))"
)


@pytest.fixture(scope="module")
def store(empty, tmp_path_factory):
    """A mirrored run: (folder, MLflow client, all its MLflow runs by name)."""
    folder = write_example(tmp_path_factory.mktemp("mirrored") / "demo")
    shutil.copy(empty, folder.parent)
    junit.write(folder)
    (folder / "key").write_text("a secret that no report may hold")
    assert mlflow_mirror.mirror(folder)
    return folder, *opened(mlflow_mirror.default_uri(folder.parent))


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An SQLite store without runs: MLflow takes seconds to make one."""
    from mlflow import MlflowClient

    folder = tmp_path_factory.mktemp("empty")
    MlflowClient(tracking_uri=mlflow_mirror.default_uri(folder)).search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def runs_folder(empty, tmp_path):
    """A folder with an empty store, where runs are mirrored to."""
    shutil.copy(empty, tmp_path)
    return tmp_path


def opened(uri):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT)
    return client, {r.info.run_name: r for r in client.search_runs([experiment.experiment_id], max_results=1000)}


def test_every_claim_is_a_run_of_its_own_beside_the_plan(store):
    folder, _, runs = store
    assert len(runs) == 1 + 5 * 3 + 2  # the plan, five models at three budgets, two baselines
    assert {r.data.tags["plan.run"] for name, r in runs.items() if name != folder.name} == {runs[folder.name].info.run_id}
    assert not any("mlflow.parentRunId" in r.data.tags for r in runs.values())  # the list of runs would fold them away
    assert all(r.info.status == "FINISHED" for r in runs.values())


def test_a_claim_tells_what_its_rows_tell(store):
    folder, _, runs = store
    claim = runs["gap ε=8 paper per undirected-edge"]
    rows = [r for r in results.read(folder).rows if (r.model, r.mode, r.epsilon) == ("gap", "paper", 8.0)]
    auc = next(r.auc for r in rows if r.kind == "attack" and r.attack == "lira")
    lower = max(r.value for r in rows if r.kind == "bound")
    told = claim.data.metrics
    assert (told["edge game/auc_lira"], told["epsilon_claimed"]) == (pytest.approx(auc, rel=1e-3), 8.0)
    assert lower * (1 - 1e-3) <= told["epsilon_lower"] <= lower  # a lower bound is rounded down, an upper one up
    pld = next(r.value for r in rows if r.kind == "account" and r.accountant.endswith("pld"))
    assert pld <= told["accounting/epsilon_upper_pld"] <= pld * (1 + 1e-3)
    assert "delta" not in claim.data.params  # the compare page draws three parameters by name, and would leave the model out
    assert {"test_accuracy", "auc_best", "delta", "accounting/epsilon_estimate_opacus_gdp"} <= told.keys()
    assert claim.data.params["unit"] == "undirected-edge"
    assert claim.data.tags["verdict"] == "refuted"
    assert runs["gap ε=∞ paper per undirected-edge"].data.tags["verdict"] == "no claim"
    assert claim.inputs.dataset_inputs[0].dataset.name == "campus"


def test_the_compare_page_begins_with_the_lower_bound(example_run):
    """MLflow draws the first metric that the compared runs share."""
    claims = [child for child in children(results.read(example_run)) if "epsilon_lower" in child.metrics]
    assert claims
    assert {next(iter(child.metrics)) for child in claims} == {"epsilon_lower"}


def test_the_description_links_the_claims_of_a_unit_and_no_model_without_noise(store):
    """A model without noise has no lower bound, so the compare page would begin with another metric."""
    folder, _, runs = store
    note = runs[folder.name].data.tags["mlflow.note.content"]
    (linked,) = re.findall(r"\[Compare the claims that protect a node with its edges\]\(#/compare-runs\?([^)]*)\)", note)
    names = {name for name, r in runs.items() if r.info.run_id in linked}
    assert names == {name for name in runs if name.endswith("per node") and "ε=∞" not in name}
    assert len(names) > 1


def test_metrics_stand_at_the_budget_so_that_charts_draw_them_against_it(store):
    _, client, runs = store
    places = {
        (
            r.data.tags["line"],
            client.get_metric_history(r.info.run_id, "test_accuracy")[0].step,
            r.data.metrics["epsilon_axis"],
        )
        for r in runs.values()
        if (r.data.params.get("model"), r.data.params.get("mode")) == ("gap", "paper") and "test_accuracy" in r.data.metrics
    }
    assert places == {("gap (paper), demo", 1, 1.0), ("gap (paper), demo", 8, 8.0), ("gap (paper) without noise, demo", 16, 16.0)}


def test_a_budget_that_is_no_whole_number_is_a_step_in_thousandths_and_stays_itself_on_the_axis():
    assert [place(e, [0.5, 2.0]) for e in (0.5, 2.0, math.inf)] == [(0.5, 500), (2.0, 2000), (4.0, 4000)]
    assert [place(e, [1.0, 8.0]) for e in (1.0, 8.0, math.inf)] == [(1.0, 1), (8.0, 8), (16.0, 16)]
    assert place(math.inf, []) == (1.0, 1)


def test_the_best_attack_is_one_on_what_the_claim_protects(example_run):
    found = results.read(example_run)
    row = next(r for r in found.rows if r.kind == "attack" and r.attack == "lira" and r.model == "gap")
    label = row.model_copy(update={"game": "label", "auc": 0.999})
    aided = row.model_copy(update={"negatives": "random", "auc": 0.998})
    told = children(found.model_copy(update={"rows": (row, label, aided)}))[0].metrics
    assert told["auc_best"] == pytest.approx(row.auc, rel=1e-3)
    assert told["label game/auc_lira"] == 0.999


def test_the_saved_views_show_metrics_that_the_claims_have(store):
    _, client, runs = store
    tags = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT).tags
    views = {tag: json.loads(value) for tag, value in tags.items() if tag.startswith("mlflow.sharedViewState.")}
    had = {name for r in runs.values() for name in r.data.metrics}
    for view in views.values():
        shown = {c.removeprefix("metrics.`").rstrip("`") for c in view["selectedColumns"] if c.startswith("metrics.")}
        assert shown <= had | {"tpr_at_0.1pct_best", "epsilon_detectable"}
        assert {chart["metricKey"] for chart in view["compareRunCharts"]} <= shown
        assert {chart["selectedXAxisMetricKey"] for chart in view["compareRunCharts"]} <= had
    for tag, view in views.items():  # epsilons of different units never stand in one column, nor in one chart
        of_one_unit = "charts." in view["searchFilter"]
        measured = view["compareRunCharts"] or any("metrics." in column for column in view["selectedColumns"])
        assert of_one_unit or not measured, tag
    assert max(len(tags[tag]) for tag in views) < 5000  # more does not fit in a tag
    assert "viewStateShareKey=leakage&compareRunsMode=TABLE" in mlflow_mirror.ui_address(store[0].parent, port=5001)


def test_the_table_and_the_charts_of_a_unit_show_its_claims_and_the_models_without_a_unit_only(store):
    _, client, runs = store
    experiment = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT)
    units = {r.data.params["unit"] for r in runs.values() if r.data.params.get("unit")}
    assert len(units) > 1
    for unit in units:
        for kind in ("table", "charts"):
            view = json.loads(experiment.tags[f"mlflow.sharedViewState.{kind}-{unit}"])
            found = client.search_runs([experiment.experiment_id], view["searchFilter"], max_results=1000)
            expected = {n for n, r in runs.items() if r.data.params.get("unit") in (unit, "")}
            assert {r.info.run_name for r in found} == expected
            assert f"{kind}-{unit}" in experiment.tags["mlflow.note.content"].splitlines()[0]  # the page cuts the rest


def test_a_second_run_on_another_unit_keeps_the_charts_of_the_first(runs_folder):
    two = {"systems": [("gap", "sound"), ("dpar", "sound")], "budgets": [1.0]}
    first = write_example(runs_folder / "first", **two)
    assert mlflow_mirror.mirror(first)
    second = write_example(runs_folder / "second", **two)
    found = results.read(second)
    results.write(found.model_copy(update={"rows": tuple(r for r in found.rows if str(r.unit) == "node")}), second)
    assert mlflow_mirror.mirror(second)
    client, _ = opened(mlflow_mirror.default_uri(runs_folder))
    note = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT).tags["mlflow.note.content"].splitlines()[0]
    assert "charts-node" in note
    assert "charts-undirected-edge" in note


def test_report_files_are_artifacts_and_the_key_is_not(store):
    folder, _, runs = store
    top = runs[folder.name].info
    artifacts = folder.parent / "mlartifacts"
    listed = {p.name for p in (artifacts / "gnnaudit" / top.run_id / "artifacts").iterdir()}
    assert {"results.json", "junit.xml", "evidence"} <= listed
    assert top.artifact_uri == f"mlflow-artifacts:/gnnaudit/{top.run_id}/artifacts"  # no path of this machine: a copy keeps them
    written = [p for p in artifacts.rglob("*") if p.is_file()]
    assert not any(b"a secret that no report may hold" in p.read_bytes() for p in written)


def test_mirroring_again_changes_the_same_runs(store):
    folder, _, before = store
    found = results.read(folder)
    rows = [r.model_copy(update={"auc": 0.875}) if r.kind == "attack" else r for r in found.rows if r.model != "lpgnn"]
    results.write(found.model_copy(update={"rows": tuple(rows)}), folder)
    assert mlflow_mirror.mirror(folder)
    _, after = opened(mlflow_mirror.default_uri(folder.parent))
    assert after.keys() == {n for n in before if "lpgnn" not in n}
    assert all(after[n].info.run_id == before[n].info.run_id for n in after)
    aucs = {r.data.metrics["edge game/auc_lira"] for r in after.values() if "edge game/auc_lira" in r.data.metrics}
    assert aucs == {0.875}
    results.write(found, folder)


def test_a_metric_has_a_name_that_mlflow_takes_and_a_finite_value(example_run):
    for child in children(results.read(example_run)):
        assert all(re.fullmatch(r"[\w. /-]+", name) for name in child.metrics)
        assert all(abs(value) < 1e9 for value in child.metrics.values())
    assert len({c.identity for c in children(results.read(example_run))}) == 17


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////proc/no/such/place.db"])
def test_a_store_out_of_reach_is_a_warning_and_the_run_goes_on(tmp_path, caplog, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert mlflow_mirror.mirror(write_example(tmp_path / "demo"), uri) is False
    (record,) = [r for r in caplog.records if r.name == "gnnaudit"]
    assert "audit mirror" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_name_or_a_sentence_becomes_no_markup_in_a_description(runs_folder):
    """MLflow renders descriptions as Markdown: a line break in the command ended the code block, and an image was loaded."""
    bad = "x\n\n<img src=http://127.0.0.1:9/seen>\n\n[here](javascript:alert(1))"
    folder = write_example(runs_folder / "demo", systems=[("gap", "paper")], budgets=[1.0])
    found = results.read(folder)
    rows = [r.model_copy(update={"method": bad, "value": math.inf}) if r.kind == "bound" else r for r in found.rows]
    results.write(found.model_copy(update={"rows": tuple(rows), "run": found.run.model_copy(update={"command": bad})}), folder)
    assert mlflow_mirror.mirror(folder)
    _, runs = opened(mlflow_mirror.default_uri(runs_folder))
    notes = {name: run.data.tags.get("mlflow.note.content", "") for name, run in runs.items()}
    command, *others = notes.pop("demo").splitlines()
    assert command == "    " + " ".join(bad.split())  # four spaces: code, to the end of the line
    assert not any("<" in line or "javascript" in line for line in others)
    assert any("&lt;img" in note for note in notes.values())
    assert not any("<" in note or "[" in note.replace("\\[", "") for note in notes.values())


@pytest.mark.nightly
def test_two_runs_that_create_the_store_at_once_lose_nothing(tmp_path):
    folders = [write_example(tmp_path / name) for name in ("one", "two")]
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(folder)]) for folder in folders]
    assert [w.wait(timeout=300) for w in writers] == [0, 0]
    client, runs = opened(mlflow_mirror.default_uri(tmp_path))
    assert {"one", "two"} <= runs.keys()
    experiment = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT).experiment_id
    assert len(client.search_runs([experiment], max_results=1000)) == 2 * 18


def test_a_store_that_fails_half_way_is_completed_by_the_next_mirror(runs_folder, caplog, monkeypatch):
    from mlflow import MlflowClient

    folder, honest = write_example(runs_folder / "demo", systems=[("gap", "paper")]), MlflowClient.log_batch
    left = iter(range(3))

    def breaks(*given, **named):
        if next(left, None) is None:
            raise ConnectionError("the proxy hung up\nwith a second line")
        return honest(*given, **named)

    monkeypatch.setattr(MlflowClient, "log_batch", breaks)
    assert mlflow_mirror.mirror(folder) is False
    (record,) = [r for r in caplog.records if r.name == "gnnaudit"]
    assert "the proxy hung up. The run is complete on disk" in record.getMessage()
    monkeypatch.undo()
    assert mlflow_mirror.mirror(folder)
    _, runs = opened(mlflow_mirror.default_uri(runs_folder))
    assert len(runs) == 1 + 3 + 2  # the plan, a model at three budgets, two baselines
    assert all(r.data.metrics and r.info.status == "FINISHED" for r in runs.values())


def test_a_store_that_cannot_be_written_is_a_warning_and_keeps_what_it_holds(runs_folder, caplog, monkeypatch):
    monkeypatch.chdir(runs_folder)  # MLflow makes the folders of the URI, which begin with "file:"
    folder = write_example(runs_folder / "demo", systems=[("gap", "paper")])
    assert mlflow_mirror.mirror(folder)
    read_only = f"sqlite:///file:{runs_folder / 'mlflow.db'}?mode=ro&uri=true"
    found = results.read(folder)
    results.write(found.model_copy(update={"rows": found.rows[:1]}), folder)
    assert mlflow_mirror.mirror(folder, read_only) is False
    assert any("audit mirror" in r.getMessage() for r in caplog.records)
    assert len(opened(mlflow_mirror.default_uri(runs_folder))[1]) == 1 + 3 + 2


class Flaky(http.server.BaseHTTPRequestHandler):
    """A proxy that forwards a number of requests and answers all others with 502."""

    port = 0
    left = 0

    def forward(self):
        Flaky.left -= 1
        if Flaky.left < 0:
            self.send_error(502)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.path}", body or None, method=self.command)
        request.add_header("Content-Type", self.headers.get("Content-Type", "application/json"))
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as refused:
            answer = refused
        content = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = forward

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.nightly
def test_the_ui_command_serves_a_store_that_a_run_is_mirrored_to_after_a_proxy_failed_half_way(tmp_path, monkeypatch, capsys):
    port = free_port()
    command = mlflow_mirror.ui_command(tmp_path, None, port)
    server = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(1)
        folder = write_example(tmp_path / "demo")
        Flaky.port, Flaky.left = port, 15
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        assert mlflow_mirror.mirror(folder, f"http://127.0.0.1:{proxy.server_port}") is False
        proxy.shutdown()
        assert mlflow_mirror.mirror(folder, f"http://127.0.0.1:{port}")
        assert capsys.readouterr().out == ""  # with --json, stdout holds one document and nothing else
        client, runs = opened(f"http://127.0.0.1:{port}")
        assert len(runs) == 18
        assert "evidence" in {a.path for a in client.list_artifacts(runs["demo"].info.run_id)}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
