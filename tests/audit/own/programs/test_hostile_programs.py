"""Malicious programs behind `--target`: each ends within its time, leaves nothing behind, and reads no secret."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.audit.games.game import Game
from gnnaudit.audit.key import Key
from gnnaudit.audit.own.programs.program import LOG_BYTES, External
from gnnaudit.audit.own.programs.recording import Request
from gnnaudit.audit.own.programs.servers import SUPERVISOR
from gnnaudit.audit.storage import temporary
from gnnaudit.models.graph.graph import Graph, Worlds

from ....nightly import nightly
from .conftest import alive, printed

pytestmark = pytest.mark.usefixtures("own_temporary")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system calls are those of Linux")
HEAD = """
import os, signal, subprocess, sys, time
from pathlib import Path
inputs, out = map(Path, sys.argv[1:3])
def answer(**arrays):
    import numpy as np
    graph = np.load(inputs / "graph.npz")
    n, c = len(graph["y"]), int(graph["y"].max()) + 1
    np.save(out / "posteriors.npy", np.full((1, n, c), 1 / c, dtype=np.float32))
"""


def target(
    tmp_path: Path, body: str, seconds: float = 20, memory: int = 64 << 20, run: Path | None = None, record: bool = True
) -> External:
    path = tmp_path / "hostile.py"
    path.write_text(HEAD + body)
    return External(f"{sys.executable} {path} {{worlds}} {{out}}", seconds=seconds, memory=memory, run=run, record=record)


def worlds(graph: Graph, runs: int = 1) -> Worlds:
    return Game(graph, "edge", np.arange(6), Key("hostile")).rounds(runs).worlds


FOREVER = f"{sys.executable!r}, '-c', 'import time; time.sleep(300) # ' + str(out)"
REFUSED = {
    "sleeps": ("time.sleep(300)", "did not end within 1 s"),
    "ignores signals": (
        "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(300)",
        "did not end within 1 s",
    ),
    "talks without end": ("while True: os.write(1, b'x' * 65536)", "did not end within 1 s"),
    "closes its outputs": ("os.close(1); os.close(2); time.sleep(300)", "did not end within 1 s"),
    "leaves a group": (f"subprocess.Popen([{FOREVER}]); sys.exit(4)", "exit code 4"),
    "leaves daemons": (
        f"for _ in range(20): subprocess.Popen([{FOREVER}], start_new_session=True)\nsys.exit(5)",
        "exit code 5",
    ),
    "flees from its killer, child after child": (
        "if os.fork(): os._exit(7)\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n    if os.fork(): os._exit(0)",
        "exit code 7",
    ),
    "flees, each child in a session of its own": (
        "if os.fork(): os._exit(7)\nend = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n    if os.fork(): os._exit(0)\n    os.setsid()",
        "exit code 7",
    ),
    "is killed, as if memory ran out": (
        "held = b'1' * (300 << 20)\nos.kill(os.getpid(), signal.SIGKILL)",
        r"killed by signal 9 \(SIGKILL\), perhaps for lack of memory, as it held 3\d\d MiB; --jobs 1 trains one at a time",
    ),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by signal 11 \\(SIGSEGV\\)"),
    "links to a file": ("answer(); (out / 'posteriors.npy').rename(out / 'p'); (out / 'posteriors.npy').symlink_to('p')", "link"),
    "links to a device": ("(out / 'posteriors.npy').symlink_to('/dev/zero')", "symbolic link"),
    "replaces its folder": ("answer(); out.rename(out.parent / 'o'); out.symlink_to('o')", r"replaced the folder \{out\}"),
    "promises a petabyte": (
        "text = repr(dict(descr='<f4', fortran_order=False, shape=(1, 40, 3))).ljust(117) + chr(10)\n"
        "head = b'\\x93NUMPY\\x01\\x00' + len(text).to_bytes(2, 'little') + text.encode()\n"
        "(out / 'posteriors.npy').write_bytes(head)\nos.truncate(out / 'posteriors.npy', 1 << 25)",
        "header states 480 bytes",
    ),
    "promises another shape": (
        "text = repr(dict(descr='<f4', fortran_order=False, shape=(1 << 25, 1 << 25))).ljust(117) + chr(10)\n"
        "head = b'\\x93NUMPY\\x01\\x00' + len(text).to_bytes(2, 'little') + text.encode()\n"
        "(out / 'posteriors.npy').write_bytes(head)",
        r"shape \(33554432, 33554432\)",
    ),
    "releases too much": (
        "answer()\nimport numpy as np\nf = open(out / 'votes.npy', 'wb')\n"
        "np.lib.format.write_array_header_1_0(f, dict(descr='<f4', fortran_order=False, shape=(1, 5000, 5000))); f.close()",
        "takes 95MiB; memory=64MiB",
    ),
    "writes a huge file": (
        "f = open(out / 'posteriors.npy', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
        "exit code",
    ),
    "pickles": (
        "import numpy as np; np.save(out / 'posteriors.npy', np.array([{1}], dtype=object), allow_pickle=True)",
        "without objects",
    ),
    "a pipe": ("os.mkfifo(out / 'posteriors.npy')", "missing"),
    "a folder": ("(out / 'posteriors.npy').mkdir()", "missing"),
    "locks its folder": ("os.chmod(inputs, 0); os.chmod(out, 0); sys.exit(6)", "exit code 6"),
}


@linux
@pytest.mark.parametrize("name", nightly("sleeps", "closes its outputs", among=REFUSED))
def test_a_hostile_program_is_refused_in_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, graph: Graph, own_temporary: Path
) -> None:
    body, said = REFUSED[name]
    begin = time.monotonic()
    with pytest.raises(ValueError, match=said) as fault:
        target(tmp_path, body, seconds=1 if "did not end" in said else 20).fit(worlds(graph))
    assert time.monotonic() - begin < 45  # each of them goes on for 60 s or longer, and a busy machine may need 20 s
    assert "\n" not in str(fault.value)
    assert alive(str(own_temporary)) == []
    assert list(own_temporary.iterdir()) == []


@linux
def test_a_program_ends_with_the_run_however_that_ends(tmp_path: Path, graph: Graph, own_temporary: Path) -> None:
    code = (
        f"import tempfile; tempfile.tempdir = {str(own_temporary)!r}\n"
        "import numpy as np\nfrom gnnaudit.audit.own.contract import tiny, worlds\n"
        "from gnnaudit.audit.own.programs.program import External\n"
        f"External('{sys.executable} {tmp_path}/hostile.py {{worlds}} {{out}}').fit(worlds(tiny(12), 'edge'))"
    )
    target(tmp_path, f"subprocess.Popen([{FOREVER}], start_new_session=True); time.sleep(300)")
    (tmp_path / "run.py").write_text(code)
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py")], cwd=tmp_path)
    until = time.monotonic() + 60
    while len(alive(str(own_temporary / "gnnaudit-run-"))) < 3 and time.monotonic() < until:  # supervisor, program, its child
        time.sleep(0.05)
    assert len(alive(str(own_temporary / "gnnaudit-run-"))) >= 3
    run.send_signal(signal.SIGKILL)
    run.wait()
    until = time.monotonic() + 60
    while (alive(str(own_temporary / "gnnaudit-run-")) or list(own_temporary.iterdir())) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(str(own_temporary / "gnnaudit-run-")) == []
    assert list(own_temporary.iterdir()) == []


def test_what_a_killed_run_leaves_is_removed_by_the_next(own_temporary: Path) -> None:
    left, young = own_temporary / f"{temporary.PREFIX}dead", own_temporary / f"{temporary.PREFIX}alive"
    (left / "worlds").mkdir(parents=True)
    (left / temporary.LOCK).touch()
    (own_temporary / f"{temporary.PREFIX}link").symlink_to(Path(__file__).parent)
    with temporary.temporary() as mine:
        mine.rename(young)  # as if another process had it
        temporary.sweep.cache_clear()
        with temporary.temporary():
            assert not left.exists()
            assert young.exists()
    assert Path(__file__).exists()


@linux
@pytest.mark.parametrize(("record", "trainings"), [(False, 1), (True, 3)])  # the last of three is forked
def test_the_key_of_the_run_is_out_of_sight(
    record: bool, trainings: int, tmp_path: Path, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "key").write_text("secret")
    look = f"answer(); print('seen:', Path({str(run / 'key')!r}).exists())"
    target(tmp_path, look, run=run, record=record).fit(worlds(graph))
    said = printed(run)
    if "could read" in caplog.text:
        assert said == ["seen: True"] * trainings
        target(tmp_path, look, run=run, record=record).fit(worlds(graph))
        assert caplog.text.count("could read") == 1
        pytest.skip("this system hides no folders")
    assert said == ["seen: False"] * trainings
    assert (run / "key").read_text() == "secret"


@linux
@pytest.mark.parametrize(("record", "trainings"), [(False, 1), (True, 3)])  # the last of three is forked
def test_a_program_of_root_cannot_look_behind_the_empty_folder(
    record: bool, trainings: int, tmp_path: Path, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    """Root could remove the empty folder, enter the mounts of another process, or read through its `root` in /proc."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "key").write_text("secret")
    look = f"""
answer()
run = Path({str(run)!r})
for words in (["umount", run], ["umount", "-l", run], ["nsenter", "-t", str(os.getppid()), "-m", "cat", run / "key"]):
    try: print(subprocess.run(words, capture_output=True, text=True).stdout)
    except OSError: pass
for place in (run / "key", *(Path("/proc") / name / "root" / str(run)[1:] / "key" for name in os.listdir("/proc"))):
    try: print(place.read_text())
    except OSError: pass
print("looked")
"""
    target(tmp_path, look, run=run, record=record).fit(worlds(graph))
    if "could read" in caplog.text:
        pytest.skip("this system hides no folders")
    assert printed(run) == ["looked"] * trainings


