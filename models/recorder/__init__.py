"""Records every random number that a training draws from NumPy, PyTorch, SciPy and Python, without changes to the
model.

Recording does not change the numbers, except those of dropout (see masks_torch.py), but an audit may replace some of them.

Used elsewhere: Draw, recording, files.Recording.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .draws.draw import Active, Change, Draw, Follow, Recorder
from .libraries import of_numpy, of_python, of_scipy, of_torch
from .libraries.changes import Changes, again, collected, fit
from .libraries.masks_torch import Masks
from .reads import Reads, watched
from .script import Script

__all__ = ["Change", "Draw", "Recorder", "recordable", "recording"]

# packages whose imported names `_imported` leaves alone, because the files in libraries/ replace their random functions
LIBRARIES = ("numpy", "random", "secrets", "os", "torch")
OPTIONAL = ("scipy.stats._distn_infrastructure", "numba.core.typing.context")  # modules that matter if they are loaded
OURS = __name__
PACKAGE = __name__.partition(".")[0] + "."  # its modules do not change either, also in a checkout
INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(eq=False)
class Searched:
    """A module and its names, which are searched again if their number changes. own: whether it belongs to the user's program,
    which may change a name that it has. found: the names of random functions.
    """

    module: Any
    names: dict[str, Any]
    own: bool
    size: int = -1
    found: Sequence[str] = ()


# caches, because an audit trains many thousand times and each time looks at all modules
LOADED: list[object] = []  # how many modules were loaded, and the last one
WATCHED: dict[str, Searched] = {}  # the modules that may import random functions
MADE: dict[tuple[bool, ...], tuple[Changes, dict[int, Any]]] = {}  # which of OPTIONAL are loaded -> `replacements`
SETTLED: set[str] = set()  # modules that are not searched again, because installed modules do not change


def replacements() -> tuple[Changes, dict[int, Any]]:
    """The changes that replace the functions of all libraries, and id of an original -> its replacement. They are made anew only
    if a library was loaded or changed meanwhile: that takes longer than a small training.
    """
    loaded = tuple(name in sys.modules for name in OPTIONAL)
    kept = MADE.get(loaded)
    if kept is not None and fit(kept[0]):
        return kept
    with (
        collected() as made,
        of_numpy.replaced() as numpy,
        of_python.replaced() as python,
        of_scipy.replaced(),
        of_torch.replaced() as torch,
    ):
        new = numpy | python | torch
    MADE[loaded] = made, new
    return made, new


@contextmanager
def recordable() -> Iterator[None]:
    """Within this context, new generators are of a class whose draws `recording` can record later. It is for loading a
    user's module.
    """
    made, new = replacements()
    with again(made), of_torch.observed():
        undo = list(_imported(new))
        try:
            yield
        finally:
            for names, name, before in undo:
                names[name] = before


@contextmanager
def recording(
    change: Change | None = None, follow: Follow | None = None, weights: Collection[int] = (), trained: Any = None, nodes: int = 0
) -> Iterator[Recorder]:
    """Records every draw within this context. change: may return numbers that replace those of a draw. follow, weights, trained:
    see `Recorder`. nodes: see `Masks`.
    """
    masks, reads = Masks(change.draws if isinstance(change, Script) else (), nodes), Reads()
    before, frame = Active.recorder, sys._getframe(2)
    recorder = Recorder(change, follow, weights, trained, frame=frame, masks=masks, reads=reads)
    with recordable(), watched(reads):
        Active.recorder = recorder
        try:
            yield recorder
        finally:
            Active.recorder, recorder.frame = before, None


def _imported(new: dict[int, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Replaces names that modules have imported, as by `from numpy.random import default_rng`. new: id of an original -> its
    replacement. Yields the dictionary, the name and the original of each replaced name.
    """
    for module_name, known in to_search():
        names = known.names
        some = list(names) if known.own or len(names) != known.size else known.found
        found = [name for name in some if id(value := names.get(name)) in new and value is not new[id(value)]]
        for name in found:
            before, names[name] = names[name], new[id(names[name])]
            yield names, name, before
        known.size, known.found = len(names), found
        if not (found or known.own):
            SETTLED.add(module_name)
            del WATCHED[module_name]


def to_search() -> list[tuple[str, Searched]]:
    """The modules that import random functions, or whose names have changed since they were searched."""
    loaded = sys.modules
    if (now := [len(loaded), next(reversed(loaded))]) != LOADED:
        LOADED[:] = now
        watch()
    some = [
        (name, known)
        for name, known in WATCHED.items()
        if known.found or len(known.names) != known.size or loaded.get(name) is not known.module
    ]
    if all(loaded.get(name) is known.module for name, known in some):
        return some
    watch()
    return to_search()


def watch() -> None:
    """Brings WATCHED up to date with the loaded modules."""
    before = dict(WATCHED)
    WATCHED.clear()
    for name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        if name in SETTLED or not isinstance(names, dict):
            continue
        if name.partition(".")[0] in LIBRARIES or name.startswith(OURS):
            SETTLED.add(name)
        elif name in before and before[name].module is module:
            WATCHED[name] = before[name]
        else:
            installed = name in sys.builtin_module_names or str(names.get("__file__")).startswith(INSTALLED)
            WATCHED[name] = Searched(module, names, not (installed or name.startswith(PACKAGE)))
