"""Fork servers of programs: each imports the libraries of a program once, and forks for each training. See
models/recorder/fork_server.py.
"""

from __future__ import annotations

import atexit
import json
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...storage.temporary import temporary
from .recording import CARRIED, brought

SUPERVISOR = Path(__file__).with_name("supervisor.py")
OPTIONS = ("-u", "-B", "-O", "-OO", "-q")  # options of Python with which a fork server can start as the program does
READY = 120.0  # seconds; most time that the imports of a program may take


def supervised(
    words: list[str], hide: str | None, memory: int, environment: dict[str, str] | None, **asked: Any
) -> subprocess.Popen[bytes]:
    """A supervisor of a program. An interruption of this process closes its standard input, which ends the program."""
    text = json.dumps({"words": words, "hide": hide, "bytes": memory, "server": False, **asked})
    command = [sys.executable, "-I", "-S", str(SUPERVISOR), text]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def answered(supervisor: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next document that a supervisor prints; {} if it has ended."""
    assert supervisor.stdout is not None
    document: dict[str, Any] = json.loads(supervisor.stdout.readline() or b"{}")
    return document


def python_of(command: str) -> list[str] | None:
    """The words that start Python, if the command runs a script of Python; else None."""
    first, *words = shlex.split(command)
    script = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    python = Path(shutil.which(first) or first).resolve().name.startswith("python")
    usual = python and set(words[:script]) <= set(OPTIONS) and script < len(words) and Path(words[script]).is_file()
    return [first, *words[:script]] if usual else None


@dataclass(eq=False)
class ForkServer:
    """A fork server and its supervisor. python: the words that start the program's Python. seconds: how long the imports took.
    training: how long the first training took in a new process, in seconds.
    """

    process: subprocess.Popen[bytes]
    python: list[str]
    seconds: float
    stack: ExitStack = field(repr=False)
    training: float = 0.0

    def __str__(self) -> str:
        return f"forks from a process that has imported the program's libraries in {self.seconds:.1f} s"

    def run(self, words: list[str], folder: Path, environment: dict[str, str], seconds: float) -> dict[str, Any]:
        """What the supervisor answers for one training; {} if the server was killed. words: the script and its arguments."""
        asked = {"words": words, "folder": str(folder), "environment": environment, "seconds": seconds}
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {}
        return answered(self.process)

    def close(self) -> None:
        """Ends the server."""
        atexit.unregister(self.close)
        with self.stack, self.process:  # which closes the pipes and waits for the supervisor to end
            pass


Place = tuple[str, Path | None, bool]  # the command, the folder of the run, and whether trainings are recorded
KEPT: dict[Place, ForkServer | str] = {}  # the server that forks the trainings of a program, or why there is none


def keep(place: Place, server: ForkServer | str) -> None:
    """Keeps a server for the next trainings, or the reason why there is none, and ends the servers of other programs."""
    for other, old in list(KEPT.items()):
        if isinstance(old, ForkServer) and (other[:2] != place[:2] or other == place):
            old.close()
            del KEPT[other]
    KEPT[place] = server


def begun(python: list[str], modules: bytes, hide: str | None, memory: int, recorded: bool) -> ForkServer | str:
    """A new fork server, or why there is none. python: the words that start the program's Python. modules: a JSON document, see
    models/recorder/fork_server.py. recorded: whether its children are recorded.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(temporary())
        environment = brought(folder)
        (folder / "modules.json").write_bytes(modules)
        server = folder / f"{CARRIED}-path" / CARRIED / "fork_server.py"
        words = [*python, str(server), *(["recorded"] if recorded else []), str(folder)]
        asked = {"folder": str(folder), "seconds": READY, "server": True}
        process = supervised(words, hide, memory, environment if recorded else None, **asked)
        ready = answered(process)
        made = ForkServer(process, python, ready.get("seconds", 0.0), stack.pop_all())
        atexit.register(made.close)
    if fault := ready.get("fault", "the imports do not end, or end the process"):
        made.close()
        return str(fault)
    return made
