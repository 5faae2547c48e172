"""Copies a run folder into MLflow runs: one for the plan, and one for each claim. This package reads no results from MLflow."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ...accounting.claim import Unit
from .. import results
from ..files import writable
from ..results import Results
from ..summary import UNITS
from .mlflow_rows import Child, children, dataset, parent
from .mlflow_view import address, known_units, saved_views

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

EXPERIMENT = "gnnaudit"
LINKED = 40  # largest number of runs in one link, because a tag holds 8,000 characters, and the compare page has a limit too
PATIENCE = 120.0  # largest number of seconds that a process waits while another process writes
BESIDE = f"mlflow-artifacts:/{EXPERIMENT}"  # a path relative to the artifact folder of the server that `ui_command` starts
ABOUT = """Each run is one claim: a model, its mode, the protected unit and the budget. epsilon_lower is the bound that audits
proved, epsilon_upper the most that the ledger costs. If epsilon_lower is larger than epsilon_upper, the ledger does not describe
what was run. epsilon_detectable is the smallest true epsilon that the audits would have
noticed; "not refuted" does not exclude a true epsilon below it. auc_best and tpr_at_0.1pct_best are the largest values that any
attack reached on the unit that the claim protects. epsilon_axis is where charts draw the claim: its budget, or twice the largest
budget for a model without noise."""
RUN, CHILD = "gnnaudit.run", "gnnaudit.child"  # tags that identify a run, so that a second call finds it
SQLITE = b"SQLite format 3\0"  # the first bytes of a database
SCHEMES = ("sqlite", "http", "https")  # schemes that are accepted without the import of MLflow
DATABASES = ("postgresql", "mysql", "mssql")  # schemes of servers whose driver SQLAlchemy loads
log = logging.getLogger("gnnaudit")


def default_uri(runs: Path) -> str:
    """The URI of the SQLite store in the folder `runs`."""
    return f"sqlite:///{Path(runs).resolve()}/mlflow.db"


def refuse_unknown(uri: str | None) -> None:
    """Raises ValueError for a URI that MLflow cannot use, for a database whose driver is not installed, for a folder in place of
    an SQLite file, and for an SQLite file in a folder that cannot be written. None and "none" pass. The function reaches no
    server and leaves nothing behind.
    """
    scheme, _, place = (uri or "none").partition("://")
    kind = scheme.partition("+")[0]
    if scheme == "sqlite" and place[1:]:  # MLflow would try again for minutes
        file = Path(place[1:].partition("?")[0])
        if file.is_dir():
            raise ValueError(f"mlflow={uri}: is a folder. Give a file, such as sqlite:///{file}/mlflow.db.")
        writable(file.parent, f"mlflow={uri}")
    if uri in (None, "none") or (kind in SCHEMES and place.strip("/")):
        return
    try:
        if kind in DATABASES and place.strip("/"):
            from sqlalchemy import create_engine

            create_engine(str(uri))
            return
        with _quiet():
            from mlflow import MlflowClient

            MlflowClient(tracking_uri=uri)
    except Exception as error:  # of MLflow, of a plugin, or of a driver that is not installed
        why = " ".join(str(error).split()).partition(". ")[0].rstrip(".")[:200] or type(error).__name__
        way = "Give sqlite:///FILE.db or the address of a server, or leave it out for SQLite beside the runs."
        raise ValueError(f"mlflow={uri}: is no store that MLflow can use ({why}). {way}") from None


def refuse_unservable(uri: str) -> None:
    """Raises ValueError for a URI whose store `ui_command` cannot serve: another server, or a file that is no SQLite database."""
    if uri.startswith(("http://", "https://")):
        raise ValueError(f"mlflow={uri}: is a server, which serves its own UI. Open this address in a browser.")
    path = Path(uri.partition("://")[2][1:].partition("?")[0])
    if uri.startswith("sqlite:") and path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(SQLITE)) != SQLITE:
                raise ValueError(f"mlflow={uri}: is no SQLite database. Name another file, or leave --mlflow out.")


def ui_command(runs: Path, uri: str | None = None, port: int = 5000) -> list[str]:
    """The command that serves the MLflow UI on this machine, with one worker and without the job runners of `mlflow ui`.

    The server reads artifacts from the folder `runs`, so a copy of this folder contains them.
    """
    switches = ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false", "MLFLOW_DISABLE_TELEMETRY=true"]
    server = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    stores = ["--backend-store-uri", uri or default_uri(runs), "--artifacts-destination", str(_artifacts(runs))]
    return ["env", *switches, *server, *stores]


def ui_address(runs: Path, uri: str | None = None, port: int = 5000) -> str:
    """The address of the table of all verdicts, or the root address if the store has no claims yet or cannot be read."""
    root = f"http://127.0.0.1:{port}"
    try:
        with _quiet():
            from mlflow import MlflowClient

            found = MlflowClient(tracking_uri=uri or default_uri(runs)).get_experiment_by_name(EXPERIMENT)
    except Exception as error:  # when the server starts, it reports this error too
        log.warning("MLflow: %s", str(error).strip().split("\n")[0])
        return root
    return root if found is None else address(root, str(found.experiment_id))


def _artifacts(runs: Path) -> Path:
    return Path(runs).resolve() / "mlartifacts"


def mirror(run_dir: Path, uri: str | None = None) -> bool:
    """Copies a run folder into MLflow; a second call updates the same MLflow runs.

    uri: a tracking URI; None stands for SQLite beside the run folder. Returns whether the copy succeeded. If the store cannot be
    reached or written, the function logs a warning; the run on disk is complete without the copy. Raises ValueError if the run
    itself cannot be read.
    """
    from filelock import FileLock

    run_dir = Path(run_dir).resolve()
    found = results.read(run_dir)
    # two processes that create the database at the same time damage it; mode 0600, so that other users cannot hold the lock
    alone = FileLock(run_dir.parent / ".mlflow.lock", timeout=PATIENCE, mode=0o600)
    try:
        with _quiet(), alone:
            _write(found, run_dir, uri or default_uri(run_dir.parent))
    except Exception as error:  # an error of the store, the network or the disk must not end a finished run
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        log.warning("MLflow: %s. The run is complete on disk; `audit mirror %s` copies it later.", reason.rstrip("."), run_dir)
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Turns off MLflow's telemetry, its long retries, the log lines of its database migrations, and the addresses that it prints.
    MLflow prints these addresses to stdout, where a command may print one JSON document and nothing else.
    """
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    }.items():
        os.environ.setdefault(name, value)
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    import mlflow  # noqa: F401  this import sets the level of MLflow's logger, so it comes first

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
    experiment, beside = _experiment(client, uri)
    save = partial(_copy, _artifacts(run_dir.parent)) if beside else partial(_log, client)
    identity = _identity(run_dir)
    known = {run.data.tags.get(CHILD, ""): run for run in _known(client, experiment, identity)}
    whole = parent(found)
    whole = whole._replace(tags={RUN: identity, **whole.tags})
    top = _put(client, experiment, whole, known.pop("", None), found)
    for artifact in ("report.html", "results.json", "spec.json", "plan.toml", "junit.xml", "card.md"):
        if (run_dir / artifact).is_file():
            save(top, run_dir / artifact, "")
    for folder in ("figures", "evidence"):
        for path in sorted(run_dir.glob(f"{folder}/*")):
            save(top, path, folder)
    together: dict[str, list[str]] = {}
    for child in children(found):
        tags = {RUN: identity, CHILD: child.identity, "plan.run": top, **child.tags}
        run_id = _put(client, experiment, child._replace(tags=tags), known.pop(child.identity, None), found)
        together.setdefault(child.params["unit"], []).extend([run_id] * (child.params["epsilon"] != "inf"))
        for path in sorted(run_dir.glob(f"evidence/{child.files}")):
            save(run_id, path, "evidence")
        for path in sorted(run_dir.glob(f"figures/*-{child.files.removesuffix('.json')}.png")):
            save(run_id, path, "figures")
    for gone in known.values():
        client.delete_run(gone.info.run_id)
    client.set_tag(top, "mlflow.note.content", _note(found, experiment, together))
    units = sorted(known_units(client.get_experiment(experiment).tags).union(together) - {""})
    for tag, view in saved_views(units).items():
        client.set_experiment_tag(experiment, tag, view)
    client.set_experiment_tag(experiment, "mlflow.note.content", f"{_views(experiment, units)}\n\n{ABOUT}")


