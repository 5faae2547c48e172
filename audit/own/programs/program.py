"""A user's own program as a model: it reads worlds from one folder and writes posteriors to another."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ....accounting.claim import Unit
from ....models.base import Release
from ....models.capabilities import FEW, Effort
from ....models.errors import TookTooLong, TrainingFailed, one_line
from ....models.graph.graph import Graph, Worlds, dense
from ....models.recorder.files import Recording, same
from ...storage.temporary import temporary
from .arrays import read_array
from .files import hashed
from .recording import CARRIED, Request, asked_of, brought, loaded_modules, received
from .servers import KEPT, ForkServer, Place, answered, begun, keep, python_of, supervised

if TYPE_CHECKING:
    from dp_accounting import DpEvent


OPTIONAL = {"aggregates": 2, "inputs": 2, "transcript": None, "gradients": None, "reports": 1, "votes": None}  # axis of nodes
SECONDS = 3600.0  # time limit of one training
LONG = 60.0  # seconds; a longer training is not forked
PATIENCE = 30.0  # seconds; a forked training gets this much more time than ten times that of the first one
WORTH = 0.1  # a training is forked if its imports take at least this share of its time
LOG, LOG_BYTES = "target.log", 1 << 20  # the name of the log; no more output is appended to a log of this size in bytes
REPEATED_BY = "for a program, the audit 'differential' repeats a recorded training without one node"
MISSING = ("ModuleNotFoundError: ", "ImportError: ")  # how the last line begins if a program cannot import something
TRACEBACK = "Traceback (most recent call last):"
TRACED = re.compile(r'^ *File "([^"\n]+)", line (\d+)', re.MULTILINE)  # a call in a traceback of Python
RAISED = re.compile(r"[A-Za-z_][\w.]*(: |$)")  # the last line of a traceback: the type of the exception, and its message
IN_LIBRARY = re.compile(rf"^<|/(site|dist)-packages/|/lib/python3|/{CARRIED}/")  # the recorder runs the program's operations
LAST = 1000  # largest number of characters of a program's last line of output that are reported


@dataclass(frozen=True, eq=False)
class Training:
    """One training of a program. seconds: its wall time. held: the largest memory in bytes of one of its processes. modules: what
    `loaded_modules` returns.
    """

    release: Release
    recording: Recording | None
    seconds: float
    held: int
    modules: bytes

    def same(self, other: Self) -> bool:
        """Whether both trainings drew the same numbers, if they are recorded, and released the same values, bit for bit."""
        drawn, redrawn = self.recording, other.recording
        if drawn is not None and (redrawn is None or not same(drawn, redrawn)):
            return False
        one, two = self.release, other.release
        named = one.arrays.keys() == two.arrays.keys() and one.public == two.public
        return named and all(one[name].tobytes() == two[name].tobytes() for name in one.arrays)


@dataclass(frozen=True)
class External:
    """A user's own program: it reads worlds from one folder and writes posteriors to another. Its code is never imported.

    The program chooses its own noise, so it is not calibrated. Its mechanisms are unknown, so every accountant declines. command:
    contains {worlds} and {out}, which are replaced by the two folders. unit: the protected unit that the plan claims. seconds:
    time limit of one training, after which the program is ended. memory: largest size in bytes of an array, and of a file that
    the program writes. run: the folder of the run. What the program prints is appended to target.log there, and the folder is
    hidden from the program if the system allows this. record: whether the random draws of the program may be recorded.

    Raises ValueError if the command lacks a placeholder, or if this machine has no such program.
    """

    command: str
    unit: Unit = Unit.UNDIRECTED_EDGE
    name: str = "target"
    mode: str = "sound"
    releases: tuple[str, ...] = ("posteriors",)
    public: tuple[str, ...] = ("not stated, because the program has no declaration",)
    seconds: float = field(default=SECONDS, compare=False)
    memory: int = field(default=8 << 30, compare=False)
    run: Path | None = field(default=None, compare=False)
    record: bool = field(default=True, compare=False)
    effort: ClassVar[Effort] = FEW
    declines: ClassVar[dict[str, str]] = {"RepeatsWithoutNode": REPEATED_BY}

    def __post_init__(self) -> None:
        for word in ("{worlds}", "{out}"):
            if word not in self.command:
                raise ValueError(f'target="{self.command}": must contain {word}, which is replaced by a folder.')
        try:
            program = shlex.split(self.command)[0]
        except ValueError as fault:
            raise ValueError(f'target="{self.command}": cannot be split into words ({fault}).') from None
        if shutil.which(program) is None:
            raise ValueError(f"target: {program} cannot be started: no such program, or it is not executable. Check its path.")

    @property
    def ledger(self) -> DpEvent:
        from dp_accounting import UnsupportedDpEvent

        return UnsupportedDpEvent()

    def with_noise(self, sigma: float) -> Self:
        return self

    @property
    def needs(self) -> str:
        """A sentence, after a space, on what the program imports and where it must be; "" if nobody declared it."""
        return ""

    @property
    def audited(self) -> dict[str, str]:
        """What was audited, by name: the program's files with their hash."""
        return {"program": hashed([Path(word) for word in shlex.split(self.command)])}

    def printed(self, delta: float) -> float | None:
        return None

    def footprint(self, graph: Graph) -> int:
        """A constant number of bytes, because the program manages its own memory. The constant limits a chunk to a few runs."""
        return 4 << 20

    def fit(self, worlds: Worlds, device: str = "cpu") -> Release:
        """Calls the program once for each world, because the masks of two worlds in one call would reveal the challenge units.

        Raises ValueError if the program fails, with the last line of its output, or if its files are wrong, with the file and
        what was expected. Raises OSError if the supervisor is killed.
        """
        return Release.join([self._trained(worlds[k : k + 1]).release for k in range(len(worlds))])

    def recorded(self, world: Worlds, request: Request) -> tuple[Release, Recording]:
        """The release of one world, and the recorded draws. If the run diverges from the request, the release is empty.

        Raises ValueError as `fit`, and Unrecorded if nothing was recorded.
        """
        made = self._trained(world, request)
        assert made.recording is not None
        return made.release, made.recording

    def held(self, world: Worlds) -> int:
        """The largest memory in bytes of one of the processes of a training. Raises ValueError as `fit`."""
        return self._trained(world).held

    def _trained(self, world: Worlds, request: Request | None = None) -> Training:
        """One training. The first one, with or without a recorder, decides whether later ones fork, see `_server`."""
        if not self.record or (request is not None and request.silently):
            return self._fit_one(world, request)
        place = (self.command, self.run, request is not None)
        server = KEPT.get(place)
        if isinstance(server, ForkServer):
            limited = replace(self, seconds=self._patience(server.training))
            try:
                return limited._fit_one(world, request, server)
            except EOFError as fault:
                why, error = str(fault), None
            except TookTooLong:
                why, error = f"a forked training did not end within {limited.seconds:.0f} s", None
            except ValueError as fault:
                why = f"{str(fault).rstrip('.')}; the same training in a new process did not fail"
                error = TrainingFailed(f"{why}.")
            made = self._fit_one(world, request)  # which raises the error of the program, if it fails in a new process too
            self._keep_server(place, why)
            if error is not None:
                raise error
            return made
        made = self._fit_one(world, request)
        if server is None:
            self._keep_server(place, self._server(world, request, made))
        return made

    def _patience(self, seconds: float) -> float:
        """The time limit of a forked training in seconds, where the first training took `seconds`. What takes longer may hang
        because it is forked, so it starts again in a new process.
        """
        return min(self.seconds, PATIENCE + 10 * seconds)

    def _keep_server(self, place: Place, found: ForkServer | str) -> None:
        """Keeps the server for later trainings, or why there is none, and says so in the log."""
        keep(place, found)
        kind = "recorded training" if place[2] else "training"
        self._log(f"target: each {kind} {found if isinstance(found, ForkServer) else f'starts a new process: {found}'}\n")

    def _server(self, world: Worlds, request: Request | None, made: Training) -> ForkServer | str:
        """A process that forks the trainings of the program, or why there is none. made: the first training, in a new process.
        The same training in a forked process must draw the same numbers, release the same values, bit for bit, and be worth it.
        Where nothing is recorded, the operating system's random bytes follow from the seed in these two trainings alone.
        """
        python = python_of(self.command)
        if not sys.platform.startswith("linux") or python is None:
            return "only a command `python SCRIPT …` is forked, and only on Linux"
        if made.seconds > LONG:
            return f"a training takes {made.seconds:.0f} s, and only those of less than {LONG:.0f} s are forked"
        silent = Request(silently=True)
        try:
            first = made if request is not None else replace(self._fit_one(world, silent), recording=None)
        except ValueError as fault:
            return one_line(fault)
        server = begun(python, first.modules, self._hidden(), self.memory, request is not None)
        if isinstance(server, str):
            return server
        why = f"imports take only {server.seconds:.2g} s of {made.seconds:.2g} s"
        if server.seconds >= WORTH * made.seconds:
            try:
                again = replace(self, seconds=self._patience(made.seconds))._fit_one(world, request or silent, server)
                if first.same(again):
                    server.training = made.seconds
                    return server
                why = "a forked training differs from the same training in a new process"
            except (ValueError, EOFError) as fault:
                why = f"a forked training fails: {one_line(fault)}"
        server.close()
        return why

    def _fit_one(self, world: Worlds, request: Request | None = None, server: ForkServer | None = None) -> Training:
        """Runs the program on one world. request: what a recorded run must repeat; None for a run without recording. server: it
        forks the run; None for a run in a new process. Raises EOFError if the server was killed.
        """
        with temporary() as folder:
            inputs, out = folder / "worlds", folder / "out"
            inputs.mkdir()
            out.mkdir()
            there = write_worlds(world, inputs)
            words = [w.replace("{worlds}", str(inputs)).replace("{out}", str(out)) for w in shlex.split(self.command)]
            asked = None if request is None else asked_of(folder, request, int(world.seeds[0]), there, server is None)
            made, begin = os.lstat(folder), time.perf_counter()
            kept, held = self._call(words, folder, asked, server)
            seconds = time.perf_counter() - begin
            if folder.is_symlink() or not folder.is_dir() or not os.path.samestat(made, os.lstat(folder)):
                both = "the folder that holds {worlds} and {out}; it may write in {out} only."
                raise TrainingFailed(f"{self.name}: the program replaced {both}{kept}")
            recording = received(folder, self.memory) if request is not None else None
            if recording is not None and recording.diverged:
                return Training(Release({}, world.watch), recording, seconds, held, loaded_modules(folder))
            if out.is_symlink() or not out.is_dir():
                raise TrainingFailed(f"{self.name}: the program replaced the folder {{out}}; expected files in it.{kept}")
            try:
                return Training(self.read(out, world), recording, seconds, held, loaded_modules(folder))
            except ValueError as fault:
                raise TrainingFailed(f"{fault}{kept}") from None

    def read(self, out: Path, world: Worlds) -> Release:
        """The program's output as a release of the watched nodes, posteriors as logarithms. Raises ValueError with the file and
        what was expected.
        """
        nodes = world.graph.nodes
        posteriors = read_array(out / "posteriors.npy", (world.runs, nodes, world.graph.classes), self.memory)[:, world.watch]
        if (posteriors < 0).any():
            instead = "Of log-probabilities, save numpy.exp; of scores (logits), the softmax."
            raise ValueError(f"posteriors.npy: holds negative numbers; expected probabilities. {instead}")
        with np.errstate(divide="ignore"):
            total = posteriors.sum(-1, keepdims=True)
            if not (total > 0).all():
                raise ValueError("posteriors.npy: holds a row of zeros; expected probabilities that add up to one.")
            logs = np.log(np.maximum(posteriors / total, np.finfo(np.float32).tiny)).astype(np.float32)
        arrays = {"posteriors": logs}
        for name, axis in OPTIONAL.items():
            path = out / f"{name}.npy"
            if path.exists() or path.is_symlink():
                array = read_array(path, (world.runs, ...), self.memory)
                by_node = axis is not None and array.ndim > axis and array.shape[axis] == nodes
                arrays[name] = array.take(world.watch, axis) if axis is not None and by_node else array
        return Release(arrays, world.watch)

    def _hidden(self, *needed: Path) -> str | None:
        """The folder that is hidden from the program; None if the program is in it, or needs a file there."""
        words = (Path(word) for word in shlex.split(self.command))
        inside = self.run is not None and any(at.absolute().is_relative_to(self.run) for at in (Path.cwd(), *words, *needed))
        return None if self.run is None or inside else str(self.run)

    def _call(self, words: list[str], folder: Path, asked: dict[str, str] | None, server: ForkServer | None) -> tuple[str, int]:
        """Runs the program. asked: variables for the recorder; None for no recorder. Returns the sentence of `_keep`, and how
        much memory the program held. Raises ValueError if the program fails.
        """
        if server is not None:
            answer = server.run(words[len(server.python) :], folder, asked or {}, self.seconds)
            if not answer:
                raise EOFError("the fork server was killed")
        else:
            environment = None if asked is None else {**brought(folder), **asked}
            limits = {"folder": str(folder), "seconds": self.seconds}
            with supervised(words, self._hidden(folder), self.memory, environment, **limits) as supervisor:
                answer = answered(supervisor)
        if not answer:
            raise OSError(f"{self.name}: the process that supervises {words[0]} was killed")
        if self.run is not None and not answer["hidden"]:
            say_visible(self.run)
        output, errors = answer["output"], answer["errors"]
        kept = self._keep(output, errors)
        if answer["error"]:
            raise ValueError(f"{self.name}: {words[0]} cannot be started ({answer['error']}).")
        if answer["code"] is None:
            way = "Give it more time with --target-timeout SECONDS."
            raise TookTooLong(f"{self.name}: {words[0]} did not end within {self.seconds:g} s for one training. {way}{kept}")
        if answer["code"] != 0:
            last = place(errors) + (last_line(errors) or last_line(output) or "it printed nothing")
            after = kept + (self.needs if last_line(errors).startswith(MISSING) else "")
            how = ended(answer["code"], answer["held"])
            raise TrainingFailed(f"{self.name}: {words[0]} {how}: {last.rstrip('.') + '.' + after if after else last}")
        return kept, answer["held"]

    def _keep(self, output: str, errors: str) -> str:
        """Appends the output to RUN/target.log up to LOG_BYTES; returns a sentence with the path, "" without output or run."""
        return f" Its output is in {self.run / LOG}." if self.run is not None and self._log(output + errors) else ""

    def _log(self, text: str) -> str:
        """Appends a text to RUN/target.log, if there is a run. Returns the text."""
        path = None if self.run is None or not text else self.run / LOG
        if path is not None and (not path.exists() or path.stat().st_size < LOG_BYTES):
            with path.open("a", encoding="utf-8", errors="replace") as log:
                log.write(text)
        return text