LINKS = {
    "what the program printed was written through a link, so that it chose the key": (
        "(inputs.parent / 'stdout').symlink_to(key); print('0' * 64)"
    ),
    "the reason of a recorder that fails was read through a link, and told": (
        "(record / 'unrecorded').symlink_to(key); (record / 'recording.npz').unlink(missing_ok=True)"
    ),
    "the folder of the recording is a link": (
        "import shutil; shutil.rmtree(record); record.symlink_to(key.parent); (inputs.parent / 'unrecorded').symlink_to(key)"
    ),
    "a recording is a link": "(record / 'recording.npz').unlink(missing_ok=True); (record / 'recording.npz').symlink_to(key)",
    "the folder of all its files is a link": "f = inputs.parent; f.rename(f.with_name('gone')); f.symlink_to(key.parent)",
    "the lock of its folder is a link": "(inputs.parent / 'alive').unlink(); (inputs.parent / 'alive').symlink_to(key)",
}


@linux
@pytest.mark.parametrize("name", nightly(*list(LINKS)[3:], among=LINKS))
def test_no_link_that_a_program_leaves_leads_to_the_key(name: str, tmp_path: Path, graph: Graph, own_temporary: Path) -> None:
    """The program does not see the key, but knows its path. The run, which opens files for it, does see the key."""
    run = tmp_path / "run"
    run.mkdir(mode=0o755)
    (run / "key").write_text("5ec4e7" * 10)
    record = "record = inputs.parent / 'record'; record.mkdir(exist_ok=True)"
    program = target(tmp_path, f"answer(); key = Path({str(run / 'key')!r}); {record}\n{LINKS[name]}", run=run)
    said = ""
    for call in (lambda: program.fit(worlds(graph)), lambda: program.recorded(worlds(graph)[:1], Request())):
        try:
            call()
        except ValueError as fault:
            said += str(fault)
        for left in own_temporary.iterdir():  # what the program itself moved away
            temporary.remove(left)
    assert "5ec4e7" not in said
    assert (run / "key").read_text() == "5ec4e7" * 10
    assert {path.name for path in run.iterdir()} <= {"key", "target.log"}
    assert "5ec4e7" not in "".join(path.read_text() for path in run.glob("*.log"))
    assert run.stat().st_mode & 0o777 == 0o755


