"""Trainings of a program that fork from a process with its libraries: they draw and release what new processes do."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own.programs import program as module
from gnnaudit.audit.own.programs.program import External
from gnnaudit.audit.own.programs.recording import Request
from gnnaudit.audit.own.programs.servers import KEPT, ForkServer, python_of
from gnnaudit.models.errors import TrainingFailed
from gnnaudit.models.graph.graph import Worlds
from gnnaudit.models.recorder.files import same

from .conftest import alive, printed

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked on Linux alone")
GRAPH = tiny(20)
HEAD = """
import sys
import helper
import numpy as np
given = {k: v for name in ("graph", "worlds") for k, v in np.load(sys.argv[1] + f"/{name}.npz").items()}
seed = int(given["seeds"][0])
"""
TAIL = """
rows = np.exp(noise)
np.save(sys.argv[2] + "/posteriors.npy", (rows / rows.sum(1, keepdims=True))[None].astype(np.float32))
"""
SHAPE = "(len(given['y']), int(given['classes']))"
SEEDED = f"noise = np.random.default_rng(seed).normal(size={SHAPE})"
UNSEEDED = f"noise = np.random.normal(size={SHAPE})"
FORKED = "any('fork_server' in word for word in sys.orig_argv)"


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch, own_temporary):
    """No server of another test; every import is worth a fork; a folder for temporary files, and one for a library."""
    monkeypatch.setattr(module, "WORTH", 0.0)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "helper.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    yield
    for server in KEPT.values():
        if isinstance(server, ForkServer):
            server.close()
    KEPT.clear()


def made(tmp_path, body=SEEDED, **options):
    file = tmp_path / "own" / "program.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(HEAD + body + TAIL)
    return External(f"{sys.executable} {file} {{worlds}} {{out}}", **options)


def of_torch(code):
    """The import that the code needs: that of PyTorch takes seconds in each new process."""
    return "import torch\n" if "torch" in code else ""


def world(seed=7):
    return Worlds(GRAPH, seeds=np.array([seed], dtype=np.uint64), watch=np.arange(GRAPH.nodes))


def decided(program, recorded=True):
    """The server of the program, or why it has none, after one training that decides it."""
    run(program, recorded)
    return KEPT[program.command, program.run, recorded]


def run(program, recorded, seed=7):
    return program.recorded(world(seed), Request()) if recorded else (program.fit(world(seed)), None)


def unforked(program, recorded, seed=7):
    """As `run`, in a new process."""
    known = dict(KEPT)
    KEPT[program.command, program.run, recorded] = "not in this test"
    try:
        return run(program, recorded, seed)
    finally:
        KEPT.update(known)


def message(call):
    with pytest.raises(ValueError, match=r"target|posteriors") as fault:
        call()
    return str(fault.value)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_forked_training_draws_and_releases_what_a_new_process_does(tmp_path, recorded):
    program = made(tmp_path)
    assert isinstance(decided(program, recorded), ForkServer)
    one, two = run(program, recorded, 8), unforked(program, recorded, 8)
    assert one[0]["posteriors"].tobytes() == two[0]["posteriors"].tobytes()
    assert not np.array_equal(one[0]["posteriors"], run(program, recorded, 9)[0]["posteriors"])
    if recorded:
        assert same(one[1], two[1])
        assert len(one[1].draws) == 1
        assert one[1].draws[0].line == f"program.py, line {HEAD.count(chr(10)) + 1}"


def test_the_memory_of_a_training_is_known_whether_it_forks_or_not(tmp_path):
    """A training with seed 8 holds 200 MiB more than those with other seeds, also than the one after it."""
    program = made(tmp_path, f"held = b'1' * ((200 << 20) * (seed == 8))\n{SEEDED}")
    assert isinstance(decided(program, recorded=False), ForkServer)
    forked = [program.held(world(seed)) for seed in (7, 8, 9)]
    KEPT[program.command, program.run, False] = "not in this test"
    for seeds in (forked, [program.held(world(seed)) for seed in (7, 8, 9)]):
        for few in (seeds[0], seeds[2]):
            assert 195 << 20 < seeds[1] - few < 205 << 20


def test_noise_from_the_system_is_recorded_in_a_forked_training_as_in_a_new_process(tmp_path):
    program = made(tmp_path, UNSEEDED)
    assert isinstance(decided(program), ForkServer)
    assert same(run(program, True, 8)[1], unforked(program, True, 8)[1])


@pytest.mark.parametrize(
    "draw", ["np.random.normal", "np.random.default_rng().normal", "lambda size: torch.randn(size).double().numpy()"]
)
def test_unrecorded_trainings_of_a_program_with_noise_from_the_system_fork_and_draw_other_numbers_each_time(tmp_path, draw):
    program = made(tmp_path, f"{of_torch(draw)}noise = ({draw})(size={SHAPE})")
    assert isinstance(decided(program, recorded=False), ForkServer)
    releases = {run(program, False)[0]["posteriors"].tobytes() for _ in range(4)}
    assert len(releases) == 4


@pytest.mark.parametrize("seed", ["time.time_ns()", "os.getpid()", "torch.seed()"])
def test_unrecorded_trainings_with_a_seed_from_elsewhere_do_not_fork(tmp_path, seed):
    program = made(tmp_path, f"import os, time\n{of_torch(seed)}noise = np.random.default_rng({seed}).normal(size={SHAPE})")
    assert decided(program, recorded=False) == "a forked training differs from the same training in a new process"


@pytest.mark.parametrize(
    "generator",
    [
        "np.random.default_rng().normal",
        "np.random.RandomState().normal",
        "np.random.Generator(np.random.PCG64(secrets.randbits(128))).normal",
        "lambda size: [[random.SystemRandom().gauss(0, 1) for _ in range(size[1])] for _ in range(size[0])]",
        "lambda size: torch.randn(size).double().numpy()",
    ],
)
def test_numbers_that_a_library_asks_of_the_system_while_imported_do_not_change_those_of_the_program(tmp_path, generator):
    """A new process imports the library after the recording has begun, a forked one before it."""
    asks = "import os, random, secrets\nimport numpy as np\nshared = np.random.default_rng(), os.urandom(3)\n"
    (tmp_path / "site-packages" / "helper.py").write_text(asks + of_torch(generator))
    program = made(tmp_path, f"import random, secrets\n{of_torch(generator)}noise = np.asarray(({generator})(size={SHAPE}))")
    assert isinstance(decided(program), ForkServer)
    assert not np.array_equal(*(run(program, True, seed)[0]["posteriors"] for seed in (8, 9)))


def test_a_generator_that_a_module_of_the_program_makes_when_imported_is_forked(tmp_path):
    program = made(tmp_path, f"import own_noise\nnoise = own_noise.rng.normal(size={SHAPE})")
    (tmp_path / "own" / "own_noise.py").write_text("import numpy as np\nimport torch\nrng = np.random.default_rng()\n")
    assert isinstance(decided(program), ForkServer)
    assert same(run(program, True, 8)[1], unforked(program, True, 8)[1])
    assert not np.array_equal(*(run(program, True, seed)[0]["posteriors"] for seed in (8, 9)))


def test_forked_trainings_draw_other_numbers_from_the_global_generators_each_time(tmp_path):
    """They are not part of the release here, so that nothing else prevents the fork."""
    torch = "import random, torch; print(random.random(), np.random.random(), torch.rand(1).item()); "
    (tmp_path / "run").mkdir()
    program = made(tmp_path, torch + SEEDED, run=tmp_path / "run")
    assert isinstance(decided(program, recorded=False), ForkServer)
    for _ in range(3):
        program.fit(world())
    lines = [line.split() for line in (tmp_path / "run" / "target.log").read_text().splitlines() if line[0].isdigit()]
    assert len(lines) == 6  # one in a new process, two in which the system's bytes follow from the seed, three forked ones
    assert lines[1] == lines[2]
    assert all(len(set(numbers)) == len(lines) - 1 for numbers in zip(*lines, strict=True))


@pytest.mark.parametrize("recorded", [True, False])
def test_a_library_that_seeds_a_generator_when_imported_prevents_the_fork(tmp_path, recorded):
    """Otherwise all trainings would share its numbers, and an honest program would look like one with a constant seed."""
    (tmp_path / "site-packages" / "helper.py").write_text("import numpy as np\nshared = np.random.default_rng()\n")
    program = made(tmp_path, f"noise = helper.shared.normal(size={SHAPE})")
    assert decided(program, recorded) == "a forked training differs from the same training in a new process"
    first, second = (run(program, recorded, seed)[0]["posteriors"] for seed in (8, 9))
    assert not np.array_equal(first, second)


def test_a_file_of_the_program_that_replaces_one_of_a_library_prevents_the_fork(tmp_path):
    program = made(tmp_path, "import library; " + SEEDED)
    (tmp_path / "site-packages" / "library.py").write_text("import helper\n")
    assert isinstance(decided(program), ForkServer)
    KEPT.pop((program.command, None, True)).close()
    (tmp_path / "own" / "helper.py").write_text("")
    assert decided(program) == "a library finds another file for the module helper than the program does"


def test_a_library_that_starts_a_thread_prevents_the_fork(tmp_path):
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (tmp_path / "site-packages" / "helper.py").write_text(thread)
    assert decided(made(tmp_path)) == "a library starts a thread when it is imported"


def test_modules_of_the_program_itself_are_run_in_each_training(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text("import numpy as np\nfirst = np.random.normal(size=3)\n")
    program = made(tmp_path, "import mine; " + SEEDED)
    assert isinstance(decided(program), ForkServer)
    first, second = (run(program, True, seed)[1].draws[0].values for seed in (8, 9))
    assert not np.array_equal(first, second)


STATE = """
import atexit, json, os, pickle, subprocess
class Own: pass
assert isinstance(pickle.loads(pickle.dumps(Own())), Own)
atexit.register(print, "the end")
print(json.dumps({
    "arguments": [sys.argv[0], len(sys.argv)], "file": __file__, "name": __name__, "flags": str(sys.flags), "folder": os.getcwd(),
    "main": sys.modules["__main__"].__dict__ is globals(), "path": [p for p in sys.path if "gnnaudit-run" not in p],
    "own": sorted(k for k in globals() if k.startswith("_")), "input": sys.stdin.read(), "leads": os.getpgid(0) == os.getpid(),
    "child": subprocess.run([sys.executable, "-c", "print(0)"], capture_output=True, text=True).stdout,
    "environment": {k: v for k, v in os.environ.items() if "gnnaudit-run" not in v and k != "_"},
}))
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_a_forked_program_finds_the_same_state_as_in_a_new_process(tmp_path, recorded):
    (tmp_path / "run").mkdir()
    program = made(tmp_path, STATE + SEEDED, run=tmp_path / "run")
    assert isinstance(decided(program, recorded), ForkServer)
    log = tmp_path / "run" / "target.log"
    states = []
    for call in (run, unforked):
        log.write_text("")
        call(program, recorded)
        state, last = printed(tmp_path / "run")
        assert last == "the end"
        states.append(json.loads(state))
    assert states[0] == states[1]
    assert states[0]["leads"]
    assert states[0]["child"] == "0\n"


