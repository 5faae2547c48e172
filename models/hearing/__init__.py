"""Hears every random number that a training draws, from NumPy, PyTorch and Python, without any call by the model.

The numbers are the same bit for bit, unless whoever listens puts others in their place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from . import of_numpy, of_python, of_scipy, of_torch
from .draw import Change, Draw, Follow, Hearing, Listening

__all__ = ["Change", "Draw", "Hearing", "hearable", "hearing"]

LIBRARIES = ("numpy", "random", "secrets", "os", "torch")  # whose own names these files replace, or that need none
OURS = __name__
NONE_IN: dict[str, tuple[int, int]] = {}  # modules without such names, by their dictionaries and how much is in them


@contextmanager
def hearable() -> Iterator[None]:
    """Generators that are made within this context can be heard later on. For loading somebody's module."""
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
def hearing(change: Change | None = None, follow: Follow | None = None) -> Iterator[Hearing]:
    """Every draw within this context is heard, and changed if `change` says so."""
    before, listens = Listening.hearing, Hearing(change, follow)
    with hearable():
        Listening.hearing = listens
        try:
            yield listens
        finally:
            Listening.hearing = before


def _imported(new: dict[int, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Puts what is heard in the place of plain names that modules imported, as in `from numpy.random import default_rng`."""
    for module_name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or NONE_IN.get(module_name) == (id(names), len(names)):
            continue
        if module_name.partition(".")[0] in LIBRARIES or module_name.startswith(OURS):
            continue
        found = [name for name, value in list(names.items()) if id(value) in new and value is not new[id(value)]]
        for name in found:
            before, names[name] = names[name], new[id(names[name])]
            yield names, name, before
        if not found:
            NONE_IN[module_name] = id(names), len(names)
