"""Records every random number that a training draws from NumPy, PyTorch, SciPy and Python, without changes to the
model.

Recording does not change the numbers, but an audit may replace some of them.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .draws.draw import Active, Change, Draw, Follow, Recorder
from .libraries import of_numpy, of_python, of_scipy, of_torch

__all__ = ["Change", "Draw", "Recorder", "recordable", "recording"]

# packages whose imported names `_imported` leaves alone, because the files in libraries/ replace their random functions
LIBRARIES = ("numpy", "random", "secrets", "os", "torch")
OURS = __name__
PACKAGE = __name__.partition(".")[0] + "."  # its modules do not change either, also in a checkout
# caches: name of a module that imports no random function -> the identity and the size of its dictionary; name of an installed
# module -> the same, and its names of random functions
NONE_IN: dict[str, tuple[int, int]] = {}
FOUND_IN: dict[str, tuple[tuple[int, int], list[str]]] = {}
INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})
SETTLED: set[str] = set()  # cache: modules that are not searched again, because installed modules do not change
LOADED: list[tuple[str, ...]] = [(), ()]  # cache: the names of all loaded modules, and of those that are not in SETTLED


@contextmanager
def recordable() -> Iterator[None]:
    """Within this context, new generators are of a class whose draws `recording` can record later. It is for loading a
    user's module.
    """
    with ExitStack() as stack:
        new: dict[int, Any] = {}
        for library in (of_numpy, of_python, of_scipy, of_torch):
            new |= stack.enter_context(library.replaced())
        undo = list(_imported(new))
        try:
            yield
        finally:
            for names, name, before in undo:
                names[name] = before


@contextmanager
def recording(change: Change | None = None, follow: Follow | None = None) -> Iterator[Recorder]:
    """Records every draw within this context. change: may return numbers that replace those of a draw. follow: see `Recorder`."""
    before, recorder = Active.recorder, Recorder(change, follow)
    with recordable():
        Active.recorder = recorder
        try:
            yield recorder
        finally:
            Active.recorder = before


def _imported(new: dict[int, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Replaces names that modules have imported, as by `from numpy.random import default_rng`. new: id of an original -> its
    replacement. Yields the dictionary, the name and the original of each replaced name.
    """
    loaded = tuple(sys.modules)
    if loaded != LOADED[0]:
        LOADED[:] = loaded, loaded
    LOADED[1] = tuple(name for name in LOADED[1] if name not in SETTLED)
    for module_name in LOADED[1]:
        module = sys.modules.get(module_name)
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or NONE_IN.get(module_name) == (id(names), len(names)):
            continue
        if module_name.partition(".")[0] in LIBRARIES or module_name.startswith(OURS):
            SETTLED.add(module_name)
            continue
        now = id(names), len(names)
        searched, last = FOUND_IN.get(module_name, (None, []))
        some = last if searched == now else list(names)
        found = [name for name in some if id(value := names.get(name)) in new and value is not new[id(value)]]
        for name in found:
            before, names[name] = names[name], new[id(names[name])]
            yield names, name, before
        if searched == now:
            continue
        if not found:
            NONE_IN[module_name] = now
        if module_name.startswith(PACKAGE) or str(names.get("__file__")).startswith(INSTALLED):
            if found:
                FOUND_IN[module_name] = now, found
            else:
                SETTLED.add(module_name)