def say_visible(run: Path) -> None:
    """Warns that the program could read the key of the run. Of several processes that work on one run, only the first warns: the
    warning is then the first line of RUN/target.log.
    """
    seen = f"this system hides no folder from a program of the same user: it could read {run / 'key'}."
    warning = f"target: {seen} Audit a program that you do not trust as another user, or in a container."
    try:
        with (run / LOG).open("x", encoding="utf-8") as log:
            log.write(warning + "\n")
    except FileExistsError:
        return
    logging.getLogger(__name__).warning(warning)


def ended(code: int, held: int) -> str:
    """How a program ended: its exit code, or the signal that killed it. held: how much memory it held, in bytes. A system without
    free memory kills the process that holds most.
    """
    if code >= 0:
        return f"ended with exit code {code}"
    known = {one.value: f" ({one.name})" for one in signal.Signals}
    memory = f", perhaps for lack of memory, as it held {held >> 20} MiB; --jobs 1 trains one at a time"
    return f"was killed by signal {-code}{known.get(-code, '')}{memory if code == -signal.SIGKILL else ''}"


def place(errors: str) -> str:
    """File and line of the last call outside libraries, as in "train.py, line 3: ", if the error output of a program ends with an
    exception of Python; else "".
    """
    calls = TRACED.findall(errors.rpartition(TRACEBACK)[2]) if RAISED.match(last_line(errors)) else []
    own = [f"{file}, line {line}: " for file, line in calls if not IN_LIBRARY.search(file)]
    return own[-1] if own else ""


