"""The command line answers wrong use with one line: the name, the value and the way out."""

import socket
import sys

import pytest

from gnnaudit.audit.cli import main


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
        (("run", "--rounds", "many"), ("--rounds many", "integer")),
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


def test_the_ui_opens_on_a_folder_of_runs_and_on_nothing_else(said, tmp_path):
    assert "no such folder" in said("ui", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "results.json").write_text("{}")
    assert f"audit ui {tmp_path}" in said("ui", tmp_path / "audit")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port={port}" in said("ui", tmp_path, "--port", port)