def test_a_forked_program_reads_objects_of_its_own_classes_from_processes_that_it_starts(tmp_path):
    """`multiprocessing` stores the module of the script under a second name, which such an object states."""
    (tmp_path / "site-packages" / "helper.py").write_text("import multiprocessing\n")
    program = made(tmp_path)
    script = Path(program.command.split()[1])
    own = "from multiprocessing import get_context\nclass Part:\n    pass\ndef work(_):\n    return Part()\n"
    own += "if __name__ == '__main__':\n    with get_context('spawn').Pool(1) as p:\n        p.map_async(work, [0]).get(30)\n"
    body = "\n".join("    " + line for line in script.read_text().splitlines())
    script.write_text(own + body)
    assert isinstance(decided(program, recorded=False), ForkServer)


FAILS = {
    "an exception": "raise KeyError('no such node')",
    "an exception in another file": "import json; json.loads('{')",
    "an exit code": "sys.exit(5)",
    "a message": "sys.exit('nothing to train')",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "no file": "sys.exit(0)",
    "too long": "import time; time.sleep(60)",
    "daemons": "import subprocess\nfor _ in range(5): subprocess.Popen(['sleep', '47.11'], start_new_session=True)\nsys.exit(6)",
}


@pytest.mark.parametrize("name", FAILS)
def test_a_forked_training_fails_as_one_in_a_new_process(tmp_path, name):
    seconds = 1.5 if name == "too long" else 60
    failing = "\n".join("    " + line for line in FAILS[name].splitlines())
    program = made(tmp_path, f"if seed == 8:\n{failing}\n{SEEDED}", seconds=seconds)
    server = decided(program)
    assert isinstance(server, ForkServer)
    forked = message(lambda: program._fit_one(world(8), Request(), server))
    assert forked == message(lambda: unforked(program, True, 8))
    assert forked == message(lambda: run(program, True, 8))
    assert not alive("47.11")
    assert KEPT[program.command, None, True] is server  # the failure is the program's
    assert run(program, True, 9)


