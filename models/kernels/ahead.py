"""Compiles all loops of this folder before workers start, so that the workers load the compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .compiled import used
from .kept import kept_in

if TYPE_CHECKING:
    from collections.abc import Callable


def compile_ahead(say: Callable[[str], object]) -> None:
    """Compiles if there is no compiled code for these sources yet, and announces it first."""
    folder = kept_in() if used() else None
    if folder is not None and not any(folder.rglob("*.nbi")):
        say("Compiling the training loops for this processor, once: up to a minute.")
        from . import arithmetic, decoders, list_gradients, mlp, sage_head, teachers  # noqa: F401
