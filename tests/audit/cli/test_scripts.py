"""Scripts that play a user: wrong uses of every command, and an engineer who builds a gate from a wheel."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.nightly
@pytest.mark.parametrize("words", [("-P", "bad_inputs.py"), ("bad_files.py",)], ids=" ".join)
def test_every_wrong_use_ends_with_exit_code_2_and_a_line(words):
    *flags, script = words
    command = [sys.executable, *flags, str(ROOT / "benchmarks" / script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
def test_the_gate_from_a_wheel_passes_an_honest_model_and_stops_a_leak_and_a_vanished_claim(tmp_path, monkeypatch):
    import numpy

    monkeypatch.setenv("LIBRARIES", str(Path(numpy.__file__).parents[1]))
    script = ROOT / "examples" / "ci" / "from_wheel.sh"
    done = subprocess.run(["bash", str(script), str(tmp_path)], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "named the claim that vanished" in done.stdout
