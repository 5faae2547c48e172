"""A lack of memory ends in one line and exit code 3, whatever library it strikes."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from gnnaudit.audit.storage import starved as module
from gnnaudit.audit.storage.starved import starved

from ...nightly import nightly

FAULTS = [
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ImportError("IMPORTANT: read this\n\nOriginal error was: libopenblas.so: failed to map segment from shared object\n"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: out of memory"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_it_is_told_from_other_faults_and_said_in_one_line(fault: BaseException) -> None:
    said = starved(fault)
    assert said is not None
    assert said.startswith("not enough memory (")
    assert "\n" not in said
    assert "READ" not in said.upper() or "segment" in said


@pytest.mark.parametrize("fault", [ImportError("No module named 'x'"), OSError(errno.ENOSPC, "No space"), SystemError("NULL")])
def test_other_faults_are_not(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    assert starved(fault) is None
    monkeypatch.setattr(module, "address_space", lambda: (1000, 900))
    assert starved(fault) is not None, "near the limit, a library that cannot load has no room"
    assert starved(KeyError("model")) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ulimit -v bounds nothing elsewhere")
@pytest.mark.parametrize("kibibytes", [60_000, 300_000, *nightly(700_000)])
def test_a_run_with_too_little_address_space_is_one_line(kibibytes: int, tmp_path: Path) -> None:
    """Each was a traceback of 50 to 80 lines: NumPy, LLVM and torch find no room to load."""
    code = "import sys; sys.argv = ['audit', 'run']; from gnnaudit.audit.cli.main import main; main()"
    command = f'ulimit -v {kibibytes}; exec "{sys.executable}" -c "{code}"'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("audit: not enough memory")
    assert done.stderr.count("\n") == 1
