"""What tests of programs ask of the machine: a folder for temporary files, and the processes that run."""

import os
import tempfile
from pathlib import Path

import pytest

from gnnaudit.audit.storage import temporary


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    temporary.sweep.cache_clear()
    return tmp_path / "tmp"


def printed(run: Path) -> list[str]:
    """The lines of RUN/target.log that the program printed."""
    return [line for line in (run / "target.log").read_text().split("\n") if line and not line.startswith("target: ")]


def alive(mark: str) -> list[int]:
    """The processes that carry this word in their command line."""
    found = []
    for place in [Path("/proc", name, "cmdline") for name in os.listdir("/proc") if name.isdigit()]:
        try:
            if mark.encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found
