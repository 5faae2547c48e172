"""A run as MLflow runs: a parent for the plan and a child for each model, budget and game. This package never reads it back."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from .. import results
from .mlflow_rows import Child, children, dataset, parent

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from ..results import Results

EXPERIMENT = "gnnaudit"
LINKED = 40  # runs in one link: a tag holds 8,000 characters, and the compare page has a limit too
PATIENCE = 120.0  # seconds that a writer waits for another
RUN, CHILD = "gnnaudit.run", "gnnaudit.child"  # tags by which a run is found again
log = logging.getLogger("gnnaudit")


def default_uri(runs: Path) -> str:
    """The SQLite store beside the runs."""
    return f"sqlite:///{Path(runs).resolve()}/mlflow.db"


def ui_command(runs: Path, uri: str | None = None, port: int = 5000) -> list[str]:
    """The command that serves the MLflow UI on this machine: one worker, and none of the job runners of `mlflow ui`."""
    switches = ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", "MLFLOW_DISABLE_TELEMETRY=true"]
    server = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    return ["env", *switches, *server, "--backend-store-uri", uri or default_uri(runs)]


def mirror(run_dir: Path, uri: str | None = None) -> bool:
    """Copies a run folder into MLflow; a second call updates the same MLflow runs.

    uri: a tracking URI; None is SQLite beside the run folder. Returns False, with a warning in the log, if the store cannot
    be reached or written: the run on disk is complete without it. Raises ValueError if the run itself cannot be read.
    """
    run_dir = Path(run_dir).resolve()
    found = results.read(run_dir)
    try:
        with _quiet(), _alone(run_dir.parent):
            _write(found, run_dir, uri or default_uri(run_dir.parent))
    except Exception as error:  # whatever the store, the network or the disk raises must not end a finished run
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        log.warning("MLflow: %s. The run is complete on disk; `audit mirror %s` copies it later.", reason.rstrip("."), run_dir)
        return False
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder: two processes that create the database at the same time break it."""
    from filelock import FileLock

    with FileLock(folder / ".mlflow.lock", timeout=PATIENCE):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """MLflow without telemetry, long retries and the log lines of its database migrations."""
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    }.items():
        os.environ.setdefault(name, value)
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    import mlflow  # noqa: F401  sets the level of its own logger, so it comes first

    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _write(found: Results, run_dir: Path, uri: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = _experiment(client, uri, run_dir.parent)
    identity = _identity(run_dir)
    known = {run.data.tags.get(CHILD, ""): run for run in _known(client, experiment, identity)}
    whole = parent(found)
    whole = whole._replace(tags={RUN: identity, **whole.tags})
    top = _put(client, experiment, whole, known.pop("", None), found)
    for artifact in ("report.html", "results.json", "spec.json", "plan.toml", "junit.xml"):
        if (run_dir / artifact).is_file():
            client.log_artifact(top, str(run_dir / artifact))
    for folder in ("figures", "evidence"):
        if (run_dir / folder).is_dir():
            client.log_artifacts(top, str(run_dir / folder), folder)
    together: dict[str, list[str]] = {}
    for child in children(found):
        tags = {RUN: identity, CHILD: child.identity, "mlflow.parentRunId": top, **child.tags}
        run_id = _put(client, experiment, child._replace(tags=tags), known.pop(child.identity, None), found)
        together.setdefault(child.params["unit"], []).append(run_id)
        for path in sorted(run_dir.glob(f"evidence/{child.files}")):
            client.log_artifact(run_id, str(path), "evidence")
        for path in sorted(run_dir.glob(f"figures/*-{child.files.removesuffix('.json')}.png")):
            client.log_artifact(run_id, str(path), "figures")
    for gone in known.values():
        client.delete_run(gone.info.run_id)
    client.set_tag(top, "mlflow.note.content", _note(found, experiment, together))


def _note(found: Results, experiment: str, together: dict[str, list[str]]) -> str:
    """The description of the parent run: the command, and one link to the compare page for each unit."""
    links = []
    for unit, runs in together.items():
        if unit and len(runs) > 1:
            query = urlencode({"runs": json.dumps(runs[:LINKED]), "experiments": json.dumps([experiment])}, quote_via=quote)
            links.append(f"- [Compare the models whose epsilon protects one {unit}](#/compare-runs?{query})")
    return "\n".join([f"`{found.run.command}`", "", *links])


def _experiment(client: MlflowClient, uri: str, runs: Path) -> str:
    """Created on first use; a local database keeps its artifacts beside the runs."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is not None:
        return str(experiment.experiment_id)
    place = (runs / "mlartifacts").as_uri() if uri.startswith("sqlite") else None
    kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens on runs, not on traces
    return str(client.create_experiment(EXPERIMENT, artifact_location=place, tags=kind))


def _identity(run_dir: Path) -> str:
    """A name for the run folder that does not change when the folder is moved."""
    path = run_dir / ".mlflow-run"
    if not path.is_file():
        path.write_text(uuid.uuid4().hex, encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


def _known(client: MlflowClient, experiment: str, identity: str) -> list[Run]:
    found, token = [], None
    while True:
        page = client.search_runs([experiment], f"tags.`{RUN}` = '{identity}'", max_results=1000, page_token=token)
        found += list(page)
        token = page.token
        if not token:
            return found


def _put(client: MlflowClient, experiment: str, child: Child, old: Run | None, found: Results) -> str:
    """Writes one MLflow run and returns its id. Parameters cannot change in MLflow, so a run with others is replaced."""
    from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag

    if old is not None and dict(old.data.params) != child.params:
        client.delete_run(old.info.run_id)
        old = None
    begin, end = _times(found)
    created = old or client.create_run(experiment, start_time=begin, run_name=child.name)
    run_id, now = created.info.run_id, int(time.time() * 1000)
    params: list[Any] = [] if old else [Param(k, v) for k, v in child.params.items()]
    before = dict(old.data.metrics) if old else {}
    tags = {"mlflow.source.name": "gnnaudit", **child.tags}
    metrics = [Metric(k, v, now, 0) for k, v in child.metrics.items() if before.get(k) != v]
    client.log_batch(run_id, metrics=metrics, params=params, tags=[RunTag(k, str(v)) for k, v in tags.items()])
    facts = dataset(found)
    if facts and not old:
        client.log_inputs(run_id, datasets=[DatasetInput(Dataset(**facts), [])])
    client.set_terminated(run_id, "FINISHED", end_time=end)
    return str(run_id)


def _times(found: Results) -> tuple[int | None, int | None]:
    """When the run began and ended, in milliseconds since 1970; None for now."""
    try:
        begin = datetime.fromisoformat(found.run.started).timestamp()
    except ValueError:
        return None, None
    return int(1000 * begin), int(1000 * (begin + found.run.seconds))
