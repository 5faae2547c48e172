"""Starts the recorder of random draws in the Python of a user's program, and reads its recording."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....models import recorder
from ....models.graph.graph import Graph
from ....models.recorder.draws.draw import Draw
from ....models.recorder.files import Recording, load, no_link, save
from ....models.recorder.in_a_program import ANOTHER, CLOSELY, ENTROPY, FOLDER, MODULES, SILENTLY, SINCE
from ....models.recorder.mechanisms.mechanism import Mechanism
from ....models.recorder.reads import Watching

CARRIED = "gnnaudit_recorder"
MODULES_BYTES = 1 << 22  # no more of the list of modules is read
FIRST = f"""import os, sys
asked = os.environ.get({FOLDER!r})
if asked or {ANOTHER!r} in os.environ:
    try:
        from {CARRIED}.in_a_program import start

        start()
    except Exception as fault:
        if asked:
            open(os.path.join(asked, "unrecorded"), "w").write(type(fault).__name__ + ": " + str(fault))
sys.path = [p for p in sys.path if not p.endswith({CARRIED!r} + "-path")]
own = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = own
"""  # Python imports this `sitecustomize` at its start; the last lines import the program's own `sitecustomize`, if there is one


class Unrecorded(ValueError):
    """Nothing was recorded of a program; the message says why."""


@dataclass(frozen=True, eq=False)
class Request:
    """What a recorded run must repeat: the draws of another run, and the noisy values of its mechanisms. None: nothing. closely,
    unread: see `Mechanisms`. constant: see `Script`. silently: whether nothing is recorded; the run then shares with a recorded
    one only that its random bytes of the operating system follow from its seed.
    """

    draws: Sequence[Draw] | None = None
    mechanisms: Sequence[Mechanism] | None = None
    closely: bool = False
    unread: float = 0.0
    silently: bool = False
    constant: tuple[int, ...] = ()


def brought(folder: Path) -> dict[str, str]:
    """Copies the recorder to `folder`. Returns the environment of a program whose Python finds it there."""
    path = folder / f"{CARRIED}-path"
    unfinished = shutil.ignore_patterns("*.pyc.*")  # compiled files save each run 0.1 s; other processes may be writing some
    shutil.copytree(Path(recorder.__file__).parent, path / CARRIED, ignore=unfinished)
    (path / "sitecustomize.py").write_text(FIRST)
    first = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (str(path), first) if p)}


def asked_of(folder: Path, request: Request, seed: int, there: Graph, modules: bool) -> dict[str, str]:
    """Writes the request to a new folder `record` in `folder`. Returns the environment variables that ask the recorder for it.
    seed, there: of the run, whose graph this is. modules: whether the recorder also lists the modules that the
    program loads, for `loaded_modules`.
    """
    own = folder / "record"
    own.mkdir()
    if request.draws is not None:
        earlier = next((draw.nodes for draw in request.draws if draw.nodes is not None), None)
        repeated = list(request.draws), list(request.mechanisms or ())
        save(own / "request.npz", Recording(*repeated, trained=earlier, constant=request.constant))
    np.save(own / "trained.npy", np.flatnonzero(there.train))
    asked = {FOLDER: str(own), ENTROPY: str(seed), SINCE: str(Watching.since)}
    if modules:
        asked[MODULES] = "1"
    if request.closely:
        asked[CLOSELY] = str(request.unread)
    if request.silently:
        asked[SILENTLY] = "1"
    return asked


def received(folder: Path, most: int) -> Recording:
    """The recording in `folder`. most: the largest size in bytes. Raises Unrecorded if nothing was recorded."""
    own = folder / "record"
    if not own.is_symlink() and (own / "unrecorded").is_file():
        raise Unrecorded(f"the recorder could not start in the program's Python ({_reason(own / 'unrecorded')})")
    if own.is_symlink() or not (own / "recording.npz").is_file():
        raise Unrecorded("nothing was recorded: the program is not Python, ignores PYTHONPATH, or ends without its exit handlers")
    recording = load(own / "recording.npz", most)
    others = len(list(own.glob("another-*")))
    if others:
        started = "another Python process" if others == 1 else f"{others} other Python processes"
        recording.notes.append(f"the program starts {started}, whose draws are not recorded")
    return recording


def loaded_modules(folder: Path) -> bytes:
    """What the recorder wrote about the modules that the program loaded, a JSON document; b"{}" if it wrote nothing."""
    with suppress(OSError), open(folder / "record" / "modules.json", "rb", opener=no_link) as file:
        return file.read(MODULES_BYTES)
    return b"{}"


def _reason(path: Path) -> str:
    """What the recorder wrote about its failure, at most 200 characters. A link, which could lead to the key, is not followed."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=no_link) as file:
            return "".join(c if c.isprintable() else " " for c in file.read(200))
    except OSError:
        return "its reason cannot be read"
