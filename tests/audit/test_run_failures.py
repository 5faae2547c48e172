"""Failures during `audit run`, each provoked for real: finished parts stay, one line tells the user, the same command resumes."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.audit import run as run_module
from gnnaudit.audit.cli import main
from gnnaudit.audit.storage import store as store_module
from gnnaudit.models.base import Release

PLAN = [
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
    "4",
]
RUN = ["run", *PLAN, "--seed", "faults", "--out", "out", "--jobs", "1", "--mlflow", "none"]
KEPT = "finished trainings of accuracy, attacks and games are kept; other audits begin again"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def start(*words, cwd, **options):
    command = [sys.executable, "-m", "gnnaudit.audit.cli.main", *words]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **{"preexec_fn": heeds_signals, **options},
    )


def heeds_signals():
    """Jobs in the background, as those of a CI runner, are started with Ctrl-C ignored (nohup: SIGHUP), as are their children."""
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_DFL)


def audit(*words, cwd, **options):
    """Returns the exit code and what was printed on stderr."""
    process = start(*words, cwd=cwd, **options)
    _, said = process.communicate(timeout=120)
    return process.returncode, said


def told(said):
    """The one line that the user reads; a traceback fails."""
    assert "Traceback" not in said, said
    return said.strip().splitlines()[-1]


def rows(folder):
    """What results.json says, without times."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in json.loads((folder / "results.json").read_text())["rows"]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    code, said = audit(*RUN, cwd=folder)
    assert code == 0, said
    return folder / "out"


def resumed(folder, undisturbed, *more):
    """The same command again, after the fault is gone, ends as if nothing had happened. more: options that it has now."""
    code, said = audit(*RUN, *more, cwd=folder)
    assert code == 0, said
    assert rows(folder / "out") == rows(undisturbed)


def wait_for(happened, process):
    deadline = time.monotonic() + 60
    while not happened() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()


def group(leader):
    """The processes of a group that are not zombies."""
    members = []
    for path in [Path("/proc", name, "stat") for name in os.listdir("/proc") if name.isdigit()]:
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == leader and state != "Z":
                members.append(path.parent.name)
    return members


@pytest.fixture
def disk(tmp_path):
    """A file system of 64 KiB of its own."""
    (tmp_path / "out").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path / "out")]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here: that takes root and its capabilities")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path / "out")], check=True)


@pytest.mark.nightly
def test_a_full_disk(disk, undisturbed):
    (disk / "out" / "ballast").write_bytes(bytes(40 << 10))
    code, said = audit(*RUN, cwd=disk)
    assert code == 3
    assert "No space left on device" in told(said)
    assert not list((disk / "out").rglob(".*.npz.*"))  # half a part would stay on the full disk
    (disk / "out" / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk / "out")], check=True)
    resumed(disk, undisturbed)


@pytest.mark.nightly
def test_a_folder_that_is_read_only(disk, undisturbed):
    subprocess.run(["mount", "-o", "remount,size=64m,ro", str(disk / "out")], check=True)
    code, said = audit(*RUN, cwd=disk)
    assert code == 2
    assert "cannot be written (Read-only file system). Choose another folder with --out." in told(said)


@pytest.mark.nightly
def test_a_folder_that_becomes_read_only_keeps_what_is_finished(disk, undisturbed):
    out = disk / "out"
    subprocess.run(["mount", "-o", "remount,size=64m", str(out)], check=True)
    process = start(*RUN, "--repeats", "300", cwd=disk)
    wait_for(lambda: list(out.rglob("[0-9]*.npz")), process)
    parts = next(out.rglob("[0-9]*.npz")).parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(parts)], check=True)
    _, said = process.communicate(timeout=60)
    subprocess.run(["umount", str(parts)], check=True)
    assert process.returncode == 3
    assert "Read-only file system" in told(said)
    assert list(out.rglob("[0-9]*.npz"))
    assert all(store_module.load(p) is not None for p in out.rglob("[0-9]*.npz"))
    resumed(disk, undisturbed, "--fresh")  # with fewer repeats, so it is another plan