def last_line(output: str) -> str:
    """The last LAST characters of the last line that is not blank, with spaces for unprintable characters."""
    lines = output.strip().splitlines()
    return "".join(c if c.isprintable() else " " for c in lines[-1][-LAST:]) if lines else ""


def write_worlds(world: Worlds, folder: Path) -> Graph:
    """Writes graph.npz and worlds.npz for one world, in the format of docs/own-program.md. Returns the graph of this world.

    Absent edges are left out of graph.npz. All nodes are watched, because the list of nodes that an audit reads would reveal the
    challenge.
    """
    there, g = world.removed(0).graph, world.graph
    x = dense(g.x)
    masks: dict[str, Any] = {"train_mask": there.train, "val_mask": g.val, "test_mask": g.test}
    np.savez(folder / "graph.npz", x=x, y=g.y, edge_index=there.arcs, classes=np.int64(g.classes), **masks)
    parts: dict[str, Any] = {"seeds": world.seeds, "watch": np.arange(g.nodes, dtype=np.int64)}
    if world.nodes is not None:
        parts["node_mask"] = np.packbits(world.nodes.dense(g.nodes), axis=1)
    if world.labels is not None:
        parts["label_mask"] = np.packbits(world.labels.dense(g.nodes), axis=1)
    np.savez(folder / "worlds.npz", **parts)
    return there