@pytest.mark.parametrize("recorded", [True, False])
def test_what_fails_in_a_forked_process_alone_counts_as_failed_and_later_trainings_do_not_fork(tmp_path, recorded):
    """Nothing tells such a failure from one that the program leaves to chance, which may depend on private data."""
    program = made(tmp_path, f"if seed == 8 and {FORKED}: sys.exit(4)\n{SEEDED}")
    assert isinstance(decided(program, recorded), ForkServer)
    with pytest.raises(TrainingFailed, match="exit code 4: it printed nothing; the same training in a new process did not fail"):
        run(program, recorded, 8)
    assert isinstance(KEPT[program.command, None, recorded], str)
    for seed in (8, 9):
        assert run(program, recorded, seed)[0].runs == 1


def test_what_hangs_in_a_forked_process_alone_is_trained_in_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    program = made(tmp_path, f"if seed == 8 and {FORKED}: import time; time.sleep(300)\n{SEEDED}")
    server = decided(program)
    assert isinstance(server, ForkServer)
    assert run(program, True, 8)[1].draws
    told = KEPT[program.command, None, True]
    assert isinstance(told, str)
    assert told.startswith("a forked training did not end within")
    assert run(program, True, 9)[1].draws


def test_a_program_that_fails_in_each_forked_process_is_trained_in_new_ones(tmp_path):
    program = made(tmp_path, f"if {FORKED}: sys.exit('no child')\n{SEEDED}")
    assert decided(program) == f"a forked training fails: target: {sys.executable} ended with exit code 1: no child"
    assert run(program, True, 8)[1].draws


