"""MLflow shows the contents of the run folder, after repeated and concurrent writes too, and no run waits for it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from gnnaudit.reports import results
from gnnaudit.reports.formats import junit, mlflow_mirror
from gnnaudit.reports.formats.mlflow_rows import children

from ..conftest import write_example

WRITE = (
    "import sys; from pathlib import Path; from gnnaudit.reports.formats.mlflow_mirror import mirror; "
    "sys.exit(not mirror(Path(sys.argv[1])))"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A mirrored run: (folder, MLflow client, all its MLflow runs by name)."""
    folder = write_example(tmp_path_factory.mktemp("mirrored") / "demo")
    junit.write(folder)
    (folder / "key").write_text("a secret that no report may hold")
    assert mlflow_mirror.mirror(folder)
    return folder, *opened(mlflow_mirror.default_uri(folder.parent))


def opened(uri):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT)
    return client, {r.info.run_name: r for r in client.search_runs([experiment.experiment_id], max_results=1000)}


def test_every_model_budget_and_game_is_a_child_of_the_run(store):
    folder, _, runs = store
    assert len(runs) == 1 + 7 * 3 + 2  # the parent, seven systems at three budgets, two baselines
    parents = {r.data.tags.get("mlflow.parentRunId") for name, r in runs.items() if name != folder.name}
    assert parents == {runs[folder.name].info.run_id}
    assert all(r.info.status == "FINISHED" for r in runs.values())


def test_a_child_tells_what_its_rows_tell(store):
    folder, _, runs = store
    child = runs["gap (paper) ε=8 per undirected-edge, edge game"]
    rows = [r for r in results.read(folder).rows if (r.model, r.mode, r.epsilon) == ("gap", "paper", 8.0)]
    auc = next(r.auc for r in rows if r.kind == "attack" and r.attack == "lira")
    lower = max(r.value for r in rows if r.kind == "bound")
    told = child.data.metrics
    assert (told["auc_lira"], told["epsilon_lower"], told["epsilon_claimed"]) == (auc, lower, 8.0)
    assert told["epsilon_upper_pld"] == next(r.value for r in rows if r.kind == "account" and r.accountant.endswith("pld"))
    assert {"test_accuracy", "tpr_at_1pct_lira", "epsilon_estimate_opacus_gdp"} <= told.keys()
    assert child.data.params["unit"] == "undirected-edge"
    assert child.data.tags["verdict"] == "refuted"
    assert child.inputs.dataset_inputs[0].dataset.name == "campus"


def test_report_files_are_artifacts_and_the_key_is_not(store):
    folder, client, runs = store
    listed = {a.path for a in client.list_artifacts(runs[folder.name].info.run_id)}
    assert {"results.json", "junit.xml", "evidence"} <= listed
    written = [p for p in (folder.parent / "mlartifacts").rglob("*") if p.is_file()]
    assert written
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
    assert {r.data.metrics["auc_lira"] for n, r in after.items() if "game" in n} == {0.875}
    results.write(found, folder)


def test_a_metric_has_a_name_that_mlflow_takes_and_a_finite_value(example_run):
    for child in children(results.read(example_run)):
        assert all(name.replace("_", "").replace(".", "").isalnum() for name in child.metrics)
        assert all(abs(value) < 1e9 for value in child.metrics.values())
    assert len({c.identity for c in children(results.read(example_run))}) == 23


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////proc/no/such/place.db"])
def test_a_store_out_of_reach_is_a_warning_and_the_run_goes_on(tmp_path, caplog, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert mlflow_mirror.mirror(write_example(tmp_path / "demo"), uri) is False
    (record,) = [r for r in caplog.records if r.name == "gnnaudit"]
    assert "audit mirror" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_two_runs_that_create_the_store_at_once_lose_nothing(tmp_path):
    folders = [write_example(tmp_path / name) for name in ("one", "two")]
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(folder)]) for folder in folders]
    assert [w.wait(timeout=300) for w in writers] == [0, 0]
    client, runs = opened(mlflow_mirror.default_uri(tmp_path))
    assert {"one", "two"} <= runs.keys()
    experiment = client.get_experiment_by_name(mlflow_mirror.EXPERIMENT).experiment_id
    assert len(client.search_runs([experiment], max_results=1000)) == 48


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.nightly
def test_the_ui_command_serves_a_store_that_a_run_can_be_mirrored_to(tmp_path):
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
        assert mlflow_mirror.mirror(folder, f"http://127.0.0.1:{port}")
        client, runs = opened(f"http://127.0.0.1:{port}")
        assert len(runs) == 24
        assert "evidence" in {a.path for a in client.list_artifacts(runs["demo"].info.run_id)}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
