"""The command line answers wrong use with one line: the name, the value and the way out."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from gnnaudit.audit.cli import main
from gnnaudit.reports import files


@pytest.fixture
def said(monkeypatch, capsys):
    """The one line that `audit WORDS` answers on stderr, its exit code checked to be 2."""
    monkeypatch.setattr(main.signal, "signal", lambda *_: None)  # this process keeps its own settings

    def ask(*words):
        monkeypatch.setattr(sys, "argv", ["audit", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main.main()
        told = capsys.readouterr()
        assert end.value.code == 2
        assert told.out == ""
        assert len(told.err.splitlines()) == 1
        return told.err

    return ask


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("bound",), ("scores", "bound --help")),
        (("bound", "s.csv", "--epsilon", "100%"), ("--epsilon 100%", "number")),
        (("bound", "s.csv", "--epsilon=100%"), ("--epsilon 100%", "number")),
        (("run", "--rounds", "many"), ("--rounds many", "must be a whole number")),
        (("run", "--eps", "1"), ("--eps", "--epsilon")),
        (("run", "--epsilon"), ("--epsilon", "argument")),
        (("bund",), ("bund", "bound")),
    ],
)
def test_a_misused_option_is_named_with_its_value(said, words, parts):
    told = said(*words)
    assert all(part in told for part in parts), told


def test_a_machine_without_cuda_says_so_before_anything_is_made(said, monkeypatch, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "device=cuda" in said("run", "--device", "cuda", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_ui_opens_on_a_folder_of_runs_and_on_nothing_else(said, tmp_path, monkeypatch):
    assert "no such folder" in said("ui", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "results.json").write_text("{}")
    assert f"audit ui {tmp_path}" in said("ui", tmp_path / "audit")
    assert "has no MLflow store yet" in said("ui", tmp_path)
    monkeypatch.chdir(tmp_path)
    rule = "A store lies beside its runs: after `audit run --out FOLDER/NAME` it is in FOLDER."
    assert f"runs: no such folder. {rule} Write `audit ui FOLDER`." in said("ui")
    for folder in (tmp_path, tmp_path / "my runs"):
        folder.mkdir(exist_ok=True)
        (folder / "mlflow.db").touch()
    assert f"runs: no such folder. {rule} Try `audit ui .` or `audit ui 'my runs'`." in said("ui")
    (tmp_path / "mlflow.db").write_text("no database")
    assert "no SQLite database" in said("ui", tmp_path)
    assert "serves its own UI" in said("ui", tmp_path, "--mlflow", "http://127.0.0.1:9")
    (tmp_path / "mlflow.db").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port={port}" in said("ui", tmp_path, "--port", port)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("run", "--minutes", "inf"), ("minutes=inf", "1000000")),
        (("run", "--rounds", "99999999999999999999"), ("rounds=99999999999999999999", "1000000")),
        (("run", "--notices", "inf"), ("notices=inf", "1000")),
        (("run", "--epsilon", "1e10"), ("epsilon='1e10'", "100 nats")),
        (("run", "--delta", "nan"), ("delta=nan", "must be a number.")),
        (("run", "--minutes", "nan"), ("minutes=nan", "must be a number of minutes.")),
        (("bound", "s.csv", "--epsilon", "1", "--notices", "inf"), ("notices=inf", "1000")),
        (("bound", "s.csv", "--seed", "-1"), ("--seed -1", "0")),
        (("bound", "s.csv", "--seed", "1" + "0" * 22), ("--seed 1", str(2**64 - 1))),
        (("power", "--rounds", "99999999999999999999"), ("rounds=99999999999999999999", "1e+09")),
        (("power", "--epsilon", "1e10"), ("--epsilon 1e10", "100 nats")),
        (("power", "--epsilon", "1e309"), ("--epsilon 1e309", "100 nats")),
        (("bound", "s.csv", "--epsilon", "1e309"), ("--epsilon 1e309", "100 nats")),
        (("run", "--epsilon", "1,1e309"), ("epsilon='1e309'", "100 nats")),
        (("power", "--kappa", "1e9"), ("kappa=1e+09", "1000")),
        (("account", "--tuned-over", "99999999999999999999"), ("--tuned-over 99999999999999999999", "1000000")),
        (("data", "info", "campus:n=300", "--split", "-1"), ("split=-1", "from 0")),
        (("data", "info", "campus:n=1000000000000"), ("n=1000000000000", "1000000000")),
    ],
)
def test_a_number_beyond_what_can_be_computed_is_refused_with_its_bound(said, words, parts):
    told = said(*words)
    assert all(part in told for part in parts), told


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "--seed", ""), "--seed"),
        (("run", "--out="), "--out"),
        (("findings", "--seed", ""), "--seed"),
        (("findings", "--out", ""), "--out"),
        (("mirror", "--mlflow", "", "run"), "--mlflow"),
        (("scan", ""), "argument"),
        (("run", "--epsilon", "1,,2"), "epsilon"),
        (("run", "--models", "gap,,progap"), "models"),
        (("selftest", "--seed", "a\udcff"), "--seed 'a\\udcff'"),
        (("run", "--out=a\udcff"), "--out '--out=a\\udcff'"),
        (("bound", "a\udcff"), "argument 'a\\udcff'"),
    ],
)
def test_a_word_that_is_empty_or_no_utf_8_is_refused_with_its_option(said, words, option):
    assert option in said(*words)


@pytest.mark.parametrize(
    ("words", "twice"),
    [
        (("run", "--epsilon", "1,2,1.0"), "1 twice"),
        (("run", "--models", "gap,gap"), "gap twice"),
        (("run", "--attacks", "lira,lira"), "lira twice"),
        (("run", "--audits", "game,replay,game"), "game twice"),
        (("account", "--epsilon", "2,2"), "2 twice"),
        (("findings", "gap-undirected-edge", "gap-undirected-edge"), "twice"),
        (("account", "--models", "gap", "--data", "campus:n=300", "--param", "hops=2", "--param", "gap.hops=3"), "both set hops"),
    ],
)
def test_a_value_that_is_given_twice_is_refused_and_not_dropped(said, words, twice):
    assert twice in said(*words)


@pytest.mark.parametrize("size", ["1", "8", "8GB", "8gib", "0.5MiB", "-1", "1025TiB"])
def test_a_memory_without_sense_is_refused_with_both_bounds_and_the_units(said, size):
    told = said("run", "--memory", size)
    assert f"memory='{size}': must be from 1MiB to 1024TiB, such as 8GiB. The units are KiB, MiB, GiB and TiB" in told


def test_a_bound_on_a_duration_has_its_unit(said):
    assert "must be above 0 minutes" in said("run", "--minutes", "0")
    assert "must be at most 60000000 seconds" in said("run", "--target-timeout", "1e9")


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (
            ("run", "--epsilon=-1"),
            "epsilon='-1': must be above 0. Give the claimed budget in nats, such as 1, or inf for no claim.",
        ),
        (("run", "--epsilon", "1,x"), "epsilon='x': must be a number. Give the claimed budget in nats, such as 1, or inf"),
        (("run", "--delta", "1"), "delta=1.0: must be below 1. Give the claimed delta, such as 1e-5."),
        (("run", "--delta", "nan"), "delta=nan: must be a number. Give the claimed delta, such as 1e-5."),
        (("run", "--shadows", "3"), "shadows=3: must be a multiple of 2. By default it is 8."),
        (("run", "--jobs", "0"), "jobs=0: must be at least 1. Leave it out for the usual choice."),
        (("run", "--unit", "x"), "unit='x': must be 'directed-edge', 'undirected-edge', 'node' or 'features'. Leave it out for"),
        (("run", "--rounds", "x"), "--rounds x: must be a whole number. `"),
        (("bound", "s.csv", "--alpha", "x"), "--alpha x: must be a number. `"),
        (("ui", "--port", "99999"), "--port 99999: must be at most 65535. `"),
    ],
)
def test_a_refused_value_is_one_line_with_the_value_its_bound_and_a_way_out(said, words, whole):
    assert whole in said(*words)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the folder /proc, in which nobody can make a file, is Linux's")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("scan", __file__, "--sarif", "/proc/x"), "--sarif /proc/x: /proc cannot be written"),
        (("findings", "gap-undirected-edge", "--out", "/proc/x"), "/proc/x: /proc cannot be written"),
        (("data", "map", "campus:n=300", "/proc/x"), "/proc/x: /proc cannot be written"),
        (("run", "--models", "gap", "--mlflow", "sqlite:////proc"), "mlflow=sqlite:////proc: is a folder. Give a file"),
        (
            ("run", "--models", "gap", "--mlflow", "mssql+nosuch://h/x"),
            "mlflow=mssql+nosuch://h/x: is no store that MLflow can use",
        ),
        (("run", "--models", "gap", "--mlflow", "sqlite:////proc/x.db"), "mlflow=sqlite:////proc/x.db: /proc cannot be written"),
        (("mirror", "x", "--mlflow", "sqlite:////proc/x.db"), "mlflow=sqlite:////proc/x.db: /proc cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_as_it_was_given_before_anything_is_computed(said, words, named):
    assert named in said(*words)


def test_a_file_that_cannot_be_written_is_named_and_not_the_temporary_one(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "aside")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match="No space left") as fault:
        files.write_text(tmp_path / "a.sarif", "text")
    assert fault.value.filename == str(tmp_path / "a.sarif")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "mirror"])
def test_a_store_that_mlflow_cannot_open_is_refused_before_anything_is_made(said, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    words = (tmp_path,) if command == "mirror" else ("--data", "campus:n=300")
    assert "mlflow=nonsense://x" in said(command, *words, "--mlflow", "nonsense://x")
    assert not any(tmp_path.iterdir())


def test_a_mirror_into_no_store_is_refused(said, tmp_path):
    assert "mlflow=none" in said("mirror", tmp_path, "--mlflow", "none")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("run", "--models", "gap", "--target-timeout", "5"), "--target-timeout"),
        (("run", "--models", "gap", "--no-record"), "--no-record"),
        (("run", "--models", "gap", "--minutes", "3", "--audits", "replay"), "--minutes"),
        (("run", "--model", "x.py:M", "--mode", "paper"), "--mode paper"),
        (("run", "-q", "-v"), "--verbose"),
        (("run", "--attacks", "none", "--shadows", "4"), "--shadows 4"),
        (("run", "--attacks", "none", "--targets", "4"), "--targets 4"),
        (("run", "--attacks", "none", "--games", "edge"), "--games edge"),
        (("run", "--audits", "none", "--rounds", "4"), "--rounds 4"),
        (("run", "--ray", "local", "--jobs", "2"), "--jobs 2"),
        (("findings", "gap-undirected-edge", "--checkout", ".", "--out", "x"), "--out x"),
        (("account", "--json", "--format", "latex"), "--format latex"),
        (("findings", "gap-undirected-edge", "--python", "x"), "--python x"),
        (("contract", "x.py:M", "--mode", "paper"), "--mode paper"),
        (("bound", "s.csv", "--notices", "1.5"), "--notices 1.5"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(said, words, option):
    told = said(*words)
    assert option in told
    assert "no effect" in told


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("findings", "gap-undirected-edge", "--out", "file"), "file: is no folder"),
        (("data", "map", "campus:n=300", "file/x"), "file is no folder"),
        (("bound", "fifo"), "fifo: is no regular file"),
        (("data", "info", "fifo"), "no regular file"),
        (("bound", "text.csv.gz"), "text.csv.gz: cannot be read"),
        (("run", "empty.toml"), "empty.toml: has no table [run]"),
        (("contract", "gapp"), "Did you mean gap"),
        (("run", "fifo"), "fifo: not a TOML file: it is no regular file"),
        (("scan", "signs.py"), "signs.py: not read as Python: MemoryError"),
        (("account", "--models", "gap", "--data", "campus:n=300", "--param", "hops=" + "-" * 10**5 + "1"), "hops='---"),
        (("run", "--games", "label,none"), "none must stand alone"),
        (("acount",), "'accountants'? `audit"),
    ],
)
def test_a_wrong_file_or_word_is_named_and_nothing_is_said_to_resume(said, monkeypatch, tmp_path, words, part):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "signs.py").write_text("x = " + "-" * 10**5 + "1")
    (tmp_path / "text.csv.gz").write_text("score,bit\n1,1\n2,0\n")
    os.mkfifo(tmp_path / "fifo")
    told = said(*words)
    assert part in told
    assert "resumes" not in told
    assert len(told) < 300


@pytest.mark.parametrize(("code", "said"), [(errno.EISDIR, 2), (errno.ENOTDIR, 2), (errno.EEXIST, 2), (errno.ENOSPC, 3)])
def test_a_damaged_run_folder_is_wrong_use_and_a_full_disk_is_not(monkeypatch, capsys, code, said):
    def fails(**_):
        fault = OSError(code, os.strerror(code), "out/x")
        fault.add_note("the same command")
        raise fault

    monkeypatch.setattr(main.signal, "signal", lambda *_: None)
    monkeypatch.setattr(main, "app", fails)
    monkeypatch.setattr(sys, "argv", ["audit", "run"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == said
    assert "the same command resumes" in capsys.readouterr().err


def test_a_working_directory_that_is_gone_is_named(said, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    words = ("--models", "mlp", "--audits", "none", "--attacks", "none", "--mlflow", "none", "--quiet")
    assert "the working directory does not exist any more" in said("run", *words)


def test_a_group_of_commands_without_a_command_lists_its_commands(monkeypatch, capsys):
    monkeypatch.setattr(main.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["audit", "data"])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 2
    assert "list, info, map" in capsys.readouterr().err


def test_the_package_is_the_command(tmp_path):
    words = [sys.executable, "-P", "-m", "gnnaudit", "run", "--epsilon", "-1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("audit: epsilon='-1': must be above 0.")