def test_a_program_that_kills_the_process_from_which_it_forks_is_trained_in_a_new_one(tmp_path):
    body = f"""
import os, signal
for name in filter(str.isdigit, os.listdir("/proc")):
    try: words = open(f"/proc/{{name}}/cmdline").read()
    except OSError: continue
    if seed == 8 and {str(tmp_path)!r} in words and "fork_server" in words and int(name) != os.getpid(): os.kill(int(name), 9)
"""
    program = made(tmp_path, body + SEEDED)
    assert isinstance(decided(program), ForkServer)
    assert run(program, True, 8)[1].draws
    assert run(program, True, 9)[1].draws


def test_the_server_of_another_program_ends(tmp_path):
    first = made(tmp_path)
    server = decided(first)
    other = External(first.command.replace("program.py", "./program.py"))
    assert isinstance(decided(other), ForkServer)
    assert server.process.poll() is not None
    assert (first.command, None, True) not in KEPT
    assert isinstance(decided(other, recorded=False), ForkServer)
    assert KEPT[other.command, None, True].process.poll() is None
    assert isinstance(decided(first), ForkServer)


def test_a_run_that_is_killed_leaves_no_process_and_no_folder(tmp_path):
    code = f"""
import sys, tempfile; tempfile.tempdir = {str(tmp_path / "tmp")!r}
sys.path.insert(0, {str(Path(module.__file__).parents[3].parent)!r})
import numpy as np
from gnnaudit.audit.own.contract import tiny
from gnnaudit.audit.own.programs import program
from gnnaudit.audit.own.programs.recording import Request
from gnnaudit.models.graph.graph import Worlds
program.WORTH = 0.0
of = lambda seed: Worlds(tiny(20), seeds=np.array([seed], dtype=np.uint64), watch=np.arange(20))
model = program.External({made(tmp_path, f"if seed == 8: import time; time.sleep(300){chr(10)}{SEEDED}").command!r})
model.recorded(of(7), Request()); print("begun", flush=True); model.recorded(of(8), Request())
"""
    (tmp_path / "run.py").write_text(code)
    with subprocess.Popen([sys.executable, tmp_path / "run.py"], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        assert alive("fork_server")
        process.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while (alive(str(tmp_path / "tmp")) or list((tmp_path / "tmp").iterdir())) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(str(tmp_path / "tmp")) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_server_closes_and_leaves_no_process_and_no_folder(tmp_path):
    server = decided(made(tmp_path))
    assert alive(str(tmp_path / "tmp"))
    server.close()
    assert alive(str(tmp_path / "tmp")) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_forked_program_does_not_see_the_folder_of_the_run(tmp_path):
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    (run_folder / "key").write_text("secret")
    program = made(tmp_path, f"import os; print('seen:', os.path.exists({str(run_folder / 'key')!r}))\n{SEEDED}", run=run_folder)
    assert isinstance(decided(program), ForkServer)
    run(program, True)
    said = (run_folder / "target.log").read_text()
    if "could read" in said:
        pytest.skip("this system hides no folders")
    assert printed(run_folder) == ["seen: False"] * 3


def test_the_log_of_the_run_says_whether_trainings_fork_or_why_not(tmp_path):
    (tmp_path / "run").mkdir()
    log = tmp_path / "run" / "target.log"
    program = made(tmp_path, run=tmp_path / "run")
    decided(program)
    assert re.findall("target: .*", log.read_text())[-1].startswith("target: each recorded training forks from a process that")
    made(tmp_path, "import time\nseed = time.time_ns()\n" + SEEDED)
    decided(program, recorded=False)
    differs = "a forked training differs from the same training in a new process"
    assert log.read_text().endswith(f"target: each training starts a new process: {differs}\n")


def test_imports_that_take_a_small_part_of_a_training_are_not_worth_a_fork(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH", 0.5)
    slow = made(tmp_path, "import time; time.sleep(3)\n" + SEEDED)
    assert "imports take only" in decided(slow)
    monkeypatch.setattr(module, "LONG", 0.0)
    assert "only those of less than 0 s are forked" in decided(slow, recorded=False)


def test_only_a_script_of_python_with_usual_options_is_forked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    assert python_of("python train.py {worlds}") == ["python"]
    assert python_of(f"{sys.executable} -u -O train.py --lr -1 {{worlds}}") == [sys.executable, "-u", "-O"]
    others = "python -m train", "python -I train.py", "python -X dev train.py", "python other.py", "python", "sh train.py"
    for command in others:
        assert python_of(command) is None, command
    link = tmp_path / "mine"
    link.symlink_to(shutil.which("python3") or sys.executable)
    assert python_of(f"{link} train.py") == [str(link)]
