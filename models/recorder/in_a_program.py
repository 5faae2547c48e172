"""Records the draws of a program. The program's own Python imports this package when it starts; the program itself is not
changed.

GNNAUDIT_RECORD names a folder, whose file `trained.npy` holds the ids of the training nodes. If the folder has a file
`request.npz`, this run repeats another run: the file holds the draws of the other run, and the noisy values that the
mechanisms of this run return instead of their own. When the program ends, this module writes `recording.npz` into the folder.
If GNNAUDIT_RECORD_CLOSELY is set, the recording is a close one, and this is its `unread`, see `Mechanisms`. GNNAUDIT_ENTROPY
is the seed from which the operating system's random bytes follow. GNNAUDIT_SINCE is the time at which the audit began. If
GNNAUDIT_RECORD_SILENTLY is set, nothing else is done, and the recording is empty. If GNNAUDIT_MODULES is set, the folder gets a
file `modules.json` too: each module that the program has loaded, and its file.
"""

from __future__ import annotations

import ast
import atexit
import importlib.abc
import importlib.machinery
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .draws.draw import Active, Diverged, Draw, Recorder, of_others
from .files import Recording, load, save
from .libraries import of_numpy, of_python, of_scipy, of_torch
from .libraries.of_system import entropy_of, seed_global_generators, seeded_torch
from .mechanisms.found import Mechanisms
from .reads import Reads, watch
from .script import Script

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER, ANOTHER, CLOSELY = "GNNAUDIT_RECORD", "GNNAUDIT_RECORDED", "GNNAUDIT_RECORD_CLOSELY"
ENTROPY, SILENTLY, MODULES = "GNNAUDIT_ENTROPY", "GNNAUDIT_RECORD_SILENTLY", "GNNAUDIT_MODULES"
SINCE = "GNNAUDIT_SINCE"
MANY = 20_000  # largest number of draws in a recording
MOST = 1 << 31  # largest size in bytes of the drawn numbers, and of a request
SEEDED: dict[str, tuple[Callable[[], Any], ...]] = {"torch": (seeded_torch,)}
LATER = {"torch": (seeded_torch, of_torch.replaced), "scipy.stats._distn_infrastructure": (of_scipy.replaced,)}
THREADS = (
    "; numbers are drawn outside of the main thread, and threads may take turns in another order in each run: draw all "
    "numbers in the main thread, or in a fixed order"
)
# packages whose own generators are not recorded
UNHEARD = ("jax", "tensorflow", "cupy", "mxnet", "numba", "randomgen", "tenseal")


class ProgramRecorder(Recorder):
    """A recording that ends the program if its draws depart from the run that it repeats, and that stops when it grows too
    large. threads: whether a thread draws that is not the main one.
    """

    def __init__(self, script: Script | None, mechanisms: Mechanisms, end: Callable[[str], None], trained: Any) -> None:
        super().__init__(script, mechanisms, script.weights if script is not None else (), trained)
        self.end, self.bytes, self.threads = end, 0, False

    def record(self, draw: Draw) -> NDArray[Any] | None:
        self.threads = self.threads or threading.current_thread() is not threading.main_thread()
        try:
            instead = super().record(draw)
        except Diverged as line:
            self.end(str(line))
            raise
        self.bytes += draw.values.nbytes
        if len(self.draws) > MANY or self.bytes > MOST:
            Active.recorder = None
        return instead


class ProgramMechanisms(Mechanisms):
    """A record of mechanisms that ends the program if it runs another mechanism than the run that it repeats."""

    end: Callable[[str], None]

    def depart(self, line: str) -> None:
        self.end(line)
        super().depart(line)