def _log(client: MlflowClient, run_id: str, path: Path, folder: str) -> None:
    """Sends an artifact to the client's own server. client.log_artifact would send it to the first one that this process used."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    place = client.get_run(run_id).info.artifact_uri
    get_artifact_repository(place, tracking_uri=client.tracking_uri).log_artifact(str(path), folder or None)


def _copy(artifacts: Path, run_id: str, path: Path, folder: str) -> None:
    """Copies an artifact to the place where a server beside the runs would put it. MLflow itself would store an absolute path."""
    place = artifacts / EXPERIMENT / run_id / "artifacts" / folder
    place.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place / path.name)


def _note(found: Results, experiment: str, together: dict[str, list[str]]) -> str:
    """The description of the plan's run: the command, links to the saved views, and for each unit a link to the compare page."""
    links = [_views(experiment, [unit for unit in together if unit])]
    for unit, runs in together.items():
        if unit and len(runs) > 1:
            query = urlencode({"runs": json.dumps(runs[:LINKED]), "experiments": json.dumps([experiment])}, quote_via=quote)
            links.append(f"- [Compare the claims that protect {UNITS[Unit(unit)]}](#/compare-runs?{query})")
    command = " ".join(found.run.command.split())  # a line break would end the code block
    return "\n".join([f"    {command}", "", *links])


