"""The cache of compiled code, the choice between compiled code and torch, and the speed of compiled loops."""

from __future__ import annotations

import json
import logging
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnnaudit.models.dpar import list_dpsgd
from gnnaudit.models.kernels.ahead import compile_ahead
from gnnaudit.models.kernels.compiler import compiled, kept

from ....nightly import nightly

needs_numba = pytest.mark.skipif(not compiled.found(), reason="no numba here: nothing is compiled")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache and a folder of temporary files of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    kept.kept_in.cache_clear()
    yield tmp_path
    kept.kept_in.cache_clear()


def test_what_is_switched_off_is_not_used_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.SWITCH, "off")
    compiled.found.cache_clear()
    assert (compiled.used(), compiled.path()) == (False, "torch")
    assert "," not in compiled.instruction_set()
    compiled.found.cache_clear()


def test_a_missing_numba_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    compiled.found.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert not compiled.used()
        assert not compiled.used()
    compiled.found.cache_clear()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "torch trains the models" in caplog.text


@needs_numba
def test_the_way_and_the_processor_are_named() -> None:
    assert compiled.path() == "compiled"
    assert compiled.instruction_set().startswith(torch.backends.cpu.get_cpu_capability() + ", ")
    with compiled.unused():
        assert compiled.path() == "torch"


@needs_numba
def test_compiled_code_is_kept_in_a_folder_that_nobody_else_can_write(fresh: Path) -> None:
    folder = kept.kept_in()
    assert folder is not None
    assert folder.is_relative_to(fresh)
    assert folder.stat().st_mode & 0o022 == 0


@needs_numba
@pytest.mark.skipif(sys.platform == "win32", reason="Windows protects a home folder by other means")
def test_a_folder_that_others_can_write_is_not_trusted(fresh: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = kept.kept_in()
    assert folder is not None
    folder.chmod(0o777)
    kept.kept_in.cache_clear()
    other = kept.kept_in()
    assert other is not None
    assert other.parent.name.startswith("gnnaudit-")
    other.chmod(0o777)
    kept.kept_in.cache_clear()
    assert kept.kept_in() is None
    assert "every process compiles again" in caplog.text


@needs_numba
def test_what_is_compiled_already_is_not_announced(fresh: Path) -> None:
    folder, said = kept.kept_in(), list[str]()
    assert folder is not None
    (folder / f"complete-{compiled.processor()}").touch()
    compile_ahead(said.append)
    assert not said


@pytest.fixture(scope="module")
def loaded() -> None:
    """Has imported all compiled loops before a test changes the cache: to compile them again takes more than a minute."""
    from gnnaudit.models.kernels import arithmetic, decoders, list_gradients, mlp, sage_head, teachers  # noqa: F401


@needs_numba
@pytest.mark.usefixtures("loaded")
def test_what_is_half_compiled_is_announced_and_completed_once(fresh: Path) -> None:
    folder, said = compiled.kept_in(), list[str]()
    assert folder is not None
    (folder / "some.nbi").touch()
    compile_ahead(said.append)
    compile_ahead(said.append)
    assert len(said) == 1
    assert "Compiling" in said[0]


@needs_numba
@pytest.mark.nightly
def test_a_compilation_that_was_killed_is_taken_up_again(fresh: Path) -> None:
    code = "import logging; logging.basicConfig(level=20); from gnnaudit.models.kernels import decoders"
    killed = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=fresh)
    assert killed.stderr is not None
    assert "arithmetic.adam" in killed.stderr.readline()
    assert "decoders.unit_selu" in killed.stderr.readline()  # the first function lies on disk, the second is compiled
    killed.kill()
    killed.wait()
    again = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=fresh, check=True)
    found = [line.rpartition(".")[2] for line in again.stderr.splitlines()]
    assert found == ["unit_selu", "unit_selu_slope", "decoder_slope"]


def test_whoever_switches_compiled_loops_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.SWITCH, "off")
    compiled.found.cache_clear()
    said = list[str]()
    compile_ahead(said.append)
    compiled.found.cache_clear()
    assert said == ["GNNAUDIT_KERNEL=off: torch trains the models; this takes several times as long as compiled loops."]


@needs_numba
def test_processes_that_start_at_once_compile_once(fresh: Path) -> None:
    code = "import logging; logging.basicConfig(level=20); from gnnaudit.models.kernels import arithmetic"
    runs = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=fresh) for _ in range(2)]
    told = "".join(run.communicate()[1] for run in runs)
    assert told.count("compiling gnnaudit.models.kernels.arithmetic.adam") == 1
    assert [run.returncode for run in runs] == [0, 0]


