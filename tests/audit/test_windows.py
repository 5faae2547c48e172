"""`audit run` needs no module, no process method and no signal that Windows lacks."""

import json
import subprocess
import sys

LIKE_WINDOWS = """
import multiprocessing, os, signal, sys
import filelock, numba, platformdirs, torch  # other packages choose their code for the system at hand when they are imported

POSIX = {"fcntl", "grp", "pwd", "resource", "termios", "tty"}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in POSIX:
            raise ImportError(f"no module named {name} on Windows")

for name in POSIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for name in ("chown", "fork", "getegid", "geteuid", "getgid", "getpgid", "getuid", "killpg", "sched_getaffinity", "setsid"):
    delattr(os, name)
for name in ("SIGALRM", "SIGCHLD", "SIGKILL", "SIGUSR1"):
    delattr(signal, name)
multiprocessing.get_all_start_methods = lambda: ["spawn"]

from gnnaudit.audit.cli.main import main

if __name__ == "__main__":
    main()
"""


def test_a_run_needs_nothing_that_windows_lacks(tmp_path):
    script = tmp_path / "like_windows.py"
    script.write_text(LIKE_WINDOWS)
    options = (
        "run --models gap --data campus:n=200:degree=10 --epsilon 1 --attacks none --audits residual --repeats 2 --mlflow none"
    )
    words = [sys.executable, str(script), *options.split(), "--seed", "windows", "--jobs", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    (bound,) = [row for row in json.loads((tmp_path / "run" / "results.json").read_text())["rows"] if row["kind"] == "bound"]
    assert 0.5 < bound["value"] <= 1