class AfterImport(importlib.abc.MetaPathFinder):
    """Enters the contexts of a module as soon as the program has imported it."""

    def __init__(self, stack: ExitStack, contexts: dict[str, tuple[Callable[[], Any], ...]]) -> None:
        self.stack, self.waiting = stack, dict(contexts)

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        contexts = self.waiting.pop(name, ())
        spec = importlib.machinery.PathFinder.find_spec(name, path) if contexts else None
        if spec is None or spec.loader is None:
            return None
        loader, stack = spec.loader, self.stack
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            for context in contexts:
                stack.enter_context(context())

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def unheard() -> list[str]:
    """The packages of UNHEARD that a file of the program imports. A library may import such a package and draw nothing with it:
    PyTorch Geometric imports Numba to compile a function.
    """
    if not any(name in sys.modules for name in UNHEARD):
        return []
    # Python has already forgotten the file of the module `__main__` when it calls the exit functions
    files = {sys.argv[0], *(str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values()))}
    found = set[str]()
    for file in files:
        if file.endswith(".py") and not of_others(file):
            with suppress(OSError, SyntaxError, ValueError):  # a file that was changed or removed since the program read it
                found |= imported(Path(file).read_bytes())
    return [name for name in UNHEARD if name in found]


def imported(source: bytes) -> set[str]:
    """The packages that the source of a module imports, also within its functions."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def prepare(silently: bool = False) -> ExitStack:
    """Replaces the functions that draw, now and after later imports, by those that record. Returns the stack that undoes this."""
    stack = ExitStack()
    sys.meta_path.insert(0, AfterImport(stack, SEEDED if silently else LATER))
    for library in () if silently else (of_numpy, of_python):
        stack.enter_context(library.replaced())
    return stack


def loaded() -> dict[str, str]:
    """The modules that this process has loaded, in order, each with its file."""
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if name != "__main__"}
    return {name: file for name, file in files.items() if isinstance(file, str)}


def start(prepared: ExitStack | None = None) -> None:
    """Begins the recording, if the environment asks for one. Other Python processes that the program starts are not recorded;
    each leaves a file `another-PID` in the folder. prepared: what `prepare` returned, if this process has called it.
    """
    asked, closely = os.environ.pop(FOLDER, ""), os.environ.pop(CLOSELY, None)
    entropy, silently = os.environ.pop(ENTROPY, ""), os.environ.pop(SILENTLY, "")
    modules, since = os.environ.pop(MODULES, ""), os.environ.pop(SINCE, "inf")
    if not asked:
        if ANOTHER in os.environ:
            Path(os.environ[ANOTHER], f"another-{os.getpid()}").touch()
        return
    os.environ[ANOTHER] = asked
    folder, process = Path(asked), os.getpid()
    request = load(folder / "request.npz", MOST) if (folder / "request.npz").exists() else None
    trained = np.load(folder / "trained.npy")
    stack = prepared or prepare(bool(silently))

    def end(diverged: str = "") -> None:
        """Writes the recording; ends the program if it diverged."""
        if os.getpid() != process:
            return
        complete = Active.recorder is recorded
        Active.recorder = None
        if not diverged:  # else the program ends now, perhaps within an operator of PyTorch, which lets nothing be undone
            stack.close()
        notes = [] if complete else [f"more than {MANY} draws or {MOST >> 30} GiB of numbers were drawn, too many to record"]
        notes += [f"the program imports {name}, whose generators are not recorded" for name in unheard()]
        notes += dict.fromkeys(recorded.notes)
        if not mechanisms.space:
            notes.append("the values of the mechanisms take more than 1 GiB, so later mechanisms were not recorded")
        why = THREADS if diverged and recorded.threads else ""
        if modules:
            (folder / "modules.json").write_text(json.dumps(loaded()))
        watch(None)
        found = Recording(recorded.draws, mechanisms.found, diverged + why, notes, trained, (), reads.stale, reads.older)
        save(folder / "recording.npz", found)
        if diverged:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    script = None if request is None or not request.mechanisms else request.mechanisms
    mechanisms = ProgramMechanisms(script, closely=closely is not None, unread=float(closely or 0))
    mechanisms.end = end
    repeated = None if request is None else Script(request.draws, {}, True, request.constant)
    recorded = ProgramRecorder(repeated, mechanisms, end, trained)
    stack.enter_context(entropy_of(int(entropy)))
    seed_global_generators()
    if "torch" in sys.modules:
        stack.enter_context(seeded_torch())
    reads = Reads(float(since), (os.path.realpath(folder.parent),))
    watch(reads)
    atexit.register(end)  # called last, because Python calls exit functions in the reverse order of registration
    Active.recorder = recorded