@needs_numba
def test_two_checkouts_with_the_same_sources_compile_once(fresh: Path) -> None:
    code = "import logging; logging.basicConfig(level=20); from gnnaudit.models.kernels import arithmetic"
    said = []
    for checkout in (fresh / "one", fresh / "other"):
        for part in ("accounting", "models"):
            shutil.copytree(Path(kept.__file__).parents[3] / part, checkout / "gnnaudit" / part)
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        run = [sys.executable, "-P", "-c", code]
        done = subprocess.run(run, stderr=subprocess.PIPE, text=True, cwd=fresh, env=environment, check=True)
        said.append([line.rpartition(".")[2] for line in done.stderr.splitlines()])
    assert said == [["adam"], []]


def large(x: Any) -> float:
    """More than LLVM makes a part of its callers of its own accord."""
    total = 0.0
    for i in range(x.size):
        for j in range(x.size):
            total += np.exp(x[i] * x[j]) / (1 + np.tanh(x[i] - x[j])) + np.sin(x[i]) ** j + np.log1p(x[j]) * np.cos(x[i] + j)
    for i in range(1, x.size):
        x[i] = max(x[i - 1], np.sqrt(x[i])) + total % (i + 2.5)
    return total


@needs_numba
@pytest.mark.parametrize("of_ours", [True, False])
def test_a_compiled_loop_calls_no_copy_that_another_library_could_replace(of_ours: bool) -> None:
    """Which of several weak copies is called depends on what was compiled or loaded before, and their last bits differ."""
    import numba

    inner = compiled.helper(large) if of_ours else numba.njit(**compiled.OPTIONS)(large)
    made: Any = compiled.plain(numba.float64(numba.float64[::1]))(lambda x: inner(x) + inner(x[1:]) + inner(x[2:]))
    (overload,) = made.overloads.values()
    copies = [name for name in re.findall(r"\.weak\s+(\S+)", overload.library.get_asm_str()) if "large" in name]
    assert bool(copies) is not of_ours


BITS = """
import hashlib, sys
import numpy as np
from gnnaudit import Worlds, load
from gnnaudit.models.facts import Facts
from gnnaudit.models.systems import SYSTEMS
graph = load("campus:n=300")
for name in sys.argv[1:]:
    model = SYSTEMS[name].make("sound", Facts.of(graph), False)
    arrays = model.fit(Worlds(graph, np.arange(3, dtype=np.uint64), np.arange(20))).arrays
    print(name, *(hashlib.sha256(arrays[a].tobytes()).hexdigest() for a in sorted(arrays)))
"""


@needs_numba
@pytest.mark.nightly
def test_a_process_that_compiles_computes_the_bits_of_one_that_loads_in_any_order(fresh: Path) -> None:
    names = ["gap", "progap", "vesper", "dpar", "privgnn", "lpgnn"]

    def told(order: list[str]) -> list[str]:
        words = [sys.executable, "-c", BITS, *order]
        return sorted(subprocess.run(words, capture_output=True, text=True, cwd=fresh, check=True).stdout.splitlines())

    first = told(names)
    assert len(first) == len(names)
    assert told(names) == first
    assert told(names[::-1]) == first


def step(folder: Path) -> subprocess.CompletedProcess[str]:
    """A process that loads or compiles one loop and runs it."""
    code = "from gnnaudit.models.kernels import trial; trial.run(); print('right')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)


def kept_files(folder: Path, ending: str) -> list[Path]:
    return sorted((folder / "cache").rglob(f"*.{ending}"))


def planted(path: Path, command: str) -> None:
    """A malicious index file: a pickle that runs a command when it is loaded."""
    path.write_bytes(b"cposix\nsystem\n(S'" + command.encode() + b"'\ntR.")


@needs_numba
@pytest.mark.skipif(sys.platform == "win32", reason="the pickle that is planted names posix")
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("how", ["changed", "link", "writable", "truncated"])
@pytest.mark.nightly
def test_a_planted_or_damaged_file_is_not_run(fresh: Path, ending: str, how: str) -> None:
    assert step(fresh).stdout == "right\n"
    (path,) = kept_files(fresh, ending)
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        planted(path, f"touch {fresh}/ran")
    if how == "writable":
        path.chmod(0o666)
    if how == "link":
        path.rename(fresh / "elsewhere")
        path.symlink_to(fresh / "elsewhere")
    again = step(fresh)
    assert again.stdout == "right\n"
    assert "removed and compiled again" in again.stderr
    assert not (fresh / "ran").exists()
    assert step(fresh).stderr == ""


@needs_numba
@pytest.mark.skipif(sys.platform == "win32", reason="the pickle that is planted names posix")
@pytest.mark.nightly
def test_code_that_ends_a_process_ends_a_child(fresh: Path) -> None:
    """The sums are right here: the code came from another machine, say."""
    assert step(fresh).stdout == "right\n"
    (path,) = kept_files(fresh, "nbi")
    planted(path, f"touch {fresh}/ran; kill -BUS $PPID")
    kept.record(path.parent.parent, path.name)
    told = step(fresh)
    assert told.stdout == "right\n"
    assert "trial of the compiled code ended with exit code -7" in told.stderr
    assert (fresh / "ran").exists()
    assert step(fresh).stderr == ""