@linux
def test_where_nothing_can_be_hidden_that_is_said(tmp_path: Path, graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    """The program lies in the folder of the run here, so hiding the folder would hide the program."""
    target(tmp_path, "answer()", run=tmp_path).fit(worlds(graph))
    assert f"could read {tmp_path / 'key'}" in caplog.text


def test_what_a_program_says_is_kept_and_bounded(tmp_path: Path, graph: Graph) -> None:
    run = tmp_path / "run"
    run.mkdir()
    loud = target(tmp_path, "answer(); print('first'); sys.stderr.write('y' * (1 << 23)); print('last')", run=run, record=False)
    for _ in range(2):
        loud.fit(worlds(graph))
    kept = (run / "target.log").read_text()
    assert kept.count("last") == 2
    assert len(kept) < 1 << 18
    (run / "target.log").write_text("z" * LOG_BYTES)
    loud.fit(worlds(graph))
    assert (run / "target.log").stat().st_size == LOG_BYTES


def test_the_arrays_of_one_call_do_not_name_the_units_in_question(tmp_path: Path, graph: Graph) -> None:
    """With several worlds in one call, the XOR of their edge masks was exactly the canaries."""
    spy = f"""
answer()
import numpy as np
with np.load(inputs / "worlds.npz") as given, np.load(inputs / "graph.npz") as told:
    number = len(list(Path({str(tmp_path)!r}).glob("spied*")))
    np.savez(Path({str(tmp_path)!r}) / f"spied{{number}}.npz", edges=told["edge_index"], **{{k: given[k] for k in given}})
"""
    game = Game(graph, "edge", np.arange(6), Key("spied"), watch=np.unique(graph.edges[:, :6]))
    target(tmp_path, spy, record=False).fit(game.rounds(4).worlds)
    calls = [np.load(path) for path in sorted(tmp_path.glob("spied*.npz"))]
    assert len(calls) == 4
    for call, bits in zip(calls, game.rounds(4).bits, strict=True):
        assert set(call.files) == {"edges", "seeds", "watch"}
        assert call["seeds"].shape == (1,)
        assert call["edges"].shape[1] == 2 * (graph.edges.shape[1] - (~bits).sum())
        np.testing.assert_array_equal(call["watch"], np.arange(graph.nodes))


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine_reads_and_changes_nothing(own_temporary: Path, tmp_path: Path) -> None:
    for place in (tmp_path, own_temporary, *list(tmp_path.parents)[:2]):
        place.chmod(0o1777)
    with temporary.temporary() as folder:
        (folder / "worlds").mkdir()
        (folder / "worlds" / "graph.npz").write_text("secret")
        code = (
            f"import os; os.setgid(65534); os.setuid(65534)\nfrom pathlib import Path; f = Path({str(folder)!r})\n"
            "for act in (lambda: list(f.iterdir()), lambda: (f / 'worlds' / 'graph.npz').read_text(),"
            " lambda: (f / 'planted').touch(), lambda: f.rename(f.with_name('mine'))):\n"
            "    try: act(); print('done')\n    except PermissionError: print('refused')"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 4


@pytest.mark.parametrize(("name", "kept"), [("mine", True), (f"{temporary.PREFIX}1", False)])
def test_a_run_that_died_loses_its_own_temporary_folder_and_no_other(name, kept, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    asked = {"words": words, "folder": str(folder), "seconds": 60, "hide": None, "bytes": 1 << 34, "server": False}
    command = [sys.executable, "-I", "-S", str(SUPERVISOR), json.dumps(asked)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=60)
    assert folder.exists() == kept
