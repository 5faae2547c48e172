"""A Python process that has imported a program's libraries, and forks a child for each training of the program. A child starts
like a new process that runs the same script, without the seconds that the imports take.

    python fork_server.py [recorded] FOLDER SOCKET

The process runs in the program's own Python. FOLDER holds `modules.json`: the modules that a process of the program had loaded
when it ended, each with its file. SOCKET: the number of an open socket that leads to the supervisor of the program. With
`recorded`, the recorder first replaces the functions that draw. Then the process imports the modules that are installed as
libraries. It answers with the seconds that this took, and with why no child may start here, if that is so. For each later message
the answer is the id of a child, which the supervisor inherits.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import json
import os
import signal
import socket
import sys
import sysconfig
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PARENT_DEATH = 1  # prctl
MESSAGE = 1 << 16  # largest size in bytes of a message
STANDARD = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep


def installed(file: str) -> bool:
    """Whether a file belongs to Python or to a library that is installed beside it."""
    return os.path.realpath(file).startswith(STANDARD) or bool({"site-packages", "dist-packages"} & set(Path(file).parts))


def load(modules: Mapping[str, str]) -> str:
    """Imports those of the modules that are installed as libraries, in their order. Returns why the process differs from one that
    imported them in the course of the program, or "".
    """
    for name, file in modules.items():
        if installed(file):
            with contextlib.suppress(Exception):  # the program imports it itself, and meets its error again
                importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        known, found = modules.get(name), getattr(module, "__file__", None)
        if known and found and known != found and installed(found):
            return f"a library finds another file for the module {name} than the program does"
    return "a library starts a thread when it is imported" if threading.active_count() > 1 else ""


def forked(connection: socket.socket) -> dict[str, Any]:
    """What the supervisor asks of this process, which is a child then. The process that called this function never returns: it
    ends when the supervisor does.
    """
    prctl = ctypes.CDLL(None).prctl
    while True:
        message, files, *_ = socket.recv_fds(connection, MESSAGE, 2)
        if not message:
            os._exit(0)
        between = os.fork()
        if between == 0:
            between = os.getpid()
            child = os.fork()
            if child:
                connection.send(str(child).encode())
                os._exit(0)  # the supervisor inherits the child
            connection.close()
            asked: dict[str, Any] = json.loads(message)
            while os.getppid() == between:
                time.sleep(0.0005)
            prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != asked["supervisor"]:
                os._exit(1)
            os.setsid()
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            return asked
        os.waitpid(between, 0)
        for file in files:
            os.close(file)


def run(words: list[str]) -> None:
    """Runs a script as Python does. words: its path and its arguments."""
    file = os.path.abspath(words[0])
    main = types.ModuleType("__main__")
    main.__dict__.update({name: None for name in vars(sys.modules["__main__"]) if name.startswith("__")})
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    main.__dict__.update(__name__="__main__", __file__=file, __loader__=loader, __builtins__=builtins, __annotations__={})
    own = sys.modules["__main__"]
    for name in [name for name, module in sys.modules.items() if module is own]:  # `multiprocessing` keeps it under a second name
        sys.modules[name] = main
    sys.argv = words
    if not getattr(sys.flags, "safe_path", False):
        link = os.readlink(file) if os.path.islink(file) else ""
        sys.path.insert(0, os.path.dirname(os.path.join(os.path.dirname(file), link)) if link else os.path.dirname(file))
    plain = sys.excepthook
    sys.excepthook = lambda kind, fault, trace: plain(kind, fault, of_program(trace))
    source = Path(file).read_bytes()
    exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)


def of_program(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the lines of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def reseed() -> None:
    """Seeds the global generators from the operating system, as they are in a new process. Python has seeded its own."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def recorder() -> Any:
    """The module that records, which is not imported from the program's path."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    module = importlib.import_module("gnnaudit_recorder.in_a_program")
    del sys.path[0]
    return module


def main() -> None:
    *recorded, folder, number = sys.argv[1:]
    connection = socket.socket(fileno=int(number))
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the folder of this file
    clock = time.perf_counter()
    prepared = recorder().prepare() if recorded else None
    fault = load(json.loads(Path(folder, "modules.json").read_text()))
    gc.freeze()
    connection.send(json.dumps({"seconds": time.perf_counter() - clock, "fault": fault}).encode())
    asked = forked(connection)
    os.environ.update(asked["environment"])
    if asked["environment"]:
        recorder().start(prepared)
    else:
        reseed()
    run(asked["words"])


if __name__ == "__main__":
    main()