@needs_numba
@pytest.mark.skipif(sys.platform == "win32", reason="folders have no modes there")
def test_a_folder_that_cannot_be_trusted_is_named_and_left_alone(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (fresh / "open").mkdir()
    (fresh / "open").chmod(0o777)
    (fresh / "link").symlink_to(fresh)
    places = [("open", "can be written by others"), ("link", "is a symbolic link"), ("open/in", "written by others")]
    if os.getuid() == 0:
        (fresh / "another's").mkdir()
        os.chown(fresh / "another's", 65534, 65534)
        places += [("another's", "belongs to another user"), ("another's/in", "belongs to another user")]
    for place, reason in places:
        monkeypatch.setattr("numba.config.CACHE_DIR", str(fresh / place))
        kept.kept_in.cache_clear()
        found = kept.kept_in()
        assert found is not None
        assert not found.is_relative_to(fresh / place)
        assert f"{fresh / place}: " in caplog.text
        assert reason in caplog.text


@needs_numba
@pytest.mark.parametrize("dropped", [True, False])
@pytest.mark.parametrize(("hidden", "entries", "classes"), [(1, 1, 2), (17, 3, 5), (64, 5, 6)])
def test_clipped_rows_are_those_of_autograd(hidden: int, entries: int, classes: int, dropped: bool) -> None:
    random, rows, dim = np.random.default_rng(hidden), 23, 9
    x = torch.from_numpy(random.standard_normal((rows, dim)))
    first = torch.from_numpy(random.standard_normal((dim, hidden)))
    second = torch.from_numpy(random.standard_normal((hidden, classes)))
    kept = torch.from_numpy((random.random((rows, hidden)) < 0.5) * 2.0) if dropped else torch.ones(rows, hidden)
    index = torch.from_numpy(np.stack([random.choice(rows, entries, replace=False) for _ in range(rows)]))
    weights, labels = torch.from_numpy(random.random((rows, entries))), torch.from_numpy(random.integers(classes, size=rows))
    counted = torch.from_numpy((random.random(rows) < 0.7) * 1.0)
    steep, sums = torch.zeros_like(first), torch.zeros_like(second)
    for r in range(rows):
        own = [a.clone().requires_grad_() for a in (first, second)]
        logits = (weights[r][:, None] * torch.relu(x[index[r]] @ own[0]) * kept[index[r]]).sum(0) @ own[1]
        gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels[r]), own)
        norm = float(torch.cat([g.flatten() for g in gradients]).norm())
        scale = counted[r] * min(1.0, 1 / max(norm, 1e-12))
        steep += scale * gradients[0]
        sums += scale * gradients[1]
    gram = x[index] @ x[index].transpose(1, 2)
    floats = [a[None].float() for a in (x @ first, kept, torch.ones(rows), counted)]
    floats[1:2] = [floats[1] if dropped else None]
    found = list_dpsgd.clipped_in_kernel(
        1.0, *floats, index[None], labels[None], weights[None].float(), gram[None].float(), second[None].float()
    )
    assert found is not None
    torch.testing.assert_close(x.t() @ found[0][0].double(), steep, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1][0].double(), sums, rtol=1e-4, atol=1e-4)


@needs_numba
@pytest.mark.parametrize(
    ("isa", "systems"),
    [("native", "gap"), *nightly(("native", "lpgnn privgnn vesper"), ("avx2", "gap privgnn lpgnn vesper"))],
)
def test_compiled_training_is_faster_than_torch(isa: str, systems: str) -> None:
    """By CPU time in one thread of a child process. Measured with AVX2 on Zen 3: 5.4, 2.1, 2.8 and 2.3 times."""
    if isa == "avx2" and torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("this processor has no AVX2")
    portable = runpy.run_path(str(Path(__file__).parents[4] / "benchmarks" / "portable.py"))
    switches = portable["ONE_THREAD"] | portable["SETS"][isa]
    environment = os.environ | switches | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = [sys.executable, "-m", "tests.models.kernels.ratios", *systems.split()]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    instructions, ratios = json.loads(done.stdout)
    assert isa == "native" or instructions == f"AVX2, {switches['NUMBA_CPU_NAME']}"
    floors = {"gap": 2.5, "privgnn": 1.4, "lpgnn": 1.7, "vesper": 1.4}
    assert ratios.keys() == set(systems.split())
    assert {name: ratio for name, ratio in ratios.items() if ratio < floors[name]} == {}