def _views(experiment: str, units: Iterable[str]) -> str:
    """Links to the table of all verdicts, and to the table and the charts of each unit, as one line of Markdown."""
    links = [f"**[All verdicts]({address('', experiment).lstrip('/')})**"]
    for unit in units:
        table, charts = (address("", experiment, unit, charts=drawn).lstrip("/") for drawn in (False, True))
        links.append(f"{unit.replace('-', ' ')}: [table]({table}), [charts]({charts})")
    return " · ".join(links)


def _experiment(client: MlflowClient, uri: str) -> tuple[str, bool]:
    """The id of the experiment (created on first use), and whether its artifacts are stored beside the runs."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is not None:
        return str(experiment.experiment_id), str(experiment.artifact_location) == BESIDE and uri.startswith("sqlite")
    place = BESIDE if uri.startswith("sqlite") else None
    kind = {"mlflow.experimentKind": "custom_model_development"}  # the kind of an experiment whose runs have no traces
    return str(client.create_experiment(EXPERIMENT, artifact_location=place, tags=kind)), place is not None


def _identity(run_dir: Path) -> str:
    """A name for the run folder, which is stored in it and stays the same if the folder is moved."""
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
    """Writes an MLflow run and returns its id. Parameters cannot change, so an old run with others is replaced."""
    from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag

    if old is not None and dict(old.data.params) != child.params:
        client.delete_run(old.info.run_id)
        old = None
    begin, end = _times(found, found.run.seconds if child.seconds is None else child.seconds)
    # these tags are set first, so that a second call finds the run if the store fails later
    named = {k: v for k, v in child.tags.items() if k in (RUN, CHILD)}
    created = old or client.create_run(experiment, start_time=begin, tags=named, run_name=child.name)
    run_id, now = created.info.run_id, int(time.time() * 1000)
    params: list[Any] = [] if old else [Param(k, v) for k, v in child.params.items()]
    before = dict(old.data.metrics) if old else {}
    tags = {"mlflow.source.name": "gnnaudit", "mlflow.runName": child.name, **child.tags}
    metrics = [Metric(k, v, now, child.step) for k, v in child.metrics.items() if before.get(k) != v]
    client.log_batch(run_id, metrics=metrics, params=params, tags=[RunTag(k, str(v)) for k, v in tags.items()])
    facts = dataset(found)
    if facts and not old:
        client.log_inputs(run_id, datasets=[DatasetInput(Dataset(**facts), [])])
    client.set_terminated(run_id, "FINISHED", end_time=end)
    return str(run_id)


def _times(found: Results, seconds: float) -> tuple[int | None, int | None]:
    """The start of the run and the moment `seconds` later, in ms since 1970; None, for now, if the start is not known."""
    try:
        begin = datetime.fromisoformat(found.run.started).timestamp()
    except ValueError:
        return None, None
    return int(1000 * begin), int(1000 * (begin + seconds))