@pytest.mark.nightly
def test_a_file_that_grows_beyond_what_the_user_may_write(tmp_path):
    limit = 1 << 10
    code, said = audit(*RUN, cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert code == 3
    assert "File too large" in told(said)


@pytest.mark.nightly
def test_a_folder_that_vanishes(tmp_path):
    process = start(*RUN, "--repeats", "300", cwd=tmp_path)
    wait_for(lambda: list((tmp_path / "out").rglob("[0-9]*.npz")), process)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    _, said = process.communicate(timeout=120)
    assert process.returncode in (0, 3)
    told(said)


def test_control_c_stops_cleanly_and_the_same_command_resumes(tmp_path):
    """No worker is left, and none prints an error."""
    words = [*RUN, "--repeats", "1000", "--jobs", "2"]
    process = start(*words, cwd=tmp_path)
    wait_for(lambda: len(list((tmp_path / "out").rglob("[0-9]*.npz"))) > 1, process)
    os.killpg(process.pid, signal.SIGINT)  # a terminal tells the whole group
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert told(said) == f"Stopped. The same command resumes; {KEPT}."
    deadline = time.monotonic() + 60
    while group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not group(process.pid)
    assert all(store_module.load(p) is not None for p in (tmp_path / "out").rglob("[0-9]*.npz"))


@pytest.mark.parametrize(("stop", "fresh"), [(signal.SIGTERM, ()), (signal.SIGHUP, ("--fresh",))])
@pytest.mark.nightly
def test_a_cancelled_job_and_a_lost_terminal_stop_as_cleanly(tmp_path, stop, fresh):
    process = start(*RUN, "--repeats", "1000", *fresh, cwd=tmp_path)
    wait_for(lambda: list((tmp_path / "out").rglob("[0-9]*.npz")), process)
    process.send_signal(stop)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert told(said) == f"Stopped. The same command{' without --fresh' if fresh else ''} resumes; {KEPT}."


@pytest.mark.parametrize("fault", [KeyError("k"), SystemExit(0), BaseException("x"), RuntimeError("no more memory")])
def test_code_that_breaks_or_leaves_neither_refutes_nor_absolves(monkeypatch, capsys, fault):
    """A user's model may raise anything, or end the process as a script would."""

    def broken(standalone_mode):
        raise fault

    monkeypatch.setattr(main, "app", broken)
    monkeypatch.setattr(main.signal, "signal", lambda *_: None)  # this process keeps its own
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 3
    assert "nothing is proved or refuted" in capsys.readouterr().err


def test_a_reader_that_leaves_and_letters_that_a_terminal_lacks(tmp_path):
    listed = [sys.executable, "-m", "gnnaudit.audit.cli.main", "data", "list"]
    with subprocess.Popen(listed, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (3, b"")
    done = subprocess.run([*listed[:-2], "models"], env=ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.nightly
def test_clock_jumps(tmp_path, undisturbed):
    """A clock that goes back an hour at every reading changes neither results nor the sign of a duration."""
    code = (
        "import time, datetime, sys, itertools; real = time.time; hours = itertools.count();"
        "time.time = lambda: real() - 3600 * next(hours); sys.argv[0] = 'audit';"
        "from gnnaudit.audit.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *RUN], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == rows(undisturbed)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["run"]["seconds"] >= 0


@pytest.mark.nightly
def test_an_mlflow_store_that_cannot_be_or_is_locked(tmp_path, undisturbed):
    """A place that can hold no store is wrong use, before anything is trained. `audit mirror` exits with 3 while a store is
    locked.
    """
    away = f"sqlite:///{tmp_path}/away/mlflow.db"
    (tmp_path / "away").write_text("not a folder")
    code, said = audit(*RUN[:-2], "--mlflow", away, cwd=tmp_path)
    assert code == 2
    assert "away" in told(said)
    assert not (tmp_path / "out").exists()
    assert audit(*RUN, cwd=tmp_path)[0] == 0
    assert rows(tmp_path / "out") == rows(undisturbed)
    assert audit("mirror", "out", "--mlflow", away, cwd=tmp_path)[0] == 2
    (tmp_path / "away").unlink()
    (tmp_path / "away").mkdir()
    assert audit("mirror", "out", "--mlflow", away, cwd=tmp_path)[0] == 0
    with sqlite3.connect(tmp_path / "away" / "mlflow.db") as database:
        assert database.execute("select count(*) from runs").fetchone()[0] >= 1
    held = sqlite3.connect(tmp_path / "away" / "mlflow.db", isolation_level=None)
    held.execute("begin exclusive")
    code, said = audit("mirror", "out", "--mlflow", away, cwd=tmp_path)
    held.close()
    assert code == 3
    assert "database is locked" in said


@pytest.mark.parametrize("left", ["", "\0" * 64, "\udcff" * 64], ids=["empty", "zeros after a crash", "no text"])
@pytest.mark.nightly
def test_half_a_key_is_not_taken_for_a_key_and_half_a_part_is_swept_away(tmp_path, left):
    """Noise from an empty key could be subtracted by anybody."""
    half = tmp_path / "out" / "mlp" / "0123" / ".000000.npz.77"
    half.parent.mkdir(parents=True)
    half.touch()
    (tmp_path / "out" / "key").write_text(left, errors="surrogateescape")
    code, said = audit("run", *PLAN, "--out", "out", "--mlflow", "none", cwd=tmp_path)
    assert code == 2
    assert "not a complete key" in told(said)
    assert not half.exists()


def test_no_flipped_byte_of_a_part_is_believed(tmp_path):
    """Every single byte of a small part in turn: what is read is either nothing or exactly what was written."""
    path = tmp_path / "part.npz"
    release = Release({"a": np.arange(3.0)}, np.arange(2), {"sigma": 1.0})
    store_module.save(release, path)
    whole, refused = path.read_bytes(), 0
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :])
        found = store_module.load(path)
        refused += found is None
        if found is not None:
            np.testing.assert_array_equal(found["a"], release["a"])
            np.testing.assert_array_equal(found.watch, release.watch)
            assert found.public == release.public
    assert refused > len(whole) / 2


FAULTY = """
import numpy as np
from gnnaudit import Looped, PureDpEvent

def exact(graph, seed):
    return {"degrees": graph.degree.astype(float)}

model = Looped(exact, releases=("degrees",), events=PureDpEvent(1.0))
"""


def test_a_model_whose_draws_cannot_be_described_keeps_its_verdict(tmp_path, monkeypatch):
    def fails(runs):
        raise RuntimeError("no description")

    monkeypatch.setattr(run_module, "observe", fails)
    (tmp_path / "faulty.py").write_text(FAULTY)
    words = f"run --model {tmp_path}/faulty.py:model --epsilon 1 --data campus:n=120:degree=6 --attacks none --repeats 1"
    monkeypatch.setattr(sys, "argv", ["audit", *words.split(), *RUN[-4:], "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    (row,) = (row for row in rows if row.get("what") == "observed ledger")
    assert row["reason"].endswith("RuntimeError: no description")
