"""Runs a user's program and ends all its processes: when the program ends, when its time is over, or when the run dies.

    python -I -S supervisor.py '{"words": […], "folder": …, "seconds": …, "hide": …, "bytes": …, "server": …}'

A run starts this script, and the script starts the program. The script imports nothing of gnnaudit and lives as long as the
program. Its standard input is a pipe from the run, which closes when the run dies, even by SIGKILL. Unless the run died, the
script prints one JSON document: code (exit code, negative for a signal; null if the program did not end by itself), error (why
the program could not be started), hidden (whether the folder `hide` was hidden from the program), held (the largest number of
bytes of memory that one of its processes held), output and errors (the end of what the program printed). The script opens no file
that the program wrote, because links could lead to the key of the run.

With `server`, the words start a fork server (models/recorder/fork_server.py) in place of the program. The script first prints
what the server answers. Then it reads one line for each run of the program, a JSON document with words, environment, folder and
seconds, and prints one document as above.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = 1 << 16  # number of bytes that are kept from the end of each output
OWN = "gnnaudit-run-"  # begins the name of the temporary folder of a run
PARENT_DEATH = 1  # prctl
SUBREAPER = 36  # prctl: orphans of the program become children of this process, so that it finds them
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000
PRIVATE, RECURSIVE = 1 << 18, 1 << 14


def hide(folder: str) -> None:
    """Hides `folder` behind an empty folder, for this process and its children only. Raises OSError if the system refuses.

    Afterwards the process is in a user namespace, in which the program has no rights over the processes of the run. Even root
    cannot remove the empty folder, because mounts from outside the namespace are locked.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    root = libc.unshare(NEW_MOUNTS) == 0
    if not root:  # only root may mount without a user namespace
        _do(libc.unshare(NEW_MOUNTS | NEW_USER))
        Path("/proc/self/setgroups").write_text("deny")
        for kind, number in (("uid", os.getuid()), ("gid", os.getgid())):
            Path(f"/proc/self/{kind}_map").write_text(f"{number} {number} 1")
    _do(libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
    _do(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=4k,mode=500"))
    if root:
        _without_rights(libc)


def _without_rights(libc: ctypes.CDLL) -> None:
    """Enters a user namespace with all users of the present one, in which root keeps its rights over files and no others."""
    maps = {kind: Path(f"/proc/self/{kind}_map").read_text().splitlines() for kind in ("uid", "gid")}
    pid, (entered, tell) = os.getpid(), os.pipe()
    child = os.fork()
    if child == 0:  # only a process outside the new namespace may write its list of users
        try:
            os.close(tell)
            os.read(entered, 1)
            for kind, lines in maps.items():
                same = [f"{line.split()[0]} {line.split()[0]} {line.split()[2]}" for line in lines]
                Path(f"/proc/{pid}/{kind}_map").write_text("\n".join(same))
        except OSError:
            os._exit(1)
        os._exit(0)
    os.close(entered)
    done = libc.unshare(NEW_USER | NEW_MOUNTS)
    os.close(tell)
    if os.waitpid(child, 0)[1] != 0 or done != 0:
        raise OSError("the system allows no user namespace")


def _do(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def can_hide(folder: str | None) -> bool:
    """Whether there is a folder and the system lets `hide` hide it. A child process tries this."""
    if folder is None or not sys.platform.startswith("linux"):
        return False
    child = os.fork()
    if child == 0:
        try:
            hide(folder)
        except (OSError, AttributeError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def limit(most: int) -> None:
    """Forbids core dumps, and files of more than `most` bytes."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class Adopted:
    """A child that this process inherited from another one, with what is used here of `Popen`. Only Linux has inheritance."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None
        self.held = 0

    def poll(self) -> int | None:
        with contextlib.suppress(ChildProcessError):  # it is not inherited yet
            if self.code is None and (found := os.wait4(self.pid, os.WNOHANG))[0]:
                self.code = os.waitstatus_to_exitcode(found[1])
                self.held = in_bytes(found[2])
        return self.code

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(0.001)


Process = subprocess.Popen[bytes] | Adopted


def in_bytes(usage: Any) -> int:
    """The largest memory of a process that has ended, or of one for which it waited. usage: of the module `resource`."""
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


def largest(program: Process) -> int:
    """The largest memory in bytes of a program that has ended. One that this process started is the only one."""
    import resource

    return program.held if isinstance(program, Adopted) else in_bytes(resource.getrusage(resource.RUSAGE_CHILDREN))


class Supervisor:
    """Starts programs from which a folder is hidden, if the system allows this. Their files have at most `most` bytes."""

    def __init__(self, hidden: str | None, most: int) -> None:
        self.libc = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
        if self.libc is not None:
            self.libc.prctl(SUBREAPER, 1, 0, 0, 0)
        self.hidden, self.most, self.out_of_sight = hidden, most, can_hide(hidden)

    def start(self, words: list[str], stdout: int, stderr: int, inherited: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        """Raises OSError if the program cannot be started. inherited: numbers of open files."""
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            pass_fds=inherited,
            start_new_session=True,
            preexec_fn=self._before,
        )

    def _before(self) -> None:
        if self.hidden is not None and self.out_of_sight:
            hide(self.hidden)
        limit(self.most)
        if self.libc is not None:
            self.libc.prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)  # if the program kills this process, the program is killed too

    def run(self, start: Callable[[int, int], Process], seconds: float, spared: int | None = None) -> dict[str, Any]:
        """Runs a program until it ends, `seconds` are over, or standard input closes, and then ends all processes but `spared`.
        Returns the fields of the JSON document, and orphaned: whether standard input closed. start: starts the program, whose
        output and errors go to these two open files.
        """
        (output, written), (errors, reported) = os.pipe(), os.pipe()
        tails = {output: b"", errors: b""}
        code, fault, orphaned, held = None, None, False, 0
        try:
            program = start(written, reported)
        except OSError as refused:
            fault = refused.strerror or str(refused)
        os.close(written)
        os.close(reported)
        if fault is None:
            orphaned = follow(program, tails, time.monotonic() + seconds)
            code = program.poll()
            end(program, spared)
            held = largest(program)
        for pipe in tails:
            os.close(pipe)
        said = {name: tails[pipe].decode(errors="replace") for name, pipe in (("output", output), ("errors", errors))}
        return {"code": code, "error": fault, "hidden": self.out_of_sight, "orphaned": orphaned, "held": held, **said}


def follow(program: Process, tails: dict[int, bytes], until: float) -> bool:
    """Reads the outputs until the program ends, its time is over, or the run dies. Returns whether the run has died."""
    open_pipes = set(tails)
    while program.poll() is None and time.monotonic() < until:
        readable: list[Any] = select.select([sys.stdin, *open_pipes], [], [], 0.02)[0]
        if sys.stdin in readable:
            return True  # nothing is ever written to standard input, so it becomes readable only when it closes
        for pipe in readable:
            if not (part := os.read(pipe, 1 << 16)):
                open_pipes.discard(pipe)
            tails[pipe] = (tails[pipe] + part)[-KEPT:]
    for pipe in tails:  # what is left in the pipes
        os.set_blocking(pipe, False)
        with contextlib.suppress(BlockingIOError):
            while part := os.read(pipe, 1 << 16):
                tails[pipe] = (tails[pipe] + part)[-KEPT:]
                if time.monotonic() > until + 1:
                    break
    return False


def end(program: Process, spared: int | None = None) -> None:
    """Kills the program, its process group, and all descendants of this process but `spared`."""
    for kill in (os.killpg, os.kill):  # it may have no group of its own yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(program.pid, signal.SIGKILL)
    program.wait()
    for _ in range(1000):  # the children of a killed process become children of this process
        children = [pid for pid in descendants() if pid not in (os.getpid(), spared)]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def descendants() -> list[int]:
    """The ids of all descendants of this process; none if the system has no /proc."""
    below: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a process may end meanwhile
            parent = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        children = below.get(todo.pop(), [])
        found += children
        todo += children
    return found


def serve(supervisor: Supervisor, words: list[str], seconds: float) -> None:
    """Starts a fork server, and prints its answer. Then runs a program for each line of standard input. Returns when the server
    is killed, or when the run dies.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        nowhere = (subprocess.DEVNULL, subprocess.DEVNULL)
        server = supervisor.start([*words, str(there.fileno())], *nowhere, inherited=(there.fileno(),))
    here.settimeout(seconds)

    def fork(*outputs: int) -> Adopted:
        socket.send_fds(here, [json.dumps({**asked, "supervisor": os.getpid()}).encode()], outputs)
        if not (child := here.recv(64)):
            raise OSError("the fork server has ended")
        return Adopted(int(child))

    try:
        if not (ready := here.recv(1 << 16)):
            return
        print(ready.decode(), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            answer = supervisor.run(fork, asked["seconds"], server.pid)
            if answer["orphaned"]:
                remove(asked["folder"])
            if answer["orphaned"] or answer["error"]:
                return
            print(json.dumps(answer), flush=True)
    except TimeoutError:
        return
    finally:
        end(server)


def remove(folder: str) -> None:
    """Removes a temporary folder of a run, and no other folder, whoever calls this script."""
    if any(part.startswith(OWN) for part in Path(folder).parts):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    asked = json.loads(sys.argv[1])
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda *_: None)  # the end of the run closes the pipe, and that ends the program
    supervisor = Supervisor(asked["hide"], asked["bytes"])
    if asked["server"]:
        serve(supervisor, asked["words"], asked["seconds"])
        remove(asked["folder"])
        return
    answer = supervisor.run(lambda *outputs: supervisor.start(asked["words"], *outputs), asked["seconds"])
    if answer["orphaned"]:
        remove(asked["folder"])
    else:
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
